"""Its backbone is DETR's."""

from dynalyze.capture.hf.special.detr import shrink

__all__ = ["shrink"]

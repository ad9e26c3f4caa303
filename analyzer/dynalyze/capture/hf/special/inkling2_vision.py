"""The vision part of Inkling 2 alone."""

from dynalyze.capture.hf.special.inkling2 import pixels

__all__ = ["pixels"]

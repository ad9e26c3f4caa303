"""Granite Docling: an image is a row of tiles, and the mask tells which of them are real."""

from __future__ import annotations

from dynalyze.capture.hf.inputs import tiles
from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.inputs.values import ones

_TILES = 2


def pixels(made: Made) -> None:
    import torch

    made.inputs["pixel_values"] = tiles.images(made, _TILES)
    made.inputs["pixel_attention_mask"] = ones(made, (made.batch, _TILES), dtype=torch.bool)

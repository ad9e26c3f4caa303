"""Inkling 2: an image is a row of squares, one a token, each of several patches, its channels last."""

from __future__ import annotations

from dynalyze.capture.hf.inputs import geometry
from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.inputs.values import floats

_SIDE = 4


def pixels(made: Made) -> None:
    import torch

    if not made.wants("pixel_values"):
        return
    edge = geometry.patch_size(made.config) * geometry.merge_size(made.config)
    squares = made.batch * _SIDE * _SIDE
    made.inputs["pixel_values"] = floats(made, (squares, edge, edge, geometry.channels(made.config)))
    made.inputs["image_grid_thw"] = torch.tensor([[1, _SIDE, _SIDE]] * made.batch, device=made.device)

"""Inputs of keypoint matchers and of models that segment what a prompt points at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynalyze.capture.hf.inputs import geometry, tiles
from dynalyze.capture.hf.inputs.values import integers, ones

if TYPE_CHECKING:
    from dynalyze.capture.hf.inputs.made import Made


def add(made: Made) -> None:
    """Pairs of images, and a point inside each image."""
    if made.name.endswith("ForKeypointMatching") and made.wants("pixel_values"):
        made.inputs["pixel_values"] = tiles.images(made, 2)
    if made.wants("input_points") and made.wants("input_labels"):
        _add_points(made)


def _add_points(made: Made) -> None:
    """One point of the object for each image: (batch, objects, points, 2), and 1 for "inside"."""
    edge = min(geometry.image_size(made.config, made.request.full_size))
    made.inputs["input_points"] = integers(made, (made.batch, 1, 1, 2), 0, edge).to(made.dtype)
    made.inputs["input_labels"] = ones(made, (made.batch, 1, 1))

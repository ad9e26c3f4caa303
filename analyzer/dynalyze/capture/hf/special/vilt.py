"""ViLT: one of its heads compares several images; how many comes with a checkpoint."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.inputs import tiles
from dynalyze.capture.hf.inputs.made import Made

_COMPARED = 2


def complete(config: Any) -> None:
    if "ForImagesAndTextClassification" in str(config.architectures) and config.num_images < 1:
        config.num_images = _COMPARED
        config.modality_type_vocab_size = 1 + _COMPARED


def pixels(made: Made) -> None:
    if made.name == "ViltForImagesAndTextClassification":
        made.inputs["pixel_values"] = tiles.images(made, made.config.num_images)

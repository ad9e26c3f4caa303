"""The vision part of X-CLIP alone: the frames of all clips are one batch of images."""

from __future__ import annotations

from dynalyze.capture.hf.inputs import geometry, video
from dynalyze.capture.hf.inputs.made import Made


def pixels(made: Made) -> None:
    height, width = geometry.image_size(made.config)
    clips = video.clips(made)
    made.inputs["pixel_values"] = clips.reshape(-1, clips.shape[2], height, width)

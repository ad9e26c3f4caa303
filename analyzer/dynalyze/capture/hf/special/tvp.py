"""TVP: prompts drawn around the frames of a video, whose size it names in its own way."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.inputs import geometry
from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.inputs.values import floats

_SMALL, _SMALL_PROMPT = 128, 16


def shrink(config: Any) -> None:
    config.max_img_size = min(config.max_img_size, _SMALL)
    config.visual_prompt_size = min(config.visual_prompt_size, _SMALL_PROMPT)


def pixels(made: Made) -> None:
    """One video where nobody asks for more: the positions of its frames' columns fit a batch of one alone."""
    made.batch = made.request.batch or 1
    edge = made.config.max_img_size
    made.inputs["pixel_values"] = floats(made, (made.batch, geometry.frames_or_few(made.config), 3, edge, edge))

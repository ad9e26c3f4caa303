"""InstructBLIP for videos: four frames a video, each as many tokens as an image."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.inputs import tiles
from dynalyze.capture.hf.inputs.made import Made, Placeholder
from dynalyze.capture.hf.special.instructblip import inputs as inputs

_FRAMES = 4


def complete(config: Any) -> None:
    if config.video_token_index is None:
        config.video_token_index = config.text_config.vocab_size - 1


def pixels(made: Made) -> None:
    made.inputs["pixel_values"] = tiles.images(made, _FRAMES)
    count = _FRAMES * made.config.num_query_tokens
    made.placeholders.append(Placeholder(made.config.video_token_index, count, "video"))

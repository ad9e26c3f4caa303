"""GLM-Image: after the images that it reads stands the grid of the image that it is to draw, still without pixels."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.inputs import patches
from dynalyze.capture.hf.inputs.made import Made, Placeholder
from dynalyze.capture.hf.inputs.values import full


def shrink(config: Any) -> None:
    """Codes of images are tokens: no more of them than the small vocabulary has."""
    config.vq_config.num_embeddings = min(config.vq_config.num_embeddings, config.text_config.vocab_size // 2)


def pixels(made: Made) -> None:
    """One image to read a sample; each of its patches becomes a token."""
    patches.add_grid(made, "pixel_values", "image_grid_thw")
    made.inputs["image_grid_thw"] = made.inputs["image_grid_thw"].repeat_interleave(2, dim=0)
    made.inputs["images_per_sample"] = full(made, (made.batch,), 2)
    config = made.config
    count = patches.grid_side(made) ** 2
    made.placeholders.append(
        Placeholder(config.image_token_id, count, "image", config.image_start_token_id, config.image_end_token_id)
    )

"""What images put into a text: the boxes of a page's words, and as many placeholder tokens as there are features."""

from __future__ import annotations

import torch

from dynalyze.capture.libraries.hf.inputs import geometry
from dynalyze.capture.libraries.hf.inputs.features import features_per_sample
from dynalyze.capture.libraries.hf.inputs.input_builder import InputBuilder, Kind, Placeholder
from dynalyze.capture.libraries.hf.parts import first, first_number

_PIXELS: dict[Kind, str] = {"image": "pixel_values", "video": "pixel_values_videos"}
# Tokens that processors write around an image or a video, by the names that configurations give them.
_BEGIN = ("vision_start_token_id", "boi_token_id", "boi_token_index", "image_start_token_id", "image_begin_token_id")
_END = ("vision_end_token_id", "eoi_token_id", "eoi_token_index", "image_end_token_id")
# Pages are measured in thousandths.
_PAGE = 1000
_WORD = 100


def add(builder: InputBuilder) -> None:
    """Boxes, and placeholders for the images and videos made so far in models that read them among a text's tokens."""
    if builder.wants("bbox"):
        builder.inputs["bbox"] = _boxes(builder)
    if "input_ids" not in builder.takes:
        return
    told = {placeholder.kind for placeholder in builder.placeholders}
    for kind, pixels in _PIXELS.items():
        # The token that stands for one feature; the model needs none where it names none.
        token = first_number(geometry.parts_that_see(builder.config), f"{kind}_token_id", f"{kind}_token_index")
        if token is None or pixels not in builder.inputs or kind in told:
            continue
        if count := features_per_sample(builder, kind):
            begin, end = first(builder.config, *_BEGIN), first(builder.config, *_END)
            builder.placeholders.append(Placeholder(token, count, kind, begin, end))


def _boxes(builder: InputBuilder) -> torch.Tensor:
    """For each token its word's box, the corners as the model counts them: two in thousandths, or four as fractions."""
    places = first(builder.config, "max_2d_position_embeddings", "max_xpath_depth", default=_PAGE + 1)
    shape = (builder.batch, builder.sequence, 2)
    start = builder.integers(shape, 0, min(_PAGE, places - 1) - _WORD)
    extent = builder.integers(shape, 1, _WORD)
    box = torch.cat([start, start + extent], dim=-1)
    if first(builder.config, "dim_bbox") == 8:
        corners = box[..., [0, 1, 2, 1, 2, 3, 0, 3]]
        return corners.to(builder.dtype) / _PAGE
    return box

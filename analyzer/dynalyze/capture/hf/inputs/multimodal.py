"""Images and videos inside text: as many placeholder tokens as the vision part gives features."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynalyze.capture.hf.inputs import documents, geometry
from dynalyze.capture.hf.inputs.features import features_per_sample
from dynalyze.capture.hf.inputs.made import Placeholder
from dynalyze.capture.hf.inputs.values import first

if TYPE_CHECKING:
    from dynalyze.capture.hf.inputs.made import Kind, Made

_PIXELS: dict[Kind, str] = {"image": "pixel_values", "video": "pixel_values_videos"}
# Tokens that processors write around an image or a video, by the names that configurations give them.
_BEGIN = ("vision_start_token_id", "boi_token_id", "boi_token_index", "image_start_token_id", "image_begin_token_id")
_END = ("vision_end_token_id", "eoi_token_id", "eoi_token_index", "image_end_token_id")


def add(made: Made) -> None:
    """Placeholders for the images and videos made so far, in models that read them among the tokens of a text."""
    documents.add(made)
    if "input_ids" not in made.takes:
        return
    told = {placeholder.kind for placeholder in made.placeholders}
    for kind, pixels in _PIXELS.items():
        if pixels in made.inputs and kind not in told:
            _add_placeholders(made, kind)


def _add_placeholders(made: Made, kind: Kind) -> None:
    token = placeholder_token(made, kind)
    count = features_per_sample(made, kind) if token is not None else None
    if token is not None and count:
        begin, end = first(made.config, *_BEGIN), first(made.config, *_END)
        made.placeholders.append(Placeholder(token, count, kind, begin, end))


def placeholder_token(made: Made, kind: Kind) -> int | None:
    """The token that stands for one feature of an image or a video; None where the model needs none."""
    for part in geometry.parts_that_see(made.config):
        token = first(part, f"{kind}_token_id", f"{kind}_token_index")
        if isinstance(token, int):
            return token
    return None

"""The boxes of the words of a document."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynalyze.capture.hf.inputs.values import first, integers

if TYPE_CHECKING:
    import torch

    from dynalyze.capture.hf.inputs.made import Made

# Pages are measured in thousandths.
_PAGE = 1000
_WORD = 100


def add(made: Made) -> None:
    """`bbox`: for each token left, top, right and bottom of its word."""
    if made.wants("bbox"):
        made.inputs["bbox"] = boxes(made, made.sequence)


def boxes(made: Made, count: int) -> torch.Tensor:
    """Boxes inside a page, their corners as the model counts them: two in thousandths, or four as fractions."""
    import torch

    places = first(made.config, "max_2d_position_embeddings", "max_xpath_depth", default=_PAGE + 1)
    start = integers(made, (made.batch, count, 2), 0, min(_PAGE, places - 1) - _WORD)
    extent = integers(made, (made.batch, count, 2), 1, _WORD)
    box = torch.cat([start, start + extent], dim=-1)
    if first(made.config, "dim_bbox") == 8:
        corners = box[..., [0, 1, 2, 1, 2, 3, 0, 3]]
        return corners.to(made.dtype) / _PAGE
    return box

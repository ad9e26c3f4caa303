"""LXMERT reads features and boxes of the regions that a detector found in an image."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.inputs import values
from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.request import ModelRequest

_REGIONS = 10


def inputs(model: Any, request: ModelRequest, given: dict[str, Any]) -> dict[str, Any]:
    made = Made(model, request, given)
    shape = (made.batch, _REGIONS)
    given["visual_feats"] = values.floats(made, (*shape, model.config.visual_feat_dim))
    given["visual_pos"] = values.floats(made, (*shape, model.config.visual_pos_dim)).sigmoid()
    given["visual_attention_mask"] = values.ones(made, shape)
    return given

"""JEV decides questions at marked tokens of one prompt."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.inputs import values
from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.request import ModelRequest

_QUESTIONS = 2
_OPTIONS = 2


def inputs(model: Any, request: ModelRequest, given: dict[str, Any]) -> dict[str, Any]:
    made = Made(model, request, given)
    marks = values.full(made, (1, _QUESTIONS), made.sequence)
    return {
        "input_ids": values.tokens(made, (1, made.sequence)),
        "marks": marks,
        "num_options": values.full(made, (1, _QUESTIONS), _OPTIONS),
        "question_type_ids": values.zeros(made, (1, _QUESTIONS)),
    }

"""Time series transformers have no default for how far they foretell."""

from __future__ import annotations

from typing import Any

_PREDICTED = 8
_CONTEXT = 16


def complete(config: Any) -> None:
    """The length of the prediction and of the context, which a user always chooses."""
    if config.prediction_length is None:
        config.prediction_length = _PREDICTED
    if config.context_length is None:
        config.context_length = _CONTEXT

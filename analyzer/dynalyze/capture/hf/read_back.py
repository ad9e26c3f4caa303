"""Models of transformers that were read back from a file: what their constructor notes elsewhere, and no file holds."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from dynalyze.capture.nested_values import reachable_modules


def note_recordable_outputs(models: Iterable[Any]) -> None:
    """Tell transformers which outputs the models can record (`_CAN_RECORD_REGISTRY`, of 4.57 and later): without that
    they have no hidden states, whatever asks for them. Nothing where there is no such registry.
    """
    homes = [sys.modules.get(f"transformers.utils.{name}") for name in ("output_capturing", "generic")]
    registry = next(
        (found for home in homes if (found := getattr(home, "_CAN_RECORD_REGISTRY", None)) is not None), None
    )
    if not isinstance(registry, dict):
        return
    roots = [root for model in models for root in reachable_modules(model)]
    for part in (part for root in roots for part in root.modules()):
        outputs = getattr(part, "_can_record_outputs", None)
        if outputs is not None:
            registry[str(type(part)) if type(registry) is dict else part] = outputs

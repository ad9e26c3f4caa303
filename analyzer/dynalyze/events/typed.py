"""From JSON to typed events. What does not fit its field is left out by itself, and the event stays."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, get_args, get_type_hints

import msgspec

from dynalyze.events.types import AnyEvent, Metrics

_KINDS: dict[str, type] = {str(kind.__struct_config__.tag): kind for kind in get_args(AnyEvent)}
# Without these nobody knows what an event is about.
_IDENTITY = ("id", "epoch")


def typed(record: Mapping[str, Any]) -> tuple[AnyEvent | None, bool]:
    """The event that a record stands for, None for one of a kind that is not known; and whether all of it was kept.

    A field that is of another type or out of bounds falls back on its default, as if it had not been told.

    Raises:
        msgspec.ValidationError: what an event cannot be without is wrong.
    """
    name = record.get("event")
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        return None, isinstance(name, str)
    try:
        event: AnyEvent = msgspec.convert(record, kind)
        return event, True
    except msgspec.ValidationError:
        event = msgspec.convert({"event": name, **_fitting(record, kind)}, kind)
        return event, False


def _fitting(values: Mapping[str, Any], kind: type) -> dict[str, Any]:
    """Those of the values that fit the fields of a type."""
    found: dict[str, Any] = {}
    for name, field in _fields(kind).items():
        value = values.get(name)
        if field is Metrics and isinstance(value, dict):
            found[name] = _fitting(value, Metrics)
        elif name in values and (name in _IDENTITY or _fits(value, field)):
            found[name] = value
    return found


def _fits(value: Any, field: Any) -> bool:
    try:
        msgspec.convert(value, field)
    except msgspec.ValidationError:
        return False
    return True


@cache
def _fields(kind: type) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)

"""What a comparison of two sweeps may show: cleaned after the matching, so that what is hidden still counts in it."""

from __future__ import annotations

from typing import Any

import msgspec

from dynalyze.comparison.sweeps import ItemChange, LineChange, SweepComparison, SweepRegression
from dynalyze.fleet.privacy import bare_break, bare_error, bare_type
from dynalyze.fleet.records import RowBreak
from dynalyze.privacy import mapped


def without_source(comparison: SweepComparison) -> SweepComparison:
    """No line of user code, and nothing that may quote one."""
    return mapped(comparison, _bare)


def _bare(value: Any) -> Any:
    if isinstance(value, RowBreak):
        return bare_break(value)
    if isinstance(value, LineChange):
        return msgspec.structs.replace(value, gb_type=bare_type(value.gb_type, value.gb_id), code=None)
    if isinstance(value, ItemChange):
        return msgspec.structs.replace(value, error=bare_error(value.error) or "")
    if isinstance(value, SweepRegression) and value.kind == "break":
        return msgspec.structs.replace(value, what=bare_type(value.what, None))
    return value

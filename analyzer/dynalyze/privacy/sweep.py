"""What a sweep, or a comparison of two, may show without source: in the place of what it quotes, PyTorch's registry.

A comparison is cleaned after the matching, so that what is hidden still counts in it.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from dynalyze import privacy
from dynalyze.comparison.sweeps import ItemChange, LineChange, SweepComparison, SweepRegression
from dynalyze.facts.registry import registry
from dynalyze.report.held import Restate
from dynalyze.sweep.clusters import exception_in
from dynalyze.sweep.records import Row, RowBreak, Sweep

_Document = TypeVar("_Document", Sweep, SweepComparison)


def without_source(document: _Document) -> _Document:
    """No line of user code: none of the breaks' own, and none that reasons and exceptions quote."""
    return privacy.without_source(document, _RESTATED)


def _bare_error(error: str | None) -> str | None:
    """The exception's name alone."""
    return (exception_in(error) or "The message is left out (--no-source).") if error else error


def _bare_type(gb_type: str, gb_id: str | None) -> str:
    """A type of PyTorch's registry is torch's own wording; anything else may quote the program."""
    known = registry()
    entry = known.entry(gb_id) if gb_id else None
    return gb_type if known.id_of(gb_type) else (entry.gb_type if entry else "Graph break")


def _row_break(before: RowBreak, after: RowBreak) -> RowBreak:
    """A break without code, its reason as PyTorch's registry has it."""
    entry = registry().entry(before.gb_id) if before.gb_id else None
    reason = entry.explanation if entry else ""
    return msgspec.structs.replace(after, gb_type=_bare_type(before.gb_type, before.gb_id), reason=reason)


def _row(before: Row, after: Row) -> Row:
    after.error = _bare_error(before.error)
    return after


def _line(before: LineChange, after: LineChange) -> LineChange:
    after.gb_type = _bare_type(before.gb_type, before.gb_id)
    return after


def _item(before: ItemChange, after: ItemChange) -> ItemChange:
    after.error = _bare_error(before.error) or ""
    return after


def _regression(before: SweepRegression, after: SweepRegression) -> SweepRegression:
    """What is worse is a status, in our words, or the type of a break."""
    after.what = _bare_type(before.what, None) if before.kind == "break" else before.what
    return after


_RESTATED: Restate = {
    Row: _row, RowBreak: _row_break, LineChange: _line, ItemChange: _item, SweepRegression: _regression,
}  # fmt: skip

"""What a sweep may show without source: in the place of what its rows quote, what PyTorch's registry says."""

from __future__ import annotations

import msgspec

from dynalyze import privacy
from dynalyze.facts.registry import registry
from dynalyze.report.held import Restate
from dynalyze.sweep.clusters import exception_in
from dynalyze.sweep.records import Row, RowBreak, Sweep


def without_source(sweep: Sweep) -> Sweep:
    """No line of user code: none of the breaks' own, and none that reasons and exceptions quote."""
    return privacy.without_source(sweep, _RESTATED)


def bare_error(error: str | None) -> str | None:
    """The exception's name alone."""
    return (exception_in(error) or "The message is left out (--no-source).") if error else error


def bare_type(gb_type: str, gb_id: str | None) -> str:
    """A type of PyTorch's registry is torch's own wording; anything else may quote the program."""
    known = registry()
    entry = known.entry(gb_id) if gb_id else None
    return gb_type if known.id_of(gb_type) else (entry.gb_type if entry else "Graph break")


def row_break(before: RowBreak, after: RowBreak) -> RowBreak:
    """A break without code, its reason as PyTorch's registry has it."""
    entry = registry().entry(before.gb_id) if before.gb_id else None
    reason = entry.explanation if entry else ""
    return msgspec.structs.replace(after, gb_type=bare_type(before.gb_type, before.gb_id), reason=reason)


def _row(before: Row, after: Row) -> Row:
    after.error = bare_error(before.error)
    return after


_RESTATED: Restate = {Row: _row, RowBreak: row_break}

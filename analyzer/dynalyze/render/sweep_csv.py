"""A sweep as CSV: one line an item, the columns always the same, and no cell that a spreadsheet would calculate."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable

from dynalyze.render.console import one_line
from dynalyze.sweep.records import Row, RowBreak, Sweep
from dynalyze.words.sweep import speed_words

Cell = str | int | float | None

# A cell that begins like this is a formula to a spreadsheet, quoted or not.
_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")


def render(sweep: Sweep) -> str:
    """The whole file, its header first."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(name for name, _ in COLUMNS)
    for row in sweep.items:
        writer.writerow(_cell(tell(row)) for _, tell in COLUMNS)
    return out.getvalue()


def _cell(value: Cell) -> Cell:
    """A number as it is, a text on one line, marked as text where it could pass for a formula."""
    if not isinstance(value, str):
        return value
    text = one_line(value)
    return f"'{text}" if text.lstrip().startswith(_FORMULA) else text


def _of_first_break(tell: Callable[[RowBreak], Cell]) -> Callable[[Row], Cell]:
    return lambda row: tell(row.breaks[0]) if row.breaks else None


COLUMNS: tuple[tuple[str, Callable[[Row], Cell]], ...] = (
    ("target", lambda row: row.target),
    ("configuration", lambda row: row.configuration),
    ("status", lambda row: row.status),
    ("graph_breaks", lambda row: row.graph_breaks),
    ("recompiles", lambda row: row.recompiles),
    ("seconds", lambda row: row.seconds),
    ("error", lambda row: row.error),
    ("error_at", lambda row: row.error_at),
    ("first_break", _of_first_break(lambda found: f"{found.path or found.file}:{found.line}")),
    ("first_break_type", _of_first_break(lambda found: found.gb_type)),
    ("first_break_reason", _of_first_break(lambda found: found.reason)),
    ("family", lambda row: row.family),
    ("class_name", lambda row: row.class_name),
    ("parameters", lambda row: row.parameters),
    ("graphs", lambda row: row.graphs),
    ("ops", lambda row: row.ops),
    ("speeds", lambda row: "; ".join(speed_words(speed) for speed in row.speeds)),
    ("peak_memory", lambda row: row.peak_memory),
    ("attempts", lambda row: row.attempts),
    ("node", lambda row: row.node),
    ("notes", lambda row: "; ".join(row.notes)),
    ("page", lambda row: row.page),
    ("report", lambda row: row.report),
    ("key", lambda row: row.key),
)
"""Columns are only ever added, at the end."""

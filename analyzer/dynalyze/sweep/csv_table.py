"""A sweep as CSV: one line an item, the columns always the same, and no cell that a spreadsheet would calculate."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable

from dynalyze.render.console import one_line
from dynalyze.sweep.records import Row, RowBreak, Sweep
from dynalyze.sweep.words import speed_words

Cell = str | int | float | None

# A cell that begins like this is a formula to a spreadsheet, quoted or not.
_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")


def render(sweep: Sweep) -> str:
    """The whole file, its header first."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in sweep.items:
        writer.writerow(_cell(_COMPUTED[name](row) if name in _COMPUTED else getattr(row, name)) for name in COLUMNS)
    return out.getvalue()


def _cell(value: Cell) -> Cell:
    """A number as it is, a text on one line, marked as text where it could pass for a formula."""
    if not isinstance(value, str):
        return value
    text = one_line(value)
    return f"'{text}" if text.lstrip().startswith(_FORMULA) else text


def _of_first_break(cell: Callable[[RowBreak], Cell]) -> Callable[[Row], Cell]:
    return lambda row: cell(row.breaks[0]) if row.breaks else None


COLUMNS = (
    "target", "configuration", "status", "graph_breaks", "recompiles", "seconds", "error", "error_at", "first_break",
    "first_break_type", "first_break_reason", "family", "class_name", "parameters", "graphs", "ops", "speeds",
    "peak_memory", "attempts", "node", "notes", "page", "report", "key",
)  # fmt: skip
"""Fields of the row, and what is worked out. Columns are only ever added, at the end."""

_COMPUTED: dict[str, Callable[[Row], Cell]] = {
    "first_break": _of_first_break(lambda found: f"{found.place}:{found.line}"),
    "first_break_type": _of_first_break(lambda found: found.gb_type),
    "first_break_reason": _of_first_break(lambda found: found.reason),
    "speeds": lambda row: "; ".join(speed_words(speed) for speed in row.speeds),
    "notes": lambda row: "; ".join(row.notes),
}

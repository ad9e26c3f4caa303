"""A sweep as CSV: one line an item, the columns always the same, and no cell that a spreadsheet would calculate."""

from __future__ import annotations

import csv
import io

from dynalyze.render.console import one_line
from dynalyze.sweep.records import Row, Sweep
from dynalyze.sweep.words import speed_words

Cell = str | int | float | None

# A cell that begins like this is a formula to a spreadsheet, quoted or not.
_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")


def render(sweep: Sweep) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(map(_cell, _cells(row).values()) for row in sweep.items)
    return out.getvalue()


def _cell(value: Cell) -> Cell:
    """A number as it is, a text on one line, marked as text where it could pass for a formula."""
    if not isinstance(value, str):
        return value
    text = one_line(value)
    return f"'{text}" if text.lstrip().startswith(_FORMULA) else text


COLUMNS = (
    "target", "configuration", "status", "graph_breaks", "recompiles", "seconds", "error", "error_at", "first_break",
    "first_break_type", "first_break_reason", "family", "class_name", "parameters", "graphs", "ops", "speeds",
    "peak_memory", "attempts", "node", "notes", "page", "report", "key",
)  # fmt: skip
"""Fields of the row, and what is worked out. Columns are only ever added, at the end."""


def _cells(row: Row) -> dict[str, Cell]:
    found: dict[str, Cell] = {name: getattr(row, name, None) for name in COLUMNS}
    for first in row.breaks[:1]:
        found["first_break"] = f"{first.place}:{first.line}"
        found["first_break_type"], found["first_break_reason"] = first.gb_type, first.reason
    return found | {"speeds": "; ".join(map(speed_words, row.speeds)), "notes": "; ".join(row.notes)}

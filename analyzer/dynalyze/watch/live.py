"""The live view of a job on a terminal: its ranks, and what was told last."""

from __future__ import annotations

import collections

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from dynalyze.text.amounts import duration, milliseconds
from dynalyze.text.visible import one_line
from dynalyze.watch.records import JobRank

_MOST_RANKS, _MOST_LINES = 32, 12


class LiveView:
    """Drawn over and over on standard output inside its `with` block; what was told stays above it afterwards."""

    def __init__(self) -> None:
        self._lines: collections.deque[str] = collections.deque(maxlen=_MOST_LINES)
        self._live = Live(console=Console(), refresh_per_second=4, transient=True)

    def __enter__(self) -> LiveView:
        self._live.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.__exit__(None, None, None)

    def tell(self, line: str) -> None:
        self._live.console.print(Text(line))

    def show(self, rows: list[JobRank]) -> None:
        self._live.update(Group(ranks_table(rows)))


def ranks_table(rows: list[JobRank]) -> Table:
    """The ranks, those that compiled last among the first ones where there are too many."""
    table = Table(box=None, pad_edge=False)
    for head in ("rank", "host", "status"):
        table.add_column(head)
    for head in ("step", "a step", "compiles", "recompiles", "compile time", "waited"):
        table.add_column(head, justify="right")
    shown = sorted(
        sorted(rows, key=lambda row: -row.recompiles)[:_MOST_RANKS], key=lambda row: (row.rank or 0, row.pid)
    )
    for row in shown:
        table.add_row(
            str(row.process if row.rank is None else row.rank), Text(one_line(row.host)), row.status, f"{row.steps:,}",
            "" if row.usual_ms is None else milliseconds(row.usual_ms), f"{row.compiles:,}", f"{row.recompiles:,}",
            duration(row.compile_seconds), duration(row.waited_seconds) if row.waited_seconds else "",
        )  # fmt: skip
    if len(rows) > len(shown):
        table.caption = f"and {len(rows) - len(shown):,} more"
    return table

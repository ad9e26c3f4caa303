"""The live view of a job on a terminal: its ranks below its notices."""

from __future__ import annotations

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from dynalyze.text.escape import one_line
from dynalyze.watch.records import JobRank
from dynalyze.watch.view import ranks_table

_MOST_RANKS = 32


class LiveView:
    """A table of ranks, redrawn on standard output inside the `with` block; notices stay above it."""

    def __init__(self) -> None:
        self._live = Live(console=Console(), refresh_per_second=4, transient=True)

    def __enter__(self) -> LiveView:
        self._live.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.__exit__(None, None, None)

    def tell(self, line: str) -> None:
        self._live.console.print(Text(line))

    def show(self, ranks: list[JobRank]) -> None:
        """Draw the ranks; of too many, those that recompiled most."""
        few = sorted(sorted(ranks, key=lambda row: -row.recompiles)[:_MOST_RANKS], key=lambda row: row.process)
        ranked = ranks_table(few)
        table = Table(*ranked.heads, box=None, pad_edge=False)
        for row in ranked.rows:
            table.add_row(*(Text(one_line(cell)) for cell in row))
        if len(ranks) > len(few):
            table.caption = f"and {len(ranks) - len(few):,} more"
        self._live.update(table)

"""What a sweep comes to, as typed records: `clusters.summarise` fills them, the renderers show them.

`rows` are positions in `Sweep.items`; `targets` are the distinct targets of these rows, in the same order. All counts
"of models" are of targets: one that breaks in four configurations breaks once.
"""

from __future__ import annotations

from dataclasses import dataclass

from dynalyze.sweep.records import Status

Rows = tuple[int, ...]
REACHED: tuple[Status, ...] = ("full_graph", "graph_break", "compile_error")
"""The statuses that say something of torch.compile."""


@dataclass(frozen=True)
class Caller:
    """A line of a model from which a broken line was reached, and how many targets did so."""

    place: str
    targets: int


@dataclass(frozen=True)
class BrokenLine:
    """One line of code that breaks for one reason, over all items.

    `reason` is the one seen most; `reasons` counts the different ones. `code` is None where it was not kept.
    `follows`: it breaks only where another line of the same item does, so that one is to be fixed first.
    """

    path: str
    line: int
    function: str
    gb_type: str
    gb_id: str | None
    reason: str
    reasons: int
    code: str | None
    effects: dict[str, int]
    callers: tuple[Caller, ...]
    rows: Rows
    targets: tuple[str, ...]
    follows: bool


@dataclass(frozen=True)
class Reason:
    """Breaks of one type with the same reason, but for names, numbers and addresses in it."""

    text: str
    lines: int
    targets: int


@dataclass(frozen=True)
class Cause:
    """All breaks of one type. `breaks` counts the entries of all items."""

    gb_type: str
    gb_id: str | None
    reasons: tuple[Reason, ...]
    lines: int
    breaks: int
    rows: Rows
    targets: tuple[str, ...]
    follows: bool


@dataclass(frozen=True)
class Share:
    """The items of a family, or of a configuration, by status."""

    name: str
    counts: dict[Status, int]
    rows: Rows

    @property
    def reached(self) -> int:
        """The items of which torch.compile had its say."""
        return sum(self.counts.get(status, 0) for status in REACHED)

    @property
    def clean(self) -> float | None:
        """The share of clean items of those that reached the compiler; None where none did."""
        return self.counts.get("full_graph", 0) / self.reached if self.reached else None


@dataclass(frozen=True)
class ErrorGroup:
    """Items that failed alike: the status, the exception and where it was raised. `message` is that of the first."""

    status: Status
    exception: str
    place: str
    message: str
    messages: int
    rows: Rows
    targets: tuple[str, ...]


@dataclass(frozen=True)
class MatrixRow:
    """One target over all configurations: the position of its row, None where there is none."""

    target: str
    cells: tuple[int | None, ...]
    differs: bool


@dataclass(frozen=True)
class SpeedTotal:
    """The measured speed-ups of one configuration: `median` is of those that claim one, `failed` have no verdict."""

    configuration: str
    faster: int
    slower: int
    same: int
    failed: int
    median: float | None


@dataclass(frozen=True)
class SweepSummary:
    """Everything that the page, the terminal and the CSV say about a sweep as a whole.

    `lines` are those to fix, the one that breaks most targets first; `following` break only because of others.
    """

    total: Share
    targets: int
    recompiling: int
    lines: tuple[BrokenLine, ...]
    following: tuple[BrokenLine, ...]
    causes: tuple[Cause, ...]
    families: tuple[Share, ...]
    errors: tuple[ErrorGroup, ...]
    configurations: tuple[Share, ...]
    matrix: tuple[MatrixRow, ...]
    speeds: tuple[SpeedTotal, ...]

"""The typed records of a sweep: its rows and its document, as `--json` writes them, and what it comes to, which
`clusters.summarise` fills and the renderers show. .
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from dynalyze.report.held import (
    Argument,
    BreakType,
    CommandLine,
    ErrorText,
    FilePath,
    Machine,
    Message,
    Name,
    Quote,
    Settings,
    Source,
    Word,
)

SCHEMA_VERSION = 1

Status = Literal["full_graph", "graph_break", "eager_error", "create_error", "compile_error", "timeout", "crash"]
STATUSES: tuple[Status, ...] = (
    "full_graph", "graph_break", "compile_error", "eager_error", "create_error", "timeout", "crash",
)  # fmt: skip
"""From clean to lost, which is the order of tables. The last four say nothing of torch.compile."""


Place = tuple[str, int, str]
"""Path, line and type of a break."""


class RowBreak(msgspec.Struct, frozen=True):
    """One graph break of an item, as its report has it.

    `file` and `line` are the innermost line outside of torch; `path` is that file from its package on
    ("transformers/models/llama/modeling_llama.py"), equal on every machine. `caller` is the model's own line that
    led there, "path:line", where that is another one.
    """

    gb_type: BreakType
    reason: Quote
    file: FilePath
    line: int
    path: FilePath = ""
    function: Name = ""
    code: Source | None = None
    gb_id: Word | None = None
    effect: Word = ""
    caller: FilePath = ""

    @property
    def place(self) -> str:
        return self.path or self.file

    @property
    def at(self) -> Place:
        """Where it stands, equal on every machine."""
        return self.place, self.line, self.gb_type


class Speed(msgspec.Struct, frozen=True):
    """The measured speedup of an item; `verdict` is the benchmark's own word. None where it claims none."""

    configuration: Name
    verdict: Word
    speedup: float | None = None
    low: float | None = None
    high: float | None = None


class Row(msgspec.Struct):
    """One item of a sweep. The first seven fields are the contract's; `error` is one line.

    `key` names the item for good: what is run, with all its settings. `configuration` is a short name of the settings
    ("default", "train+dynamic=on"), `settings` are those that differ from the defaults. `report` and `page` are
    relative to the sweep's folder. `seconds` is the item's whole time. `family` is the architecture family, or the
    folder of a file.
    """

    target: Argument
    status: Status
    graph_breaks: int
    recompiles: int
    seconds: float
    report: FilePath | None
    error: ErrorText | None
    key: Word = ""
    configuration: Name = "default"
    settings: Settings = {}
    page: FilePath | None = None
    family: Name = ""
    class_name: Name = ""
    parameters: int = 0
    graphs: int = 0
    ops: int = 0
    breaks: list[RowBreak] = []
    # Where an eager_error, create_error or compile_error was raised, "path:line".
    error_at: FilePath = ""
    speeds: list[Speed] = []
    peak_memory: int | None = None
    attempts: int = 1
    node: Machine = ""
    notes: list[Quote] = []


class Sweep(msgspec.Struct):
    """A sweep as `--json` writes it. `items` are in the order in which they were asked for.

    `environment` is that of the items (python, torch, transformers, device, ...). `planned` counts the items asked
    for: more than there are rows where it was interrupted.
    """

    dynalyze: Word
    created: Word
    command: CommandLine
    items: list[Row]
    environment: Settings = {}
    seconds: float = 0.0
    planned: int = 0
    workers: int = 1
    notes: list[Message] = []
    schema_version: int = SCHEMA_VERSION


# The summary. `rows` are positions in `Sweep.items`; `targets` are the distinct targets of these rows, in the same
# order. All counts "of models" are of targets: one that breaks in four configurations breaks once.

Rows = tuple[int, ...]
REACHED: tuple[Status, ...] = ("full_graph", "graph_break", "compile_error")
"""The statuses that say something of torch.compile."""


class Caller(NamedTuple):
    """A line of a model from which a broken line was reached, and how many targets did so."""

    place: str
    targets: int


class BrokenLine(NamedTuple):
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

    @property
    def at(self) -> Place:
        return self.path, self.line, self.gb_type


class Reason(NamedTuple):
    """Breaks of one type with the same reason, but for names, numbers and addresses in it."""

    text: str
    lines: int
    targets: int


class Cause(NamedTuple):
    """All breaks of one type. `breaks` counts the entries of all items."""

    gb_type: str
    gb_id: str | None
    reasons: tuple[Reason, ...]
    lines: int
    breaks: int
    rows: Rows
    targets: tuple[str, ...]
    follows: bool


class Share(NamedTuple):
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


class ErrorGroup(NamedTuple):
    """Items that failed alike: the status, the exception and where it was raised. `message` is that of the first."""

    status: Status
    exception: str
    place: str
    message: str
    messages: int
    rows: Rows
    targets: tuple[str, ...]


class MatrixRow(NamedTuple):
    """One target over all configurations: the position of its row, None where there is none."""

    target: str
    cells: tuple[int | None, ...]
    differs: bool


class SpeedTotal(NamedTuple):
    """The measured speedups of one configuration: `median` is of those that claim one, `failed` have no verdict."""

    configuration: str
    faster: int
    slower: int
    same: int
    failed: int
    median: float | None


class SweepSummary(NamedTuple):
    """Everything that the page, the terminal and the CSV say about a sweep as a whole.

    `lines` are those to fix, the one that breaks most targets first; `following` break only because of others.
    """

    total: Share
    recompiling: int
    lines: tuple[BrokenLine, ...]
    following: tuple[BrokenLine, ...]
    causes: tuple[Cause, ...]
    families: tuple[Share, ...]
    errors: tuple[ErrorGroup, ...]
    configurations: tuple[Share, ...]
    matrix: tuple[MatrixRow, ...]
    speeds: tuple[SpeedTotal, ...]

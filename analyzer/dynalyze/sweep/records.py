"""The typed records of a sweep: its rows and its document, as `--json` writes them."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

from dynalyze.report import sensitivity

SCHEMA_VERSION = 1

Status = Literal["full_graph", "graph_break", "compile_error", "eager_error", "create_error", "timeout", "crash"]
STATUSES: tuple[Status, ...] = get_args(Status)
"""From clean to lost, which is the order of tables. The last four say nothing of torch.compile."""
TRACED: tuple[Status, ...] = STATUSES[:2]
"""The statuses of items that were traced to their end."""
REACHED: tuple[Status, ...] = STATUSES[:3]
"""The statuses that say something of torch.compile."""


Place = tuple[str, int, str]
"""Path, line and type of a break."""


class RowBreak(msgspec.Struct, frozen=True):
    """One graph break of an item, as its report has it.

    `file` and `line` are the innermost line outside of torch; `path` is that file from its package on
    ("transformers/models/llama/modeling_llama.py"), equal on every machine. `caller` is the model's own line that
    led there, "path:line", where that is another one.
    """

    gb_type: sensitivity.BreakType
    reason: sensitivity.Quote
    file: sensitivity.FilePath
    line: int
    path: sensitivity.FilePath = ""
    function: sensitivity.Name = ""
    code: sensitivity.Source | None = None
    gb_id: sensitivity.Word | None = None
    effect: sensitivity.Word = ""
    caller: sensitivity.FilePath = ""

    @property
    def place(self) -> str:
        return self.path or self.file

    @property
    def at(self) -> Place:
        return self.place, self.line, self.gb_type


class Speed(msgspec.Struct, frozen=True):
    """The measured speedup of an item; `verdict` is the benchmark's own word. None where it claims none."""

    configuration: sensitivity.Name
    verdict: sensitivity.Word
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

    target: sensitivity.Argument
    status: Status
    graph_breaks: int
    recompiles: int
    seconds: float
    report: sensitivity.FilePath | None
    error: sensitivity.ErrorText | None
    key: sensitivity.Word = ""
    configuration: sensitivity.Name = "default"
    settings: sensitivity.Settings = {}
    page: sensitivity.FilePath | None = None
    family: sensitivity.Name = ""
    class_name: sensitivity.Name = ""
    parameters: int = 0
    graphs: int = 0
    ops: int = 0
    breaks: list[RowBreak] = []
    # Where an eager_error, create_error or compile_error was raised, "path:line".
    error_at: sensitivity.FilePath = ""
    speeds: list[Speed] = []
    peak_memory: int | None = None
    attempts: int = 1
    node: sensitivity.Machine = ""
    notes: list[sensitivity.Quote] = []


class Sweep(msgspec.Struct):
    """A sweep as `--json` writes it. `items` are in the order in which they were asked for.

    `environment` is that of the items (python, torch, transformers, device, ...). `planned` counts the items asked
    for: more than there are rows where it was interrupted.
    """

    dynalyze: sensitivity.Word
    created: sensitivity.Word
    command: sensitivity.CommandLine
    items: list[Row]
    environment: sensitivity.Settings = {}
    seconds: float = 0.0
    planned: int = 0
    workers: int = 1
    notes: list[sensitivity.Message] = []
    schema_version: int = SCHEMA_VERSION

"""The typed records of a sweep: its rows and its document, as `--json` writes them. Imports nothing of the fleet."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

SCHEMA_VERSION = 1

Status = Literal["full_graph", "graph_break", "eager_error", "create_error", "compile_error", "timeout", "crash"]
STATUSES: tuple[Status, ...] = (
    "full_graph", "graph_break", "compile_error", "eager_error", "create_error", "timeout", "crash",
)  # fmt: skip
"""From clean to lost, which is the order of tables. The last four say nothing of torch.compile."""


class RowBreak(msgspec.Struct, frozen=True):
    """One graph break of an item, as its report has it.

    `file` and `line` are the innermost line outside of torch; `path` is that file from its package on
    ("transformers/models/llama/modeling_llama.py"), equal on every machine. `caller` is the model's own line that
    led there, "path:line", where that is another one.
    """

    gb_type: str
    reason: str
    file: str
    line: int
    path: str = ""
    function: str = ""
    code: str | None = None
    gb_id: str | None = None
    effect: str = ""
    caller: str = ""


class Speed(msgspec.Struct, frozen=True):
    """The measured speed-up of an item; `verdict` is the benchmark's own word. None where it claims none."""

    configuration: str
    verdict: str
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

    target: str
    status: Status
    graph_breaks: int
    recompiles: int
    seconds: float
    report: str | None
    error: str | None
    key: str = ""
    configuration: str = "default"
    settings: dict[str, Any] = {}
    page: str | None = None
    family: str = ""
    class_name: str = ""
    parameters: int = 0
    graphs: int = 0
    ops: int = 0
    breaks: list[RowBreak] = []
    # Where an eager_error, create_error or compile_error was raised, "path:line".
    error_at: str = ""
    speeds: list[Speed] = []
    peak_memory: int | None = None
    attempts: int = 1
    node: str = ""
    notes: list[str] = []


class Sweep(msgspec.Struct):
    """A sweep as `--json` writes it. `items` are in the order in which they were asked for.

    `environment` is that of the items (python, torch, transformers, device, ...). `planned` counts the items asked
    for: more than there are rows where it was interrupted.
    """

    dynalyze: str
    created: str
    command: list[str]
    items: list[Row]
    environment: dict[str, Any] = {}
    seconds: float = 0.0
    planned: int = 0
    workers: int = 1
    notes: list[str] = []
    schema_version: int = SCHEMA_VERSION

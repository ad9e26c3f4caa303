"""The typed records of a sweep: its items, which travel to other processes and nodes; its rows and its document, as
`--json` writes them.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import MISSING, asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from dynalyze.capture.settings import CompileOptions
from dynalyze.launch.spec import TargetSpec
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

# A sweep's own default is eager: graph breaks are Dynamo's, and it costs least.
_DEFAULT_OPTIONS = asdict(CompileOptions(backend="eager"))
_KEY_LENGTH = 20


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
    """A sweep as `--json` writes it; `items` are in the order of the command.

    `environment` is that of the items (python, torch, transformers, device, ...). `planned` is more than there are
    items where the sweep was interrupted.
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


@dataclass(frozen=True)
class Item:
    """One target under one set of settings. `target` is as tables show it; `root` is where the sweep was started.

    `key` is made once, on the first machine: it stays where the item's file has another path on a node.
    """

    target: str
    spec: TargetSpec
    options: CompileOptions
    configuration: str = "default"
    root: str = ""
    key: str = ""

    @property
    def settings(self) -> dict[str, Any]:
        found = {**asdict(self.options), "given": None}
        found = {name: value for name, value in found.items() if value not in (None, _DEFAULT_OPTIONS[name])}
        for each in fields(self.spec.asked) if self.spec.asked is not None else ():
            value = getattr(self.spec.asked, each.name)
            if each.default is not MISSING and value != each.default:
                found[each.name] = value
        named = {"arguments": list(self.spec.arguments), "inputs": list(self.spec.inputs)}
        return found | {name: value for name, value in named.items() if value}

    @property
    def file_stem(self) -> str:
        """A readable name for its files, which no other item has."""
        named = re.sub(r"[^\w.-]+", "_", self.target.removeprefix("hf:")).strip("._")[-80:]
        shown = [named or "item", *([self.configuration] if self.configuration != "default" else []), self.key[:8]]
        return "-".join(re.sub(r"[^\w.=+-]+", "_", part) for part in shown)

    def at(self, path: str, root: str) -> Item:
        return replace(self, spec=replace(self.spec, path=path), root=root)


def with_key(item: Item, environment: dict[str, Any], shown: dict[str, Any]) -> Item:
    """The item with the hash of all that decides its row: target, settings, its file, versions, and what is shown."""
    spec = item.spec
    identity = {
        "target": spec.spec,
        **{name: getattr(spec, name) for name in ("mode", "name", "module", "arguments", "inputs")},
        "file": "" if spec.path is None else hashlib.sha256(Path(spec.path).read_bytes()).hexdigest(),
        "options": {key: value for key, value in asdict(item.options).items() if key != "given"},
        "asked": None if spec.asked is None else asdict(spec.asked),
        "environment": environment,
        "shown": shown,
    }
    text = json.dumps(identity, sort_keys=True, default=str)
    return replace(item, key=hashlib.sha256(text.encode()).hexdigest()[:_KEY_LENGTH])

"""An item of a sweep: one target under one set of settings. Plain data: it travels to other processes and nodes."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import MISSING, asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from dynalyze.capture.settings import CompileOptions
from dynalyze.launch.spec import TargetSpec

# What a sweep compiles with unless it is told otherwise: graph breaks are Dynamo's, and eager costs least.
BACKEND = "eager"
_DEFAULT_OPTIONS = asdict(CompileOptions(backend=BACKEND))
_KEY_LENGTH = 20


@dataclass(frozen=True)
class Item:
    """What is run. `target` is as tables show it; `root` is the folder that the sweep was started in.

    `key` is made once, where the item is: it stays when the item's file is somewhere else on another node.
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
        """A name for its files that people can read, and that no other item has."""
        named = re.sub(r"[^\w.-]+", "_", self.target.removeprefix("hf:")).strip("._")[-80:]
        shown = [named or "item", *([self.configuration] if self.configuration != "default" else []), self.key[:8]]
        return "-".join(re.sub(r"[^\w.=+-]+", "_", part) for part in shown)

    def at(self, path: str, root: str) -> Item:
        return replace(self, spec=replace(self.spec, path=path), root=root)


def with_key(item: Item, environment: dict[str, Any], shown: dict[str, Any]) -> Item:
    """The item with the hash of all that decides its row: target, settings, its file, versions, and what is shown."""
    spec = item.spec
    told = {
        "target": spec.spec,
        **{name: getattr(spec, name) for name in ("mode", "name", "module", "arguments", "inputs")},
        "file": "" if spec.path is None else hashlib.sha256(Path(spec.path).read_bytes()).hexdigest(),
        "options": {key: value for key, value in asdict(item.options).items() if key != "given"},
        "asked": None if spec.asked is None else asdict(spec.asked),
        "environment": environment,
        "shown": shown,
    }
    text = json.dumps(told, sort_keys=True, default=str)
    return replace(item, key=hashlib.sha256(text.encode()).hexdigest()[:_KEY_LENGTH])

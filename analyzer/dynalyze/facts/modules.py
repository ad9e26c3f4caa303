"""What was compiled, and how torch was set up: the modules and settings that the processes told."""

from __future__ import annotations

from typing import Any

import msgspec

from dynalyze.events.log import ProcessLog, RunLog
from dynalyze.events.types import CompileStarted, ModuleSeen, SettingsSeen
from dynalyze.report.models import ModuleFacts

# Where the call of each wrapper stands in a stack.
_WRAPPER_FILES = (
    "torch/nn/parallel/distributed.py", "torch/nn/parallel/data_parallel.py", "torch/distributed/fsdp/",
    "torch\\nn\\parallel\\distributed.py", "torch\\nn\\parallel\\data_parallel.py", "torch\\distributed\\fsdp\\",
)  # fmt: skip


def settings(run: RunLog) -> dict[str, Any]:
    """Those of the target's own process; of the first that compiled where that one compiled nothing."""
    seen = (event.values for _, event in run.all() if isinstance(event, SettingsSeen))
    return next(seen, {})


def modules(run: RunLog) -> list[ModuleFacts]:
    """Every module, the main process first. Modules that are alike are one, and so are those of several ranks."""
    found: list[ModuleFacts] = []
    for log in run.processes:
        for module in _of_process(log):
            known = next((each for each in found if _alike(each, module)), None)
            if known is None:
                found.append(module)
            else:
                known.count = max(known.count, module.count)
    for number, module in enumerate(found, 1):
        module.id = f"m{number}"
    return found


def _of_process(log: ProcessLog) -> list[ModuleFacts]:
    last = {event.id: event for event in log.events if isinstance(event, ModuleSeen)}
    found: list[ModuleFacts] = []
    for event in last.values():
        module = _read(event)
        module.compiled_unwrapped = module.inside_wrapper and _compiled_without_wrapper(module, log)
        known = next((each for each in found if _alike(each, module)), None)
        if known is None:
            found.append(module)
        else:
            known.count += 1
    return found


def _alike(one: ModuleFacts, other: ModuleFacts) -> bool:
    """Whether only the id and the number differ."""
    return msgspec.structs.replace(one, id="", count=1) == msgspec.structs.replace(other, id="", count=1)


def _read(event: ModuleSeen) -> ModuleFacts:
    """The facts, each by itself where one of them is not of its type."""
    given: dict[str, Any] = {"class_name": "", **event.facts, "id": event.id}
    try:
        return msgspec.convert(given, ModuleFacts)
    except msgspec.ValidationError:
        module = ModuleFacts(event.id, "")
    for name in ModuleFacts.__struct_fields__:
        try:
            one = msgspec.convert({"id": event.id, "class_name": "", name: given[name]}, ModuleFacts)
        except (KeyError, msgspec.ValidationError):
            continue
        setattr(module, name, getattr(one, name))
    return module


def _compiled_without_wrapper(module: ModuleFacts, log: ProcessLog) -> bool:
    """Whether its own code was compiled, and never in a call that a wrapper made."""
    own = [event for event in log.events if isinstance(event, CompileStarted) and event.owner == module.class_name]
    return bool(own) and not any(_is_wrappers(frame.file) for event in own for frame in event.stack)


def _is_wrappers(file: str) -> bool:
    return any(part in file for part in _WRAPPER_FILES)

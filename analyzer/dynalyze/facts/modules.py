"""What was compiled, and how torch was set up: the modules and settings that the processes told."""

from __future__ import annotations

from typing import Any

import msgspec

from dynalyze.capture.events import CompileStarted, ModuleSeen, SettingsSeen
from dynalyze.events.log import RunLog
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
        of_process: list[ModuleFacts] = []
        for event in {event.id: event for event in log.events if isinstance(event, ModuleSeen)}.values():
            module = _read(event)
            if module.inside_wrapper:  # Whether its own code was compiled, and never in a call that a wrapper made.
                own = [
                    each for each in log.events if isinstance(each, CompileStarted) and each.owner == module.class_name
                ]
                files = [frame.file for each in own for frame in each.stack]
                wrapped = any(part in file for file in files for part in _WRAPPER_FILES)
                module.compiled_unwrapped = bool(own) and not wrapped
            if (known := _known(module, of_process)) is not None:
                known.count += 1
            else:
                of_process.append(module)
        for module in of_process:
            if (known := _known(module, found)) is not None:
                known.count = max(known.count, module.count)
            else:
                found.append(module)
    for number, module in enumerate(found, 1):
        module.id = f"m{number}"
    return found


def _known(module: ModuleFacts, known: list[ModuleFacts]) -> ModuleFacts | None:
    """The one of which only the id and the number differ."""
    bare = msgspec.structs.replace(module, id="", count=1)
    return next((each for each in known if msgspec.structs.replace(each, id="", count=1) == bare), None)


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

"""What was compiled and how torch was set up, and what ran beside the compiled code: late hooks, methods in eager."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterable
from typing import Any

import msgspec

from dynalyze.capture.events import CompileCall, CompileStarted, HookSeen, MethodSeen, ModuleSeen, SettingsSeen
from dynalyze.events.log import RunLog
from dynalyze.facts.sources import Sources
from dynalyze.report import CalledPart, Compilation, CompilationKey, LateHook, UncompiledMethod
from dynalyze.report.models import ModuleFacts
from dynalyze.text.amounts import whole_number

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


def late_hooks(run: RunLog, compiled: Iterable[Compilation], sources: Sources) -> list[LateHook]:
    """Each line once. What is compiled afterwards runs the hook, and so does a function left in eager."""
    whole = {each.key for each in compiled if each.status in ("compiled", "broken")}
    found: dict[tuple[str, int, str], LateHook] = {}
    for log in run.processes:
        seen = [event for event in log.events if isinstance(event, HookSeen)]
        met = {event.number for event in seen if event.met}
        for event in seen:
            if event.number not in met and whole.intersection(_keys(log.process, event)):
                place = event.code
                hook = LateHook(sources.at(place), event.method, event.class_name, process=log.process)
                found.setdefault((place.file, place.line, event.method), hook).count += 1
    return list(found.values())


def _keys(process: int, event: HookSeen) -> list[CompilationKey]:
    parts = (each.partition(" ") for each in event.compiles)
    return [(process, number, rest) for epoch, _, rest in parts if (number := whole_number(epoch)) is not None]


def uncompiled_methods(run: RunLog, sources: Sources) -> list[UncompiledMethod]:
    """Each with the place where its module was compiled."""
    found = []
    compiled: dict[tuple[int, int], CompileCall] = {}
    for process, event in run.all():
        if isinstance(event, CompileCall):
            compiled[process, event.module] = event
        if not isinstance(event, MethodSeen):
            continue
        location = sources.at(event.code)
        parts = [CalledPart(each.path, each.calls, each.of_torch) for each in event.parts]
        method = UncompiledMethod(location, event.method, event.class_name, parts, event.seconds, process=process)
        method.call = sources.expression(location)
        method.method = _method_in(method.call) or method.method  # A decorator's function has another name.
        if (call := compiled.get((process, event.module))) is not None and call.name == event.class_name:
            method.compiled = sources.location(call.file, call.line, call.function)
            method.statement = _statement(sources.tree(call.file), call.line)
        found.append(method)
    return found


def _method_in(call: str) -> str:
    """ "encode" of `self.model.encode(x)`."""
    with contextlib.suppress(SyntaxError):
        match ast.parse(call, mode="eval").body:
            case ast.Call(ast.Attribute(attr=name)):
                return name
    return ""


def _statement(tree: Iterable[ast.stmt], line: int) -> str:
    """The assignment that spans a line; "" where there is none."""
    nodes = (node for statement in tree for node in ast.walk(statement) if isinstance(node, ast.Assign))
    own = (node for node in nodes if node.lineno <= line <= (node.end_lineno or node.lineno))
    return next(map(ast.unparse, own), "")

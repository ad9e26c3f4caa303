"""Methods that were called on what torch.compile made of a module, and ran in eager."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalyze.capture.events import CompileCall, MethodSeen
from dynalyze.events.log import RunLog
from dynalyze.facts.sources import Sources
from dynalyze.report import CalledPart, UncompiledMethod


def uncompiled_methods(run: RunLog, sources: Sources) -> list[UncompiledMethod]:
    """Each with the place where its module was compiled."""
    found = []
    compiled: dict[tuple[int, int], CompileCall] = {}
    for process, event in run.all():
        if isinstance(event, CompileCall):
            compiled[process, event.module] = event
        if not isinstance(event, MethodSeen):
            continue
        place = event.code
        location = sources.location(place.file, place.line, place.name, place.column, place.end_column)
        parts = [CalledPart(each.path, each.calls, each.of_torch) for each in event.parts]
        told = UncompiledMethod(location, event.method, event.class_name, parts, event.seconds, process=process)
        told.call = sources.expression(location)
        if (call := compiled.get((process, event.module))) is not None and call.name == event.class_name:
            told.compiled = sources.location(call.file, call.line, call.function)
            told.statement = _statement(sources.tree(call.file), call.line)
        found.append(told)
    return found


def _statement(tree: Iterable[ast.stmt], line: int) -> str:
    """The assignment that spans a line; "" where there is none."""
    nodes = (node for statement in tree for node in ast.walk(statement) if isinstance(node, ast.Assign))
    own = (node for node in nodes if node.lineno <= line <= (node.end_lineno or node.lineno))
    return next(map(ast.unparse, own), "")

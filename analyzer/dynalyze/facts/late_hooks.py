"""Hooks registered on modules that compiled code runs already, which does not ask for them."""

from __future__ import annotations

from collections.abc import Iterable

from dynalyze.capture.events import HookSeen
from dynalyze.events.log import RunLog
from dynalyze.facts.sources import Sources
from dynalyze.report import Compilation, CompilationKey, LateHook


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
                location = sources.location(place.file, place.line, place.name, place.column, place.end_column)
                told = LateHook(location, event.method, event.class_name, process=log.process)
                found.setdefault((place.file, place.line, event.method), told).count += 1
    return list(found.values())


def _keys(process: int, event: HookSeen) -> list[CompilationKey]:
    parts = (each.partition(" ") for each in event.compiles)
    return [(process, int(epoch), compile_id) for epoch, _, compile_id in parts if epoch.isdigit()]

"""What could be compiled: what a program that compiles nothing called, and parts of a module that no break reaches."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TypeAlias, TypeVar

from dynalyze.capture import events
from dynalyze.events.log import RunLog
from dynalyze.facts.sources import Sources
from dynalyze.report import Candidate, Compilation, GraphBreak, Location, Region

_MOST_CANDIDATES = 100
_Key: TypeAlias = tuple[str, str, str, str, int]
_Row: TypeAlias = tuple[_Key, bool, str]
_Number = TypeVar("_Number", int, float)


def compiled_in_place(run: RunLog) -> bool:
    """Whether the program compiles nothing by itself, and had its modules compiled in its own calls."""
    return any(isinstance(event, events.InPlaceStarted) for _, event in run.all())


def candidates(run: RunLog, compiled: list[Compilation], sources: Sources) -> list[Candidate]:
    """The table, by time spent; empty for a program that compiles by itself.

    Processes tell counts from time to time, the main one at its end too; of what came later, first calls are known.
    What has no name of its own, and became of the same, is one row.
    """
    if compiled and not compiled_in_place(run):
        return []
    rows: dict[_Row, Candidate] = {}
    counts = {process: event for process, event in run.all() if isinstance(event, events.CandidatesCounted)}
    for counted in counts.values():
        alike: dict[_Row, list[events.CandidateEntry]] = {}
        for entry in counted.entries:
            alike.setdefault((_key(entry), entry.compiled, entry.reason), []).append(entry)
        for key, entries in alike.items():
            rows.setdefault(key, _candidate(entries, counted.seconds, sources))
    known = {key for key, _, _ in rows}
    for _, event in run.all():
        if isinstance(event, events.CandidateSeen) and _key(event.entry) not in known:
            rows.setdefault((_key(event.entry), False, ""), _candidate([event.entry], None, sources))
    return sorted(rows.values(), key=lambda row: (row.kind != "module", -(row.seconds or 0.0)))[:_MOST_CANDIDATES]


def _key(entry: events.CandidateEntry) -> _Key:
    return entry.kind, entry.name, entry.class_name, entry.file, entry.line


def _candidate(alike: list[events.CandidateEntry], of_program: float | None, sources: Sources) -> Candidate:
    """A row for entries that differ in their counts alone; `of_program` is None where they are not counted yet."""
    entry = alike[0]
    seconds = None if of_program is None else _sum([each.seconds for each in alike])
    return Candidate(
        kind=entry.kind,
        name=entry.name,
        class_name=entry.class_name,
        location=sources.location(entry.file, entry.line, entry.function) if entry.file else None,
        calls=None if of_program is None else _sum([each.calls for each in alike]),
        parameters=_sum([each.parameters for each in alike]),
        seconds=seconds,
        share=round(min(1.0, seconds / of_program), 4) if of_program and seconds is not None else None,
        compiled=entry.compiled,
        reason=entry.reason,
        error=entry.error,
    )


def _sum(values: Sequence[_Number | None]) -> _Number | None:
    known = [value for value in values if value is not None]
    return sum(known[1:], known[0]) if known else None


_LEAST_SHARE = 0.05
_MOST_REGIONS = 20
_NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")
_CALLED = re.compile(r"\bself\.([\w.]+)\(")


def regions(run: RunLog, breaks: Sequence[GraphBreak], sources: Sources) -> list[Region]:
    """The largest such parts of each module, those that take the most time first; none where nothing breaks.

    A part is reached by a break where a line of its class stands on the break's stack, or where the line that broke
    calls it: torch refuses some modules before it enters them. Parts that differ in nothing but their number in a list
    are one entry; a single layer (a Linear) is none.
    """
    found: list[Region] = []
    for _, event in run.all():
        if isinstance(event, events.ModuleTree) and breaks:
            found += _of_tree(event, breaks, sources)
    return sorted(found, key=lambda region: -(region.share or region.parameter_share))[:_MOST_REGIONS]


def _of_tree(tree: events.ModuleTree, breaks: Sequence[GraphBreak], sources: Sources) -> Iterator[Region]:
    frames = {frame for each in breaks for frame in (*each.stack, each.location)}
    reached = [any(_holds(code, frame) for code in kind.code for frame in frames) for kind in tree.classes]
    parts = {part.path: part for part in tree.parts}
    refused = set(_called_where_it_broke(tree, breaks))
    whole = {path: not reached[part.kind] and path not in refused for path, part in parts.items()}
    for path in [path for path, is_whole in whole.items() if not is_whole]:
        whole.update(dict.fromkeys(_above(path), False))
    root = parts.get("")
    if root is None or not any(reached):
        return
    groups: dict[tuple[str, int], list[events.TreePart]] = {}
    for path, part in parts.items():
        if path and _is_largest(path, parts, tree, whole):
            groups.setdefault((_NUMBER.sub("*", path), part.kind), []).append(part)
    for (_, kind), alike in groups.items():
        region = _region(tree, kind, alike, root, sources)
        if (region.share if region.share is not None else region.parameter_share) >= _LEAST_SHARE:
            yield region


def _called_where_it_broke(tree: events.ModuleTree, breaks: Sequence[GraphBreak]) -> Iterator[str]:
    """The paths of the modules that the expression of a break calls: `self.rnn(x)`."""
    for each in breaks:
        for name in _CALLED.findall(each.expression or each.location.code or ""):
            for part in tree.parts:
                if any(_holds(code, each.location) for code in tree.classes[part.kind].code):
                    yield f"{part.path}.{name}".lstrip(".")


def _is_largest(path: str, parts: dict[str, events.TreePart], tree: events.ModuleTree, whole: dict[str, bool]) -> bool:
    """Whether it compiles whole, and nothing above it that could be compiled does."""
    kind = tree.classes[parts[path].kind]
    single = kind.layer and not any(each.startswith(f"{path}.") for each in parts)
    if not whole[path] or not kind.callable or single:
        return False
    return not any(whole.get(above) and tree.classes[parts[above].kind].callable for above in _above(path))


def _region(
    tree: events.ModuleTree, kind: int, alike: list[events.TreePart], root: events.TreePart, sources: Sources
) -> Region:
    known = [part.seconds for part in alike if part.seconds is not None]
    parameters = sum(part.parameters for part in alike)
    of_class = tree.classes[kind]
    return Region(
        root=tree.name,
        path=alike[0].path,
        class_name=of_class.name,
        location=sources.location(*of_class.forward, "forward") if of_class.forward else None,
        of_torch=of_class.of_torch,
        count=len(alike),
        parameters=parameters,
        share=round(min(1.0, sum(known) / root.seconds), 4) if root.seconds and known else None,
        parameter_share=round(parameters / root.parameters, 4) if root.parameters else 0.0,
    )


def _above(path: str) -> Iterator[str]:
    """The paths of the modules that hold this one, the root "" last."""
    while path:
        path = path.rpartition(".")[0]
        yield path


def _holds(code: tuple[str, int, int], frame: Location) -> bool:
    file, first, last = code
    return frame.file == file and first <= frame.line <= last

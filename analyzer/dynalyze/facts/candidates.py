"""What could be compiled by itself: what a program that compiles nothing called, and parts that no break reaches."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import product
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
_Parts = Mapping[str, events.TreePart]


def regions(run: RunLog, breaks: Sequence[GraphBreak], sources: Sources) -> list[Region]:
    """The largest such parts of each module, those that take the most time first; none where nothing breaks.

    Parts that differ in nothing but their numbers in lists, and that a loop over these lists reaches without any other,
    are one entry; a single layer (a Linear) is none, and so is what takes no inputs.
    """
    found: list[Region] = []
    for _, event in run.all():
        if isinstance(event, events.ModuleTree) and breaks:
            found += _of_tree(event, breaks, sources)
    return sorted(found, key=lambda region: -(region.share or region.parameter_share))[:_MOST_REGIONS]


def _of_tree(tree: events.ModuleTree, breaks: Sequence[GraphBreak], sources: Sources) -> Iterator[Region]:
    parts = {part.path: part for part in tree.parts}
    root = parts.get("")
    reached = {path for each in breaks for path in _reached(tree, each)}
    if root is None or not (reached or tree.within):
        return
    whole = dict.fromkeys(parts, True) | dict.fromkeys((path for path in reached if path in parts), False)
    for path in reached:
        whole.update((above, False) for above in _above(path))
    groups: dict[tuple[str, int], list[str]] = {}
    for path, part in parts.items():
        if (path or tree.within) and _is_largest(path, parts, tree, whole):
            groups.setdefault((_NUMBER.sub("*", path), part.kind), []).append(path)
    lists = {path for path, part in parts.items() if tree.classes[part.kind].indexed}
    for alike in groups.values():
        for pattern, paths in _patterns(alike, parts, lists):
            region = _region(tree, pattern, [parts[path] for path in paths], root, sources)
            if (region.share if region.share is not None else region.parameter_share) >= _LEAST_SHARE:
                yield region


def _reached(tree: events.ModuleTree, each: GraphBreak) -> Iterator[str]:
    """The parts that a break reaches: of each class with a line on its stack those that hold a part of the class after
    it, all where none does. Besides these, what the line that broke calls: torch refuses some before it enters them.
    """
    for stack in ([*each.stack, each.location], *([caller, each.location] for caller in each.callers)):
        yield from _on_stack(tree, stack)
    for name in _CALLED.findall(each.expression or each.location.code or ""):
        for part in tree.parts:
            if any(_holds(code, each.location) for code in tree.classes[part.kind].code):
                yield f"{part.path}.{name}".lstrip(".")


def _on_stack(tree: events.ModuleTree, stack: Sequence[Location]) -> Iterator[str]:
    inner: set[str] = set()
    for frame in reversed(stack):
        of_class = {
            part.path for part in tree.parts if any(_holds(code, frame) for code in tree.classes[part.kind].code)
        }
        above = {path for below in inner for path in (below, *_above(below))}
        inner = (of_class & above or of_class) or inner
        yield from of_class & inner


def _is_largest(path: str, parts: _Parts, tree: events.ModuleTree, whole: Mapping[str, bool]) -> bool:
    """Whether it compiles whole, and nothing above it that could be compiled does."""
    kind = tree.classes[parts[path].kind]
    single = kind.layer and not any(each.startswith(f"{path}.") for each in parts)
    if not whole[path] or not kind.callable or not kind.fed or single:
        return False
    above = (tree.classes[parts[each].kind] for each in _above(path) if whole.get(each))
    return not any(kind.callable and kind.fed for kind in above)


def _patterns(paths: Sequence[str], parts: _Parts, lists: Collection[str]) -> Iterator[tuple[str, list[str]]]:
    """These paths, which differ in numbers alone, by patterns that stand for them and for no other: `layers.*.1`, where
    `*` is every part of a list and `0,2` are some. A number that is no place in a list is a name: `"0"`.
    """
    rows = [path.split(".") for path in paths]
    values = [list(dict.fromkeys(column)) for column in zip(*rows, strict=True)]
    words = [column[0] if len(column) == 1 else ",".join(column) for column in values]
    for at, column in enumerate(values):
        holders = {".".join(row[:at]) for row in rows}
        listed = holders <= set(lists)
        if len(column) == 1 and column[0].isdigit() and not listed:
            words[at] = f'"{column[0]}"'
        elif len(column) > 1 and not (listed and {".".join(row) for row in product(*values)} == set(paths)):
            least = min((len(each), -index) for index, each in enumerate(values) if len(each) > 1)
            for value in values[-least[1]]:
                chosen = [".".join(row) for row in rows if row[-least[1]] == value]
                yield from _patterns(chosen, parts, lists)
            return
        elif len(column) > 1 and all(set(column) == set(_children(holder, parts)) for holder in holders):
            words[at] = "*"
    yield ".".join(words), list(paths)


def _children(holder: str, parts: _Parts) -> Iterator[str]:
    start = f"{holder}." if holder else ""
    for path in parts:
        if path and path.startswith(start) and "." not in (name := path[len(start) :]):
            yield name


def _region(
    tree: events.ModuleTree, pattern: str, alike: list[events.TreePart], root: events.TreePart, sources: Sources
) -> Region:
    known = [part.seconds for part in alike if part.seconds is not None]
    parameters = sum(part.parameters for part in alike)
    of_class = tree.classes[alike[0].kind]
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
        pattern=pattern,
        arguments=tree.arguments,
        within=tree.within,
        compiled=sources.location(tree.file, tree.line, tree.function) if tree.file else None,
    )


def _above(path: str) -> Iterator[str]:
    """The paths of the modules that hold this one, the root "" last."""
    while path:
        path = path.rpartition(".")[0]
        yield path


def _holds(code: tuple[str, int, int], frame: Location) -> bool:
    file, first, last = code
    return frame.file == file and first <= frame.line <= last

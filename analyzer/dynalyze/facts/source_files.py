"""The traced source files, with a hash, and the status of each of their lines: compiled, broken, eager."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from dynalyze.capture.events import SourceSeen, TracedSeen
from dynalyze.events.log import RunLog
from dynalyze.facts.sources import LONGEST_LINE, Sources, changed, seen_sources
from dynalyze.facts.stacks import Places, is_file
from dynalyze.files.read_write import read_input
from dynalyze.report import CompilationStatus, LineKey, Report, TracedFile, TracedFunction
from dynalyze.report.code import FunctionStatus, LineState, SourceFile, SourceFunction, SourceLine

MOST_CODE = 200_000
"""Characters of source in a report, all files together. What has a graph break comes first, then the user's own."""

LineOps = dict[LineKey, dict[str, int]]
"""How many operations of each graph, by its id, came from a line."""

_WORST_FIRST: tuple[CompilationStatus, ...] = ("failed", "broken", "compiled", "eager")
_ORIGINS = ("user", "library", "torch")


def source_files(
    report: Report, ops: Mapping[LineKey, Mapping[str, int]], sources: Sources, places: Places
) -> list[SourceFile]:
    """Each file with its functions in the order of their lines; files and functions that cannot be read are left out.

    Of torch's own code only what has a graph break is shown, of a library's only functions that left something.
    """
    marks = _Marks(report, ops)
    found = _functions(report, sources)
    files = [_file(path, functions, marks, sources, places) for path, functions in found.items()]
    for each in files:
        if each.origin != "user":
            # A library's helpers that compute no tensor leave nothing.
            telling = [line.line for line in each.lines if line.state != "silent" or line.recompiles]
            _keep(each, [f for f in each.functions if any(f.line <= line <= f.last for line in telling)])
    files = [each for each in files if each.functions and (each.origin != "torch" or _has_break(each))]
    files.sort(key=lambda each: (not _has_break(each), _ORIGINS.index(each.origin)))
    room = MOST_CODE
    for each in files:
        room = _fit(each, room)
    return sorted(files, key=lambda each: _ORIGINS.index(each.origin))


class _Marks:
    """What is known of single lines."""

    def __init__(self, report: Report, ops: Mapping[LineKey, Mapping[str, int]]) -> None:
        self.ops = ops
        self.breaks: dict[LineKey, list[str]] = {}
        self.gives_up: dict[str, list[int]] = {}
        self.recompiles: dict[LineKey, list[str]] = {}
        for found in report.graph_breaks:
            place = found.location
            self.breaks.setdefault(place.at, []).append(found.id)
            if found.effect == "partly_eager":
                self.gives_up.setdefault(place.file, []).append(place.line)
        for again in report.recompiles:
            places = (again.location, again.forced_by, again.read_at)
            for at in {place.at: None for place in places if place is not None}:
                self.recompiles.setdefault(at, []).append(again.id)


def _functions(report: Report, sources: Sources) -> dict[str, dict[int, SourceFunction]]:
    """The functions of each file by the line of their `def`, with the statuses of their compiles."""
    statuses: dict[LineKey, set[CompilationStatus]] = {}
    names: dict[LineKey, str] = {}
    for compiled in report.compilations:
        place = compiled.location
        at = (place.file, sources.definition(place.file, place.line))
        names.setdefault(at, place.function)
        if not compiled.resumes:
            statuses.setdefault(at, set()).add(compiled.status)
    for skipped in report.skipped_frames:
        at = (skipped.location.file, sources.definition(skipped.location.file, skipped.location.line))
        names.setdefault(at, skipped.location.function)
        statuses.setdefault(at, set()).add("eager")
    for file in report.traced_files:
        for traced in file.functions:
            names.setdefault((file.path, sources.definition(file.path, traced.line)), traced.name)
    for found in report.graph_breaks:
        if (start := sources.enclosing(found.location.file, found.location.line)) is not None:
            names.setdefault((found.location.file, start), found.location.function)
    by_file: dict[str, dict[int, SourceFunction]] = {}
    for (path, line), name in names.items():
        if (last := sources.last_line(path, line)) is not None:
            known = statuses.get((path, line), set())
            status: FunctionStatus = next((each for each in _WORST_FIRST if each in known), "inlined")
            by_file.setdefault(path, {})[line] = SourceFunction(name, line, last, status)
    return by_file


def _file(
    path: str, functions: dict[int, SourceFunction], marks: _Marks, sources: Sources, places: Places
) -> SourceFile:
    ordered = [functions[line] for line in sorted(functions)]
    # The function that begins last among those that hold a line: an inner one is after the one around it.
    innermost = {number: each for each in ordered for number in range(each.line, each.last + 1)}
    lines = []
    for number, function in sorted(innermost.items(), key=lambda pair: pair[0]):
        at, code = (path, number), sources.line(path, number)
        if code is None:
            continue
        ops, state = marks.ops.get(at, {}), _state(at, code[:LONGEST_LINE], function, marks)
        breaks, recompiles = marks.breaks.get(at, []), marks.recompiles.get(at, [])
        lines.append(SourceLine(number, code[:LONGEST_LINE], state, sum(ops.values()), list(ops), breaks, recompiles))
    return SourceFile(path, places.origin(path), ordered, lines)


def _state(at: LineKey, code: str, function: SourceFunction, marks: _Marks) -> LineState:
    path, number = at
    if at in marks.breaks:
        return "broken"
    if marks.ops.get(at):
        return "compiled"
    bare = code.strip()
    if number == function.line or not bare or bare.startswith("#"):
        return "silent"
    after_giving_up = any(function.line <= line < number for line in marks.gives_up.get(path, ()))
    return "eager" if function.status == "eager" or after_giving_up else "silent"


def _has_break(file: SourceFile) -> bool:
    return any(line.breaks for line in file.lines)


def _fit(file: SourceFile, room: int) -> int:
    """Leave out the functions that find no room, those without a mark first; returns what is left of it."""
    lines = {each.line: [line for line in file.lines if each.line <= line.line <= each.last] for each in file.functions}
    marked = {at: any(line.breaks or line.recompiles for line in own) for at, own in lines.items()}
    kept: list[SourceFunction] = []
    for each in sorted(file.functions, key=lambda each: (not marked[each.line], each.line)):
        size = sum(len(line.code) + 1 for line in lines[each.line])
        if size <= room:
            kept.append(each)
            room -= size
    file.omitted = len(file.functions) - len(kept)
    _keep(file, kept)
    return room


def _keep(file: SourceFile, functions: list[SourceFunction]) -> None:
    """Leave out the other functions, and the lines that are in none of these."""
    if len(functions) < len(file.functions):
        spans = [range(each.line, each.last + 1) for each in functions]
        file.lines = [line for line in file.lines if any(line.line in span for span in spans)]
        file.functions = [each for each in file.functions if each in functions]


def traced_files(run: RunLog, places: Places, *, readable: bool = True) -> list[TracedFile]:
    """Every file that holds a traced function, in the order in which they were first traced."""
    seen = seen_sources(run)
    functions: dict[str, dict[TracedFunction, None]] = {}
    for _, event in run.all():
        if isinstance(event, TracedSeen):
            for file, name, line in event.functions:
                if is_file(file):
                    functions.setdefault(file, {}).setdefault(TracedFunction(name, line))
    return [
        TracedFile(path, _sha256(path, seen.get(path)) if readable else "", list(found), places.origin(path))
        for path, found in functions.items()
    ]


def hash_of_set(files: list[TracedFile]) -> str:
    """One sha256 over paths and contents, independent of the order of tracing; "" for no files.

    As in vLLM's cache key, a change of any traced file changes it.
    """
    if not files:
        return ""
    total = hashlib.sha256()
    for file in sorted(files, key=lambda f: f.path):
        total.update(f"{file.path}\0{file.sha256}\n".encode(errors="surrogatepass"))
    return total.hexdigest()


def _sha256(path: str, seen: SourceSeen | None) -> str:
    if seen is not None and (seen.sha256 or changed(path, seen)):
        return seen.sha256
    try:
        return hashlib.sha256(read_input(Path(path))).hexdigest()
    except OSError:
        return ""

"""Recompilations, from the guard that failed, and the sizes that a line of the program turned into constants."""

from __future__ import annotations

import ast
import contextlib
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from dynalyze.capture.events import CompileEnded, CompileStarted, FailedCheck, RecompileSeen, SpecializedSeen
from dynalyze.capture.trace_records import hit_limit, refused_recompile
from dynalyze.events.log import ProcessLog, RunLog
from dynalyze.facts.guards import MISSING, PRESENT, SIZE, UNEXPLAINED, Guard, read_guard, readable
from dynalyze.facts.sources import Sources
from dynalyze.facts.stacks import Places, original_name
from dynalyze.report import Compilation, FailedGuard, ForcedSize, GraphBreak, Location, Recompile
from dynalyze.text.json_text import read_json

_PREFIX = re.compile(r"^(?P<id>!?\d+/(?:\d+)?(?:/\d+)?): ")
_STACK = re.compile(r"\b___stack\d+\b")
_LEFT = re.compile(rf"{_STACK.pattern}(?:\[\d+\])*(?:\.size\(\)\[\d+\])?")
_SHAPES = ("shape", "rank", "stride", "symbolic")
# Functions of their own up to Python 3.11.
_COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>")


class _Raw(NamedTuple):
    process: int
    event: RecompileSeen
    """torch's own, or what it would have been."""
    reason: str
    """Of the version that the call comes nearest to, the guard that torch names."""
    failed: list[FailedCheck]
    limit: bool
    threads: int = 0


def recompiles(run: RunLog, compiled: list[Compilation], breaks: list[GraphBreak]) -> list[Recompile]:
    """Every recompile of a run, in order; reaching the limit is one more entry, with cause `limit`."""
    by_key = {c.key: c for c in compiled}
    found = [raw for log in run.processes for raw in _raw(log)]
    by_id: dict[str, Compilation] = {}
    for each in compiled:
        by_id.setdefault(each.compile_id, each)
    entries = [_entry(f"r{number}", raw, by_key, by_id) for number, raw in enumerate(found, 1)]
    _name_results(entries, breaks, compiled)
    _mark_changes(list(zip(found, entries, strict=True)))
    return entries


def _raw(log: ProcessLog) -> Iterator[_Raw]:
    limited = {e.key for e in log.events if isinstance(e, CompileEnded) and hit_limit(e.metrics)}
    seen = {e.key for e in log.events if isinstance(e, RecompileSeen)}
    threads: dict[tuple[int, str], set[int]] = {}
    for started in (e for e in log.events if isinstance(e, CompileStarted) and e.thread):
        threads.setdefault((started.epoch, started.id.rpartition("/")[0]), set()).add(started.thread)
    for event in log.events:
        if isinstance(event, RecompileSeen):
            limit = event.key in limited
            limited.discard(event.key)
            guard, failed = nearest(event)
            unexplained = read_guard(_PREFIX.sub("", guard)).text.startswith(UNEXPLAINED)
            at_once = len(threads.get((event.epoch, event.id.rpartition("/")[0]), ())) if unexplained else 0
            yield _Raw(log.process, event, guard, failed, limit, at_once if at_once > 1 else 0)
        elif isinstance(event, CompileEnded) and event.key in limited:
            # The limit was reached by a frame whose failed guards torch could not tell.
            limited.discard(event.key)
            yield _Raw(log.process, RecompileSeen(id=event.id, epoch=event.epoch), "", [], True)
        elif (
            isinstance(event, CompileEnded) and event.key not in seen and (refused := refused_recompile(event.metrics))
        ):
            yield _Raw(log.process, RecompileSeen(id=event.id, epoch=event.epoch), refused, [], False)


def nearest(event: RecompileSeen) -> tuple[str, list[FailedCheck]]:
    """The guard that torch names of the version with the fewest changes, and all that failed of it.

    Where several are as near, it is a value that came back which parts the call from the newest of them, and one that
    did not which parts it from the oldest: that one counts. Where only torch tells, the newest version stands for all.
    """
    reasons = _reasons(event.text)
    by_version = {at["id"]: each for each in reasons if (at := _PREFIX.match(each))}
    failed = {each.id: each.failed for each in event.versions if each.id in by_version}
    if len(failed) < len(by_version) or not failed:
        return reasons[0], []
    guards = {
        version: [read_guard(each.text) for each in checks] or [read_guard(_PREFIX.sub("", by_version[version]))]
        for version, checks in failed.items()
    }
    changes = {version: _changes(each) for version, each in guards.items()}
    distance = {version: (max(map(_hidden, guards[version])), len(each)) for version, each in changes.items()}
    tied = [version for version, each in distance.items() if each == min(distance.values())]
    about = {version: {each for guard in guards[version] for each in _about(guard)} for version in tied}
    version = next(each for each in tied if about[each] == about[tied[-1]])
    # A wrapper `inner(*args, **kwargs)` around another `fn` is called with other arguments too.
    called = next((each for each in guards[version] if each.source == "fn"), None)
    if called is not None and all(_WRAPPERS.search(each.source or "") for each in guards[version]):
        return f"{version}: {called.text}", failed[version]
    # A number that changed with a size is often made from it. Which of them torch asks first is left to chance.
    size = next((each for each in guards[version] if each.cause == "shape"), None)
    if size is not None and read_guard(_PREFIX.sub("", by_version[version])).cause in ("value", "module_attribute"):
        return f"{version}: {size.text}", failed[version]
    return by_version[version], failed[version]


_WRAPPERS = re.compile(r"\b(?:fn|args|kwargs)\b")


def _hidden(guard: Guard) -> int:
    """How much torch asked no more, since what it hangs below is not there: of another object all, as where it was
    `None`, of a container with other entries these. A version that lacks less is nearer, whatever else it lacks.
    """
    if guard.cause == "identity" or guard.text.startswith("___check_type_id(") or guard.expected == "None":
        return 2
    return int(guard.cause == "container")


def _changes(guards: list[Guard]) -> set[tuple[str | None, ...]]:
    """What has changed, once: a size of several tensors, their layout, an attribute of several modules."""
    found: set[tuple[str | None, ...]] = set()
    for guard in guards:
        if guard.text.startswith(UNEXPLAINED):
            continue
        if guard.cause == "global_state":
            found.update((each,) for each in (guard.source or "").split(", "))
        elif guard.cause == "shape":
            found.add((guard.cause, guard.expected, guard.actual))
        elif guard.cause == "stride":  # Of layers with buffers of several sizes each has its own.
            found.add((guard.cause,))
        elif guard.cause == "symbolic":
            found.add((guard.cause, *sorted(_about(guard))))
        else:
            found.add((guard.cause, (guard.source or guard.text).rpartition(".")[2], guard.expected))
    return found


def _about(guard: Guard) -> set[str]:
    """The sizes that a condition compares; of other guards the one thing that they measure."""
    sizes = set(SIZE.findall(guard.text)) if guard.cause == "symbolic" else set()
    return sizes or {guard.source or guard.text}


def _reasons(text: str) -> list[str]:
    """Each cache entry's failed guard, the newest first; torch gives one reason as text, several as a list."""
    try:
        reasons = read_json(text.encode())
    except msgspec.DecodeError:
        return [text]
    if isinstance(reasons, list):
        return [str(each) for each in reasons] or [""]
    return [str(reasons)]


def _entry(
    number: str, raw: _Raw, by_key: dict[tuple[int, int, str], Compilation], by_id: dict[str, Compilation]
) -> Recompile:
    event, failed = raw.event, _failed_guard(raw.reason)
    # Read live, for this guard; an older recording has the values of the newest version's alone.
    same = next((each for each in raw.failed if each.text == failed.guard), FailedCheck())
    values = event if not same.text and raw.reason == _reasons(event.text)[0] else same
    others = [_failed_guard(f"{failed.previous}: {each.text}", each) for each in raw.failed]
    own = by_key.get((raw.process, event.epoch, event.id))
    before = by_key.get((raw.process, event.epoch, failed.previous or f"{event.id.rpartition('/')[0]}/0"))
    described = own or before or by_id.get(event.id)
    return Recompile(
        id=number,
        compile_id=event.id,
        previous=failed.previous,
        location=described.location if described else Location("", 1),
        cause="limit" if raw.limit else failed.cause,
        source=failed.source,
        expected=failed.expected or values.expected,
        actual=failed.actual or values.actual,
        guard=failed.guard,
        seconds=own.whole_seconds if own else None,
        process=raw.process,
        epoch=event.epoch,
        last_batch_of=event.last_batch_of,
        owner=same.owner if same.library else "",
        library=same.library,
        threads=raw.threads,
        also=[each for each in others if (each.cause, each.source) != (failed.cause, failed.source)],
    )


def _failed_guard(reason: str, live: FailedCheck | None = None) -> FailedGuard:
    """What failed, and the compile id of the version whose guard it is."""
    prefix, live = _PREFIX.match(reason), live or FailedCheck()
    guard = read_guard(reason[prefix.end() :] if prefix else reason)
    expected, actual = guard.expected or live.expected, guard.actual or live.actual
    return FailedGuard(prefix["id"] if prefix else None, guard.cause, guard.text, guard.source, expected, actual)


def _mark_changes(found: list[tuple[_Raw, Recompile]]) -> None:
    """Give recompiles that one change set off the same `change`.

    Those belong together that follow each other within one outermost call, each of another function, with causes
    of one family: a new sequence length recompiles the frame before a break and the one after it.
    """
    changes = 0
    members: set[str] = set()
    last: tuple[object, ...] | None = None
    for raw, entry in found:
        function, call = entry.compile_id.rpartition("/")[0], raw.event.call
        of_sizes = call and entry.cause in _SHAPES
        family = "shape" if of_sizes else (entry.cause, entry.expected, entry.actual)
        key = (entry.process, entry.epoch, call, family)
        if key != last or function in members:
            changes += 1
            members = set()
        members.add(function)
        last = key
        entry.change = f"c{changes}"


def _name_results(entries: list[Recompile], breaks: list[GraphBreak], compiled: list[Compilation]) -> None:
    """A function that goes on after a break gets the break's result as `___stack0`: name the expression itself.

    Of several on one line it is the one inside of the others, `x.item()` in `print(x.item())`.
    """
    results: dict[tuple[str, int], GraphBreak] = {}
    # The line of a caller into which the broken function was inlined goes on with what that gives.
    callers: dict[tuple[str, int], tuple[GraphBreak, str]] = {}
    for found in breaks:
        place = found.location.file, found.location.line
        if place not in results or (found.expression and found.expression in results[place].expression):
            results[place] = found
        for caller, called in itertools.pairwise(found.stack):
            callers.setdefault((caller.file, caller.line), (found, _given_by(called.function, caller.code)))
    # Code without a file, as a decorator generates it: the break is told at the line that calls it.
    generated: dict[str, GraphBreak] = {}
    for found in breaks:
        attempts = {(found.process, found.epoch, each) for each in found.compile_ids}
        generated |= {each.location.file: found for each in compiled if each.key in attempts}
    for entry in entries:
        if entry.cause == "other" and not entry.source and _STACK.search(entry.guard):
            entry.source = entry.guard  # A question about what is left behind.
            entry.expected = entry.actual = None
        if not entry.source or not _STACK.search(entry.source):
            continue
        place = entry.location.file, entry.location.line
        here = results.get(place)
        if here is not None and here.location.function != entry.location.function and place in callers:
            here = None  # A lambda or a comprehension on the line: what goes on has all that it gives.
        origin, expression = (here, here.expression) if here is not None else callers.get(place, (None, ""))
        if entry.cause == "symbolic" and (left := _LEFT.search(entry.source)) is not None and left[0] != entry.source:
            # A condition that torch derived from it and from other sizes: nobody wrote that.
            entry.source, entry.expected, entry.actual = left[0], None, None
        if expression:
            entry.source = _STACK.sub(lambda _, text=expression: text, entry.source)  # type: ignore[misc]
        if origin is None and entry.location.file.startswith("<"):
            origin = generated.get(entry.location.file)
        if origin is not None:
            entry.result_of = origin.location


def _given_by(function: str, code: str | None) -> str:
    """The call of a function in a line of its caller, or the name that a comprehension is given; "" where the line goes
    on below, or has several.
    """
    name = function.rpartition(".")[2]
    with contextlib.suppress(SyntaxError, ValueError, RecursionError):
        written = (code or "").strip()
        tree = ast.parse(f"{written} ..." if written.endswith(":") else written)
        match tree.body if name in _COMPREHENSIONS else []:
            case [ast.Assign([ast.Name(given)], ast.ListComp() | ast.SetComp() | ast.DictComp())]:
                return given
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        found = [ast.unparse(call) for call in calls if ast.unparse(call.func).rpartition(".")[2] == name]
        return found[0] if len(found) == 1 else ""
    return ""


_DIMENSION = re.compile(r"(?P<name>.+)\.size\(\)\[(?P<dimension>\d{1,3})\]")
_VIOLATED = re.compile(r"Constraints violated \((?P<sources>.+?)\)!")
# torch names the line behind a condition in the guard's comment; the beginning of its path is missing.
_ORIGIN = re.compile(r"  # (?P<path>[^\n#]{1,1000}?):(?P<line>\d{1,9}) in (?P<function>[\w<>.]{1,200})(?: \(|$)")
# What torch says of a guard that no line asks for: the line in its comment is the first that uses the size.
_OF_TORCH = "due to 0/1 specialization"
_MOST_VALUES = 50

_Key = tuple[int, int, str, str]


@dataclass
class ForcedSizes:
    """The facts, and which of them holds for a process, epoch, compile id and source."""

    facts: list[ForcedSize] = field(default_factory=list)
    by_compile: dict[_Key, ForcedSize] = field(default_factory=dict)


def forced_sizes(run: RunLog, compiled: list[Compilation], places: Places, sources: Sources) -> ForcedSizes:
    """Each size and the line that fixed it once, with every value that it was fixed to."""
    by_key = {c.key: c for c in compiled}
    found = ForcedSizes()
    known: dict[tuple[str, Location], ForcedSize] = {}
    for process, event in run.all():
        if not isinstance(event, SpecializedSeen):
            continue
        compilation = by_key.get((process, event.epoch, event.id))
        # The innermost line outside torch.
        frames = places.stack(event.stack, [])
        at = places.innermost(frames)
        location = compilation.location if compilation is not None else None
        if at is not None and not places.is_torch(frames[at].file):
            location = sources.location(frames[at].file, frames[at].line, frames[at].name)
        if location is None:
            continue
        # What the compile failed for, because it was marked dynamic.
        failed = compilation is not None and compilation.status == "failed"
        violated = _VIOLATED.match(compilation.reason) if compilation is not None and failed else None
        refused = [readable(each) for each in violated["sources"].split(", ")] if violated is not None else []
        for source in dict.fromkeys(map(readable, event.sources)):
            if (size := known.get((source, location))) is None:
                named = _DIMENSION.fullmatch(source)
                dimension = int(named["dimension"]) if named else None
                size = ForcedSize(f"d{len(known) + 1}", location, source=source, dimension=dimension, process=process)
                known[source, location] = size
            found.by_compile[process, event.epoch, event.id, source] = size
            if event.value not in size.values and len(size.values) < _MOST_VALUES:
                size.values.append(event.value)
            if event.id not in size.compile_ids:
                size.compile_ids.append(event.id)
            size.refused = size.refused or source in refused
    found.facts = list(known.values())
    return found


def follow_locals(
    recompiles: list[Recompile], breaks: list[GraphBreak], compiled: list[Compilation], sources: Sources
) -> None:
    """Tell each recompile of code behind a break which one left it the value that changed, where the code before that
    computed the value: no caller hands it over.
    """
    resumed = {each.key for each in compiled if each.resumes}
    at = {each.location.at: each.location for each in breaks}
    for each in recompiles:
        root = _ROOT.match(each.source or "")
        left = at.get(each.location.at) if each.key in resumed and each.result_of is None else None
        if left is None or root is None or each.cause not in ("value", *_SHAPES):
            continue
        if _is_computed(root[0], each.location, sources):
            each.result_of = left


_ROOT = re.compile(r"[A-Za-z]\w*")


def _is_computed(name: str, place: Location, sources: Sources) -> bool:
    """Whether the function around a line writes this name, or does not take it as an argument."""
    functions = [
        each
        for part in sources.tree(place.file)
        for each in ast.walk(part)
        if isinstance(each, ast.FunctionDef) and each.lineno <= place.line <= (each.end_lineno or each.lineno)
    ]
    inside = [node for each in functions for node in ast.walk(each)]
    taken = {node.arg for node in inside if isinstance(node, ast.arg)}
    written = {node.id for node in inside if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return bool(functions) and (name in written or name not in taken)


_MOST_LINES = 500


def _compared(found: Recompile, sources: Sources) -> Location | None:
    """The line of the function that compares the size with one of its two values: that one gets code of its own."""
    named = _DIMENSION.fullmatch(found.source or "")
    if named is None or not (found.expected or "").isdecimal() or not (found.actual or "").isdecimal():
        return None
    size = rf"(?<![\w.]){re.escape(named['name'])}\.(?:shape\[{named['dimension']}\]|size\({named['dimension']}\))"
    asks = re.compile(rf"{size} *[=!]= *(?:{found.expected}|{found.actual})\b")
    file, first, outside = found.location.file, found.location.line, 0
    for number in range(first, first + _MOST_LINES):
        text = sources.line(file, number)
        if text is None:
            return None
        indent = len(text) - len(text.lstrip())
        if number == first:
            outside = indent
        elif indent <= outside and text.lstrip()[:1] not in ("", ")", "#"):
            return None
        if asks.search(text):
            return sources.location(file, number, found.location.function)
    return None


def connect(
    run: RunLog, recompiles: list[Recompile], sizes: ForcedSizes, sources: Sources, traced: Sequence[str] = ()
) -> None:
    """Tell each recompile which line fixed the size, asked about it, or read the value. `traced` are files whose lines
    torch may name.
    """
    # By compile: the line that torch made the failed guard for.
    asked: dict[tuple[int, int, str], Location] = {}
    for process, event in run.all():
        if not isinstance(event, RecompileSeen):
            continue
        reason = nearest(event)[0].partition("\n")[0]
        origins = [] if _OF_TORCH in reason else list(_ORIGIN.finditer(reason))
        files = (*(each.location.file for each in recompiles), *traced)
        file = next((file for file in files if file.endswith(origins[-1]["path"])), None) if origins else None
        if file is not None:
            line, function = int(origins[-1]["line"]), original_name(origins[-1]["function"])
            asked[process, event.epoch, event.id] = sources.location(file, line, function)
    # By function and value: once the compiler makes the constant, after tracing, torch names the call alone.
    read = {(each.location.at, each.source): asked[each.key] for each in reversed(recompiles) if each.key in asked}
    for recompile in recompiles:
        place = (recompile.process, recompile.epoch)
        # The version that did not fit has made a constant of it, or the new one does: a size that has changed is
        # dynamic until a line forces it.
        changed = [recompile.source or "", *(each.source or "" for each in recompile.also)]
        found = (
            sizes.by_compile.get((*place, version, source))
            for source in changed
            for version in (recompile.previous or "", recompile.compile_id)
        )
        size = next((each for each in found if each is not None), None)
        if size is not None:
            recompile.forced_by = size.location
            if size.location.at == recompile.location.at:
                recompile.forced_by = read.get((size.location.at, recompile.source), size.location)
            size.recompiles.append(recompile.id)
        elif recompile.cause == "shape":
            recompile.forced_by = _compared(recompile, sources)
        elif recompile.cause == "symbolic" or {recompile.expected, recompile.actual} == {MISSING, PRESENT}:
            recompile.forced_by = asked.get((*place, recompile.compile_id))
        else:
            recompile.read_at = asked.get((*place, recompile.compile_id))

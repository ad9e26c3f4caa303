"""Graph breaks: one entry for one break, from all the channels that tell of it, and torch's own text of each read.

torch reports a break once for every frame that inlined it, again for each recompile, and under the name of its
consequence (a loop, a context manager); refusals under fullgraph come as errors. An entry is keyed by the root
cause and the innermost place outside torch. Lines behind a break, which nobody traced, may break in their turn.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from dynalyze.capture.events import BreakSeen, CompileEnded, CompileStarted, ErrorSeen, Event, Frame
from dynalyze.capture.trace_records import LIMITS, RAISED_LIMIT, hit_limit
from dynalyze.events.log import ProcessLog, RunLog
from dynalyze.facts.registry import Registry, id_in, url
from dynalyze.facts.sources import Sources
from dynalyze.facts.stacks import Places, is_resume, original_name
from dynalyze.report import Compilation, Effect, GraphBreak, LeftInEager, Location

_CHAIN = re.compile(r"\*\*\* While handling this graph break, another graph break occurred: \*\*\*")
_CONTEXT = re.compile(r"^[ \t]*Developer debug context:[ \t]*", re.MULTILINE)
_EXPLANATION = re.compile(r"^[ \t]*Explanation:[ \t]*", re.MULTILINE)
_HINT = re.compile(r"^[ \t]*Hint:[ \t]*", re.MULTILINE)
_LINK_LINE = re.compile(r"^[ \t]*For more details about this graph break, please visit: (?P<url>\S+)\s*", re.MULTILINE)
_USER_CODE = re.compile(r"\n(?:from user code:|User code traceback:|Stack variable source attribution:)")
_TRACE_LINE = re.compile(r'^[ \t]*File "(?P<file>[^"\n]+)", line (?P<line>\d+), in (?P<name>.+)$', re.MULTILINE)
_HEADER = re.compile(r"^Graph break in user code at (?P<file>.+):(?P<line>\d+)[ \t]*$", re.MULTILINE)
# What torch says before the message itself: what it did about the break.
_PREFACE = re.compile(r"^(?:Encountered graph break|Failed to handle graph break gracefully)[^\n]*\n\n")
# What torch says before the cause of a break inside torch.cond and its like, which have to be captured whole.
_CAPTURED_WHOLE = re.compile(r"^[^\n]*captured completely with torch\.compile\. Got (?:graph break/error:)?\s*")
# The exception at the end of a traceback.
_RAISED = re.compile(
    r"^(?:torch\._dynamo\.)?exc\.(?:Unsupported|UserError|UncapturedHigherOrderOpError): ", re.MULTILINE
)


class Message(NamedTuple):
    """One graph break as torch words it. `consequence` is the gb_type of the outermost break it led to."""

    gb_type: str
    explanation: str = ""
    hints: tuple[str, ...] = ()
    context: str = ""
    url: str = ""
    consequence: str = ""


def parse_message(message: str) -> Message:
    """Parse the message of an Unsupported; the root cause comes first, breaks that followed from it after."""
    root, *others = map(_parse_one, _CHAIN.split(_CAPTURED_WHOLE.sub("", message.strip())))
    return root._replace(consequence=others[-1].gb_type) if others else root


def message_in(payload: str) -> str:
    """The message inside the payload of a break event, for where the live exception was out of reach."""
    _, found, reason = payload.partition("Graph Break Reason: ")
    if not found:
        raised = _RAISED.search(payload)
        reason = payload[raised.end() :] if raised else payload
    body = _USER_CODE.split(reason)[0]
    lead = _PREFACE.match(body)
    return body[lead.end() :] if lead else body


def frames_in(payload: str) -> list[tuple[str, int, str]]:
    """File, line and function of each frame of the user-code traceback in a payload, outermost first."""
    body = _USER_CODE.split(payload)
    text = body[-1] if len(body) > 1 else payload
    frames = [(m["file"], int(m["line"]), m["name"].strip()) for m in _TRACE_LINE.finditer(text)]
    if frames:
        return frames
    header = _HEADER.search(payload)
    return [(header["file"], int(header["line"]), "")] if header else []


def effect_in(payload: str) -> Effect | None:
    """What torch says it did about a break; None where this version of torch does not say."""
    unresumed = "Failed to handle graph break gracefully" in payload or "cannot properly resume" in payload
    if unresumed or payload.startswith("Graph break: skip"):
        return "eager"
    if "that we cannot resume from" in payload or "skipping the rest of the function" in payload:
        return "partly_eager"
    if "when attempting to trace" in payload or "Data-dependent branching" in payload:
        return "split"
    return None


def _parse_one(text: str) -> Message:
    text = _USER_CODE.split(text)[0]
    link = _LINK_LINE.search(text)
    head, *context = _CONTEXT.split(_LINK_LINE.sub("", text), maxsplit=1)
    head, *hints = _HINT.split(head)
    gb_type, *explanation = _EXPLANATION.split(head, maxsplit=1)
    first = next(iter(gb_type.strip().splitlines()), "")
    # Without the indentation of torch's message; its line breaks stay.
    words, *flat = ("\n".join(map(str.strip, each.strip().splitlines())) for each in ("".join(explanation), *hints))
    return Message(first, words, tuple(flat), "".join(context).strip(), link["url"] if link else "")


_BADNESS: dict[Effect, int] = {"split": 0, "partly_eager": 1, "eager": 2, "error": 3}
# Breaks inside torch.cond and its like: torch lets them reach the program even where breaks are allowed.
_UNCAPTURED = "UncapturedHigherOrderOpError"
_REFUSALS = {"Unsupported", "UserError", _UNCAPTURED, RAISED_LIMIT}


@dataclass
class _Sighting:
    """One raw event that tells of a break."""

    process: int
    epoch: int
    compile_id: str
    effect: Effect
    message: Message
    gb_id: str | None
    stack: list[Frame]
    at: int
    holder: int
    raised: bool = False
    """By an exception of the code that was traced: torch leaves the function in eager, and calls that no break."""

    @property
    def place(self) -> Frame:
        return self.stack[self.at]

    @property
    def holds(self) -> bool:
        """Whether the break is in the very frame that was being compiled."""
        return self.at <= self.holder


def _is_same(one: _Sighting, other: _Sighting) -> bool:
    """Whether two tell of one break; columns count where both know them."""
    a, b = one.place, other.place
    if (a.file, a.line, one.message.gb_type) != (b.file, b.line, other.message.gb_type):
        return False
    return a.column is None or b.column is None or (a.column, a.end_column) == (b.column, b.end_column)


def graph_breaks(
    run: RunLog, places: Places, sources: Sources, registry: Registry, compiled: Sequence[Compilation] = ()
) -> list[GraphBreak]:
    """Every distinct graph break of a run, in the order in which they first happened; `compiled` get their ids."""
    near: dict[tuple[str, int, str], list[list[_Sighting]]] = {}
    groups: list[list[_Sighting]] = []
    by_key = {c.key: c for c in compiled}
    for log in run.processes:
        for sighting in _sightings(log, places, sources, registry):
            if sighting.raised:
                if own := by_key.get((sighting.process, sighting.epoch, sighting.compile_id)):
                    own.raised = sources.at(sighting.place)
                continue
            key = (sighting.place.file, sighting.place.line, sighting.message.gb_type)
            known = near.setdefault(key, [])
            group = next((group for group in known if _is_same(group[0], sighting)), None)
            if group is None:
                known.append(group := [])
                groups.append(group)
            group.append(sighting)
    for number, group in enumerate(groups, 1):
        for compile_key in dict.fromkeys((s.process, s.epoch, s.compile_id) for s in group):
            if compile_key in by_key:
                by_key[compile_key].breaks.append(f"b{number}")
    return [_entry(f"b{number}", group, sources) for number, group in enumerate(groups, 1)]


def add_compile_seconds(breaks: list[GraphBreak], compiled: list[Compilation]) -> None:
    """What compiling took because of each break: the rests of the functions that it cut, once each, and the attempts
    that it ended without code. A rest that is compiled again is a recompile's.
    """
    spent: dict[str, float] = {}
    ends = {(place.file, place.line, _plain(place)): found.id for found in breaks for place in found.stack}
    for each in compiled:
        seconds = each.whole_seconds
        if seconds is None or not each.compile_id.endswith("/0"):
            continue
        place = each.location
        cause = ends.get((place.file, place.line, _plain(place))) if each.resumes else None
        if cause is None and each.breaks and each.status == "eager":
            cause = each.breaks[-1]
        if cause is not None:
            spent[cause] = spent.get(cause, 0.0) + seconds
    for found in breaks:
        found.compile_seconds = round(spent[found.id], 6) if found.id in spent else None


def _plain(place: Location) -> str:
    return place.function.rpartition(".")[2]


def _sightings(log: ProcessLog, places: Places, sources: Sources, registry: Registry) -> Iterator[_Sighting]:
    started: dict[tuple[int, str], CompileStarted] = {}
    ended = {e.key: e.metrics for e in log.events if isinstance(e, CompileEnded) and not e.backward}
    broken = {e.key for e in log.events if isinstance(e, BreakSeen)}
    for event in _with_raised_limits(log):
        if isinstance(event, CompileStarted):
            started[event.key] = event
        if not isinstance(event, BreakSeen | ErrorSeen):
            continue
        key = event.key
        metrics = ended.get(key, {})
        message, gb_id = _cause(event, metrics, registry)
        if isinstance(event, ErrorSeen):
            effect = _effect_of_error(event, gb_id, metrics, broken=key in broken)
        else:
            effect = _effect_of_break(event, metrics.get("has_guarded_code"))
        # At the recompile limit torch goes on in eager.
        if effect is None or (effect != "error" and message.gb_type.startswith(LIMITS)):
            continue
        raised = effect != "error" and message.gb_type.startswith("Observed exception")
        # At the recompile limit a compile does not begin: the function's first one knows where it stands.
        compiled = started.get(key) or started.get((event.epoch, f"{_function(event.id)}/0"))
        failed = _frames_of_operation(message)
        frames, holder = _stack(event, compiled, places, sources, failed)
        at = places.innermost(frames)
        if at is not None:
            if isinstance(event, BreakSeen) and event.untraced and not failed:
                frames[at] = _at_definition(frames[at], sources)
            yield _Sighting(log.process, event.epoch, event.id, effect, message, gb_id, frames, at, holder, raised)


def _function(compile_id: str) -> str:
    """What all compiles of one function share of their ids."""
    return compile_id.rpartition("/")[0]


def _cause(event: BreakSeen | ErrorSeen, metrics: Mapping[str, Any], registry: Registry) -> tuple[Message, str | None]:
    text = event.message
    if not text and isinstance(event, ErrorSeen):  # Its own text is a traceback through the compiler.
        text = str(metrics.get("fail_reason") or "")
    text = text or message_in(event.text)
    message = parse_message(text)
    if not message.gb_type and event.type:
        message = Message(event.type)
    return message, registry.id_of(message.gb_type) or id_in(message.url)


def _effect_of_error(event: ErrorSeen, gb_id: str | None, metrics: Mapping[str, Any], *, broken: bool) -> Effect | None:
    """What a compile that ended in an exception tells of a break; None where it tells of none."""
    kind = event.exception or str(metrics.get("fail_type") or "")
    known = gb_id is not None or kind in _REFUSALS
    # Without the live exception: a break that did not refuse the compile was logged as one.
    logged = event.logged or (not event.exception and broken)
    refused = kind in _REFUSALS if event.refused is None else event.refused
    if not logged and known and (refused or kind == _UNCAPTURED):
        return "error"
    return "eager" if not logged and kind in _REFUSALS else None


def _effect_of_break(event: BreakSeen, guarded: object) -> Effect:
    """What the break did to the compiled frame: split, partly eager, eager, or an error."""
    if event.untraced:
        return "error" if event.refused else "eager"
    effect = effect_in(event.text) or "split"
    return "eager" if effect == "split" and guarded is False else effect


def _with_raised_limits(log: ProcessLog) -> Iterator[Event]:
    """The events, with an error for each recompile limit that raised where no live exception told of it.

    torch says so by the exception's name under fullgraph. Elsewhere it shows when the function is offered to the
    compiler again: one that was left in eager never is.
    """
    raised = {e.key for e in log.events if isinstance(e, ErrorSeen)}
    limits = [e for e in log.events if isinstance(e, CompileEnded) and hit_limit(e.metrics)]
    last = {(e.epoch, _function(e.id)): e.id for e in limits}
    for event in log.events:
        yield event
        if isinstance(event, CompileEnded) and event.key not in raised and hit_limit(event.metrics):
            again = last[event.epoch, _function(event.id)] != event.id
            named = event.metrics.get("fail_type") == RAISED_LIMIT
            if named or again:
                yield ErrorSeen(id=event.id, epoch=event.epoch, message=LIMITS[0] if named else "", refused=True)


def _frames_of_operation(message: Message) -> list[Frame]:
    """The lines of the program, outermost first, of the operation at which a backend failed; none of another break."""
    _, found, trace = message.context.partition("Original traceback:")
    lines = _TRACE_LINE.finditer(trace.partition("\n\n")[0]) if found else ()
    return [Frame(each["file"], int(each["line"]), each["name"].strip()) for each in lines]


def _stack(
    event: BreakSeen | ErrorSeen,
    compiled: CompileStarted | None,
    places: Places,
    sources: Sources,
    failed: list[Frame],
) -> tuple[list[Frame], int]:
    """The user's stack, and the index in it of the frame that was being compiled; `failed` are the lines of the
    operation at which the backend failed.
    """
    code = compiled.code if compiled is not None else None
    resumed = code is not None and is_resume(code.name)
    above, inside = event.above, event.inside or failed
    if not above and not inside:
        traced = [Frame(file, line, name) for file, line, name in frames_in(event.text)]
        if code is not None and not any(_same_code(frame, code) for frame in traced):
            traced.append(_at_definition(code, sources))  # Torch names the caller alone.
        frames = places.stack([], traced)
        if code is None:
            return frames, len(frames) - 1
        return frames, max((i for i, frame in enumerate(frames) if _same_code(frame, code)), default=0)
    if not inside and code is not None:
        inside = [_at_definition(code, sources)]  # The break came before the first instruction, or after the last.
    if not above and compiled is not None:
        above = compiled.stack
    frames = places.stack(above, inside, resumed=resumed)
    own = places.stack([], inside)
    return frames, len(frames) - len(own)


def _at_definition(frame: Frame, sources: Sources) -> Frame:
    """A function that was refused as a whole is shown at its `def`."""
    return Frame(frame.file, sources.definition(frame.file, frame.line), frame.name)


def _same_code(frame: Frame, code: Frame) -> bool:
    return frame.file == code.file and original_name(frame.name) == original_name(code.name)


def _entry(number: str, group: list[_Sighting], sources: Sources) -> GraphBreak:
    first = group[0]
    shown = max(group, key=lambda s: len(s.stack) if s.process == first.process else 0)
    # What counts is the frame that holds the line; a refusal ends every frame it passes.
    telling = [s for s in group if s.holds or s.effect == "error"] or group
    effect = max((s.effect for s in telling), key=_BADNESS.__getitem__)
    message = first.message
    callers = {(f.file, f.line): f for s in group for f in s.stack[: s.at][-1:]}
    place = next((s.place for s in group if s.place.column is not None), first.place)
    location = sources.at(place)
    gb_id = next((s.gb_id for s in group if s.gb_id), None)
    same_run = [s for s in group if (s.process, s.epoch) == (first.process, first.epoch)]
    return GraphBreak(
        id=number,
        gb_id=gb_id,
        gb_type=message.gb_type,
        effect=effect,
        location=location,
        stack=[sources.at(frame) for frame in shown.stack],
        explanation=message.explanation,
        hints=list(message.hints),
        url=message.url or (url(gb_id) if gb_id else ""),
        occurrences=len(group),
        compile_ids=list(dict.fromkeys(s.compile_id for s in same_run if s.compile_id)),
        process=first.process,
        epoch=first.epoch,
        context=message.context,
        consequence=next((s.message.consequence for s in group if s.message.consequence), ""),
        # The distinct lines that called the function in which it broke.
        callers=[sources.at(frame) for frame in callers.values()],
        snippet=sources.snippet(location),
        expression=sources.expression(location),
        block=sources.block(location),
        processes=sorted({s.process for s in group}),
        left_in_eager=_left_in_eager(group, sources),
    )


# In what torch cannot go on after a break: parts of its words for what the break led to.
_AROUND: tuple[tuple[str, Literal["loop", "with", "try"]], ...] = (
    ("loop", "loop"),
    ("context", "with"),
    ("try", "try"),
)


def _left_in_eager(group: list[_Sighting], sources: Sources) -> list[LeftInEager]:
    """The functions that torch gave up: that of the break, and those that were being compiled and call it."""
    found: dict[tuple[str, str], LeftInEager] = {}
    for each in group:
        if each.effect != "eager":
            continue
        frame = each.place if each.holds else each.stack[each.holder]
        words = each.message.consequence.lower()
        around: Literal["loop", "with", "try", ""] = next((kind for part, kind in _AROUND if part in words), "")
        behind = [sources.at(Frame(frame.file, line, frame.name)) for line in looks(sources, frame)]
        left = LeftInEager(sources.at(frame), around, each.compile_id, behind)
        found.setdefault((frame.file, frame.name), left)
    return list(found.values())


_READS = ("item", "tolist", "numpy", "nonzero", "any", "all")
"""Methods of tensors that read values: the last two break where they decide."""
_DECIDES = ("any", "all")


def looks(sources: Sources, frame: Frame) -> list[int]:
    """The lines of a function, after the one that a frame is at, that read values of tensors, decide by them, or print.

    A method is taken for a tensor's by its name, so that they are likely to break, not certain.
    """
    found = dict[int, None]()
    for statement in sources.after(frame.file, frame.line):
        for node in ast.walk(statement):
            if isinstance(node, ast.If | ast.While | ast.IfExp):
                decided = [each for each in ast.walk(node.test) if _method(each) in _DECIDES]
                found.update((each.lineno, None) for each in decided if isinstance(each, ast.expr))
            reads = _method(node) in _READS and _method(node) not in _DECIDES
            prints = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
            if isinstance(node, ast.expr) and (reads or prints):
                found[node.lineno] = None
    return sorted(found)


def _method(node: ast.AST) -> str:
    """`any` for `x.any()`, `torch.isnan(x).any()`."""
    return node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""

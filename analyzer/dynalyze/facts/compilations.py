"""Each attempt of Dynamo to compile a frame: where, how it ended, what it raised, and how long each phase took."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from dynalyze.capture.events import (
    BreakSeen,
    CompileEnded,
    CompileStarted,
    ErrorSeen,
    Frame,
    MadeInEager,
)
from dynalyze.events.log import ProcessLog, RunLog
from dynalyze.facts.breaks import parse_message
from dynalyze.facts.caches import add_bypasses
from dynalyze.facts.sources import Sources
from dynalyze.facts.stacks import Places, is_resume, original_name
from dynalyze.report import (
    OWN_PHASES,
    PHASES,
    BackwardCompile,
    Compilation,
    CompilationStatus,
    CompileFailure,
    CompileMemory,
)

# Two readings of one clock are never further apart than this; a log's own clock may be in another time zone.
_SAME_CLOCK = 600.0
# Steps of a compile are together no longer than it is, but for the roundings of two clocks.
_MOST_OVER = 0.01


def exclusive(inclusive: dict[str, float]) -> dict[str, float]:
    """What each phase took without the phase inside it; together they are as long as the outermost one.

    What `total` has of its own is called `other`. A phase that claims to be longer than the one that holds it is
    cut to that one's length.
    """
    known = [(name, max(0.0, inclusive[name])) for name in PHASES if name in inclusive]
    own: dict[str, float] = {}
    bound = float("inf")
    for at, (name, seconds) in enumerate(known):
        bound = min(bound, seconds)
        inner = min(bound, known[at + 1][1]) if at + 1 < len(known) else 0.0
        own["other" if name == "total" else name] = round(bound - inner, 6)
    return own


def _own(end: CompileEnded | None, inclusive: dict[str, float]) -> dict[str, float]:
    """What each phase took itself, by the steps that torch told of; where it told of none, or of more than the whole,
    from its sums. `other` is what no step accounts for.
    """
    whole = inclusive.get("total")
    steps = {name: end.own[name] for name in OWN_PHASES if name in end.own} if end is not None else {}
    other = (whole or 0.0) - sum(steps.values())
    if whole is None or not steps or other < -_MOST_OVER * whole:
        return exclusive(inclusive)
    return {**steps, "other": round(max(0.0, other), 5)}  # Below are roundings of the others.


def _memory(end: CompileEnded | None) -> CompileMemory | None:
    found = end.memory if end is not None else None
    return None if found is None else CompileMemory(found.added, found.kept, found.others)


def _began(start: float | None, event_at: float, metrics: Mapping[str, Any]) -> float | None:
    """When a compile began, from torch's own reading where it has one, else from that of its event."""
    micro = metrics.get("start_time_us")
    measured = micro / 1e6 if isinstance(micro, int | float) and micro > 0 else None
    if measured and event_at > 0 and abs(measured - event_at) > _SAME_CLOCK:
        measured = None
    moment = measured or event_at
    return round(max(0.0, moment - start), 6) if moment > 0 and start is not None else None


# Inclusive phase times: name in the report, column of torch in microseconds, older column in seconds.
_PHASES = (
    ("total", "duration_us", "entire_frame_compile_time_s"),
    ("dynamo", "dynamo_cumulative_compile_time_us", "entire_frame_compile_time_s"),
    ("aot_autograd", "aot_autograd_cumulative_compile_time_us", "backend_compile_time_s"),
    ("inductor", "inductor_cumulative_compile_time_us", "inductor_compile_time_s"),
    ("code_generation", "inductor_code_gen_cumulative_compile_time_us", "code_gen_time_s"),
)
_CACHES = ("inductor_fx_local_cache", "inductor_fx_remote_cache", "aotautograd_local_cache", "aotautograd_remote_cache")

# Exceptions after which torch runs the frame in eager, unless fullgraph forbids it.
_GIVEN_UP = ("Unsupported", "UserError")
# Reasons in our own words.
CUT_OFF = "the process ended while this was compiling"
NOTHING_TRACED = "nothing to compile: no tensor operation was traced"


def compilations(run: RunLog, places: Places, sources: Sources) -> list[Compilation]:
    """All compilations of a run, in the order in which they began."""
    # Times count from the start of the first process, else from when the first compile began.
    starts = [log.started.at for log in run.processes if log.started.at > 0]
    begun = (event.at for _, event in run.all() if isinstance(event, CompileStarted) and event.at > 0)
    start = min(starts or begun, default=None)
    found = [each for log in run.processes for each in _of_process(log, start, places, sources)]
    add_bypasses(run, found, sources)
    return found


def _of_process(log: ProcessLog, zero: float | None, places: Places, sources: Sources) -> Iterator[Compilation]:
    ended: dict[tuple[int, str], list[CompileEnded]] = {}
    # What each module that was compiled is called, by its token; "" where it has the code for itself.
    names: dict[int, str] = {}
    for event in log.events:
        if isinstance(event, CompileEnded):
            ended.setdefault(event.key, []).append(event)
        elif isinstance(event, CompileStarted) and event.module:
            names.setdefault(event.module, "")
            names.update(_told_apart(event.names))
    instances = {module: number for number, module in enumerate(names, 1)}
    broken = {event.key for event in log.events if isinstance(event, BreakSeen)}
    errors = {event.key: event for event in log.events if isinstance(event, ErrorSeen)}
    in_eager = made_in_eager(log)
    for event in log.events:
        if isinstance(event, CompileStarted):
            key = event.key
            ends = ended.get(key, [])
            found = _compilation(log.process, event, ends, key in broken, errors.get(key), places, sources)
            _add_times(found, event, ends, zero)
            if found.status == "failed" and (error := errors.get(key)) is not None:
                found.failure = failure_of(error, in_eager.get(key), places, sources)
            found.module, found.instance = names.get(event.module, ""), instances.get(event.module)
            yield found


def _told_apart(names: dict[int, list[str]]) -> dict[int, str]:
    """One name for each of these modules, of one kind: their variables, or paths below another module.

    The variable of a loop stands for one after the other, so it is no name where another one has none.
    """
    shared = Counter(name for each in names.values() for name in each)
    own = {module: [name for name in each if shared[name] == 1] for module, each in names.items()}
    for is_variable in (True, False):
        kind = {module: [name for name in each if name.isidentifier() == is_variable] for module, each in own.items()}
        if all(kind.values()):
            return {module: each[0] for module, each in kind.items()}
    return {module: each[0] if each else "" for module, each in own.items()}


def _compilation(
    process: int,
    start: CompileStarted,
    ends: list[CompileEnded],
    broken: bool,
    error: ErrorSeen | None,
    places: Places,
    sources: Sources,
) -> Compilation:
    forward = next((end.metrics for end in ends if not end.backward), None)
    code = start.code or Frame()
    status, reason = _status(forward, broken, error)
    metrics: list[Mapping[str, Any]] = [end.metrics for end in ends]
    caches = [f"{name}_{result}" for name in _CACHES for result in ("hit", "miss")]
    counts = {key: sum(each.get(f"{key}_count", 0) for each in metrics) for key in caches}
    # The line of the program that called the compiled frame.
    frames = places.stack(start.stack, [])
    at = places.innermost(frames)
    caller = sources.whole(frames[at].file, frames[at].line, frames[at].name) if at is not None else None
    file, line, name = code.file, sources.definition(code.file, code.line), original_name(code.name)
    if caller is not None and places.is_compiler(code.file):
        # torch.compile puts such a wrapper around a module whose forward is torch's code, nn.Sequential say.
        file, line, name = caller.file, caller.line, "forward" if start.owner else name
    location = sources.whole(file, line, f"{start.owner}.{name}" if start.owner else name)
    return Compilation(
        compile_id=start.id,
        process=process,
        epoch=start.epoch,
        location=location,
        status=status,
        cache={key: count for key, count in counts.items() if count},
        function=location.function,
        ops=_number(forward, "graph_op_count"),
        guards=_number(forward, "guard_count"),
        resumes=is_resume(code.name),
        caller=caller,
        reason=reason,
    )


def _status(forward: Mapping[str, Any] | None, broken: bool, error: ErrorSeen | None) -> tuple[CompilationStatus, str]:
    if forward is None:
        return "failed", CUT_OFF
    if forward.get("has_guarded_code"):
        return ("broken" if broken else "compiled"), ""
    kind = str((error.exception if error else "") or forward.get("fail_type") or "")
    if error is None and not kind:
        return "eager", NOTHING_TRACED
    message = (error.message if error else "") or str(forward.get("fail_reason") or "")
    logged = broken or (error is not None and (error.logged or error.refused is False))
    soft = logged and kind in _GIVEN_UP
    return ("eager" if soft else "failed"), parse_message(message).gb_type or kind


def _add_times(compilation: Compilation, start: CompileStarted, ends: list[CompileEnded], zero: float | None) -> None:
    """The forward compile's own times; those of the backward ones as spans, and their sum under their own name."""
    first = next((end for end in ends if not end.backward), None)
    forward: Mapping[str, Any] = first.metrics if first is not None else {}
    compilation.began = _began(zero, start.at, forward)
    compilation.seconds = _phases(forward)
    compilation.exclusive = _own(first, compilation.seconds)
    compilation.memory = _memory(first)
    for end in ends:
        if end.backward:
            # It has no event for its start: the one for its end is enough.
            seconds = _phases(end.metrics)
            began = _began(zero, max(0.0, end.at - seconds.get("total", 0.0)), end.metrics)
            compilation.backward.append(BackwardCompile(began, seconds, _own(end, seconds), _memory(end)))
    times = [span.seconds["total"] for span in compilation.backward if "total" in span.seconds]
    if times:
        compilation.seconds["backward"] = round(sum(times), 6)


def _phases(metrics: Mapping[str, Any]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, micro, older in _PHASES:
        if isinstance(value := metrics.get(micro), int | float):
            found[name] = round(value / 1e6, 6)
        elif isinstance(value := metrics.get(older), int | float):
            found[name] = float(value)
    return found


def _number(metrics: Mapping[str, Any] | None, name: str) -> int | None:
    value = (metrics or {}).get(name)
    return int(value) if isinstance(value, int | float) else None


# Of an operation that failed on tensors without values: `call_method view(*(...), **{}): got ValueError('...')`.
_GOT = re.compile(r"""\bgot (?P<kind>\w+)\((?P<quote>['"])(?P<said>.*)(?P=quote),?\)\s*$""", re.DOTALL)
_BACKEND = re.compile(r"backend='(?P<name>[^']*)' raised:\s*\n(?P<said>.+)")
# How torch.fx ends the error of an operation of a graph: its node, and the lines of the program that made it.
_WHILE = re.compile(r"^While executing %(?P<node>\w+).*?^Original traceback:\n(?P<lines>.+)", re.MULTILINE | re.DOTALL)
_LINE = re.compile(r'^  File "(?P<file>[^"\n]+)", line (?P<line>\d+), in (?P<name>.+)$', re.MULTILINE)
_NO_HINT = "Your code may result in an error when running in eager."
_LONGEST = 500


def made_in_eager(log: ProcessLog) -> dict[tuple[int, str], MadeInEager]:
    """How the calls ended in eager whose compiles had failed, by the compile that failed before each."""
    found: dict[tuple[int, str], MadeInEager] = {}
    last: ErrorSeen | None = None
    for event in log.events:
        if isinstance(event, ErrorSeen):
            last = event
        elif isinstance(event, MadeInEager) and last is not None:
            found[last.key] = event
    return found


def failure_of(error: ErrorSeen, again: MadeInEager | None, places: Places, sources: Sources) -> CompileFailure:
    """The facts of one error; without the live exception there is less."""
    executing = _WHILE.search(error.message)
    traced = _LINE.finditer(executing["lines"]) if executing is not None and not error.inside else ()
    inside = error.inside or [Frame(each["file"], int(each["line"]), each["name"]) for each in traced]
    frames = places.stack([], inside)
    own = [frame for frame in frames if places.origin(frame.file) == "user"]
    at = places.innermost(frames)
    innermost = own[-1] if own else frames[at] if at is not None else None
    backend = _BACKEND.search(error.message)
    message = parse_message(error.message)
    got = _GOT.search(message.explanation)
    if got is not None:
        quoted = got["said"].replace("\\n", " ").replace("\\'", "'")
        said = f"{got['kind']}: {quoted}"
    else:
        said = backend["said"] if backend is not None else message.explanation or message.gb_type
    return CompileFailure(
        exception=error.exception,
        message=" ".join(said.split())[:_LONGEST],
        hints=[hint for hint in message.hints if not hint.startswith(_NO_HINT)],
        location=sources.at(innermost) if innermost is not None else None,
        stack=[sources.at(frame) for frame in own],
        backend=backend["name"] if backend is not None else "",
        operation=executing["node"] if executing is not None else "",
        eager=again.error if again is not None else None,
    )

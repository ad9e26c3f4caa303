"""Assembles the report of a run from what the child wrote and from how it ended."""

from __future__ import annotations

import datetime
import signal
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import dynalyze
from dynalyze.capture import events
from dynalyze.events.log import RunLog
from dynalyze.facts.attention_calls import attention
from dynalyze.facts.breaks import add_compile_seconds, graph_breaks
from dynalyze.facts.caches import caches
from dynalyze.facts.candidates import candidates, compiled_in_place, regions
from dynalyze.facts.compilations import compilations
from dynalyze.facts.graphs import graphs, texts_of
from dynalyze.facts.modules import late_hooks, modules, settings, uncompiled_methods
from dynalyze.facts.recompiles import connect, follow_locals, forced_sizes, recompiles
from dynalyze.facts.registry import Registry, registry
from dynalyze.facts.source_files import LineOps, hash_of_set, source_files, traced_files
from dynalyze.facts.sources import Sources
from dynalyze.facts.stacks import Places, original_name
from dynalyze.facts.why_not_compiled import (
    doing,
    failed_stage,
    reason_for_candidates,
    reason_for_model,
    reason_for_silence,
    skipped_frames,
    target_model,
    why_never_compiled,
)
from dynalyze.report import (
    Candidate,
    Capture,
    CompileFailure,
    Location,
    Outcome,
    OutsideEffect,
    Process,
    Report,
    Target,
    TargetKind,
)
from dynalyze.text.amounts import listed

EndReason = Literal["ended", "timed_out", "interrupted", "stopped_early"]
_MOST_ERRORS = 20
_MOST_NAMED = 4


@dataclass(frozen=True)
class Ended:
    """How the parent saw the child end.

    `exit_status` is its own, as subprocess has it (minus a signal's number); None where we killed it. `seconds` is the
    life of its main process. `said` is how a signal to us interrupted it.
    """

    reason: EndReason
    exit_status: int | None
    seconds: float
    said: str = ""


def misuse(run: RunLog) -> str | None:
    """The user's mistake that only the child could see."""
    return next((event.message for _, event in run.all() if isinstance(event, events.Misused)), None)


def build_report(run: RunLog, ended: Ended, target: Target, command: list[str]) -> Report:
    """All facts of a run; findings are left to the rules."""
    torch = run.last(events.TorchLoaded)
    folder = torch.folder if torch else ""
    report = assemble(run, target, command, Places(folder), Sources(run), registry(folder))
    attempted = bool(report.compilations or report.graph_breaks)
    report.target.model = target_model(run)
    report.outcome = _outcome(run, ended, report, attempted=attempted)
    return report


def assemble(
    run: RunLog, target: Target, command: list[str], places: Places, sources: Sources, known: Registry,
    *, readable: bool = True,
) -> Report:  # fmt: skip
    """What events tell, wherever they come from. With `readable=False` no traced file is opened for its hash."""
    compiled = compilations(run, places, sources)
    files = traced_files(run, places, readable=readable)
    breaks = graph_breaks(run, places, sources, known, compiled)
    add_compile_seconds(breaks, compiled)
    again = recompiles(run, compiled, breaks)
    sizes = forced_sizes(run, compiled, places, sources)
    connect(run, again, sizes, sources, [each.path for each in files])
    follow_locals(again, breaks, compiled, sources)
    texts = texts_of(run)
    lines: LineOps = {}
    down, kernels = graphs(run, compiled, sources, places, texts, lines)
    skipped = skipped_frames(run, places, sources)
    called = candidates(run, compiled, sources)
    capture = _capture(run, called, target.kind)
    report = Report(
        dynalyze=dynalyze.__version__,
        created=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        command=command,
        environment=_environment(run, run.last(events.TorchLoaded)),
        target=target,
        outcome=Outcome("complete"),
        processes=[
            Process(log.process, log.started.pid, log.started.rank, log.started.command) for log in run.processes
        ],
        compilations=compiled,
        graph_breaks=breaks,
        recompiles=again,
        forced_sizes=sizes.facts,
        skipped_frames=skipped,
        late_hooks=late_hooks(run, compiled, sources),
        uncompiled_methods=uncompiled_methods(run, sources),
        candidates=called,
        regions=regions(run, breaks, sources),
        graphs=down,
        kernels=kernels,
        traced_files=files,
        traced_hash=hash_of_set(files),
        capture=capture,
        settings=settings(run),
        modules=modules(run),
        attention=attention(run.read_text, texts, down, compiled, places),
        caches=caches(run, compiled),
    )
    report.sources = source_files(report, lines, sources, places)
    for file, kept in sources.changed.items():  # Those that are no longer what was compiled.
        shown = "its lines are shown as they were compiled" if kept else "its lines are not shown"
        capture.notes.append(f"{Path(file).name} changed while the program ran: {shown}.")
    return report


def _outcome(run: RunLog, ended: Ended, report: Report, *, attempted: bool) -> Outcome:
    target: events.Ending | None = run.last(events.TargetEnded) or run.last(events.ProgramEnded)
    own = target.exit_status if target is not None else ended.exit_status
    seconds, asked = round(ended.seconds, 3), report.target
    if ended.reason == "timed_out":
        message = f"Ended after {ended.seconds:.0f} s, the limit of --timeout{_before_compiling(run, asked, ',')}."
        return Outcome("timed_out", message, None, seconds)
    if ended.reason == "interrupted":
        return Outcome("interrupted", ended.said or "Interrupted from the keyboard.", None, seconds)
    if (stage := failed_stage(run)) is not None:
        return Outcome("failed", why_never_compiled(_name(asked), stage), own, seconds, stage)
    early = ended.reason == "stopped_early" or (target is not None and target.stopped)
    # The process died after, or instead of, ending by itself.
    status = ended.exit_status
    crashed = status is not None and (status < 0 or (target is None and status != 0))
    if not early and (own != 0 or crashed):
        if crashed or target is None:
            return Outcome("failed", _crash(run, status or 0, asked), status, seconds)
        while_compiling = next((each.failure for each in reversed(report.compilations) if each.failure), None)
        if while_compiling is not None and target.exception == while_compiling.exception:
            target = _in_program(target, while_compiling)
        raised_at = Location(target.file, target.line) if target.file else None
        return Outcome("failed", _failure(target, asked), own, seconds, raised_at=raised_at)
    if report.capture.listener_errors:
        return Outcome("incomplete", f"Not recorded: {report.capture.listener_errors[0]}.", own, seconds)
    if not attempted:
        return Outcome("nothing_compiled", _why_nothing(run, report), own, seconds)
    message = "Stopped early: nothing new had compiled for a while." if early else ""
    if not early and report.capture.mode == "examples":
        message = "The program only defines things: its model was compiled and called with its example_inputs."
    return Outcome("complete", message, own, seconds)


def _in_program(target: events.Ending, failure: CompileFailure) -> events.Ending:
    """The end of a program that a compile ended: by the line that was being compiled, not by that of the compiler."""
    message = f"{target.exception}: {failure.eager or failure.message}"
    if failure.location is None:
        return replace(target, message=message)
    return replace(target, message=message, file=failure.location.file, line=failure.location.line)


def _failure(target: events.Ending, asked: Target) -> str:
    if not target.exception:
        return f"The program ended with exit status {target.exit_status}."
    place = f" at {target.file}:{target.line}" if target.file else ""
    if asked.model is not None:
        ran = " runs in eager, but" if asked.model.warm else ", compiled without a call in eager before,"
        return f"{asked.model.class_name}{ran} raised {target.message or target.exception}{place} when compiled"
    said = target.message or target.exception
    return f"The program raised {said.rstrip('.') if place else said}{place}"


def _crash(run: RunLog, status: int, asked: Target) -> str:
    how = f"The program left by os._exit with status {status}"
    if status < 0:
        known = -status in set(signal.Signals)
        how = f"The program was killed by {signal.Signals(-status).name if known else -status}"
    # The functions whose compile had begun and not ended, in the main process.
    pending: dict[tuple[int, str], str] = {}
    for event in run.processes[0].events if run.processes else []:
        if isinstance(event, events.CompileStarted) and event.code:
            pending[event.key] = original_name(event.code.name)
        elif isinstance(event, events.CompileEnded):
            pending.pop(event.key, None)
    last = next(reversed(pending.values()), "")
    return how + (f" while {last} was compiling." if last else f"{_before_compiling(run, asked)}.")


def _before_compiling(run: RunLog, asked: Target, comma: str = "") -> str:
    """What a model of a library was at, where it was not compiled yet."""
    clause = doing(run, _name(asked)) if asked.kind in ("transformers", "library") else ""
    return f"{comma} {clause}" if clause else ""


def _name(target: Target) -> str:
    """The class of a model of a library, or what the user called it."""
    return target.model.class_name if target.model is not None else target.spec.partition(":")[2]


def _why_nothing(run: RunLog, report: Report) -> str:
    nothing, skipped = run.last(events.NothingCompiled), report.skipped_frames
    if report.target.model is not None:
        return reason_for_model(report.target.model.class_name, nothing, skipped)
    if report.candidates and nothing is None:
        return reason_for_candidates(report.candidates)
    ended = run.last(events.TargetEnded) is not None
    defined, torch, methods = run.last(events.Definitions), run.last(events.TorchLoaded), report.uncompiled_methods
    return reason_for_silence(nothing, defined, torch, skipped, methods, ended=ended)


def _capture(run: RunLog, called: list[Candidate], kind: TargetKind) -> Capture:
    started, built = run.last(events.ObjectStarted), run.last(events.ModelBuilt)
    capture = Capture(events=run.count, unreadable_lines=run.unreadable)
    capture.listener_errors = [e.message for _, e in run.all() if isinstance(e, events.Lost)][:_MOST_ERRORS]
    capture.outside_effects = [
        OutsideEffect(e.what, e.target, Location(e.file, e.line, function=e.function) if e.file else None)
        for _, e in run.all()
        if isinstance(e, events.OutsideEffectSeen)
    ]
    calls = {(e.file, e.line, e.function): e for _, e in run.all() if isinstance(e, events.CompileCall)}
    capture.left_out = [Location(*place[:2], function=place[2]) for place, call in calls.items() if call.left_out]
    static = (place for place, call in calls.items() if call.options.get("dynamic") == "False" and not call.left_out)
    capture.static = [Location(*place[:2], function=place[2]) for place in static]
    if compiled_in_place(run):
        capture.mode = "in_place"
        capture.recorded_calls = sum(row.calls or 0 for row in called if row.compiled)
        capture.notes += [
            f"{e.class_name or 'A function'} failed under torch.compile, and ran in eager from there on: {e.error}"
            for _, e in run.all()
            if isinstance(e, events.InPlaceFailed)
        ]
    elif started is not None:
        capture.mode = "examples" if run.last(events.ProgramEnded) else "object"
        if built:
            capture.mode = "transformers" if kind == "transformers" else "library"
        capture.replayed_calls = started.calls
        capture.notes += [
            f"Refused under --fullgraph: {e.refused}"
            for _, e in run.all()
            if isinstance(e, events.ObjectCall) and e.refused
        ]
    elif not any(isinstance(e, events.CompileStarted | events.ErrorSeen) for _, e in run.all()):
        capture.mode = "none"
    capture.notes += overridden_backends(run)
    if built is not None:
        capture.notes += [*built.notes, *(started.notes if started is not None else ())]
    if any(isinstance(event, events.Reopened) for _, event in run.all()):
        capture.notes.append(
            "The program closed the file that dynalyze records to; it was opened again, and nothing lost."
        )
    return capture


def overridden_backends(run: RunLog) -> list[str]:
    """A note on what the program itself asked torch.compile for, where `--backend` came in its place."""
    calls = [event for _, event in run.all() if isinstance(event, events.CompileCall) and event.overridden]
    if not calls:
        return []
    asked: dict[str, str] = {}
    for call in calls:
        for name, value in call.overridden.items():
            asked.setdefault(f"{name}={value}", f" ({Path(call.file).name}:{call.line})")
    given = calls[0].options.get("backend", "")
    used = given.strip("'") if given.startswith("'") else "with a function"
    own = listed([own + place for own, place in asked.items()], most=_MOST_NAMED)
    return [f"--backend {used} took the place of what the program asks torch.compile for: {own}."]


def _environment(run: RunLog, torch: events.TorchLoaded | None) -> dict[str, Any]:
    main = run.processes[0].started if run.processes else None
    environment: dict[str, Any] = {"python": main.python if main else None, "torch": torch.version if torch else None}
    if torch is not None:
        environment["device"] = "cuda" if (torch.cuda or torch.hip) and torch.gpu is not False else "cpu"
        for name in ("cuda", "hip", "system", "machine", "cores", "packages", "variables"):
            environment[name] = getattr(torch, name)
    return environment

"""How the run ended: part of it unrecorded, nothing compiled, everything in eager, a compile that failed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dynalyze.facts.compilations import CUT_OFF
from dynalyze.files.paths import library_of
from dynalyze.report import Compilation, CompileFailure, ForcedSize, LineKey, Location, Report
from dynalyze.rules.recompile_advice.source import as_written
from dynalyze.rules.recompile_series import Series, spared_by_dynamic
from dynalyze.rules.report_queries import ids
from dynalyze.rules.rule import Ranked, Rule, rules
from dynalyze.text.amounts import listed


@Rule(
    title="Part of the run was not recorded",
    severity="error",
    description="torch compiled more than was heard, or an event could not be written.",
)
def incomplete_record(report: Report) -> Iterator[Ranked]:
    if report.outcome.status == "incomplete":
        yield incomplete_record.finding(
            incomplete_record.title,
            f"{report.outcome.message} What is told here is right, but something is missing: that nothing "
            "else broke or compiled again cannot be told from it.",
        )


@Rule(
    title="Nothing was compiled",
    severity="error",
    description="Not a single frame reached the compiler. The program ran as if torch.compile were not there.",
)
def nothing_compiled(report: Report) -> Iterator[Ranked]:
    if report.outcome.status == "nothing_compiled":
        skipped = [frame for frame in report.skipped_frames if frame.entry]
        yield nothing_compiled.finding(
            nothing_compiled.title,
            report.outcome.message or "Call torch.compile, and call what it returns.",
            location=skipped[0].location if skipped else None,
            evidence=ids(skipped),
        )


@Rule(
    title="Every function fell back to eager",
    severity="error",
    rank=1,
    description="Dynamo tried to compile and gave up on every frame, so the program runs in eager.",
)
def all_eager(report: Report) -> Iterator[Ranked]:
    tried = report.compilations
    given_up = tried and all(compilation.status == "eager" for compilation in tried)
    if given_up and report.graph_breaks and report.outcome.status == "complete":
        yield all_eager.finding(
            all_eager.title,
            "Fix the graph breaks below: until then torch.compile gains nothing here.",
            location=tried[0].location,
            evidence=ids(report.graph_breaks),
        )


@Rule(
    title="What raised while it was traced is no longer compiled",
    severity="warning",
    description="An exception of the traced code ended a compile: torch leaves the function in eager from then on.",
)
def raised_while_traced(report: Report) -> Iterator[Ranked]:
    left: dict[LineKey, Compilation] = {}
    for each in report.compilations if report.outcome.status in ("complete", "incomplete") else ():
        if each.raised is not None:
            left.setdefault(each.location.at, each)
        elif each.status in ("compiled", "broken"):  # As after `torch._dynamo.reset()`, or of another closure.
            left.pop(each.location.at, None)
    by_line: dict[LineKey, list[Compilation]] = {}
    for each in left.values():
        if each.raised is not None:
            by_line.setdefault(each.raised.at, []).append(each)
    for found in by_line.values():
        place, outermost = found[0].raised, found[0].name
        names = listed([f"`{each.name}`" for each in found])
        assert place is not None
        package = library_of(found[0].location.file)
        check = f"Check the input before `{outermost}` is called, and raise there"
        yield raised_while_traced.finding(
            f"{names} {'is' if len(found) == 1 else 'are'} no longer compiled since {place.short} raised",
            f"{f'Leave it, for it is in {package}' if package else check}: where the code of a function raises while "
            "torch traces it, torch leaves the function in eager, also for calls that do not raise. Only what fits "
            "code compiled before still runs compiled.",
            why="Where eager does not raise there, tracing took another way than eager does.",
            location=place,
            package=package,
        )


@Rule(
    title="The program failed, perhaps not in eager",
    severity="warning",
    rank=4,
    description="An exception or a signal ended a program of which something was compiled; no compile failed.",
)
def program_failed(report: Report) -> Iterator[Ranked]:
    outcome, tried = report.outcome, report.compilations
    compiled = any(each.status in ("compiled", "broken") for each in tried)
    # Not where the program chose its exit status.
    failed = outcome.status == "failed" and (outcome.raised_at is not None or (outcome.exit_status or 0) < 0)
    if not (failed and compiled) or outcome.failed_stage is not None or any(each.status == "failed" for each in tried):
        return
    if any(any(rule.judge(report)) for rule in rules() if rule.of_failure):
        return
    alone = {
        "observed": "with `TORCH_COMPILE_DISABLE=1` in its environment", "in_place": "by plain `python`",
    }.get(report.capture.mode)  # fmt: skip
    if alone is not None:
        yield program_failed.finding(
            "It is not known whether eager fails here too",
            f"Run the program {alone}, which compiles nothing. If it fails too, mend the program. If not, what was "
            f"compiled is to blame.{_other_backend('')}",
            location=outcome.raised_at,
        )


_VIOLATED = re.compile(r"Constraints violated \((.+?)\)!")
_SIZE = re.compile(r"L\['(\w+)'\]([^\s,]*?)\.size\(\)\[(\d+)\]")


def _failed_at_size(series: Series, report: Report) -> bool:
    """Whether the compile failed that was to make a size vary, after the one for its first value had not."""
    failed = {each.key for each in _failures(report) if _in_backend(each.failure)}
    dynamic = series.lead.cause == "shape" and spared_by_dynamic(series.lead) and not report.capture.static
    return dynamic and any(each.key in failed for each in series.members)


def _failures(report: Report) -> Iterator[Compilation]:
    """Compiles that failed by themselves: neither at a graph break that is an error, nor because we ended the run."""
    refusing = {found.id for found in report.graph_breaks if found.effect == "error"}
    ended_by_us = report.outcome.status in ("timed_out", "interrupted")
    for compilation in report.compilations:
        if ended_by_us and compilation.reason == CUT_OFF:
            continue
        if compilation.status == "failed" and refusing.isdisjoint(compilation.breaks):
            yield compilation


def _in_backend(failure: CompileFailure | None) -> bool:
    return failure is not None and not failure.eager and bool(failure.backend or "Inductor" in failure.exception)


@Rule(
    title="A compile failed",
    severity="error",
    rank=2,
    description="Dynamo, AOTAutograd or the backend raised an error while compiling a frame.",
    owns_recompiles=_failed_at_size,
)
def compile_failed(report: Report) -> Iterator[Ranked]:
    for compilation in _failures(report):
        yield _failed(report, compilation)


def forced_sizes(reason: str) -> list[tuple[str, str]]:
    """The tensors and dimensions concerned, from torch's own words; none for another failure."""
    found = _VIOLATED.match(reason)
    sizes = ((as_written(m[1] + m[2]), m[3]) for m in _SIZE.finditer(found[1])) if found else ()
    return list(dict.fromkeys(sizes))


def _failed(report: Report, compilation: Compilation) -> Ranked:
    """What happened; where a dimension that is marked dynamic was made a constant, that and by which lines."""
    forced = forced_sizes(compilation.reason)
    names = [f"{tensor}.size({dimension})" for tensor, dimension in forced]
    lines = [
        size
        for size in report.forced_sizes
        if size.refused
        and compilation.compile_id in size.compile_ids
        and (size.source is None or as_written(size.source) in names)  # A report without source does not name them.
    ]
    title = f"Compiling {compilation.function} failed"
    failure = compilation.failure or CompileFailure()
    advice = _next_step(failure, compilation)
    grown = [each for each in compile_failed.recompiles(report) if compilation.key in {m.key for m in each.members}]
    again = ids(member for each in grown for member in each.members)
    if grown:
        lead = grown[0].lead
        advice = (
            f"`{as_written(lead.source or '')}` changed from {lead.expected} to {lead.actual}, and torch made it "
            "dynamic in the compile that failed. Compile with `torch.compile(..., dynamic=False)`: each size is "
            f"compiled by itself then, as the first one was. Pad to a few sizes where there are many. {advice}"
        )
    if failure.eager:
        title = f"{compilation.function} raises here, and eager does too"
    elif failure.location is not None and failure.eager is not None:
        title = f"{compilation.function} runs in eager and fails in {failure.backend or 'Dynamo itself'}"
    raised = _ran_by_dynamo(failure, report)
    if raised is not None:
        advice = (
            f"Dynamo ran {raised.short} while it compiled, and that raised. Keep what that line belongs to out of "
            f"what is compiled: pass what is needed of it, or make it in a constructor. {advice}"
        )
    if forced:
        sizes = ", ".join(f"`{name}`" for name in names)
        title = f"{compilation.function} makes a constant of a dimension that is marked dynamic: {sizes}"
        advice = _forced_advice(forced, lines)
    return compile_failed.finding(
        title,
        advice,
        location=lines[0].location if lines else failure.location or raised or compilation.location,
        evidence=[compilation.compile_id, *(size.id for size in lines), *again],
    )


def _ran_by_dynamo(failure: CompileFailure, report: Report) -> Location | None:
    """The line outside of torch that raised while Dynamo itself ran it, as `__len__` for a guard, and not traced it."""
    raised = report.outcome.raised_at
    by_dynamo = failure.exception and not failure.backend and "Inductor" not in failure.exception
    ended_by = f"InternalTorchDynamoError: {failure.exception}"
    inside = by_dynamo and failure.location is None and ended_by in report.outcome.message
    return raised if inside and raised is not None and library_of(raised.file) != "torch" else None


def _next_step(failure: CompileFailure, compilation: Compilation) -> str:
    """What was raised, and what to do about it that the user has not done yet."""
    if failure.eager:
        return f"Mend this line of the program. Eager raises here too: {failure.eager}"
    message = (failure.message or compilation.reason.rstrip(":") or "The compiler raised an error").rstrip(".!")
    hints = "".join(f" {hint}" for hint in failure.hints)
    if "register_fake" in message:  # An operator without a fake: torch says itself what is missing.
        return f"{message}."
    if (held := re.search(r"'___from_numpy\(([^()]+)\)' dispatch key set", message)) is not None:
        return (
            f"Before the first call, turn the NumPy value `{held[1]}` into a Python number (`int(...)`) or a tensor "
            "(`torch.as_tensor(...)`); or use `torch.no_grad()` instead of `torch.inference_mode()`, under which the "
            "guard on it never holds."
        )
    if failure.exception and not failure.backend and "Inductor" not in failure.exception and failure.location is None:
        return (
            f"{message}.{hints} Dynamo itself raised it, which it does with every backend. In the place of "
            f"`{compilation.function}`, compile what that calls, part by part: the part that fails is to stay in eager."
        )
    if failure.backend or failure.location is None:
        return f"{_without_operation(failure)}{message}.{hints}{_other_backend(failure.backend)}"
    unknown = (
        " To see whether eager raises it too, which makes it an error of the program: "
        '`torch.compiler.set_stance("force_eager")` before the call.'
    )
    return f"{_leave_out(failure)}{unknown if failure.eager is None else ''} PyTorch says: {message}.{hints}"


def _without_operation(failure: CompileFailure) -> str:
    """How to do without the operation at which a backend failed, and that it is that; "" where it is not known."""
    name = re.sub(r"_\d+$", "", failure.operation)
    if failure.location is None or not name:
        return ""
    if name.endswith("_"):
        step = f"Take `{name.rstrip('_')}`, which makes a new tensor, instead of `{name}`"
    else:
        step = f"Write `{name}` with other operations"
    return f"{step}: {failure.backend} fails at it. It says: "


def _leave_out(failure: CompileFailure) -> str:
    """How to keep the operation that Dynamo fails at out of what is compiled, or to do without it."""
    assert failure.location is not None
    own = failure.location.function.rpartition(".")[2]
    # On the compiled function itself torch.compile overrules the decorator; a lambda takes none.
    named = len(failure.stack) > 1 and own.isidentifier()
    leave = "Move this line into a function of its own with `@torch.compiler.disable`"
    if named:
        leave = f"Put `@torch.compiler.disable` on `{own}`"
    forward_mode = any("jacfwd" in (place.code or "") for place in failure.stack)
    other = "take `jacrev` in the place of `jacfwd`" if forward_mode else "write it with other operations"
    return f"{leave}: that part then runs in eager. Or {other}."


_STAGES = ("eager", "aot_eager", "inductor")


def _other_backend(failed: str) -> str:
    """The backend that tells the stage apart, of those that do less than the one that failed."""
    if failed == "aot_eager":
        return ' Compile it with backend="eager": where that runs, AOTAutograd fails.'
    if failed and failed not in _STAGES:
        return f' The backend `{failed}` raised it. With backend="inductor" it is torch\'s own that compiles.'
    return ' Compile it with backend="eager", then "aot_eager": the first that fails names the stage to look at.'


def _forced_advice(forced: list[tuple[str, str]], lines: list[ForcedSize]) -> str:
    """How to let the dimension vary, or to allow the constant."""
    maybe = ", ".join(f"`torch._dynamo.maybe_mark_dynamic({tensor}, {dimension})`" for tensor, dimension in forced)
    places = list(dict.fromkeys(size.location.short for size in lines))
    if not places:
        return (
            "Look for what fixes the size: a comparison with a number, or a tensor of fixed size that it meets. torch "
            f"prints that line under User stack. Or allow the constant: {maybe}."
        )
    values = [f"`{as_written(each.source)} == {each.values[0]}`" for each in lines if each.source and each.values]
    needs = f" It holds only for {' and '.join(dict.fromkeys(values))}." if values else ""
    return (
        f"Change {' and '.join(places)} so that it takes any size.{needs} It compares with a number, counts in Python, "
        f"or meets a tensor of fixed size. Or allow the constant: {maybe}."
    )

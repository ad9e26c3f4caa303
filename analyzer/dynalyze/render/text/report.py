"""The sentences that every renderer shares: the verdict, and plain words for effects, causes and counts."""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from dynalyze import registry
from dynalyze.render.text import bench as words_bench
from dynalyze.render.text import plans
from dynalyze.report import (
    CandidateReason,
    Cause,
    Compilation,
    CompilationStatus,
    Effect,
    Finding,
    Impact,
    LineKey,
    Location,
    Report,
    Severity,
    Status,
    TargetModel,
)
from dynalyze.report.costs import calls_seen, cost_seconds
from dynalyze.text.amounts import count_of as count_of
from dynalyze.text.amounts import duration as duration
from dynalyze.text.amounts import listed, lookups, milliseconds, percent

_MOST_NAMED = 4
_MUCH = 0.05
_MANY_OPS = 20
_LEFT_ALONE: dict[CandidateReason, str] = {
    "no_parameters": "owns no parameters",
    "worker": "in a worker of a DataLoader",
    "torchscript": "compiled by torch.jit",
    "part_of_compiled": "a part of a compiled module, called by itself",
    "too_many": "after the first 64 modules",
}
EFFECTS: dict[Effect, tuple[str, str, str]] = {
    "error": (
        "compilation fails under fullgraph", "fails under fullgraph", "fail under fullgraph"
    ),
    "eager": (
        "the whole function runs in eager", "leaves its function in eager", "leave their functions in eager"
    ),
    "partly_eager": (
        "the rest of this function runs in eager",
        "leaves the rest of its function in eager", "leave the rest of their functions in eager",
    ),
    "split": ("splits the graph here", "splits a graph", "split a graph"),
}  # fmt: skip
"""What graph breaks do, the worst first: as a clause, and as the verb of one and of several."""

CAUSE_WORDS: dict[Cause, str] = {
    "shape": "the size of a tensor changed",
    "rank": "the number of dimensions of a tensor changed",
    "stride": "the memory layout of a tensor changed",
    "dtype": "the dtype of a tensor changed",
    "device": "the device of a tensor changed",
    "requires_grad": "requires_grad of a tensor changed",
    "tensor_type": "a value was a tensor in one call and not in another, or a tensor of another class",
    "value": "a Python value changed",
    "module_attribute": "an attribute of a module or object changed",
    "identity": "another object stood in the same place",
    "container": "the length or the keys of a container changed",
    "global_variable": "a global variable changed",
    "global_state": "a global setting of PyTorch changed",
    "symbolic": "a size left the range that the code was compiled for",
    "aliasing": "tensors began or ceased to share an object",
    "dynamic_marking": "a dimension was marked dynamic differently",
    "backend": "another backend was asked for",
    "limit": "the recompile limit was reached: later calls run in eager",
    "other": "a condition of the compiled code no longer held",
}

STATUS_WORDS: dict[Status, str] = {
    "complete": "Complete",
    "failed": "Failed",
    "timed_out": "Timed out",
    "interrupted": "Interrupted",
    "nothing_compiled": "Nothing compiled",
    "incomplete": "Recorded in part",
}

COMPILATION_WORDS: dict[CompilationStatus, str] = {
    "compiled": "compiled",
    "broken": "compiled in part",
    "eager": "left in eager",
    "failed": "failed",
}

_PHASE_WORDS = {
    "total": "Whole compile",
    "other": "Not accounted for",
    "dynamo": "Dynamo",
    "guards": "Guards",
    "aot_autograd": "AOTAutograd",
    "inductor": "Inductor",
    "code_generation": "Code generation",
    "kernels": "Kernels",
}

SEVERITY_WORDS: dict[Severity, str] = {"error": "Error", "warning": "Warning", "info": "Note"}


def effect_words(effect: Effect) -> str:
    """What a graph break did, as a clause: "splits the graph here"."""
    return EFFECTS[effect][0]


def impact_words(finding: Finding, *, brief: bool = False) -> str:
    """A measured cost in words: "Costs 0.80 ms per call (26%); without it at best 2.3 ms, before fusion; 1.2 s of
    compile time", `brief` without the middle. Never an estimate.
    """
    cost = finding.impact
    if cost is None:
        return "Impact unknown"
    parts = []
    if cost.ms_per_call is not None:
        share = f" ({percent(cost.share)})" if cost.share is not None else ""
        parts.append(f"{milliseconds(cost.ms_per_call)} per call{share}")
    if cost.without_ms is not None and not brief:
        parts.append(f"without it at best {milliseconds(cost.without_ms)}, before fusion")
    if cost.compile_seconds is not None:
        parts.append(f"{duration(cost.compile_seconds)} {cost.what}".strip())
    return f"Costs {'; '.join(parts)}" if parts else "Impact unknown"


def short_cost(cost: Impact | None) -> str:
    """The dearer kind of a cost, for a list: "0.80 ms per call", else "1.2 s"; "" where nothing was measured."""
    if cost is None or (cost.ms_per_call is None and cost.compile_seconds is None):
        return ""
    if cost.ms_per_call is not None:
        return f"{milliseconds(cost.ms_per_call)} per call"
    return duration(cost.compile_seconds or 0.0)


def tried_words(report: Report, finding: Finding) -> str:
    """What features found by trying settings against the facts of a finding; "" where none did."""
    return ". ".join(said for each in registry.modules("settings") if (said := each.tried_words(report, finding)))


def phase_words(phase: str) -> str:
    return _PHASE_WORDS.get(phase, phase)


def command_line(words: list[str]) -> str:
    """The command line to paste, whether or not the program's own name was recorded with it."""
    return " ".join(command_words(words))


def command_words(words: list[str]) -> list[str]:
    """The same word by word, each as a shell takes it."""
    return [shlex.quote(word) for word in (words if words[:1] == ["dynalyze"] else ["dynalyze", *words])]


def short_path(path: str) -> str:
    """A path that fits a line: below site-packages where it is a library's, else its last three parts."""
    _, installed, below = path.rpartition("/site-packages/")
    if installed:
        return below
    parts = path.split("/")
    return path if len(parts) <= 4 else "/".join(["…", *parts[-3:]])


def line_words(location: Location) -> str:
    """`ranker/model.py:12`, short."""
    return f"{short_path(location.file)}:{location.line}"


def compilation_name(process: int, epoch: int, compile_id: str) -> str:
    """The compile id, with the process and the epoch where they are not the first."""
    extra = [f"process {process}"] if process else []
    extra += [f"after reset {epoch}"] if epoch else []
    return f"{compile_id} ({', '.join(extra)})" if extra else compile_id


class Totals(NamedTuple):
    """The counts of a report. None stands for "not recorded", never for zero."""

    breaks: int
    effects: dict[Effect, int]
    frames: int
    compiled: int
    eager: int
    failed: int
    recompiles: int
    limits: int
    seconds: float | None


def totals(report: Report) -> Totals:
    statuses = Counter(compilation.status for compilation in report.compilations)
    effects = Counter(item.effect for item in report.graph_breaks)
    seconds = [each for item in report.compilations if (each := item.whole_seconds) is not None]
    limits = sum(item.cause == "limit" for item in report.recompiles)
    return Totals(
        breaks=len(report.graph_breaks),
        effects={effect: effects[effect] for effect in EFFECTS if effects[effect]},
        frames=len(report.compilations),
        compiled=statuses["compiled"] + statuses["broken"],
        eager=statuses["eager"],
        failed=statuses["failed"],
        recompiles=len(report.recompiles) - limits,
        limits=limits,
        seconds=sum(seconds) if seconds else None,
    )


def cache_words(item: Compilation) -> str:
    """What the caches did for a compile: hits, misses, and what went past them, with PyTorch's reason."""
    counts = Counter[str]()
    for name, number in item.cache.items():
        outcome = name.rpartition("_")[2]
        if outcome in ("hit", "miss", "bypass") and isinstance(number, int):
            counts[outcome] += number
    counted = lookups(counts["hit"], counts["miss"], counts["bypass"])
    said = dict.fromkeys(" ".join(each.said.split()) for each in item.cache_bypasses if each.said)
    return f"{counted}: {'; '.join(said)}" if said else counted


def verdict(report: Report, *, effects: bool = True) -> str:
    """What happened, in one to four short sentences of plain words; what each break did, unless `effects` is off."""
    return " ".join(verdict_sentences(report, effects=effects))


def verdict_sentences(report: Report, *, effects: bool = True) -> list[str]:
    """The sentences of the verdict, the most important one first."""
    counted = totals(report)
    ending = _ending(report)
    if report.outcome.failed_stage is not None:
        return ending
    if report.plan is not None:
        return [*ending, *plans.sentences(report.plan)]
    if only_measured(report):
        return [*ending, *words_bench.verdict_sentences(report.measurements, report.accuracy)]
    if report.outcome.status == "nothing_compiled":
        return ending
    if report.outcome.status != "complete" and not (counted.frames or counted.breaks):
        return ending if report.outcome.status == "incomplete" else [*ending, "Nothing had been compiled by then."]
    skipped = (finding for finding in report.findings if finding.rule == "skipped-function")
    number = len({name for finding in skipped for name in finding.evidence})
    were = "was" if number == 1 else "were"
    left = [f"{count_of(number, 'function')} {were} left in eager without a graph break."] if number else []
    unmeasured = words_bench.not_measured(report.measurements, report.answers_unchecked)
    wrong = words_bench.wrong_answers(report.accuracy)
    again = ["The recompile limit was reached: later calls run in eager."] if counted.limits else []
    done = _effects(counted) if effects or not counted.breaks else []
    return [*ending, *wrong, _summary(counted, report), *done, *unmeasured, *again, *left]


def compile_time(report: Report) -> str:
    """What compiling took in all, and the line that most operations come from: "Compiling took 18 s (9% recompiling):
    482 operations in 1 graph, 420 of them from net.py:13."; "" where no time is known.
    """
    counted = totals(report)
    seconds = counted.seconds
    if seconds is None or report.plan is not None:
        return ""
    lines, ops = Counter[LineKey](), 0
    for graph in report.graphs:
        ops += max(graph.ops, graph.top_line.all_ops) if graph.top_line is not None else graph.ops
        if graph.top_line is not None:
            lines[graph.top_line.location.at] += graph.top_line.ops
    took = f"Compiling took {duration(seconds)}{_recompiling(report, counted)}"
    if not ops:
        return f"{took}."
    ((file, line), most), *_ = lines.most_common(1) or [(("", 0), 0)]
    telling = most and ops >= _MANY_OPS
    from_line = f", {most:,} of them from {file.rpartition('/')[2]}:{line}" if telling else ""
    return f"{took}: {count_of(ops, 'operation')} in {count_of(len(report.graphs), 'graph')}{from_line}."


def order_words(report: Report) -> str:
    """By what findings are ordered, where several have a cost: "Errors first, then ..."; "" for fewer."""
    known = [each.impact for each in report.findings if cost_seconds(each.impact, 1) is not None and each.impact]
    if len(known) < 2:
        return ""
    first = "Errors first, then breaks that others follow from" if any(each.after for each in report.findings) else ""
    first = first or "Errors first"
    if not any(each.ms_per_call is not None for each in known):
        return f"{first}, then costliest by compile time; cost per call not measured."
    calls = f"{calls_seen(report):,} calls"
    some = all(each.ms_per_call is not None for each in known)
    where = "" if some else ", where the time of a call was measured"
    return f"{first}, then costliest: compile time plus {calls}{where}."


def only_measured(report: Report) -> bool:
    """Whether nothing listened to the compiler: `dynalyze bench` tells no graph breaks, not that there are none."""
    listened = report.compilations or report.graph_breaks or report.recompiles or report.skipped_frames
    return not listened and (bool(report.measurements) or any(name in report.command[:2] for name in ("bench", "plan")))


def trust_notes(report: Report) -> list[str]:
    """How the recording came about and what it lacks, one sentence each; empty for a plain, whole one."""
    capture = report.capture
    mode = _mode_note(report)
    notes = [mode] if mode else []
    if capture.unreadable_lines:
        lines = count_of(capture.unreadable_lines, "line")
        notes.append(f"{lines} of the recording could not be read. Some facts may be missing.")
    if capture.listener_errors:
        errors = count_of(len(capture.listener_errors), "error")
        notes.append(f"The listener met {errors}. Some facts may be missing.")
    return notes + capture.notes


def _ending(report: Report) -> list[str]:
    outcome = report.outcome
    if outcome.failed_stage is not None:
        compiled = "" if report.compilations else "Nothing was compiled: "
        no_result = f"{compiled}this is no result of torch.compile."
        return [outcome.message, no_result[0].upper() + no_result[1:]]
    if outcome.status in ("timed_out", "interrupted") and outcome.exit_status is not None:
        return [outcome.message, "What was found until then is here."]  # The program itself had ended.
    after = f" after {duration(outcome.seconds)}" if outcome.seconds else ""
    exit_status = "" if outcome.exit_status is None else f" (exit status {outcome.exit_status})"
    until_then = "This is what was recorded until then."
    if report.capture.mode == "block":
        failed, nothing = f"The recorded block failed{after}.", "Nothing was compiled in the recorded block."
    else:
        failed = f"The program failed{after}{exit_status}."
        nothing = "torch.compile compiled nothing: every operation of this program ran in eager."
    endings: dict[Status, list[str]] = {
        "complete": [],
        "failed": [failed, until_then],
        "timed_out": [f"The time limit ended the program{after}.", until_then],
        "interrupted": [f"The run was interrupted{after}.", until_then],
        "nothing_compiled": [nothing],
        "incomplete": ["Some compilations were not recorded: more may have broken or recompiled."],
    }
    return endings[outcome.status]


def _summary(counted: Totals, report: Report) -> str:
    """The sentence to quote: how fast it became, and what stood in the way."""
    if not (counted.frames or counted.breaks or counted.recompiles):
        return "No graph breaks were recorded."
    breaks = count_of(counted.breaks, "graph break") if counted.breaks else "no graph breaks"
    again = count_of(counted.recompiles, "recompile") if counted.recompiles else "no recompiles"
    found = f"{breaks} and {again}"
    if not counted.breaks and (counted.eager or counted.failed):  # What was not compiled although no graph broke.
        left = [f"{counted.eager:,} left in eager"] if counted.eager else []
        left += [f"{counted.failed:,} failed to compile"] if counted.failed else []
        found += f", but of {count_of(counted.frames, 'frame')} {' and '.join(left)}"
    speed = words_bench.speed_clause(report.measurements)
    result = f"{speed}, with {found}" if speed else words_bench.capital(found)
    return "; ".join([result, *words_bench.answers_clause(report.accuracy, report.answers_unchecked)]) + "."


def _effects(counted: Totals) -> list[str]:
    """What became of the functions that broke; of those that did not, that they are whole."""
    if not counted.breaks:
        whole = counted.compiled and not (counted.eager or counted.failed)
        return ["Every compiled function is one whole graph."] if whole else []
    if set(counted.effects) == {"split"}:  # What every reader expects of a graph break.
        return []
    parts = [f"{number:,} {EFFECTS[key][1 + (number > 1)]}" for key, number in counted.effects.items()]
    return [f"Breaks: {', '.join(parts)}."]


def _recompiling(report: Report, counted: Totals) -> str:
    """The part of all compile time that recompiles took, where all of them have a time."""
    known = [item.seconds for item in report.recompiles if item.cause != "limit" and item.seconds is not None]
    if not known or len(known) < counted.recompiles or not counted.seconds or sum(known) > counted.seconds:
        return ""
    return f" ({percent(sum(known) / counted.seconds)} recompiling)"


def _mode_note(report: Report) -> str:
    capture = report.capture
    if capture.mode == "in_place":
        return _in_place_note(report)
    if capture.mode == "examples":
        return "The program only defines things: its model ran with its example_inputs."
    model = report.target.model
    return _model_note(model, compiled=capture.mode in ("transformers", "library")) if model is not None else ""


def _in_place_note(report: Report) -> str:
    """What was compiled of a program that compiles nothing, or in place of that, and what else took its time."""
    names = [row.name or row.class_name for row in report.candidates if row.compiled]
    what = listed(names[:_MOST_NAMED] + (["others"] if len(names) > _MOST_NAMED else [])) or "its modules"
    made = report.capture.recorded_calls
    calls = f"its {count_of(made, 'call')} of {what}" if made else what
    places = [f"{Path(each.file).name}:{each.line}" for each in report.capture.left_out]
    own = f"The program ran without what it compiles at {listed(places, most=_MOST_NAMED)}" if places else ""
    note = f"{own or 'The program compiles nothing by itself'}: {calls} ran compiled, in its own loop."
    left = [
        f"{row.name or row.class_name} ({_LEFT_ALONE[row.reason]})"
        for row in report.candidates
        if not row.compiled and row.reason in _LEFT_ALONE and (row.share or 0.0) >= _MUCH
    ]
    return note + (f" Left in eager: {listed(left[:_MOST_NAMED])}." if left else "")


def _model_note(model: TargetModel, *, compiled: bool) -> str:
    of = f" ({model.family})" if model.family else ""
    inputs = ", ".join(f"{name} {text}" for name, text in model.inputs.items())
    took = f" ({duration(model.eager_seconds)})" if model.eager_seconds else ""
    cold = " It was compiled at its very first call." if compiled else ""
    ran = f" It ran once in eager before it was compiled{took}." if model.warm else cold
    return f"{model.class_name}{of} with {count_of(model.parameters, 'parameter')}, called with {inputs}.{ran}"

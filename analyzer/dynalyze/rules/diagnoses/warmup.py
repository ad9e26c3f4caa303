"""What the warm-up check with the shapes of production found: too many versions, and compiles after it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, get_args

import msgspec

from dynalyze.report import Advice, Cause, Finding, Impact, Location, Recompile, Report
from dynalyze.report.audit import Bucket, ShapeRun, Warmup, WarmupFunction, WarmupRecompile
from dynalyze.rules.recompile_advice import advise, what_changed
from dynalyze.rules.recompile_series import Series
from dynalyze.rules.rule import Rule

SIZE_CAUSES = ("shape", "symbolic", "stride")
"""Causes of recompiles that dynamic sizes or padding end."""
_MOST_SHAPES = 3
_CAUSES: tuple[Any, ...] = get_args(Cause)


@dataclass
class Changed:
    """One value that changed, and the calls in which it set off a compile, or an attempt at one."""

    lead: WarmupRecompile | None
    runs: list[ShapeRun] = field(default_factory=list)
    members: list[WarmupRecompile] = field(default_factory=list)

    @property
    def location(self) -> Location | None:
        if self.lead is None or not self.lead.file:
            return None
        return Location(self.lead.file, self.lead.line, function=self.lead.function)

    def series(self) -> Series | None:
        """As the advice on recompiles takes it; None where no guard is known."""
        if self.lead is None:
            return None
        members = [_as_recompile(number, each) for number, each in enumerate(self.members, 1)]
        values: list[str] = []
        for each in self.members:
            for value in (each.expected, each.actual):
                if value is not None and (not values or values[-1] != value):
                    values.append(value)
        return Series(members[0], members, len(members), values)


def changes(runs: Iterable[ShapeRun]) -> list[Changed]:
    """What compiled in these calls, by the first guard that failed in each; calls without one come together."""
    found: dict[tuple[object, ...], Changed] = {}
    for run in runs:
        lead = run.recompiles[0] if run.recompiles else None
        key = () if lead is None else (lead.file, lead.line, lead.source or lead.guard)
        changed = found.setdefault(key, Changed(lead))
        changed.runs.append(run)
        changed.members += [each for each in run.recompiles if lead is not None and _same(each, lead)]
    return list(found.values())


def shapes_text(runs: Iterable[ShapeRun], most: int = _MOST_SHAPES) -> str:
    """ "batch 1, sequence 128; batch 2, sequence 128 and 4 more"."""
    shapes = list(dict.fromkeys(shape_text(run) for run in runs))
    left = len(shapes) - most
    shown = "; ".join(shapes[:most])
    return f"{shown} and {left:,} more" if left > 0 else shown


def shape_text(run: ShapeRun) -> str:
    return ", ".join(f"{name} {size:,}" for name, size in run.shape.items()) or "the only shape"


def shapes_count(number: int) -> str:
    return "1 shape" if number == 1 else f"{number:,} shapes"


def _same(one: WarmupRecompile, other: WarmupRecompile) -> bool:
    return (one.file, one.line, one.source or one.guard) == (other.file, other.line, other.source or other.guard)


def _as_recompile(number: int, found: WarmupRecompile) -> Recompile:
    cause: Cause = found.cause if found.cause in _CAUSES else "other"  # type: ignore[assignment]
    return Recompile(
        id=f"w{number}",
        compile_id="",
        previous=None,
        location=Location(found.file, found.line, function=found.function),
        cause=cause,
        source=found.source,
        expected=found.expected,
        actual=found.actual,
        guard=found.guard,
    )


_RANK_OF_LIMIT = 6
_RANK_MANY_VERSIONS = 350
_FEW = 2
_LINK_MANY_VERSIONS = "https://docs.pytorch.org/docs/stable/torch.compiler_dynamic_shapes.html"


def _judge_many_versions(report: Report) -> Iterator[tuple[int, Finding]]:
    warmup = report.warmup
    if warmup is None or warmup.reason or not warmup.functions:
        return
    function = next((each for each in warmup.functions if each.limit), warmup.functions[0])
    if function.limit or (function.versions > _FEW and 2 * function.versions > warmup.recompile_limit > 0):
        yield (_RANK_OF_LIMIT if function.limit else _RANK_MANY_VERSIONS), _finding_many_versions(function, warmup)


def _finding_many_versions(function: WarmupFunction, warmup: Warmup) -> Finding:
    action = _action(warmup)
    return MANY_VERSIONS.finding(
        title=_title(function, warmup),
        severity="error" if function.limit else "warning",
        location=Location(function.file, function.line, function=function.function),
        evidence=[f"{each.function}: {each.versions}" for each in warmup.functions if each.versions > _FEW],
        advice=Advice(action=action, why=_why(function, warmup), link=_LINK_MANY_VERSIONS),
    )


def _title(function: WarmupFunction, warmup: Warmup) -> str:
    name, calls = function.function or "A function", shapes_count(len(warmup.calls))
    eager = [run for run in warmup.calls if run.in_eager]
    if function.limit and eager:
        return f"{name} reached the recompile limit: {len(eager):,} of {calls} run in eager for good"
    if function.limit:
        return f"{name} reached the recompile limit with {calls}"
    return f"{name} has {function.versions} compiled versions for {calls}; the limit is {warmup.recompile_limit}"


def _action(warmup: Warmup) -> str:
    trial = warmup.dynamic_trial
    helps = trial is not None and not trial.error and not trial.in_eager and trial.versions <= _FEW
    steps = [f"Compile with `dynamic=True`: {_tried(warmup)}."] if helps else []
    if warmup.buckets:
        steps.append(f"{'Or pad' if steps else 'Pad'} the inputs to {_sizes(warmup.buckets)}{_padding(warmup)}.")
    if (other := _other_cause(warmup)) and not helps:
        steps = [f"Mend first what changes from call to call: {other}."]
    elif not steps:
        steps.append("Call with fewer different sizes, or let the sizes that change be dynamic (`mark_dynamic`).")
    if not helps and trial is not None:
        steps.append(f"{warmup.dynamic_advice}.")
    return " ".join(steps)


def _other_cause(warmup: Warmup) -> str:
    """What most versions come from, where that is no size; "" where it is one."""
    found = [each for run in (*warmup.calls, *warmup.after_warmup) for each in run.recompiles]
    others = [each for each in found if each.cause not in (*SIZE_CAUSES, "limit")]
    if 2 * len(others) <= len(found):
        return ""
    return f"`{others[0].source}`" if others[0].source else "a guard that the section on the warm-up names"


def _tried(warmup: Warmup) -> str:
    return warmup.dynamic_advice.partition(": ")[2] or "it was tried, and needs fewer versions"


def _sizes(buckets: list[Bucket]) -> str:
    """ "sequence 128 or 2,048, batch 8": the sizes of each name."""
    names: dict[str, list[int]] = {}
    for bucket in buckets:
        for name, size in bucket.padded_to.items():
            if size not in names.setdefault(name, []):
                names[name].append(size)
    return ", ".join(f"{name} {' or '.join(f'{size:,}' for size in sorted(own))}" for name, own in names.items())


def _padding(warmup: Warmup) -> str:
    versions = len(warmup.buckets)
    graphs = "1 version" if versions == 1 else f"{versions} versions"
    more = f", {warmup.bucket_padding:.0%} more elements" if warmup.bucket_padding is not None else ""
    return f" ({graphs}{more})"


def _why(function: WarmupFunction, warmup: Warmup) -> str:
    eager = [run for run in warmup.calls if run.in_eager]
    left = f" These run in eager: {shapes_text(eager, 6)}." if eager else ""
    return (
        f"Seen in the run. torch makes at most {warmup.recompile_limit} versions of a function "
        "(`torch._dynamo.config.recompile_limit`); a call that fits none of them runs in eager from then on, without "
        f"a word.{left} Each version costs a compile at every start, and each call checks the guards of all."
    )


MANY_VERSIONS = Rule(
    id="warmup-many-versions",
    title="Many compiled versions for the shapes of production",
    severity="warning",
    description=(
        "The shapes given by `--shapes` need more than half of the versions that torch makes of one function, or "
        "more than it makes: then the shapes that are left over run in eager. Dynamic sizes or buckets end it; "
        "`dynalyze audit` has tried the first and computed the second."
    ),
    passed="The shapes of production need few compiled versions, as far as they were tried (--shapes).",
    judge=_judge_many_versions,
)


_RANK_AFTER_WARMUP = 5
_MOST_EVIDENCE = 8
_LINK_AFTER_WARMUP = "https://docs.pytorch.org/docs/stable/torch.compiler_troubleshooting.html"


def _judge_after_warmup(report: Report) -> Iterator[tuple[int, Finding]]:
    warmup = report.warmup
    if warmup is None or warmup.reason:
        return
    for changed in changes(warmup.after_warmup):
        yield _RANK_AFTER_WARMUP, _finding_after_warmup(changed, warmup)


def _finding_after_warmup(changed: Changed, warmup: Warmup) -> Finding:
    advice = _advice(changed, warmup)
    return AFTER_WARMUP.finding(
        title=f"{_what(changed)}: {len(changed.runs):,} of {shapes_count(len(warmup.calls))} "
        f"{'compiles' if len(changed.runs) == 1 else 'compile'} after warm-up",
        location=changed.location,
        evidence=[shape_text(run) for run in changed.runs[:_MOST_EVIDENCE]],
        advice=advice,
        impact=_impact(changed),
    )


def _what(changed: Changed) -> str:
    series = changed.series()
    if series is None:
        return "No failed guard is known"
    return what_changed(series)


def _advice(changed: Changed, warmup: Warmup) -> Advice:
    series = changed.series()
    shapes = f"It happened with {shapes_text(changed.runs)}."
    why = (
        f"Seen in the run: every shape was called once, in order. Then all were called again in another order, and "
        f"these compiled once more. {shapes} Whatever changes from call to call does so in production too, and a "
        "request waits for the compiler."
    )
    if series is None:
        action = "Find out what these calls do that those of the warm-up did not, and call that in the warm-up too."
        return Advice(action=action, why=why, link=_LINK_AFTER_WARMUP)
    advice = advise(series)
    own = f" {warmup.dynamic_advice}." if warmup.dynamic_advice and _is_a_size(changed) else ""
    return msgspec.structs.replace(advice, action=f"{advice.action}{own}", why=f"{why} {advice.why}")


def _is_a_size(changed: Changed) -> bool:
    return changed.lead is not None and changed.lead.cause in SIZE_CAUSES


def _impact(changed: Changed) -> Impact | None:
    """How long the calls took that compiled; steady ones take next to nothing of it."""
    seconds = sum(run.milliseconds for run in changed.runs) / 1000
    return Impact(round(seconds, 6), "taken by calls that compiled after warm-up") if seconds else None


AFTER_WARMUP = Rule(
    id="compiles-after-warmup",
    title="It compiles after warm-up",
    severity="error",
    description=(
        "`dynalyze audit --shapes` calls the model once with every shape that production sends, and then again with "
        "all of them in another order. Nothing may compile in the second round: a request that meets the compiler "
        "waits for seconds or minutes."
    ),
    passed="No call compiled anything after the warm-up, as far as one was made (--shapes).",
    judge=_judge_after_warmup,
)

RULES = (MANY_VERSIONS, AFTER_WARMUP)

"""What the warm-up check with the shapes of production found: too many versions, and compiles after it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, groupby
from typing import Any, get_args

import msgspec

from dynalyze.report import Advice, Cause, Impact, Location, Recompile, Report
from dynalyze.report.audit import Bucket, ShapeRun, Warmup, WarmupFunction, WarmupRecompile
from dynalyze.rules.recompile_advice import advise, what_changed
from dynalyze.rules.recompile_series import Series
from dynalyze.rules.rule import Ranked, Rule
from dynalyze.text.amounts import count_of

# Causes of recompiles that dynamic sizes or padding end.
_SIZE_CAUSES = ("shape", "symbolic", "stride")
_MOST_SHAPES = 3
_CAUSES: tuple[Any, ...] = get_args(Cause)


def _changes(runs: Iterable[ShapeRun]) -> list[tuple[list[ShapeRun], Series | None]]:
    """What compiled in these calls, by the first guard that failed in each; None for all calls without one."""
    found: dict[tuple[object, ...], tuple[list[ShapeRun], list[WarmupRecompile]]] = {}
    for run in runs:
        key = _guard(run.recompiles[0]) if run.recompiles else ()
        alike, members = found.setdefault(key, ([], []))
        alike.append(run)
        members += [each for each in run.recompiles if _guard(each) == key]
    return [(alike, _series(members) if members else None) for alike, members in found.values()]


def _guard(found: WarmupRecompile) -> tuple[object, ...]:
    return found.file, found.line, found.source or found.guard


def _series(found: list[WarmupRecompile]) -> Series:
    members = [
        Recompile(
            id=f"w{number}",
            compile_id="",
            previous=None,
            location=Location(each.file, each.line, function=each.function),
            cause=each.cause if each.cause in _CAUSES else "other",  # type: ignore[arg-type]
            source=each.source,
            expected=each.expected,
            actual=each.actual,
            guard=each.guard,
        )
        for number, each in enumerate(found, 1)
    ]
    seen = (value for each in members for value in (each.expected, each.actual) if value is not None)
    return Series(members[0], members, len(members), [value for value, _ in groupby(seen)])


def _shapes_text(runs: Iterable[ShapeRun], most: int = _MOST_SHAPES) -> str:
    """ "batch 1, sequence 128; batch 2, sequence 128 and 4 more"."""
    shapes = list(dict.fromkeys(map(_shape_text, runs)))
    left = len(shapes) - most
    return "; ".join(shapes[:most]) + (f" and {left:,} more" if left > 0 else "")


def _shape_text(run: ShapeRun) -> str:
    return ", ".join(f"{name} {size:,}" for name, size in run.shape.items()) or "the only shape"


_RANK_OF_LIMIT = 6
_FEW = 2


@Rule(
    title="Many compiled versions for the shapes of production",
    rank=350,
    link="https://docs.pytorch.org/docs/stable/torch.compiler_dynamic_shapes.html",
    description="The shapes given by `--shapes` need more than half of the versions that torch makes of one function, "
    "or more than it makes: then the shapes that are left over run in eager. Dynamic sizes or buckets end it; "
    "`dynalyze audit` has tried the first and computed the second.",
)
def warmup_many_versions(report: Report) -> Iterator[Ranked]:
    warmup = report.warmup
    if warmup is None or warmup.reason or not warmup.functions:
        return
    function = next((each for each in warmup.functions if each.limit), warmup.functions[0])
    if function.limit or (function.versions > _FEW and 2 * function.versions > warmup.recompile_limit > 0):
        eager = [run for run in warmup.calls if run.in_eager]
        left = f" These run in eager: {_shapes_text(eager, 6)}." if eager else ""
        yield warmup_many_versions.finding(
            _title(function, warmup, len(eager)),
            _action(warmup),
            why=f"Seen in the run. torch makes at most {warmup.recompile_limit} versions of a function "
            "(`torch._dynamo.config.recompile_limit`); a call that fits none of them runs in eager from then on, "
            f"without a word.{left} Each version costs a compile at every start, and each call checks the guards of "
            "all.",
            rank=_RANK_OF_LIMIT if function.limit else None,
            severity="error" if function.limit else "warning",
            location=Location(function.file, function.line, function=function.function),
            evidence=[f"{each.function}: {each.versions}" for each in warmup.functions if each.versions > _FEW],
        )


def _title(function: WarmupFunction, warmup: Warmup, eager: int) -> str:
    name, calls = function.function or "A function", count_of(len(warmup.calls), "shape")
    if not function.limit:
        return f"{name} has {function.versions} compiled versions for {calls}; the limit is {warmup.recompile_limit}"
    if eager:
        return f"{name} reached the recompile limit: {eager:,} of {calls} run in eager for good"
    return f"{name} reached the recompile limit with {calls}"


def _action(warmup: Warmup) -> str:
    trial = warmup.dynamic_trial
    helps = trial is not None and not trial.error and not trial.in_eager and trial.versions <= _FEW
    tried = warmup.dynamic_advice.partition(": ")[2] or "it was tried, and needs fewer versions"
    steps = [f"Compile with `dynamic=True`: {tried}."] if helps else []
    if warmup.buckets:
        versions = len(warmup.buckets)
        more = f", {warmup.bucket_padding:.0%} more elements" if warmup.bucket_padding is not None else ""
        steps.append(
            f"{'Or pad' if steps else 'Pad'} the inputs to {_sizes(warmup.buckets)} "
            f"({versions} version{'' if versions == 1 else 's'}{more})."
        )
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
    others = [each for each in found if each.cause not in (*_SIZE_CAUSES, "limit")]
    if 2 * len(others) <= len(found):
        return ""
    return f"`{others[0].source}`" if others[0].source else "a guard that the section on the warm-up names"


def _sizes(buckets: list[Bucket]) -> str:
    """ "sequence 128 or 2,048, batch 8": the sizes of each name."""
    names: dict[str, set[int]] = {}
    for name, size in chain.from_iterable(bucket.padded_to.items() for bucket in buckets):
        names.setdefault(name, set()).add(size)
    return ", ".join(f"{name} {' or '.join(f'{size:,}' for size in sorted(own))}" for name, own in names.items())


_MOST_EVIDENCE = 8


@Rule(
    title="It compiles after warm-up",
    severity="error",
    rank=5,
    description="`dynalyze audit --shapes` calls the model once with every shape that production sends, and then again "
    "with all of them in another order. Nothing may compile in the second round: a request that meets the compiler "
    "waits for seconds or minutes.",
)
def compiles_after_warmup(report: Report) -> Iterator[Ranked]:
    warmup = report.warmup
    if warmup is None or warmup.reason:
        return
    for runs, series in _changes(warmup.after_warmup):
        # How long these calls took; steady ones take next to nothing of it.
        seconds = sum(run.milliseconds for run in runs) / 1000
        yield compiles_after_warmup.finding(
            f"{what_changed(series) if series is not None else 'No failed guard is known'}: {len(runs):,} of "
            f"{count_of(len(warmup.calls), 'shape')} {'compiles' if len(runs) == 1 else 'compile'} after warm-up",
            _advice(runs, series, warmup),
            location=series.lead.location if series is not None and series.lead.location.file else None,
            evidence=map(_shape_text, runs[:_MOST_EVIDENCE]),
            impact=Impact(compile_seconds=round(seconds, 6), what="taken by calls that compiled after warm-up")
            if seconds
            else None,
        )


def _advice(runs: list[ShapeRun], series: Series | None, warmup: Warmup) -> Advice:
    why = (
        "Seen in the run: every shape was called once, in order. Then all were called again in another order, and "
        f"these compiled once more. It happened with {_shapes_text(runs)}. Whatever changes from call to call does so "
        "in production too, and a request waits for the compiler."
    )
    if series is None:
        return Advice(
            "Find out what these calls do that those of the warm-up did not, and call that in the warm-up too.",
            why,
            link="https://docs.pytorch.org/docs/stable/torch.compiler_troubleshooting.html",
        )
    advice = advise(series)
    own = f" {warmup.dynamic_advice}." if warmup.dynamic_advice and series.lead.cause in _SIZE_CAUSES else ""
    return msgspec.structs.replace(advice, action=f"{advice.action}{own}", why=f"{why} {advice.why}")

"""Shapes that need so many compiled versions of one function that the recompile limit is near, or was reached."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.report import Advice, Finding, Location, Report
from dynalyze.report.audit import Bucket, Warmup, WarmupFunction
from dynalyze.rules.rule import Rule
from dynalyze.rules.warmup_series import SIZE_CAUSES, shapes_count, shapes_text

_RANK_OF_LIMIT = 6
_RANK = 350
_FEW = 2
_LINK = "https://docs.pytorch.org/docs/stable/torch.compiler_dynamic_shapes.html"


def _judge(report: Report) -> Iterator[tuple[int, Finding]]:
    warmup = report.warmup
    if warmup is None or warmup.reason or not warmup.functions:
        return
    function = next((each for each in warmup.functions if each.limit), warmup.functions[0])
    if function.limit or (function.versions > _FEW and 2 * function.versions > warmup.recompile_limit > 0):
        yield (_RANK_OF_LIMIT if function.limit else _RANK), _finding(function, warmup)


def _finding(function: WarmupFunction, warmup: Warmup) -> Finding:
    action = _action(warmup)
    return RULE.finding(
        title=_title(function, warmup),
        severity="error" if function.limit else "warning",
        location=Location(function.file, function.line, function=function.function),
        evidence=[f"{each.function}: {each.versions}" for each in warmup.functions if each.versions > _FEW],
        advice=Advice(action=action, why=_why(function, warmup), link=_LINK),
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


RULE = Rule(
    id="warmup-many-versions",
    title="Many compiled versions for the shapes of production",
    severity="warning",
    description=(
        "The shapes given by `--shapes` need more than half of the versions that torch makes of one function, or "
        "more than it makes: then the shapes that are left over run in eager. Dynamic sizes or buckets end it; "
        "`dynalyze audit` has tried the first and computed the second."
    ),
    passed="The shapes of production need few compiled versions, as far as they were tried (--shapes).",
    judge=_judge,
)

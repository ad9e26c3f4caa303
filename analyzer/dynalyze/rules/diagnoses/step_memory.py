"""A compiled training step that takes clearly more memory than the same step in eager."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.report import Report
from dynalyze.report.measurements import KeptLine, Measurement, StepMemory
from dynalyze.rules.rule import Ranked, Rule
from dynalyze.text.amounts import count_of, exact_size, listed

_MORE, _LEAST = 1.2, 1_000_000
_LINES = 3
_BUDGET = "torch._functorch.config.activation_memory_budget = 0.5"
_BUDGET_NOTE = (
    "0 keeps as little as can be, 1 is the default. What is not kept is computed again, which takes time. It bounds "
    "what is kept, not the peak: measure both."
)


@Rule(
    title="A compiled training step takes more memory than eager",
    rank=365,
    link="https://docs.pytorch.org/docs/stable/checkpoint.html",
    description="The compiler decides by itself which results of the forward it keeps for the backward and which it "
    "computes again there. Where one step keeps, or at its peak holds, more than 1.2 times what eager does, and 1 MB "
    "more, a model that fits in eager may not fit compiled. Said only of training steps that were measured.",
    fix="Bound what is kept with `torch._functorch.config.activation_memory_budget`. Where checkpointed blocks run "
    "more than once in one step, end the graph between the passes with `torch._dynamo.graph_break()`.",
)
def step_memory(report: Report) -> Iterator[Ranked]:
    for measured in report.measurements:
        found = measured.step_memory
        if found is None or found.problem or measured.status == "failed":
            continue
        if _is_more(found.compiled_kept, found.eager_kept):
            yield _keeps(measured, found)
        elif _is_more(found.compiled_peak, found.eager_peak):
            yield _holds(measured, found)


def _is_more(compiled: int, eager: int) -> bool:
    return compiled > _MORE * eager and compiled - eager > _LEAST


def _times(compiled: int, eager: int) -> str:
    return f"{compiled / eager:.1f} times eager's {exact_size(eager)}" if eager else "where eager has none"


def _keeps(measured: Measurement, found: StepMemory) -> Ranked:
    more = [line for line in found.lines if line.compiled_bytes > line.eager_bytes]
    more.sort(key=lambda line: line.eager_bytes - line.compiled_bytes)
    most = listed(
        [f"{_name(line)} ({exact_size(line.compiled_bytes - line.eager_bytes)} more)" for line in more[:_LINES]]
    )
    return step_memory.finding(
        f"{measured.configuration} keeps {exact_size(found.compiled_kept)} for backward, "
        f"{_times(found.compiled_kept, found.eager_kept)}",
        f"Bound what the compiler keeps{f', most of it more at {most}' if most else ''}: `{_BUDGET}`; or checkpoint "
        "these lines with torch.utils.checkpoint(..., use_reentrant=False) inside of what is compiled.",
        why="Measured in one training step of each. That the setting helps here was not tried.",
        config=_BUDGET,
        config_note=_BUDGET_NOTE,
        location=more[0].place if more else None,
        evidence=[measured.configuration],
    )


def _holds(measured: Measurement, found: StepMemory) -> Ranked:
    title = f"The peak of {measured.configuration} is {exact_size(found.compiled_peak)}, " + _times(
        found.compiled_peak, found.eager_peak
    )
    again = sorted((line for line in found.lines if line.recomputed), key=lambda line: -len(line.recomputed))
    where = next((line.place for line in again if line.place), None)
    if found.compiled_peak_in == "forward" or not again:
        return step_memory.finding(
            title,
            "Compile repeated blocks one by one (`torch.compile(block)`): then no graph holds results of several.",
            why=f"Measured in one training step of each; the peak is in the {found.compiled_peak_in}. That it helps "
            "here was not tried.",
            location=where,
            evidence=[measured.configuration],
        )
    operations = sum(len(line.recomputed) for line in again)
    most = listed([f"{_name(line)} ({len(line.recomputed):,})" for line in again[:_LINES]])
    return step_memory.finding(
        title,
        "Where checkpointed blocks run more than once in one compiled step, put `torch._dynamo.graph_break()` between "
        "the passes, or compile each block by itself, together with its checkpoint.",
        why=f"The compiled backward computes {count_of(operations, 'operation')} again, most at {most}, and may hold "
        "what it computes of several blocks at once: what is kept for it is not clearly more than in eager. The peak "
        "was measured in one training step of each; that the change helps here was not tried. In a stack of six "
        "checkpointed blocks that one step runs twice (pytorch 193193) the break brought the peak from 2.5 to 1.2 "
        "times eager's.",
        link="https://github.com/pytorch/pytorch/issues/193193",
        location=where,
        evidence=[measured.configuration],
    )


def _name(line: KeptLine) -> str:
    return line.place.short if line.place is not None else "an unknown line"

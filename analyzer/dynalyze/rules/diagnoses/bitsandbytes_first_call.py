"""What bitsandbytes rearranges in its first call, which the second one then does not fit."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.report import Advice, Example, Finding, Impact, Report
from dynalyze.rules.library_layers import FROM_RUN, called_from, spent
from dynalyze.rules.recompile_advice.source import as_written, clipped
from dynalyze.rules.recompile_owners import owned
from dynalyze.rules.rule import Rule

_RANK = 398
_EXAMPLE = Example(
    "compiled = torch.compile(model)",
    "with torch.no_grad():\n    model(**inputs)  # in eager\ncompiled = torch.compile(model)",
)
_ACTION = (
    "Call the model once before torch.compile, without gradients: bitsandbytes then rearranges its weights outside of "
    "the compiled code, and the first compile is the only one."
)


def _judge(report: Report) -> Iterator[tuple[int, Finding]]:
    series = owned(report, "bitsandbytes-first-call")
    if not series:
        return
    members = [member for one in series for member in one.recompiles]
    seconds = spent(members)
    changed = f"`{clipped(as_written(series[0].lead.source or ''))}`"
    yield (
        _RANK,
        Finding(
            rule="bitsandbytes-first-call",
            severity="warning",
            title="bitsandbytes rearranged its weights in the first compiled call: compiled again "
            f"{'once' if len(members) == 1 else f'{len(members)} times'}",
            location=called_from(report, series[0].lead),
            evidence=[member.id for member in members],
            advice=_ACTION,
            impact=None if seconds is None else Impact(seconds, "spent compiling again"),
            detail=Advice(
                action=_ACTION,
                why=f"{FROM_RUN} An 8-bit layer moves its statistics away from the weight in its first call, and on "
                f"some processors a 4-bit weight is packed in another order. Here {changed} changed.",
                example=_EXAMPLE,
            ),
        ),
    )


RULE = Rule(
    id="bitsandbytes-first-call",
    title="bitsandbytes rearranged its weights in the first call",
    severity="warning",
    description=(
        "Layers of bitsandbytes prepare themselves in their first call: 8-bit ones move their statistics, 4-bit ones "
        "may be packed anew for the processor. Where that call is compiled already, the second one compiles again."
    ),
    fix="Call the model once in eager, without gradients, before torch.compile.",
    example=_EXAMPLE,
    passed="No layer of bitsandbytes was rearranged between two compiled calls.",
    judge=_judge,
    of=("recompile",),
)

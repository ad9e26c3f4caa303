"""What bitsandbytes rearranges in its first call, which the second one then does not fit."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dynalyze.report import Advice, Example, Finding, Impact, Recompile, Report
from dynalyze.rules.recompile_advice.source import as_written, clipped
from dynalyze.rules.recompile_series import Series
from dynalyze.rules.report_queries import FROM_RUN, called_from, layers_of, spent
from dynalyze.rules.rule import Rule

_RANK = 398
_STATE = re.compile(r"\._parameters\['weight'\]\.(?:CB|SCB)$|\.weight\.(?:CB|SCB)$|\.state\.(?:CB|SCB)$")
_WEIGHT_SIZE = re.compile(r"^\w+(?P<path>.*)\._parameters\['weight'\](?:\.(?:size|stride)\(\)\[\d+\])?$")
_CHILD = re.compile(r"\._modules\['([^']+)'\]")
_EXAMPLE = Example(
    "compiled = torch.compile(model)",
    "with torch.no_grad():\n    model(**inputs)  # in eager\ncompiled = torch.compile(model)",
)
_ACTION = (
    "Call the model once before torch.compile, without gradients: bitsandbytes then rearranges its weights outside of "
    "the compiled code, and the first compile is the only one."
)


def _judge(report: Report) -> Iterator[tuple[int, Finding]]:
    series = RULE.recompiles(report)
    if not series:
        return
    members = [member for one in series for member in one.recompiles]
    seconds = spent(members)
    changed = f"`{clipped(as_written(series[0].lead.source or ''))}`"
    yield (
        _RANK,
        RULE.finding(
            title="bitsandbytes rearranged its weights in the first compiled call: compiled again "
            f"{'once' if len(members) == 1 else f'{len(members)} times'}",
            location=called_from(report, series[0].lead),
            evidence=[member.id for member in members],
            advice=Advice(
                action=_ACTION,
                why=f"{FROM_RUN} An 8-bit layer moves its statistics away from the weight in its first call, and on "
                f"some processors a 4-bit weight is packed in another order. Here {changed} changed.",
                example=_EXAMPLE,
            ),
            impact=None if seconds is None else Impact(seconds, "spent compiling again"),
        ),
    )


def _owns_series(series: Series, report: Report) -> bool:
    return _STATE.search(series.lead.source or "") is not None or _is_packed_weight(series.lead, report)


def _is_packed_weight(lead: Recompile, report: Report) -> bool:
    """Another size of the first 4-bit weight: bitsandbytes packs them anew for the processor."""
    found = _WEIGHT_SIZE.match(lead.source or "")
    if found is None or lead.cause not in ("shape", "rank", "stride", "dtype"):
        return False
    path = _CHILD.sub(r".\1", found["path"]).strip(".")
    layers = (group for _, group in layers_of(report, "bitsandbytes") if "4bit" in group.kind)
    return any(_ends_alike(path, group.first) for group in layers)


def _ends_alike(one: str, other: str) -> bool:
    """Whether two paths name one layer, seen from different roots."""
    return one == other or one.endswith(f".{other}") or other.endswith(f".{one}")


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
    owns_recompiles=_owns_series,
    precedence=1,
)

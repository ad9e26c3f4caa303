"""An adapter that was replaced by one of another rank or scaling in a model that was not prepared for it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dynalyze.report import Advice, Example, Finding, Impact, Report
from dynalyze.rules.recompile_series import Series
from dynalyze.rules.report_queries import FROM_RUN, LORA_WEIGHT, adapters_of, called_from, spent, uses_peft
from dynalyze.rules.rule import Rule

_RANK = 396
_SCALING = re.compile(r"\.scaling\[")
_LINK = "https://huggingface.co/docs/peft/package_reference/hotswap"


def _judge(report: Report) -> Iterator[tuple[int, Finding]]:
    series = RULE.recompiles(report)
    if not series:
        return
    members = [member for one in series for member in one.recompiles]
    prepared = any(adapters.prepared_for_hotswap for _, adapters in adapters_of(report))
    rank = _highest_rank(series, report)
    action = _action(rank, prepared=prepared)
    seconds = spent(members)
    call = f"prepare_model_for_compiled_hotswap(model, target_rank={rank})"
    yield (
        _RANK,
        RULE.finding(
            title=f"{_what(series)} of an adapter changed, and the model was compiled again "
            f"{'once' if len(members) == 1 else f'{len(members)} times'}",
            location=called_from(report, series[0].lead),
            evidence=[member.id for member in members],
            advice=Advice(
                action=action,
                why=f"{FROM_RUN} A rank is a size of the weights, and a scaling is a Python number: both are built "
                "into the compiled code. Preparing pads the weights to one rank and makes tensors of the scalings.",
                example=Example("compiled = torch.compile(model)", f"{call}\ncompiled = torch.compile(model)"),
                link=_LINK,
            ),
            impact=None if seconds is None else Impact(seconds, "spent compiling again"),
        ),
    )


def _action(rank: int, *, prepared: bool) -> str:
    if prepared:
        return (
            f"The model was prepared for hot-swapping, but not for this adapter: give the highest rank of all adapters "
            f"as `target_rank` (at least {rank}), and call `prepare_model_for_compiled_hotswap` before torch.compile."
        )
    return (
        f"Call `prepare_model_for_compiled_hotswap(model, target_rank={rank})` of `peft.utils.hotswap` once, before "
        "torch.compile and before the first swap, with the highest rank of all adapters that will be swapped in."
    )


def _what(series: list[Series]) -> str:
    """The rank, where a size changed, else the scaling."""
    ranks = any(one.lead.cause in ("shape", "symbolic", "stride", "rank") for one in series)
    return "The rank" if ranks or _sizes(series) else "The scaling"


def _sizes(series: list[Series]) -> list[int]:
    return [
        int(value)
        for one in series
        if re.search(r"\.size\(\)\[\d+\]$", one.lead.source or "")
        for value in one.values
        if value.isdigit()
    ]


def _highest_rank(series: list[Series], report: Report) -> int:
    """Of the ranks that were seen, as sizes or in the layers at the end."""
    seen = [rank for _, adapters in adapters_of(report) for rank in adapters.ranks.values()]
    return max([*seen, *_sizes(series)], default=16)


def _owns_series(series: Series, report: Report) -> bool:
    source = series.lead.source or ""
    return (_SCALING.search(source) or LORA_WEIGHT.search(source)) is not None and uses_peft(report)


RULE = Rule(
    id="lora-hotswap",
    title="A hot-swapped adapter compiled the model again",
    severity="warning",
    description=(
        "PEFT can replace the weights of a loaded adapter without a new compile, if the model was prepared: one rank "
        "for all, and scalings that are tensors. Without that an adapter of another rank or scaling compiles it again."
    ),
    fix="Call `prepare_model_for_compiled_hotswap` once, before torch.compile, with the highest rank of all adapters.",
    example=Example(
        "compiled = torch.compile(model)",
        "prepare_model_for_compiled_hotswap(model, target_rank=16)\ncompiled = torch.compile(model)",
    ),
    passed="No adapter was replaced by one that did not fit the compiled code.",
    judge=_judge,
    owns_recompiles=_owns_series,
    at_limit=(
        "Call `prepare_model_for_compiled_hotswap` before torch.compile, with the highest rank of all adapters as "
        "`target_rank`."
    ),
)

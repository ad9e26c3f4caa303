"""Adapters that were switched between calls, or may be: each state of them is a program of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dynalyze.report import Advice, Example, Finding, Impact, Report
from dynalyze.report.models import Adapters, ModuleFacts
from dynalyze.rules.recompile_advice import shown_values
from dynalyze.rules.recompile_series import Series
from dynalyze.rules.report_queries import (
    FROM_RUN,
    FROM_SETTINGS,
    LORA_WEIGHT,
    adapters_of,
    called_from,
    compiled_at,
    counted,
    spent,
    times,
    uses_peft,
)
from dynalyze.rules.rule import Rule

_RANK, _RANK_OF_CHANCES = 395, 650
_MOST_VALUES = 6
_SWITCHED = re.compile(r"\b_?active_adapters?\b|\b_?disable_adapters\b|\b_adapters_disabled\b|\bmerged_adapters\b")
_LIMIT = "torch._dynamo.config.recompile_limit"
_LINK = "https://huggingface.co/docs/peft/developer_guides/torch_compile"
_EXAMPLE = Example(
    "compiled = torch.compile(model)",
    'compiled = torch.compile(model)\nfor name in ("first", "second"):  # every adapter that production uses\n'
    "    model.set_adapter(name)\n    compiled(**inputs)\nwith model.disable_adapter():\n    compiled(**inputs)",
)


def _judge(report: Report) -> Iterator[tuple[int, Finding]]:
    series = RULE.recompiles(report)
    if series:
        yield _RANK, _switched(series, report)
        return
    for module, adapters in adapters_of(report):
        if len(adapters.names) > 1 and not adapters.merged and not adapters.switches:
            yield _RANK_OF_CHANCES, _several(module, adapters)


def _switched(series: list[Series], report: Report) -> Finding:
    members = [member for one in series for member in one.recompiles]
    seconds = spent(members)
    names = next((adapters.names for _, adapters in adapters_of(report) if adapters.names), [])
    known = f" ({', '.join(names)})" if names else ""
    action = (
        f"Run every state of the adapters{known} once in the warm-up: each `set_adapter`, and `disable_adapter` where "
        "it is used, is compiled once and then kept. For many adapters of one shape load a single one, call "
        "`prepare_model_for_compiled_hotswap` before torch.compile, and replace its weights with `hotswap_adapter`: "
        f"that compiles nothing.{_history(series)}"
    )
    return RULE.finding(
        title=f"Switching adapters compiled the model again {times(len(members))}",
        location=called_from(report, series[0].lead),
        evidence=[member.id for member in members],
        advice=Advice(
            action=action,
            why=f"{FROM_RUN} Which adapter is active is a Python value to the compiler, built into the code. torch "
            f"keeps {_limit(report)} versions of a function ({_LIMIT}); with more states than that, calls run in "
            "eager.",
            example=_EXAMPLE,
            link=_LINK,
        ),
        impact=None if seconds is None else Impact(seconds, "spent compiling again"),
    )


def _limit(report: Report) -> int:
    """How many versions torch keeps here; its default where the run does not tell."""
    found = report.settings.get(_LIMIT)
    return found if isinstance(found, int) else 8


def _history(series: list[Series]) -> str:
    values = shown_values(series[0])
    if len(values) < 2:
        return ""
    more = ", ..." if len(values) > _MOST_VALUES else ""
    return f" Here the state went {', '.join(values[:_MOST_VALUES])}{more}."


def _several(module: ModuleFacts, adapters: Adapters) -> Finding:
    together = len(adapters.active) > 1
    loaded = f"{counted(len(adapters.names), 'adapter')} ({', '.join(adapters.names)})"
    if together:
        action = (
            f"Join the active adapters of {module.class_name} into one with `add_weighted_adapter`, or merge them with "
            "`merge_and_unload`, where they always run together."
        )
        title = f"{counted(len(adapters.active), 'adapter')} run at once in {module.class_name}"
    else:
        action = (
            f"If production switches between them, call each once in the warm-up after `set_adapter`. If it does not, "
            f"load `{adapters.active[0] if adapters.active else adapters.names[0]}` alone."
        )
        title = f"{module.class_name} holds {loaded}: a switch will compile again"
    return RULE.finding(
        title=title,
        rule="lora-several-adapters",
        severity="info",
        location=compiled_at(module),
        evidence=[module.id],
        advice=Advice(action=action, why=_why(together=together), link=_LINK),
    )


def _why(*, together: bool) -> str:
    if together:
        return "Read from the layers: every active adapter adds two multiplications to each layer that it is in."
    return f"{FROM_SETTINGS} Each state of the adapters is compiled by itself, at the first call that meets it."


def _owns_series(series: Series, report: Report) -> bool:
    source = series.lead.source or ""
    trained = series.lead.cause == "requires_grad" and LORA_WEIGHT.search(source) is not None
    return (trained or _SWITCHED.search(source) is not None) and uses_peft(report)


RULE = Rule(
    id="adapter-switch",
    title="Adapters were switched, or can be",
    severity="warning",
    description=(
        "PEFT keeps the name of the active adapter, and whether adapters are on, as Python values. set_adapter and "
        "disable_adapter change them, and the model is compiled again: once for each new state. The finding "
        "lora-several-adapters says that more than one adapter is loaded, where the run showed no switch."
    ),
    fix=(
        "Call every state of the adapters once in the warm-up. For many adapters of one shape load a single one, "
        "prepare it with `prepare_model_for_compiled_hotswap`, and swap its weights with `hotswap_adapter`."
    ),
    example=_EXAMPLE,
    passed="No adapter was switched between calls.",
    judge=_judge,
    owns_recompiles=_owns_series,
    at_limit=(
        "Load a single adapter, call `prepare_model_for_compiled_hotswap` before torch.compile, and replace its "
        "weights with `hotswap_adapter`: then no number of adapters compiles anything."
    ),
    more_ids=("lora-several-adapters",),
)

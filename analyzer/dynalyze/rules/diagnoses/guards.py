"""Guards that take much of a call, where a trial has shown what makes them cheaper."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.report import Advice, Impact, Report
from dynalyze.report.measurements import GuardRemedy, Prices
from dynalyze.rules.rule import Ranked, Rule
from dynalyze.text.amounts import milliseconds

_DOCS = (
    "https://docs.pytorch.org/docs/main/user_guide/torch_compiler/compile/"
    "programming_model.reducing_guard_overhead.html"
)


_NEARLY = 0.8


@Rule(
    title="Guards take much of a call",
    severity="info",
    rank=450,
    link=_DOCS,
    description="Before compiled code runs, its guards are checked, in every call. Said only where they were measured "
    "to take a notable share, and compiling with a setting was measured to make a call faster.",
    fix="Try the settings in the section on what a call costs, safe ones first; let forward read fewer objects.",
    passed="No setting was measured to make a call faster by its guards.",
)
def costly_guards(report: Report) -> Iterator[Ranked]:
    found = next((each.prices for each in report.measurements if each.prices and each.prices.remedies), None)
    gaining = [each for each in found.remedies if each.gains] if found is not None else []
    if found is None or not gaining or found.call_ms is None:
        return
    taken = sum(part.ms for part in found.parts if part.kind == "guards")
    share = min(1.0, taken / found.call_ms.value)
    best = _best(gaining)
    dearest = max(found.guards, key=lambda each: each.us, default=None)
    yield costly_guards.finding(
        f"Guards take {milliseconds(taken)} of each call before compiled code runs",
        Advice(_action(found, best), _why(best), config=best.setting, config_note=_note(best), link=_DOCS),
        location=dearest.place if dearest is not None else None,
        evidence=[each.compile_id for each in found.guards],
        impact=Impact(ms_per_call=taken, share=share),
    )


def _best(gaining: list[GuardRemedy]) -> GuardRemedy:
    """The safe one that gains most; else, of those that gain nearly as much as any, the one that gives up least."""
    safe = [each for each in gaining if each.safe]
    if safe:
        return max(safe, key=_gain)
    most = max(map(_gain, gaining))
    return next(each for each in gaining if _gain(each) >= _NEARLY * most)


def _action(prices: Prices, best: GuardRemedy) -> str:
    """What to do: a safe setting that gains, else a change of the source; an unsafe setting only with its risk."""
    if best.safe:
        return f"Set {best.name}: a call takes {milliseconds(_gain(best))} less, with equal outputs."
    group = next((each for version in prices.guards for each in version.groups if each.advice), None)
    change = f"{group.advice.removeprefix('untried: ').capitalize()} (untried). " if group is not None else ""
    return (
        f"{change}No safe setting that was tried helps. {best.name} makes a call {milliseconds(_gain(best))} faster, "
        f"and is unsafe: {best.risk}."
    )


def _why(best: GuardRemedy) -> str:
    assert best.before_ms is not None and best.after_ms is not None
    times = f"{milliseconds(best.before_ms.value)} a call without it, {milliseconds(best.after_ms.value)} with it"
    return f"Tried: {times}. It no longer checks {best.skips}."


def _note(best: GuardRemedy) -> str:
    return f"{'safe' if best.safe else 'unsafe'}: {best.risk}"


def _gain(remedy: GuardRemedy) -> float:
    return remedy.gain_ms.value if remedy.gain_ms is not None else 0.0

"""What graph breaks cost per call, for findings and limits; guards that cost much; settings that were tried."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dynalyze.break_cost.records import prices_of
from dynalyze.files.paths import library_of
from dynalyze.report import Advice, Impact, Location, Report
from dynalyze.report.intervals import Interval
from dynalyze.report.measurements import Measurement
from dynalyze.rules.rule import Ranked, Rule
from dynalyze.text.amounts import milliseconds

_DOCS = (
    "https://docs.pytorch.org/docs/main/user_guide/torch_compiler/compile/"
    "programming_model.reducing_guard_overhead.html"
)


@Rule(
    title="Guards take much of a call",
    severity="info",
    rank=450,
    link=_DOCS,
    description="Before compiled code runs, its guards are checked, in every call. Said only where they were measured "
    "to take a notable share, and most of it is spent on many objects of one kind that your code holds.",
    fix="Let forward read fewer objects; the section on what a call costs names them.",
)
def costly_guards(report: Report) -> Iterator[Ranked]:
    for found in prices_of(report.measurements):
        groups = [group for version in found.guards for group in version.groups if group.advice]
        if found.call_ms is None or not groups:
            continue
        taken = sum(part.ms for part in found.parts if part.kind == "guards")
        dearest = max(found.guards, key=lambda each: each.us)
        if dearest.place is not None and library_of(dearest.place.file):
            return  # What to do is to be done in the code of the function.
        group = max(groups, key=lambda each: each.us)
        yield costly_guards.finding(
            f"Guards take {milliseconds(taken)} per call before compiled code runs",
            Advice(
                f"Of what `{group.source}` leads to, {group.advice}. Nobody has tried it on this program.",
                f"{group.sources:,} objects are looked at in each call, which takes {milliseconds(group.us / 1e3)}.",
                link=_DOCS,
            ),
            location=dearest.place,
            evidence=[each.compile_id for each in found.guards],
            impact=Impact(ms_per_call=taken, share=min(1.0, taken / found.call_ms.value)),
        )
        return


def break_impact(report: Report, ids: set[str]) -> Impact | None:
    """What these graph breaks cost per call together; None if that was not measured."""
    prices = next((each for each in prices_of(report.measurements) if each.breaks), None)
    found = [each for each in prices.breaks if each.break_id in ids] if prices is not None else []
    if prices is None or not found:
        return None
    ms, call_ms = sum(each.ms.value for each in found), prices.call_ms.value if prices.call_ms else 0.0
    share = min(1.0, sum(each.share for each in found))
    return Impact(ms_per_call=ms, share=share, without_ms=max(0.0, call_ms - ms))


def costliest_break(measured: Iterable[Measurement]) -> tuple[tuple[Location, Interval] | None, str]:
    """As rules/report_queries.py `costliest_break` says."""
    known = prices_of(measured)
    good = [prices for prices in known if prices.call_ms is not None and not prices.problem]
    if not good:
        return None, next((prices.problem for prices in known), "") or "no prices were measured"
    most = max((each for prices in good for each in prices.breaks), key=lambda each: each.ms.low, default=None)
    return (None if most is None else (most.place, most.ms)), ""

"""Guards that take much of a call, at code of the user's that can hold less of what they look at."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.report import Advice, Impact, Report
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
    fix="Let forward read fewer objects, as the section on what a call costs says.",
    passed="No guards were measured to take a notable share of a call for what your code holds.",
)
def costly_guards(report: Report) -> Iterator[Ranked]:
    for measured in report.measurements:
        found = measured.prices
        groups = [group for version in found.guards for group in version.groups if group.advice] if found else []
        if found is None or found.call_ms is None or not groups:
            continue
        taken = sum(part.ms for part in found.parts if part.kind == "guards")
        dearest = max(found.guards, key=lambda each: each.us)
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

"""Graph breaks in bitsandbytes' own code, and whether a newer torch or bitsandbytes is free of them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from dynalyze.report import Advice, Finding, GraphBreak, Report
from dynalyze.rules.report_queries import FROM_RUN, breaks_in, counted, shown_version, users_line, version
from dynalyze.rules.rule import Rule, severity_of

_RANK = 195
_LINK = "https://github.com/bitsandbytes-foundation/bitsandbytes/pull/1616"
# Since these versions both kinds of layers are traced without a break.
_TORCH, _BITSANDBYTES = (2, 8), (0, 46)


def _judge(report: Report) -> Iterator[tuple[int, Finding]]:
    breaks = RULE.breaks(report)
    if not breaks:
        return
    action = _action(version(report, "torch"), version(report, "bitsandbytes"), breaks[0])
    yield (
        _RANK,
        RULE.finding(
            title=f"bitsandbytes breaks the graph at {counted(len(breaks), 'place')}",
            severity=severity_of(breaks),
            location=users_line(breaks[0]),
            evidence=[found.id for found in breaks],
            advice=Advice(
                action=action,
                why=f"{FROM_RUN} The lines are bitsandbytes' own, so each of its layers is cut out of the graph. From "
                "torch 2.8 and bitsandbytes 0.46 on its layers are traced whole.",
                link=_LINK,
            ),
        ),
    )


def _action(torch: tuple[int, ...], library: tuple[int, ...], first: GraphBreak) -> str:
    old = []
    if torch and torch < _TORCH:
        old.append(f"torch to 2.8 or later (here {shown_version(torch)})")
    if library and library < _BITSANDBYTES:
        old.append(f"bitsandbytes to 0.46 or later (here {shown_version(library)})")
    if old:
        return f"Upgrade {' and '.join(old)}."
    if not torch or not library:
        return (
            "Upgrade to torch 2.8 and bitsandbytes 0.46 or later, where either is older; the versions are not recorded."
        )
    return (
        f"torch {shown_version(torch)} and bitsandbytes {shown_version(library)} are new enough, so their age is not "
        f"the cause. torch says `{first.gb_type}`: look for `{first.location.function or 'the line'}` in bitsandbytes' "
        "issues."
    )


RULE = Rule(
    id="bitsandbytes-breaks",
    title="Graph breaks inside bitsandbytes",
    severity="warning",
    description=(
        "Older versions of bitsandbytes, and torch before 2.8, break the graph in every quantised layer, which leaves "
        "little to compile. Newer versions trace these layers whole."
    ),
    fix="Upgrade to torch 2.8 and bitsandbytes 0.46 or later.",
    passed="No graph break in bitsandbytes.",
    judge=_judge,
    owns_breaks=partial(breaks_in, folder="bitsandbytes"),
    precedence=1,
)

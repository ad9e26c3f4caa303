"""What happens inside of installed packages, of which a program's owner can change next to nothing: told together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from dynalyze.files.paths import library_of
from dynalyze.report import Advice, Finding, GraphBreak, Impact, Recompile, Report
from dynalyze.rules.recompile_series import spared_by_dynamic
from dynalyze.rules.rule import Ranked, Rule
from dynalyze.text.amounts import count_of, listed

_FEW = 3
"""Findings of packages that are told one by one."""
_MOST_PACKAGES = 3


def _together(report: Report, found: Sequence[Ranked]) -> list[Ranked]:
    """The findings with those that only packages can do something about as one, where they are many."""
    inside = [each for each in found if each[1].package and each[1].severity != "error"]
    is_asked_for = report.target.kind in ("transformers", "library")
    if len(inside) <= _FEW or is_asked_for:
        return list(found)
    findings = [finding for _, finding in inside]
    named = {name for finding in findings for name in finding.evidence if finding.rule != "caller-in-eager"}
    breaks = [each for each in report.graph_breaks if each.id in named]
    again = [each for each in report.recompiles if each.id in named]
    packages = Counter(finding.package for finding in findings)
    names = listed([name for name, _ in packages.most_common()], _MOST_PACKAGES)
    counts = [count_of(len(breaks), "graph break")] * bool(breaks) + [count_of(len(again), "recompile")] * bool(again)
    first, others = _first(breaks, findings)
    together = inside_packages.finding(
        f"{' and '.join(counts)} inside of {names}",
        Advice(
            " ".join(filter(None, [*_what_to_do(breaks, again, found, first), _who_can(first, others)])),
            "These lines of packages break, or are compiled again, in calls that the packages make by themselves.",
        ),
        rank=min(rank for rank, _ in inside),
        severity="warning",
        location=first.location if first is not None else findings[0].location,
        evidence=[*(each.id for each in breaks), *(each.id for each in again)],
        impact=_cost(breaks, again),
    )
    return [*(each for each in found if each not in inside), together]


def _what_to_do(
    breaks: Sequence[GraphBreak], again: Sequence[Recompile], found: Sequence[Ranked], first: GraphBreak | None
) -> Iterator[str]:
    spared = sum(map(spared_by_dynamic, again))
    if spared:
        yield f"Compile with `torch.compile(..., dynamic=True)`: {spared} of the recompiles came of a size or a number."
    if breaks or spared < len(again):
        parts = any(finding.rule == "compile-a-part" for _, finding in found)
        around = ", or compile the parts that it does not reach, listed separately" if parts else ""
        those, leads = "the others" if spared else "these", f" to `{first.location.function}`" if first else " there"
        yield (
            f"No rewritten line of your program ends {those}: do without the option or layer of the package that leads"
            f"{leads}, or leave them{around}."
        )


def _first(breaks: Sequence[GraphBreak], findings: Sequence[Finding]) -> tuple[GraphBreak | None, int]:
    """The break that most of the others follow from, and how many do."""
    after = Counter(name for finding in findings for name in {finding.after, *finding.evidence[:1]})
    best = max(breaks, key=lambda each: after[each.id], default=None)
    return best, after[best.id] - 1 if best is not None else 0


def _who_can(first: GraphBreak | None, others: int) -> str:
    if first is None:
        return ""
    follow = f", which {count_of(others, 'other finding')} follow{'s' if others == 1 else ''} from" if others else ""
    package = library_of(first.location.file)
    return f"Who can change {package} begins at {first.location.short} ({first.id}){follow}."


def _cost(breaks: Sequence[GraphBreak], again: Sequence[Recompile]) -> Impact | None:
    known = [*(each.compile_seconds for each in breaks), *(each.seconds for each in again)]
    spent = sum(each for each in known if each is not None)
    return Impact(compile_seconds=round(spent, 6), what="of compile time") if spent else None


@Rule(
    title="Breaks and recompiles inside of packages",
    description="Lines of installed packages break graphs or are compiled again, in calls that the packages make by "
    "themselves: nothing that a program can write ends them, but for `dynamic=True`. More than three are one finding; "
    "the tables have each with what torch says.",
    owns_breaks=lambda report: (),
    owns_recompiles=lambda series, report: False,
    together=_together,
)
def inside_packages(report: Report) -> list[Ranked]:
    return []

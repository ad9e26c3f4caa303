"""Settings that the advice on recompiles names, tried on the calls and on the whole program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from dynalyze.fix.settings import merged, read
from dynalyze.report import Recompile, Report
from dynalyze.report.fixes import CompileCounts
from dynalyze.rules.recompile_advice import advise
from dynalyze.rules.recompile_series import gather
from dynalyze.rules.rule import recompile_owner
from dynalyze.text.amounts import count_of


@dataclass
class Candidate:
    """Settings, and the recompiles whose advice names them."""

    settings: dict[str, object] = field(default_factory=dict)
    recompiles: list[Recompile] = field(default_factory=list)


def candidates(report: Report) -> Iterator[Candidate]:
    """All settings that advice names at once, then each by itself, where there are several."""
    by_name: dict[str, Candidate] = {}
    free, limited = gather(report)
    for series in [*free, *(group.main for group in limited)]:
        if recompile_owner(series, report) is None:
            for name, value in read(advise(series).config).items():
                one = by_name.setdefault(name, Candidate())
                one.settings = merged(one.settings, {name: value})
                one.recompiles += series.recompiles
    if len(by_name) > 1:
        every = Candidate()
        for one in by_name.values():
            every.settings |= one.settings
            every.recompiles += [each for each in one.recompiles if each not in every.recompiles]
        yield every
    yield from by_name.values()


def gone(before: list[Recompile], after: list[Recompile]) -> list[Recompile]:
    """Those of `before` that a run with other settings lacks: one of one cause at one function stands for another."""
    left = Counter(map(_what, after))
    found = []
    for each in before:
        left[_what(each)] -= 1
        if left[_what(each)] < 0:
            found.append(each)
    return found


def no_better(before: CompileCounts, after: CompileCounts) -> str:
    """Why settings against recompiles are no gain; "" where they are."""
    if after.breaks > before.breaks:
        return f"{count_of(after.breaks, 'graph break')} then, {before.breaks} before"
    if after.recompiles >= before.recompiles:
        return f"{count_of(after.recompiles, 'recompile')} then, {before.recompiles} before"
    return ""


def _what(recompile: Recompile) -> tuple[object, ...]:
    return recompile.location.file, recompile.location.function, recompile.cause, recompile.source

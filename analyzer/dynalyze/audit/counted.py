"""Checks of what is counted: graph breaks, recompiles, functions left in eager, findings."""

from __future__ import annotations

from collections.abc import Iterable

from dynalyze.audit.judging import Case, listed, place_words
from dynalyze.facts.skipped import costly
from dynalyze.launch.shapes import shape_words
from dynalyze.report import Finding, Location, Severity
from dynalyze.report.audit import CheckStatus, PolicyCheck, ShapeRun, Warmup
from dynalyze.rules.rule import reaches
from dynalyze.text.amounts import count_of

_NOTHING = "nothing was compiled"
_NAMED_PHASES = ("prefill", "decode", "generate", "train")
_SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")
_NOUNS: dict[Severity, str] = {"error": "error", "warning": "warning", "info": "note"}

_Item = tuple[str, Location, bool]
"""A counted fact: its id, its place, and whether it is excused."""


def breaks(case: Case) -> PolicyCheck | None:
    """Distinct graph breaks, however often they were met."""
    limit = case.policy.max_graph_breaks
    items = [(each.id, each.location, each.id in case.sorting.facts) for each in case.report.graph_breaks]
    phases = {measured.phase for measured in case.report.measurements}
    path = next((f" in the {phase} path" for phase in _NAMED_PHASES if phases == {phase}), "")
    return _limited(case, "max-graph-breaks", limit, "graph break", items, path)


def recompiles(case: Case) -> PolicyCheck | None:
    """Compiles of what had been compiled before; reaching the limit is a finding of its own."""
    limit = case.policy.max_recompiles
    items = [
        (each.id, each.location, each.id in case.sorting.facts)
        for each in case.report.recompiles
        if each.cause != "limit"
    ]
    return _limited(case, "max-recompiles", limit, "recompile", items)


def eager_frames(case: Case) -> PolicyCheck | None:
    """Functions left in eager, with a graph break or in silence, each once."""
    limit = case.policy.max_eager_frames
    return _limited(case, "max-eager-frames", limit, "function", _eager(case), " left in eager")


def after_warmup(case: Case) -> PolicyCheck | None:
    """Compiles that came after the warm-up over the shapes of production."""
    name, limit = "max-recompiles-after-warmup", case.policy.max_recompiles_after_warmup
    if limit is None or (case.report.warmup is None and name not in case.policy.asked):
        return None
    asked, warmup = f"at most {count_of(limit, 'recompile')} after warm-up", case.report.warmup
    if warmup is None or warmup.reason or not warmup.calls:
        reason = warmup.reason if warmup and warmup.reason else "not checked: --shapes says what production sends"
        return case.unknown(name, asked, reason)
    late = sum(run.compiles for run in warmup.after_warmup)
    status: CheckStatus = "passed" if late <= limit else "failed"
    return case.check(name, status, asked, _late_words(warmup, late))


def findings(case: Case) -> PolicyCheck | None:
    """Findings of the severities and rules that the policy names."""
    levels = case.policy.fail_on
    if not levels:
        return None
    limit = f"no finding of {listed(levels)}"
    reached = failing(case.report.findings, levels)
    counting = failing(case.sorting.counting(case.report.findings), levels)
    excused = len(reached) - len(counting)
    reason = f"{count_of(excused, 'finding')} waived or known" if excused else ""
    status: CheckStatus = "failed" if counting else "waived" if excused else "passed"
    evidence = [identity for finding in counting for identity in finding.evidence]
    return case.check("fail-on", status, limit, findings_words(counting) or "none", reason, evidence)


def failing(found: Iterable[Finding], levels: Iterable[str]) -> list[Finding]:
    """The findings that reach one of the levels."""
    wanted = tuple(levels)
    return [finding for finding in found if any(reaches([finding], level) for level in wanted)]


def findings_words(found: list[Finding]) -> str:
    """`1 error and 2 warnings: Every function fell back to eager, ...`."""
    numbers = [(severity, sum(each.severity == severity for each in found)) for severity in _SEVERITIES]
    counts = [count_of(number, _NOUNS[severity]) for severity, number in numbers if number]
    return f"{listed(counts)}: {listed([finding.title for finding in found])}" if found else ""


def _limited(
    case: Case, name: str, limit: int | None, noun: str, items: list[_Item], more: str = ""
) -> PolicyCheck | None:
    if limit is None:
        return None
    asked = f"at most {count_of(limit, noun)}{more}"
    if not case.report.compilations:
        return case.unknown(name, asked, _NOTHING)
    counting = [(identity, place) for identity, place, excused in items if not excused]
    excused = len(items) - len(counting)
    status: CheckStatus = "failed" if len(counting) > limit else "passed" if len(items) <= limit else "waived"
    where = f": {listed([place_words(place) for _, place in counting])}" if counting else ""
    found = f"{count_of(len(counting), noun) if counting else f'no {noun}'}{more}{where}"
    reason = f"{excused:,} more waived or known" if excused else ""
    return case.check(name, status, asked, found, reason, [identity for identity, _ in counting])


def _eager(case: Case) -> list[_Item]:
    """Each function once, by its place. One that a graph break left in eager is excused with the break."""
    facts, report = case.sorting.facts, case.report
    excused = {
        (process, compile_id)
        for each in report.graph_breaks
        if each.id in facts
        for process in (each.process, *each.processes)
        for compile_id in each.compile_ids
    }
    items = [
        (each.compile_id, each.location, (each.process, each.compile_id) in excused)
        for each in report.compilations
        if each.status == "eager"
    ]
    items += [(each.id, each.location, each.id in facts) for each in costly(report.skipped_frames)]
    once: dict[tuple[str, int, str], _Item] = {}
    for item in items:
        place = item[1]
        once.setdefault((place.file, place.line, place.function), item)
    return list(once.values())


def _late_words(warmup: Warmup, late: int) -> str:
    if not late:
        return "nothing compiled after warm-up"
    every = _shapes(warmup.calls)
    compiled = _shapes([run for run in warmup.after_warmup if run.compiles])
    if len(compiled) == len(every) > 1:
        names = [name for name in every[0] if len({shape.get(name) for shape in every}) > 1]
        return f"recompiles on every new {' and '.join(names) or 'shape'}"
    shapes = listed([shape_words(shape) for shape in compiled])
    share = f"{len(compiled):,} of {count_of(len(every), 'shape')}"
    return f"{count_of(late, 'recompile')} after warm-up, for {share}: {shapes}"


def _shapes(runs: Iterable[ShapeRun]) -> list[dict[str, int]]:
    return [dict(shape) for shape in dict.fromkeys(tuple(run.shape.items()) for run in runs)]

"""One verdict from everything known about a run, by a policy: what is counted (graph breaks, recompiles, functions in
eager, findings) and what is measured (answers, speed, memory, compile time).

Texts begin with our own words; the program's names come after a colon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from dynalyze.audit.policy import Policy
from dynalyze.audit.waivers import AuditBaseline, Excused, excused_findings
from dynalyze.bench import MIN_PAIRS
from dynalyze.facts.audit import search_of, wrong_answers, wrong_tensor
from dynalyze.facts.why_not_compiled import costly
from dynalyze.render.text import bench as words_bench
from dynalyze.render.text.policy import title
from dynalyze.render.text.report import line_words, totals
from dynalyze.render.text.warmup import shape_words
from dynalyze.report import Finding, Location, Report, Severity, Status
from dynalyze.report.audit import CheckStatus, PolicyCheck, PolicyVerdict, Warmup
from dynalyze.report.measurements import AccuracyVerdict, Measurement
from dynalyze.rules.report_queries import costliest_break
from dynalyze.rules.rule import judge, reaches
from dynalyze.text import amounts
from dynalyze.text.amounts import count_of, duration, milliseconds

_ENDED: dict[Status, str] = {
    "failed": "the program failed",
    "timed_out": "the time limit ended the audit",
    "interrupted": "the audit was interrupted",
    "incomplete": "some compilations were not recorded",
}
_RUN, _FINDINGS = "run", "fail-on"
# What the finding of a rule says again where this check has said it.
_SAID_BY = {
    "graph-break": "max-graph-breaks", "recompile": "max-recompiles", "skipped-function": "max-eager-frames",
    "all-eager": "max-eager-frames", "accuracy-suspicious": "accuracy", "accuracy-operation": "accuracy",
    "compiles-after-warmup": "max-recompiles-after-warmup",
}  # fmt: skip
_MOST_NAMED = 3
_NOTHING = "nothing was compiled"
_NAMED_PHASES = ("prefill", "decode", "generate", "train")
_SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")
_NOUNS: dict[Severity, str] = {"error": "error", "warning": "warning", "info": "note"}

_Item = tuple[str, Location, bool]  # A counted fact: its id, its place, and whether it is excused.
_NOT_MEASURED = "no speed was measured"
_NOT_COMPARED = "no answers were compared"


@dataclass(frozen=True)
class Case:
    """A run and its policy. `excused` says which of its findings do not count."""

    report: Report
    policy: Policy
    excused: Excused

    def check(
        self, name: str, status: CheckStatus, limit: str, found: str, reason: str = "", evidence: Iterable[str] = ()
    ) -> PolicyCheck:
        return PolicyCheck(name, status, name in self.policy.asked, limit, found, reason, list(dict.fromkeys(evidence)))

    def unknown(self, name: str, limit: str, reason: str) -> PolicyCheck:
        return self.check(name, "unknown", limit, "not known", reason)

    @property
    def measured(self) -> list[Measurement]:
        return [item for item in self.report.measurements if item.configuration != "eager"]


def listed(items: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b, c and 4 more`."""
    return amounts.listed(list(dict.fromkeys(items)), most=_MOST_NAMED)


def breaks(case: Case, name: str, limit: int) -> PolicyCheck:
    """Distinct graph breaks, however often they were met."""
    items = [(each.id, each.location, each.id in case.excused.facts) for each in case.report.graph_breaks]
    phases = {measured.phase for measured in case.report.measurements}
    path = next((f" in the {phase} path" for phase in _NAMED_PHASES if phases == {phase}), "")
    return _limited(case, name, limit, "graph break", items, path)


def recompiles(case: Case, name: str, limit: int) -> PolicyCheck:
    """Recompiles; reaching the limit is a finding of its own."""
    counted = [each for each in case.report.recompiles if each.cause != "limit"]
    items = [(each.id, each.location, each.id in case.excused.facts) for each in counted]
    return _limited(case, name, limit, "recompile", items)


def eager_frames(case: Case, name: str, limit: int) -> PolicyCheck:
    """Functions left in eager, by a break, silently or past the recompile limit, each once by its place; one left there
    by an excused break is excused.
    """
    facts, report = case.excused.facts, case.report
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
    items += [(each.id, each.location, each.id in facts) for each in report.recompiles if each.cause == "limit"]
    once: dict[tuple[str, int, str], _Item] = {}
    for item in items:
        once.setdefault((item[1].file, item[1].line, item[1].function.rpartition(".")[2]), item)
    return _limited(case, name, limit, "function", list(once.values()), " left in eager")


def after_warmup(case: Case, name: str, limit: int) -> PolicyCheck | None:
    """Compiles after the warm-up over the shapes of production; None if no warm-up was checked."""
    if case.report.warmup is None and name not in case.policy.asked:
        return None
    asked, warmup = f"at most {count_of(limit, 'recompile')} after warm-up", case.report.warmup
    if warmup is None or warmup.reason or not warmup.calls:
        reason = warmup.reason if warmup and warmup.reason else "not checked: --shapes says what production sends"
        return case.unknown(name, asked, reason)
    late = sum(run.compiles for run in warmup.after_warmup)
    return case.check(name, "passed" if late <= limit else "failed", asked, _late_words(warmup, late))


def findings(case: Case, name: str, levels: tuple[str, ...]) -> PolicyCheck:
    """Findings of the severities and rules that the policy names."""
    limit = f"no {listed(levels)} findings"
    reached = failing(case.report.findings, levels)
    counting = failing(case.excused.counting(case.report.findings), levels)
    excused = len(reached) - len(counting)
    reason = f"{count_of(excused, 'finding')} waived or known" if excused else ""
    status: CheckStatus = "failed" if counting else "waived" if excused else "passed"
    evidence = [identity for finding in counting for identity in finding.evidence]
    return case.check(name, status, limit, findings_words(counting) or limit, reason, evidence)


def failing(found: Iterable[Finding], levels: Sequence[str]) -> list[Finding]:
    return [finding for finding in found if any(reaches([finding], level) for level in levels)]


def findings_words(found: list[Finding]) -> str:
    """`1 error and 2 warnings: Every function fell back to eager, ...`."""
    numbers = [(severity, sum(each.severity == severity for each in found)) for severity in _SEVERITIES]
    counts = [count_of(number, _NOUNS[severity]) for severity, number in numbers if number]
    return f"{listed(counts)}: {listed([finding.title for finding in found])}" if found else ""


def _limited(case: Case, name: str, limit: int, noun: str, items: list[_Item], more: str = "") -> PolicyCheck:
    asked = f"at most {count_of(limit, noun)}{more}"
    if not case.report.compilations:
        return case.unknown(name, asked, _NOTHING)
    counting = [(identity, place) for identity, place, excused in items if not excused]
    excused = len(items) - len(counting)
    status: CheckStatus = "failed" if len(counting) > limit else "passed" if len(items) <= limit else "waived"
    found = f"no {noun}{more}"
    if counting:
        lines = [(place.function, f"{Path(place.file).name}:{place.line}") for _, place in counting]
        places = listed([f"{function} ({line})" if function else line for function, line in lines])
        found = f"{count_of(len(counting), noun)}{more}: {places}"
    reason = f"{excused:,} more waived or known" if excused else ""
    return case.check(name, status, asked, found, reason, [identity for identity, _ in counting])


def _late_words(warmup: Warmup, late: int) -> str:
    if not late:
        return "nothing compiled after warm-up"
    every, compiled = (
        [dict(shape) for shape in dict.fromkeys(tuple(run.shape.items()) for run in runs)]
        for runs in (warmup.calls, [run for run in warmup.after_warmup if run.compiles])
    )
    if len(compiled) == len(every) > 1:
        names = [name for name in every[0] if len({shape.get(name) for shape in every}) > 1]
        return f"recompiles on every new {' and '.join(names) or 'shape'}"
    shapes = listed([shape_words(shape) for shape in compiled])
    share = f"{len(compiled):,} of {count_of(len(every), 'shape')}"
    return f"{count_of(late, 'recompile')} after warm-up, for {share}: {shapes}"


def answers(case: Case, name: str, allowed: tuple[AccuracyVerdict, ...]) -> PolicyCheck:
    up_to_rounding = set(allowed) == {"equal", "benign", "rounding only"}
    limit = "answers match eager up to rounding" if up_to_rounding else f"verdict on answers: {' or '.join(allowed)}"
    tests = case.report.accuracy
    lacking = [test for test in tests if test.verdict not in allowed]
    if wrong := [test for test in lacking if test.verdict != "not comparable"]:
        worst = next((test for test in wrong if test.verdict == "suspicious"), wrong[0])
        tensor = wrong_tensor(worst)
        which = words_bench.workload_name(worst) if tensor is None else f"{tensor.kind} {tensor.name}"
        words = f"answers are not allowed to be {worst.verdict}: {which}"
        if worst.verdict == "suspicious":
            words = wrong_answers(worst, search_of(worst, case.report.bisections))
        return case.check(name, "failed", limit, words)
    if lacking or not tests:
        return case.unknown(name, limit, next((test.reason for test in lacking if test.reason), "") or _NOT_COMPARED)
    titles = [words_bench.answers_title(test.verdict) for test in tests]
    return case.check(name, "passed", limit, listed([title[:1].lower() + title[1:] for title in titles]))


def speedup(case: Case, name: str, least: float) -> PolicyCheck:
    """Judged by the low end of the interval."""
    limit = f"at least {words_bench.times(least)} as fast as eager"
    speeds, reason = [], ""
    for item in case.measured:
        speed = item.speedup
        if item.status != "valid" or speed is None:
            reason = reason or item.reason or _NOT_MEASURED
        elif speed.floor is None or speed.pairs < MIN_PAIRS:
            reason = reason or f"{speed.pairs} pairs of processes tell too little, {MIN_PAIRS} are needed"
        else:
            speeds.append((item, speed))
    slow = [(item, speed) for item, speed in speeds if speed.ratio.low < least]
    if not slow and (reason or not speeds):
        return case.unknown(name, limit, reason or _NOT_MEASURED)
    words = []
    for item, speed in slow or speeds:
        value, low, high = map(words_bench.times, (speed.ratio.value, speed.ratio.low, speed.ratio.high))
        name_of = words_bench.workload_name(item)
        words.append(f"{value} as fast as eager, at least {low}, at most {high}: {name_of}")
    return case.check(name, "failed" if slow else "passed", limit, "; ".join(words))


def memory(case: Case, name: str, most: float) -> PolicyCheck:
    """The steady peak over that of eager."""
    limit = f"at most {words_bench.times(most)} the memory of eager"
    ratios = [(item, item.memory.ratio) for item in case.measured if item.status == "valid" and item.memory is not None]
    known = [(item, ratio) for item, ratio in ratios if ratio is not None]
    if not known:
        return case.unknown(name, limit, "no memory was measured")
    large = [(item, ratio) for item, ratio in known if ratio > most]
    words = [
        f"{words_bench.times(ratio)} the memory of eager: {words_bench.workload_name(item)}"
        for item, ratio in large or known
    ]
    return case.check(name, "failed" if large else "passed", limit, "; ".join(words))


def compile_seconds(case: Case, name: str, most: float) -> PolicyCheck:
    """From empty caches if the first calls were measured, else what torch itself recorded of the run."""
    limit = f"at most {duration(most)} to compile"
    costs = [(item, cost) for item in case.measured if (cost := words_bench.compile_cost(item))]
    if costs:
        item, cost = max(costs, key=lambda pair: pair[1].seconds)
        seconds = cost.seconds
        words = f"{cost.words} to compile, from empty caches: {words_bench.workload_name(item)}"
    elif (recorded := totals(case.report).seconds) is None:
        return case.unknown(name, limit, _NOTHING)
    else:
        seconds, words = recorded, f"{duration(recorded)} to compile, with the caches that were there"
    return case.check(name, "passed" if seconds <= most else "failed", limit, words)


def break_price(case: Case, name: str, most: float) -> PolicyCheck:
    """What the costliest graph break costs per call, by the low end of its interval."""
    limit = f"no graph break takes more than {milliseconds(most)} of a call"
    costliest, reason = costliest_break(case.measured)
    if reason:
        return case.unknown(name, limit, reason)
    if costliest is None:
        return case.check(name, "passed", limit, "no graph break takes any of it")
    place, ms = costliest
    words = f"{milliseconds(ms.value)}: {line_words(place)}"
    return case.check(name, "failed" if ms.low > most else "passed", limit, words)


CHECKS: dict[str, Callable[[Case, str, Any], PolicyCheck | None]] = {
    "accuracy": answers, "max_graph_breaks": breaks, "max_recompiles": recompiles,
    "max_recompiles_after_warmup": after_warmup, "max_eager_frames": eager_frames, "fail_on": findings,
    "min_speedup": speedup, "max_memory_growth": memory, "max_compile_seconds": compile_seconds,
    "max_break_ms": break_price,
}  # fmt: skip
"""In the order of the verdict, by the field of the policy that limits each."""


def judged(report: Report) -> Report:
    """The report with all findings of the rules, before anything is left out. It shares the facts."""
    whole = msgspec.structs.replace(report, capture=msgspec.structs.replace(report.capture, notes=[]))
    whole.findings = judge(whole)
    return whole


def conclusion(report: Report, policy: Policy, baseline: AuditBaseline | None) -> Callable[[Report], PolicyVerdict]:
    """A function that gives the verdict on a report once it has been cleaned of what may not be shown.

    Waivers and the baseline are matched now, with code and all values at hand: leaving these out of a report does not
    change its verdict.
    """
    excused = excused_findings(judged(report), policy, baseline)
    return lambda shown: judge_policy(shown, policy, excused=excused)


def judge_policy(
    report: Report, policy: Policy, baseline: AuditBaseline | None = None, *, excused: Excused | None = None
) -> PolicyVerdict:
    """Whether the run may ship. The rules have judged the report before.

    `excused` is given if the report was cleaned since its findings were matched.
    """
    excused = excused or excused_findings(report, policy, baseline)
    case = Case(report, policy, excused)
    ended = _ENDED.get(report.outcome.status)
    ran = case.check(_RUN, "failed" if ended else "passed", "the run finishes", ended or "it finished")
    limits = ((check, field.replace("_", "-"), getattr(policy, field)) for field, check in CHECKS.items())
    found = (check(case, name, limit) for check, name, limit in limits if limit not in (None, ()))
    checks = [ran, *(check for check in found if check is not None)]
    passed = not any(check.fails for check in checks)
    waivers, new = excused.waivers_and_new(report)
    return PolicyVerdict(
        passed, _success(checks) if passed else _failure(case, checks), "" if passed else _advice(case, checks),
        policy.source, checks, waivers, excused.baseline, excused.known, new, list(excused.fixed),
    )  # fmt: skip


def _success(checks: list[PolicyCheck]) -> str:
    # That a run came to its end, without a finding, goes without saying.
    said = [check for check in checks if check.name not in (_RUN, _FINDINGS)]
    words = [check.found for check in said if check.status in ("passed", "waived")]
    words += [f"{title(check).lower()} not known ({check.reason})" for check in checks if check.status == "unknown"]
    return f"PASS: {'; '.join(words) or 'nothing was required'}"


def _failure(case: Case, checks: list[PolicyCheck]) -> str:
    failed = {check.name for check in checks if check.status == "failed"}
    words = []
    for check in (each for each in checks if each.fails):
        if check.status == "unknown":
            words.append(f"{title(check).lower()} not known, though required ({check.reason})")
        elif check.name == _FINDINGS:  # Those that no other failed check speaks of.
            reached = failing(case.excused.counting(case.report.findings), case.policy.fail_on)
            left = [finding for finding in reached if _SAID_BY.get(finding.rule) not in failed]
            words += [findings_words(left)] if left else []
        else:
            words.append(check.found)
    expired = [waiver for waiver, _ in case.excused.waived if waiver.expired and waiver.used]
    words += [f"the waiver of {waiver.rule} expired on {waiver.expires}" for waiver in expired]
    return f"FAIL: {'; '.join(words)}"


def _advice(case: Case, checks: list[PolicyCheck]) -> str:
    """The advice of the first finding that made a check fail: findings come worst first."""
    wanted = {identity for check in checks if check.fails for identity in check.evidence}
    counting = case.excused.counting(case.report.findings)
    reached = {id(finding) for finding in failing(counting, case.policy.fail_on)}
    for finding in counting:
        if id(finding) in reached or wanted & set(finding.evidence):
            place = finding.location
            return f"{Path(place.file).name}:{place.line}: {finding.advice}" if place is not None else finding.advice
    return ""

"""Checks of what is measured: answers, speed, memory, the time to compile."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dynalyze.audit.judging import Case, listed
from dynalyze.bench.stats import MIN_PAIRS
from dynalyze.facts.wrong_numbers import search_of, wrong_answers, wrong_tensor
from dynalyze.report.audit import Bisection, CheckStatus, PolicyCheck
from dynalyze.report.measurements import Accuracy, Measurement, Speedup
from dynalyze.text.amounts import duration
from dynalyze.words import bench as words_bench
from dynalyze.words.report import totals

_EAGER = "eager"
_NOT_MEASURED = "no speed was measured"
_NOT_COMPARED = "no answers were compared"


def answers(case: Case) -> PolicyCheck | None:
    """The verdicts of the accuracy test, every configuration's."""
    allowed = case.policy.accuracy
    if allowed is None:
        return None
    name, limit, tests = "accuracy", f"answers that are {' or '.join(allowed)}", case.report.accuracy
    wrong = [test for test in tests if test.verdict not in allowed and test.verdict != "not comparable"]
    if wrong:
        return case.check(name, "failed", limit, _wrong_words(wrong, case.report.bisections))
    lacking = [test for test in tests if test.verdict not in allowed]
    if lacking or not tests:
        return case.unknown(name, limit, next((test.reason for test in lacking if test.reason), "") or _NOT_COMPARED)
    told = dict.fromkeys(words_bench.answers_title(test.verdict) for test in tests)
    return case.check(name, "passed", limit, listed([_small(words) for words in told]))


def speedup(case: Case) -> PolicyCheck | None:
    """Judged by the low end of the interval: so fast at least."""
    name, least = "min-speedup", case.policy.min_speedup
    if least is None:
        return None
    limit = f"at least {words_bench.times(least)} as fast as eager"
    speeds, reason = [], ""
    for item in _compiled(case.report.measurements):
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
    status: CheckStatus = "failed" if slow else "passed"
    return case.check(name, status, limit, "; ".join(_speed_words(*each) for each in slow or speeds))


def memory(case: Case) -> PolicyCheck | None:
    """The steady peak by that of eager."""
    name, most = "max-memory-growth", case.policy.max_memory_growth
    if most is None:
        return None
    limit = f"at most {words_bench.times(most)} the memory of eager"
    known = [
        (item, item.memory.ratio)
        for item in _compiled(case.report.measurements)
        if item.status == "valid" and item.memory is not None and item.memory.ratio is not None
    ]
    if not known:
        return case.unknown(name, limit, "no memory was measured")
    large = [(item, ratio) for item, ratio in known if ratio > most]
    status: CheckStatus = "failed" if large else "passed"
    told = [f"{words_bench.times(ratio)} the memory of eager{_which(item)}" for item, ratio in large or known]
    return case.check(name, status, limit, "; ".join(told))


def compile_seconds(case: Case) -> PolicyCheck | None:
    """From empty caches where the first calls were measured, else what torch itself told of the run."""
    name, most = "max-compile-seconds", case.policy.max_compile_seconds
    if most is None:
        return None
    limit = f"at most {duration(most)} to compile"
    spent, told = _spent(case)
    if spent is None:
        return case.unknown(name, limit, "nothing was compiled")
    status: CheckStatus = "passed" if spent <= most else "failed"
    return case.check(name, status, limit, told)


def _spent(case: Case) -> tuple[float | None, str]:
    costs = [(item, cost) for item in _compiled(case.report.measurements) if (cost := words_bench.compile_cost(item))]
    if costs:
        item, cost = max(costs, key=lambda pair: pair[1].seconds)
        return cost.seconds, f"{cost.words} to compile, from empty caches{_which(item)}"
    seconds = totals(case.report).seconds
    return seconds, f"{duration(seconds or 0.0)} to compile, with the caches that were there"


def _compiled(items: Iterable[Measurement]) -> Iterator[Measurement]:
    return (item for item in items if item.configuration != _EAGER)


def _speed_words(item: Measurement, speed: Speedup) -> str:
    low, high = (words_bench.times(end) for end in (speed.ratio.low, speed.ratio.high))
    return f"{words_bench.times(speed.ratio.value)} as fast as eager, at least {low}, at most {high}{_which(item)}"


def _which(item: Measurement) -> str:
    return f": {words_bench.workload_name(item)}"


def _wrong_words(wrong: list[Accuracy], bisections: list[Bisection]) -> str:
    """`bf16 output of torch.softmax in layers.3.attention is wrong beyond rounding, stage: Inductor`."""
    worst = next((test for test in wrong if test.verdict == "suspicious"), wrong[0])
    if worst.verdict == "suspicious":
        return wrong_answers(worst, search_of(worst, bisections))
    tensor = wrong_tensor(worst)
    which = words_bench.workload_name(worst) if tensor is None else f"{tensor.kind} {tensor.name}"
    return f"answers are not allowed to be {worst.verdict}: {which}"


def _small(words: str) -> str:
    return words[:1].lower() + words[1:]

"""How often the verdict of `dynalyze bench` is wrong, on simulated process pairs whose truth is known.

    .venv/bin/python benchmarks/verdicts.py
    .venv/bin/python benchmarks/verdicts.py --experiments 200 --calls 50

Pairs of processes differ from each other by a random factor: the standard deviation of its log is "spread". 0.15 is
what A/A ratios from 0.70 to 1.26 come to, 0.03 is a quiet machine. The factors are normal, or heavy-tailed (Student's t
with 3 degrees of freedom, scaled to the same spread). Calls within a process scatter by 5%, and one in twenty takes
half as long again. Every seed is fixed: the same numbers come out each time.

The first table has a fixed number of pairs. "covers" is the share of 95% intervals that hold the truth, as a plain
percentile bootstrap of the pairs has it, as ours has it before it is widened to the noise floor, and after. "A/A" is
the share of equals that are called different, "1.3x" the share of runs that find a true 1.3x. The second table looks
after every pair from the third on and stops where it may: by `enough`, or (the trap) at the first interval that
excludes 1, before it is widened.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
from collections.abc import Callable, Iterable, Iterator

from dynalyze.bench import DEFAULT_PAIRS, MIN_PAIRS
from dynalyze.bench.stats import CONFIDENCE, enough, log_ratio, speedup
from dynalyze.report.measurements import Pair

SPREADS = (0.03, 0.08, 0.15)
PAIRS = (3, 5, 7, 10, 15)
PLANTED = 1.3
RESAMPLES = 500

Shift = Callable[[random.Random, float], float]


def normal(generator: random.Random, spread: float) -> float:
    return generator.gauss(0, spread)


def heavy(generator: random.Random, spread: float) -> float:
    chi_squared = generator.gammavariate(1.5, 2)
    return spread / math.sqrt(3) * generator.gauss(0, 1) / math.sqrt(chi_squared / 3)


SHIFTS: dict[str, Shift] = {"normal": normal, "heavy": heavy}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--experiments", type=int, default=1000)
    parser.add_argument("--calls", type=int, default=20, help="timed calls of each process")
    options = parser.parse_args()
    fixed_runs(options.experiments, options.calls)
    sequential_runs(options.experiments, options.calls)


def fixed_runs(experiments: int, calls: int) -> None:
    print("| spread | pairs | percentile covers | ours covers | widened covers | A/A | 1.3x |")
    print("|---|---|---|---|---|---|---|")
    for name, spread in cells():
        for count in PAIRS:
            found = [fixed_run(*arms) for arms in drawn(experiments, name, spread, count, calls)]
            shown = " | ".join(share(column) for column in zip(*found, strict=True))
            print(f"| {spread} {name} | {count} | {shown} |", flush=True)


def fixed_run(equal: list[Pair], planted: list[Pair], control: list[Pair]) -> tuple[bool, ...]:
    own, speed, planted_speed = log_ratio(equal), speedup(equal, control), speedup(planted, control)
    assert own is not None and speed is not None and planted_speed is not None
    return (
        percentile_covers(equal),
        abs(own.mean) <= own.margin(CONFIDENCE),
        speed.ratio.low <= 1 <= speed.ratio.high,
        speed.verdict != "no difference shown",
        planted_speed.verdict == "faster",
    )


def percentile_covers(pairs: list[Pair]) -> bool:
    ratios = [math.log(statistics.median(pair.eager) / statistics.median(pair.compiled)) for pair in pairs]
    generator = random.Random(0)
    means = sorted(statistics.fmean(generator.choices(ratios, k=len(ratios))) for _ in range(RESAMPLES))
    return means[round(RESAMPLES * 0.025)] <= 0 <= means[round(RESAMPLES * 0.975) - 1]


def sequential_runs(experiments: int, calls: int) -> None:
    print(f"\nUp to {DEFAULT_PAIRS} pairs, looking after each from the third on:\n")
    print("| spread | the trap: A/A | A/A | pairs taken | 1.3x | pairs taken |")
    print("|---|---|---|---|---|---|")
    for name, spread in cells():
        trapped, equals, planted = [], [], []
        for equal, faster, control in drawn(experiments, name, spread, DEFAULT_PAIRS, calls):
            trapped.append(any(excludes_one(equal[:count]) for count in range(MIN_PAIRS, DEFAULT_PAIRS + 1)))
            equals.append(sequential_run(equal, control))
            planted.append(sequential_run(faster, control))
        wrong = share(verdict != "no difference shown" for verdict, _ in equals)
        right = share(verdict == "faster" for verdict, _ in planted)
        taken = [statistics.fmean(pairs for _, pairs in runs) for runs in (equals, planted)]
        print(
            f"| {spread} {name} | {share(trapped)} | {wrong} | {taken[0]:.1f} | {right} | {taken[1]:.1f} |", flush=True
        )


def sequential_run(pairs: list[Pair], control: list[Pair]) -> tuple[str, int]:
    """The verdict of a run that may stop early, and how many pairs it took."""
    count = MIN_PAIRS
    while count < DEFAULT_PAIRS and not enough(pairs[:count], control[:count]):
        count += 1
    speed = speedup(pairs[:count], control[:count])
    assert speed is not None
    return speed.verdict, count


def excludes_one(pairs: list[Pair]) -> bool:
    own = log_ratio(pairs)
    assert own is not None
    return abs(own.mean) > own.margin(CONFIDENCE)


def cells() -> Iterator[tuple[str, float]]:
    return ((name, spread) for name in SHIFTS for spread in SPREADS)


def drawn(
    experiments: int, name: str, spread: float, count: int, calls: int
) -> Iterator[tuple[list[Pair], list[Pair], list[Pair]]]:
    """For each experiment pairs of equals, pairs with the planted difference, and the control."""
    generator = random.Random(f"{name} {spread} {count}")
    for _ in range(experiments):
        yield (
            [one_pair(generator, name, spread, calls) for _ in range(count)],
            [one_pair(generator, name, spread, calls, PLANTED) for _ in range(count)],
            [one_pair(generator, name, spread, calls) for _ in range(count)],
        )


def one_pair(generator: random.Random, name: str, spread: float, calls: int, ratio: float = 1.0) -> Pair:
    shift = SHIFTS[name](generator, spread)
    return Pair(one_process(generator, calls, 10 * ratio * math.exp(shift)), one_process(generator, calls, 10))


def one_process(generator: random.Random, calls: int, typical: float) -> list[float]:
    slow = (1.5 if generator.random() < 0.05 else 1.0 for _ in range(calls))
    return [typical * factor * generator.lognormvariate(0, 0.05) for factor in slow]


def share(happened: Iterable[bool]) -> str:
    values = list(happened)
    return f"{100 * sum(values) / len(values):.1f} %"


if __name__ == "__main__":
    main()

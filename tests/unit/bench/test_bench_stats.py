"""Statistics of measurements: known answers, properties that hold for any samples, and how often a verdict is wrong."""

import math
import random
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynalyze.bench.stats import (
    DEFAULT_PAIRS,
    MIN_PAIRS,
    NEGLIGIBLE,
    break_even,
    enough,
    latency,
    median_places,
    speedup,
    t_quantile,
    throughput,
)
from dynalyze.report.measurements import Interval, Latency, Pair, Speedup, StartUp

QUIET = [Pair([10.0], [10.0 * slow]) for slow in (1.01, 0.99, 1.0, 1.01, 0.99)]
TIMES = st.floats(min_value=1e-3, max_value=1e5)
ARM = st.lists(TIMES, min_size=1, max_size=9)
PAIRS = st.lists(st.builds(Pair, ARM, ARM), min_size=2, max_size=9)
GARBAGE = st.lists(st.builds(Pair, *[st.lists(st.floats(), max_size=4)] * 2), max_size=8)


def pairs_of(*ratios: float) -> list[Pair]:
    """Pairs of one sample an arm, with these ratios."""
    return [Pair([10.0 * ratio], [10.0]) for ratio in ratios]


# --- Student's t


@pytest.mark.parametrize(
    ("probability", "degrees", "value"),
    [(0.975, 1, 12.7062), (0.975, 4, 2.7764), (0.975, 9, 2.2622), (0.995, 7, 3.4995), (0.9995, 5, 6.8688)],
)
def test_quantiles_of_students_t_are_those_of_the_printed_tables(probability, degrees, value):
    assert t_quantile(probability, degrees) == pytest.approx(value, abs=1e-4)


# --- latency and throughput


def test_latency_of_one_to_a_hundred():
    found = latency([float(value) for value in range(100, 0, -1)])
    assert found is not None
    assert (found.p50, found.p90, found.p95, found.p99) == pytest.approx((50.5, 90.1, 95.05, 99.01))
    assert (found.mean, found.sd, found.samples) == pytest.approx((50.5, 29.011, 100), abs=1e-3)


def test_what_cannot_be_a_time_is_no_sample():
    assert latency([math.nan, -1.0, 0.0, math.inf, 1e300, 2.0]) == latency([2.0])
    assert latency([math.nan, -1.0]) is None
    assert latency([]) is None


def known(p50: float) -> Latency:
    return Latency(p50, p50, p50, p50, mean=p50, sd=0.0, samples=5)


def test_a_forward_pass_of_four_samples_in_ten_milliseconds():
    assert throughput(known(10.0), 4, None, "forward", 1) == {"samples_per_second": 400.0}
    assert throughput(known(10.0), None, 512, "train", 1) == {"tokens_per_second": 51_200.0}


def test_decode_tells_the_time_of_one_token_of_each_sequence():
    # GIVEN 16 steps for 4 sequences in 80 ms, THEN a step takes 5 ms and 800 tokens come in a second
    found = throughput(known(80.0), None, 64, "decode", 16)
    assert found == {"decode_tokens_per_second": 800.0, "time_per_output_token_ms": 5.0}


@pytest.mark.parametrize("amount", [None, 0.0, -1.0, math.nan, math.inf])
def test_no_rate_of_an_amount_that_is_not_known(amount):
    assert throughput(known(10.0), amount, amount, "forward", 1) == {}
    assert throughput(None, 4, 4, "prefill", 1) == {}


# --- the paired ratio


def test_the_interval_of_five_pairs_is_that_of_the_t_test():
    # With one sample an arm nothing is left but the pairs: mean and standard error of the logs, worked out by hand.
    logs = [0.1, 0.2, 0.3, 0.4, 0.5]
    found = speedup(pairs_of(*map(math.exp, logs)), QUIET)
    margin = 2.776445 * math.sqrt(0.025 / 5)
    assert found is not None
    assert found.ratio.value == pytest.approx(math.exp(0.3))
    assert found.ratio.low == pytest.approx(math.exp(0.3 - margin), rel=1e-5)
    assert found.ratio.high == pytest.approx(math.exp(0.3 + margin), rel=1e-5)
    assert (found.verdict, found.pairs) == ("faster", 5)


def test_an_interval_that_includes_one_shows_no_difference():
    found = speedup(pairs_of(1.4, 0.9, 1.3, 0.8, 1.2), QUIET)
    assert found is not None and found.verdict == "no difference shown"
    assert found.ratio.low < 1 < found.ratio.high


def test_two_pairs_never_show_a_difference_however_clear():
    two, three = pairs_of(2.0, 2.01), pairs_of(2.0, 2.01, 2.0)
    shown = [speedup(pairs, QUIET) for pairs in (two, three)]
    assert [speed and (speed.verdict, speed.pairs) for speed in shown] == [("no difference shown", 2), ("faster", 3)]
    assert not enough(two, QUIET)


def test_the_floor_is_the_far_end_of_the_controls_interval():
    # GIVEN eager processes of which the first arm was always about 1.1 times as slow
    logs = [0.08, 0.09, 0.1, 0.11, 0.12]
    control = pairs_of(*map(math.exp, logs))
    found = speedup(pairs_of(*[1.12, 1.121] * 4), control)
    reach = 0.1 + 2.776445 * math.sqrt(0.00025 / 5)
    # THEN 1.12 is not told from 1, though its own interval is narrow: it is widened to the floor, to both sides
    assert found is not None and found.verdict == "no difference shown"
    assert found.floor == pytest.approx(math.exp(reach) - 1, rel=1e-5)
    assert found.ratio.value / found.ratio.low == pytest.approx(1 + found.floor)
    assert found.ratio.high / found.ratio.value == pytest.approx(1 + found.floor)


@pytest.mark.parametrize("control", [[], QUIET[:1], [Pair([math.nan], [1.0])] * 5])
def test_without_a_control_the_floor_and_the_verdict_are_unknown(control):
    found = speedup(pairs_of(*[2.0, 2.01] * 5), control)
    assert found is not None and found.floor is None and found.verdict == "no difference shown"
    assert not enough(pairs_of(*[2.0, 2.01] * 5), control)


def test_a_pair_without_a_usable_arm_does_not_count():
    pairs = [*pairs_of(*[2.0, 2.01] * 3), Pair([], [1.0]), Pair([math.nan, -3.0], [1.0]), Pair([0.0], [1.0])]
    found = speedup(pairs, QUIET)
    assert found is not None and found.pairs == 6
    assert found == speedup(pairs[:6], QUIET)


@pytest.mark.parametrize("count", [1, 2, 7, 8])
def test_the_drawn_medians_scatter_as_those_of_real_resamples(count):
    # GIVEN resamples drawn one call at a time, which takes longer
    generator = random.Random(7)
    samples = [generator.lognormvariate(0, 0.5) for _ in range(count)]
    logs = sorted(map(math.log, samples))
    real = [statistics.median(generator.choices(logs, k=count)) for _ in range(20_000)]
    # WHEN they are drawn through the Beta distribution THEN mean and variance agree
    drawn = [((logs[low] + logs[high]) / 2, share) for low, high, share in merged_middles(count)]
    mean = sum(median * share for median, share in drawn)
    assert mean == pytest.approx(statistics.fmean(real), abs=0.02)
    assert sum((median - mean) ** 2 * share for median, share in drawn) == pytest.approx(
        statistics.pvariance(real), rel=0.06, abs=1e-12
    )


def merged_middles(count: int, seeds: int = 20) -> list[tuple[int, int, float]]:
    return [(low, high, share / seeds) for seed in range(seeds) for low, high, share in median_places(count, seed)]


# --- properties


@given(PAIRS, PAIRS, st.floats(min_value=0.01, max_value=100))
@settings(max_examples=60, deadline=None)
def test_another_unit_of_time_changes_nothing(pairs, control, factor):
    scaled = [Pair([x * factor for x in pair.eager], [x * factor for x in pair.compiled]) for pair in pairs]
    one, other = speedup(pairs, control), speedup(scaled, control)
    assert one is not None and other is not None
    assert near(one.ratio, other.ratio) and one.floor == other.floor


@given(PAIRS, PAIRS)
@settings(max_examples=60, deadline=None)
def test_swapping_the_arms_turns_the_ratio_round(pairs, control):
    one, other = speedup(pairs, control), speedup([Pair(pair.compiled, pair.eager) for pair in pairs], control)
    assert one is not None and other is not None
    assert near(Interval(1 / one.ratio.value, 1 / one.ratio.high, 1 / one.ratio.low), other.ratio)
    assert {one.verdict, other.verdict} in ({"faster", "slower"}, {"no difference shown"})


@given(PAIRS, PAIRS, st.randoms(use_true_random=False))
@settings(max_examples=30, deadline=None)
def test_the_order_of_pairs_and_of_calls_does_not_matter(pairs, control, shuffler):
    mixed = [Pair(shuffler.sample(p.eager, len(p.eager)), shuffler.sample(p.compiled, len(p.compiled))) for p in pairs]
    one, other = speedup(pairs, control), speedup(shuffler.sample(mixed, len(mixed)), control)
    assert one is not None and other is not None
    assert near(one.ratio, other.ratio)


@given(GARBAGE | PAIRS, GARBAGE | PAIRS, st.lists(st.floats(), max_size=5), st.none() | st.integers(-1, 6))
@settings(max_examples=200, deadline=None)
def test_no_samples_make_it_raise_or_say_what_is_no_number(pairs, control, calls, steady):
    speed = speedup(pairs, control)
    even = break_even(StartUp(cold_calls_ms=calls, steady_after=steady), pairs, speed)
    enough(pairs, control)
    found = latency([sample for pair in pairs for sample in pair.eager])
    throughput(found, math.nan, 1.0, "decode", 0)
    if speed is not None:
        assert all(map(math.isfinite, (speed.ratio.low, speed.ratio.value, speed.ratio.high, speed.floor or 0.0)))
        assert speed.ratio.low <= speed.ratio.value <= speed.ratio.high
    assert (even.passes is None) == bool(even.reason)
    assert all(value is None or math.isfinite(value) for value in (even.passes, even.low, even.high))


def near(one: Interval, other: Interval) -> bool:
    # Intervals of few, contradictory pairs span hundreds of powers of ten; their logs are what is worked with.
    ends = zip((one.low, one.value, one.high), (other.low, other.value, other.high), strict=True)
    return all(math.log(a) == pytest.approx(math.log(b), rel=1e-6, abs=1e-6) for a, b in ends)


# --- when to stop


def test_a_clear_and_quiet_difference_is_enough_at_five_pairs():
    assert enough(pairs_of(1.8, 1.82, 1.79, 1.81, 1.8), QUIET)


def test_more_looks_leave_less_error_for_each():
    pairs = pairs_of(*map(math.exp, (0.27, 0.29, 0.3, 0.31, 0.45)))
    assert [enough(pairs, QUIET, looks) for looks in (1, 1000)] == [True, False]


def test_equals_need_not_go_on_to_the_last_pair():
    # GIVEN pairs about 1 that differ too much to say that no difference is left
    level = pairs_of(*map(math.exp, (-0.1, 0.1, 0.01, -0.1, 0.09, 0.0)))
    found = speedup(level, QUIET)
    assert found is not None and found.ratio.high > 1 + NEGLIGIBLE
    # THEN more of the same would not show one; that is not said after four, nor where they have a direction
    assert enough(level, QUIET) and not enough(level[:4], QUIET)
    assert not enough(pairs_of(*map(math.exp, (-0.02, 0.2, 0.12, 0.02, 0.19, 0.1))), QUIET)


# --- break-even


def clear(ratio: float) -> tuple[list[Pair], Speedup]:
    """Pairs with a clear speedup, and a verdict with an interval of round numbers."""
    pairs = pairs_of(*[ratio] * MIN_PAIRS)
    return pairs, Speedup(Interval(ratio, ratio * 0.8, ratio * 1.25), "faster", 0.01, MIN_PAIRS)


def test_what_the_cold_calls_cost_is_paid_by_what_a_pass_saves():
    # GIVEN eager 20 ms, compiled 10 ms; cold calls of 1010, 60 and 10 ms, the last one steady
    pairs, speed = clear(2.0)
    found = break_even(StartUp(cold_calls_ms=[1010.0, 60.0, 10.0], steady_after=2), pairs, speed)
    # THEN 1000 + 50 ms are paid at 10 ms a pass; at 1.6x it is 7.5 ms a pass, at 2.5x it is 12 ms
    assert (found.passes, found.low, found.high) == pytest.approx((105.0, 87.5, 140.0))
    assert found.reason == ""


def test_the_compile_time_of_the_run_is_the_cost_where_no_process_began_cold():
    # GIVEN eager 20 ms, compiled 10 ms THEN 1050 ms are paid at 10 ms a pass
    pairs, speed = clear(2.0)
    assert break_even(StartUp(compile_seconds=1.05), pairs, speed).passes == pytest.approx(105.0)


@pytest.mark.parametrize(
    ("startup", "reason"),
    [
        (None, "empty caches were not measured"),
        (StartUp(steady_after=1), "empty caches were not measured"),
        (StartUp(cold_calls_ms=[900.0, 800.0]), "did not become steady"),
        (StartUp(cold_calls_ms=[900.0, math.nan, 10.0], steady_after=2), "no usable time"),
    ],
)
def test_without_the_cost_the_break_even_is_not_known(startup, reason):
    pairs, speed = clear(2.0)
    found = break_even(startup, pairs, speed)
    assert found.passes is None and found.reason.startswith("not known") and reason in found.reason


@pytest.mark.parametrize(
    ("pairs", "reason"),
    [
        (pairs_of(*[0.5, 0.51] * 5), "never: compiled is slower"),
        (pairs_of(1.2, 0.9, 1.1, 0.85, 1.0), "never, as far as is known"),
        (pairs_of(2.0), "not known: too few"),
    ],
)
def test_without_a_saving_it_is_never_paid(pairs, reason):
    found = break_even(StartUp(cold_calls_ms=[900.0, 10.0], steady_after=1), pairs, speedup(pairs, QUIET))
    assert found.passes is None and found.reason.startswith(reason)


# --- how often a verdict is wrong: few experiments here, many in benchmarks/verdicts.py


def drawn(generator: random.Random, count: int, spread: float, ratio: float = 1.0) -> list[Pair]:
    """Pairs whose log ratios have this standard deviation, with heavy tails: one in ten is three times as far off."""
    body = spread / math.sqrt(1.8)
    pairs = []
    for _ in range(count):
        shift = generator.gauss(0, body * (3 if generator.random() < 0.1 else 1))
        pairs.append(Pair(calls(generator, 10 * ratio * math.exp(shift)), calls(generator, 10)))
    return pairs


def calls(generator: random.Random, typical: float) -> list[float]:
    return [typical * generator.lognormvariate(0, 0.05) for _ in range(15)]


@pytest.mark.parametrize("spread", [0.03, 0.15])
def test_equals_are_rarely_told_apart_and_a_planted_difference_nearly_always(spread):
    # Fixed seeds: these very experiments come out the same everywhere.
    generator = random.Random(20)
    wrong, found = 0, 0
    for _ in range(150):
        control = drawn(generator, DEFAULT_PAIRS, spread)
        wrong += claimed(drawn(generator, DEFAULT_PAIRS, spread), control) != "no difference shown"
        found += claimed(drawn(generator, DEFAULT_PAIRS, spread, 1.3), control) == "faster"
    assert wrong <= 0.05 * 150
    assert found >= 0.9 * 150


def claimed(pairs: list[Pair], control: list[Pair]) -> str:
    """The verdict of a run that looks after every pair and stops where it may."""
    count = MIN_PAIRS
    while count < DEFAULT_PAIRS and not enough(pairs[:count], control[:count]):
        count += 1
    speed = speedup(pairs[:count], control[:count])
    assert speed is not None
    return speed.verdict

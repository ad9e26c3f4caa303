"""What is measured of a program that was observed: by its bundle, by running it again, or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest

from dynalyze.bench import measure
from dynalyze.bench.plan import Plan
from dynalyze.bench.run import Benchmarks
from dynalyze.capture.bench.protocol import AS_WRITTEN
from dynalyze.capture.events import BundleWritten, CompileCall, TimedInTurns
from dynalyze.launch.observe import Observed
from dynalyze.launch.spec import TargetSpec
from dynalyze.report.caches import CacheKey, Caches
from records import run_of
from sample_reports import clean_report

SCRIPT = TargetSpec("script", "train.py", path="train.py", arguments=("--fast",))
MADE = [("Net", "(Tensor[2, 4] float32)", 3)]


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[Plan]:
    """The plans that would have been run."""
    found: list[Plan] = []

    def run(plan: Plan, *, first: Any = None, pool: Any = None) -> Benchmarks:
        found.append(plan)
        return Benchmarks()

    monkeypatch.setattr(measure, "run_bench", run)
    return found


def seen(*events: Any) -> Observed:
    report = clean_report()
    report.measurements, report.capture.notes = [], []
    return Observed(report, run_of(*events), Path("/run"))


def written(**fields: Any) -> BundleWritten:
    return BundleWritten(file="bundle.pt", digest="d", calls=3, written=True, options=[{"mode": "default"}], **fields)


def test_explain_measures_what_the_program_wrote(plans: list[Plan]) -> None:
    measure.add_bench(seen(written()), SCRIPT, Plan({}))
    assert [each.name for each in plans[0].configurations_on("cpu")] == [AS_WRITTEN]
    assert plans[0].source["kind"] == "bundle"


@pytest.mark.parametrize(("pass_ms", "left"), [(100.0, 30.0), (1000.0, 25.5)])
def test_turns_that_took_more_than_their_share_leave_less(plans: list[Plan], pass_ms: float, left: float) -> None:
    one = [pass_ms]
    turns = TimedInTurns(eager_calls_ms=one, calls_ms=one * 2, turns=[(one, one, one)] * 3)
    measure.add_bench(seen(written(), turns), SCRIPT, Plan({}, total=30.0))
    assert plans[0].total == left


def test_explain_measures_the_default_where_the_arguments_cannot_travel(plans: list[Plan]) -> None:
    observed = seen(written(cannot_write="They cannot travel.", notes=["They cannot travel."]))
    measure.add_bench(observed, SCRIPT, Plan({}))
    assert [each.name for each in plans[0].configurations_on("cpu")] == ["default"]
    assert observed.report.capture.notes == ["They cannot travel."]


@pytest.mark.parametrize(
    ("keys", "known"),
    [
        ([("miss", "a"), ("hit", "a")], True),  # The run found what it had compiled itself, as a first start does.
        ([("miss", "a"), ("hit", "b")], False),
        ([("hit", "a")], False),
        ([("miss", "a")], True),
    ],
)
def test_what_compiling_costs_is_known_where_only_this_run_filled_the_caches(
    plans: list[Plan], keys: list[tuple[Literal["hit", "miss"], str]], known: bool
) -> None:
    observed = seen(written())
    observed.report.caches = Caches([CacheKey("fx_graph", state, "0/0", key=key) for state, key in keys])
    observed.report.compilations[0].cache = {f"inductor_fx_local_cache_{state}": 1 for state, _ in keys}
    measure.add_bench(observed, SCRIPT, Plan({}))
    assert (plans[0].cold_seconds is not None) == known


@pytest.mark.parametrize(
    ("events", "says", "hint"),
    [
        ([BundleWritten(error="a lock in net cannot be pickled", calls=3)], "a lock in net cannot be pickled", True),
        ([BundleWritten(error="no call of a module was seen")], "no call of a module was seen", False),
        ([], "the program left before its calls could be written", True),
    ],
)
def test_what_cannot_be_carried_says_whether_running_it_again_would_do(
    plans: list[Plan], events: list[Any], says: str, hint: bool
) -> None:
    observed = seen(*events)
    measure.add_bench(observed, SCRIPT, Plan({}))
    (note,) = observed.report.capture.notes
    assert note.startswith(f"No speed was measured: {says}")
    assert ("--rerun" in note) == hint
    assert plans == []


def test_a_program_that_is_run_again() -> None:
    source = measure._program_source(SCRIPT, seen(written(made=MADE)), timeout=80.0)
    assert source.fields == {
        "kind": "program", "mode": "script", "path": "train.py", "module": None, "arguments": ["--fast"],
        "chosen": [], "seconds": 60.0, "made": MADE,
    }  # fmt: skip
    assert source.written is not None and source.written.mode == "default"


@pytest.mark.parametrize("compiles", [True, False])
def test_a_program_that_left_at_once_is_run_again_all_the_same(compiles: bool) -> None:
    """Its arguments of torch.compile are not known to us; the process that runs it again has them."""
    source = measure._program_source(SCRIPT, seen(*[CompileCall(name="Net")] * compiles), timeout=80.0)
    assert source.fields is not None and source.fields["made"] is None
    assert (source.written is not None) == compiles


def test_a_program_without_calls_is_not_run_again() -> None:
    source = measure._program_source(SCRIPT, seen(BundleWritten(error="no call was seen")), timeout=80.0)
    assert (source.fields, source.reason) == (None, "no call was seen")

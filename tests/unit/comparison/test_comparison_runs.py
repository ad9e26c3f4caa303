"""Comparing two reports: what counts as worse, and what is said about it."""

from __future__ import annotations

from typing import Any

import pytest

from comparison_reports import again, at, broken, compiled, kinds, report
from dynalyze.comparison.reports import compare
from dynalyze.render.text import comparison as words
from dynalyze.render.text.bench import workload_name
from dynalyze.report import CompilationStatus, Graph, Kernel, Status, Target
from dynalyze.report.measurements import Interval, Latency, Measurement, Speedup

# ---- recompiles -------------------------------------------------------------------------------------------


def test_recompiles_are_counted_by_function_cause_and_source() -> None:
    before = report(recompiles=[again(), again(), again("n"), again(), again(cause="dtype")])
    after = report(recompiles=[again(line=40), again("m"), again("n", line=40)])
    found = compare(before, after).recompiles
    assert (found.before, found.after) == (5, 3)
    ((size,), (new,), (dtype,), (same,)) = (found.changed, found.new, found.fixed, found.unchanged)
    assert (size.source, size.before and size.before.count, size.after and size.after.count, size.direction) == (
        "x.size()[0]", 3, 1, "better",
    )  # fmt: skip
    assert (new.source, dtype.cause, same.source) == ("m", "dtype", "n")
    assert kinds(before, after) == ["recompile"]


def test_reaching_the_limit_is_a_regression_and_no_recompile() -> None:
    before, after = report(recompiles=[again()]), report(recompiles=[again(), again("n", cause="limit")])
    found = compare(before, after)
    assert (found.recompiles.before, found.recompiles.after) == (1, 1)
    assert [item.kind for item in found.regressions] == ["limit"]
    assert kinds(after, report(recompiles=[again(), again("m", cause="limit")])) == []


# ---- compilations, graphs, kernels, time ------------------------------------------------------------------


def test_compilations_are_counted_by_function() -> None:
    before = report(
        compilations=[compiled("0/0", ops=4, seconds={"total": 1.5, "dynamo": 0.5}), compiled("1/0", function="gone")],
        graphs=[Graph("g1", "0/0", ops=4)],
        kernels=[Kernel("g1", "cpp_fused_0", "cpp"), Kernel("g1", "extern_kernels.mm", "extern")],
    )
    after = report(
        compilations=[
            compiled("0/0", "broken", ops=3, seconds={"total": 1.0}, line=9),
            compiled("1/0", function="forward", resumes=True, line=12, ops=2, seconds={"total": 0.25}),
            compiled("2/0", function="fresh"),
        ],
        graphs=[Graph("g1", "0/0", ops=3), Graph("g2", "1/0", ops=2)],
        kernels=[Kernel("g1", "cpp_fused_0", "cpp"), Kernel("g2", "cpp_fused_1", "cpp"), Kernel("g2", "mm", "extern")],
    )
    found = compare(before, after)
    (change,) = found.compilations.changed
    old, new = change.before, change.after
    assert old is not None
    assert new is not None
    assert (old.compiled, old.graphs, old.ops, old.kernels, old.seconds) == (1, 1, 4, 2, 1.5)
    assert (new.compiled, new.graphs, new.ops, new.kernels, new.seconds) == (2, 2, 5, 3, 1.25)
    assert [each.function for each in found.compilations.gone] == ["gone"]
    assert [each.function for each in found.compilations.new] == ["fresh"]
    assert found.regressions == []
    assert (found.compile_seconds.before, found.compile_seconds.after) == (1.5, 1.25)


def test_kernels_that_were_not_recorded_are_not_zero() -> None:
    kernels = [Kernel("g1", "cpp_fused_0", "cpp")]
    before, after = (
        report(compilations=[compiled()], graphs=[Graph("g1", "0/0")], kernels=each) for each in ([], kernels)
    )
    (change,) = compare(before, after).compilations.changed
    assert change.before is not None
    assert change.before.kernels is None
    assert "kernels" not in " ".join(words.function_words(change))


def test_times_alone_change_nothing() -> None:
    before, after = (report(compilations=[compiled(seconds={"total": each})]) for each in (2.1, 1.4))
    found = compare(before, after)
    (change,) = found.compilations.unchanged
    assert words.function_seconds(change) == "2.1 s -> 1.4 s"


@pytest.mark.parametrize(
    ("old", "new", "worse"),
    [
        ("compiled", "eager", True), ("compiled", "failed", True), ("broken", "eager", True),
        ("eager", "failed", True), ("failed", "eager", False), ("eager", "compiled", False),
        ("eager", "eager", False), ("failed", "failed", False), ("compiled", "broken", False),
        (None, "eager", True), (None, "failed", True), (None, "compiled", False), ("failed", None, False),
    ],
)  # fmt: skip
def test_falling_back_is_a_regression(
    old: CompilationStatus | None, new: CompilationStatus | None, worse: bool
) -> None:
    before, after = (report(compilations=[compiled(status=each)] if each else []) for each in (old, new))
    assert kinds(before, after) == (["compilation"] if worse else [])


# ---- measurements -----------------------------------------------------------------------------------------


def measured(p50: float | None, interval: tuple[float, float] | None = None, **changes: Any) -> Measurement:
    latency = None if p50 is None else Latency(p50, p50, p50, p50, p50, 0.0, 100)
    speed = Speedup(Interval(sum(interval) / 2, *interval), "faster", 0.02, 5) if interval else None
    fields = {"configuration": "default", "latency_ms": latency, "speedup": speed, **changes}
    return Measurement(**fields)


@pytest.mark.parametrize(
    ("old", "new", "ratio", "overlap"),
    [
        (measured(4.0), measured(2.0), 0.5, None),
        (measured(4.0, (1.4, 1.6)), measured(2.0, (2.8, 3.2)), 0.5, False),
        (measured(4.0, (1.4, 2.9)), measured(2.0, (2.8, 3.2)), 0.5, True),
        (measured(4.0, (2.8, 3.2)), measured(2.0, (3.2, 3.4)), 0.5, True),
        (measured(4.0, (1.4, 1.6)), measured(2.0), 0.5, None),
        (measured(None), measured(2.0), None, None),
        (measured(4.0, phase="decode"), measured(2.0), None, None),
        (measured(4.0, configuration="eager"), measured(2.0), None, None),
        (measured(4.0, batch=1), measured(2.0, batch=4), None, None),
        (measured(4.0, sequence=128), measured(2.0, sequence=256), None, None),
    ],
)
def test_measurements(old: Measurement, new: Measurement, ratio: float | None, overlap: bool | None) -> None:
    found = compare(report(measurements=[old]), report(measurements=[new])).measurements
    assert [(item.ratio, item.overlap) for item in found] == [(ratio, overlap)] * len(found)
    assert all("not comparable: " in words.measurement_words(item) for item in found if item.ratio is None)
    assert all(("no difference shown" in words.measurement_words(item)) == bool(item.overlap) for item in found)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"device": "cuda"}, "the two ran on different devices"),
        ({"dtype": "bfloat16"}, "with different dtypes"),
        ({"threads": 8}, "with different numbers of threads"),
        ({"options": {"dynamic": "on"}}, "with different options"),
        ({"calls": 3}, "with different numbers of calls"),
        ({"status": "invalid", "reason": "no frame was compiled"}, "invalid in the second report"),
        ({"status": "failed", "latency_ms": None}, "failed in the second report"),
    ],
)
def test_what_was_not_measured_in_the_same_way_is_not_comparable(changes: dict[str, Any], said: str) -> None:
    before, after = report(measurements=[measured(4.0)]), report(measurements=[measured(2.0, **changes)])
    (item,) = compare(before, after).measurements
    assert item.ratio is None
    assert said in words.measurement_words(item)


def test_sizes_are_told_apart_by_name() -> None:
    runs = report(measurements=[measured(4.0, batch=1, sequence=128), measured(4.0, batch=4, sequence=128)])
    names = [workload_name(item) for item in compare(runs, runs).measurements]
    assert names == ["default, forward, batch 1, sequence 128", "default, forward, batch 4, sequence 128"]


# ---- what is around the runs ------------------------------------------------------------------------------


def differing(before: dict[str, Any], after: dict[str, Any]) -> list[tuple[str, str | None, str | None]]:
    found = compare(report(**before), report(**after)).differences
    return [(item.name, item.before, item.after) for item in found]


def test_the_environment() -> None:
    before = {"environment": {"torch": "2.12.1", "packages": {"numpy": "2.4", "triton": "3.5"}, "cores": 2}}
    after = {"environment": {"torch": "2.13.0", "packages": {"numpy": "2.4"}, "cores": 8}}
    assert differing(before, after) == [
        ("torch", "2.12.1", "2.13.0"), ("packages.triton", "3.5", None), ("cores", "2", "8"),
    ]  # fmt: skip


def test_what_differs_in_every_run_is_no_difference() -> None:
    before, after = ({"environment": {"variables": {"TORCH_TRACE": f"/tmp/{each}"}}} for each in "ab")
    assert differing(before, after) == []


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (["explain", "a.py", "--json", "x"], ["explain", "a.py", "--html=y", "--redact"], None),
        (["explain", "a.py", "--backend", "eager"], ["explain", "a.py"], ("options", "--backend eager", "")),
        (["explain", "a.py", "--", "--json", "1"], ["explain", "a.py", "--", "--json", "2"], None),
    ],
)
def test_options(before: list[str], after: list[str], expected: tuple[str, str, str] | None) -> None:
    target = Target("script", "a.py")
    found = differing({"command": before, "target": target}, {"command": after, "target": target})
    assert found == ([expected] if expected else [])


def test_targets_are_compared_by_name_and_arguments() -> None:
    before = {"target": Target("script", "/ci/17/model.py", ["--layers", "2"]), "command": []}
    assert differing(before, {**before, "target": Target("script", "model.py", ["--layers", "2"])}) == []
    assert differing(before, {**before, "target": Target("script", "infer.py", [])}) == [
        ("target", "model.py", "infer.py"), ("arguments", "--layers 2", ""),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "worse"),
    [
        ("complete", "failed", True), ("complete", "nothing_compiled", True), ("complete", "timed_out", True),
        ("complete", "interrupted", False), ("failed", "complete", False), ("failed", "failed", False),
        ("timed_out", "failed", True), ("failed", "timed_out", False), ("complete", "complete", False),
    ],
)  # fmt: skip
def test_outcomes(old: Status, new: Status, worse: bool) -> None:
    found = compare(report(status=old), report(status=new))
    assert [(item.kind, item.what) for item in found.regressions] == ([("outcome", new)] if worse else [])
    assert all(words.regression_words(item) for item in found.regressions)


# ---- the sentence -----------------------------------------------------------------------------------------


def test_what_was_not_reached_is_said() -> None:
    found = compare(report(broken(at(10))), report(status="timed_out"))
    assert words.verdict(found).startswith("The first run ended as complete, the second as timed out: 1 break fixed")
    assert any("did not reach counts as fixed" in note for note in words.notes(found))
    assert any("counts as new" in note for note in words.notes(compare(report(status="failed"), report())))

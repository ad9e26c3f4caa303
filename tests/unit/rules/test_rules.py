"""The rules: what each finds, in which order, and what `--fail-on` makes of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

import msgspec
import pytest

from dynalyze.cli.options import check_fail_on
from dynalyze.render.text.report import order_words
from dynalyze.report import (
    Compilation,
    CompileFailure,
    Effect,
    Finding,
    Impact,
    LeftInEager,
    Location,
    Report,
    Severity,
    Status,
)
from dynalyze.report.costs import costliest_first
from dynalyze.rules import rule as module
from dynalyze.rules.rule import Rule, break_limit, judge, rules
from dynalyze.text.errors import UsageError
from sample_reports import (
    MODEL,
    clean_report,
    compilation,
    empty_report,
    found_by,
    graph_break,
    line_of,
    priced_report,
    recompile,
    rich_report,
)

PLACE = line_of(44, 12, 33)
ITEM = "Unsupported Tensor.item() call with capture_scalar_outputs=False"


def eager_report() -> Report:
    report = empty_report()
    report.compilations = [compilation("0/0"), compilation("1/0")]
    for each in report.compilations:
        each.status, each.reason = "eager", "Failed to trace builtin operator"
    return report


def test_every_rule_can_be_shown_in_the_catalogue() -> None:
    ids = [rule_id for rule in rules() for rule_id in rule.ids]
    assert len(set(ids)) == len(ids)
    assert {"graph-break", "recompile", "recompile-limit", "nothing-compiled", "compile-failed", "all-eager"} <= set(
        ids
    )
    assert not {"error", "warning", "info", "none"} & set(ids), "--fail-on takes both"
    for rule in rules():
        assert rule.title
        assert rule.description.endswith(".")


LOSS, SCALE = Location("/work/net.py", 7, None, "loss", "y = x"), Location("/work/parts.py", 3, None, "scale", "z")


@pytest.mark.parametrize(
    ("failure", "place", "says", "not_says"),
    [
        (CompileFailure(location=LOSS, stack=[LOSS], eager="ValueError: no"), LOSS, "ValueError: no", "disable"),
        (CompileFailure(location=LOSS, stack=[LOSS], eager=""), LOSS, "a function of its own", "force_eager"),
        (CompileFailure(location=SCALE, stack=[LOSS, SCALE], eager=""), SCALE, "on `scale`", "force_eager"),
        (CompileFailure(location=SCALE, stack=[LOSS, SCALE]), SCALE, "force_eager", 'backend="'),
        (
            CompileFailure(location=SCALE, stack=[LOSS, SCALE], eager="", message="E: Please use the dispatcher"),
            SCALE,
            "on `scale`",
            "force_eager",
        ),
        (
            CompileFailure(location=SCALE, stack=[LOSS, SCALE], eager="", message="Please use `f.register_fake`"),
            SCALE,
            "register_fake",
            "disable",
        ),
        (CompileFailure(message="ValueError: no", backend="aot_eager"), None, '"eager"', 'then "aot_eager"'),
        (CompileFailure(message="ValueError: no", backend="inductor"), None, 'then "aot_eager"', "disable"),
        (CompileFailure("InductorError", message="no"), None, 'then "aot_eager"', "Dynamo itself"),
        (CompileFailure("InternalTorchDynamoError", message="no guard"), None, "part by part", 'backend="'),
        (
            CompileFailure("AssertionError", message="0/0: tensor '___from_numpy(self.hop)' dispatch key set mismatch"),
            None,
            "value `self.hop` into",
            "part by part",
        ),
        (CompileFailure(location=SCALE, backend="inductor", operation="mul__1"), SCALE, "`mul`, which", "disable"),
        (CompileFailure(location=SCALE, backend="inductor", operation="view_1"), SCALE, "`view` with", "disable"),
    ],
)
def test_a_failed_compile_is_told_with_its_line_and_a_step_that_was_not_taken(
    failure: CompileFailure, place: Location | None, says: str, not_says: str
) -> None:
    report = empty_report()
    report.compilations = [msgspec.structs.replace(compilation("0/0"), status="failed", failure=failure)]
    (found,) = found_by(report, "compile-failed")
    assert found.location == (place or report.compilations[0].location)
    assert says in found.advice
    assert not_says not in found.advice


def test_a_clean_run_has_no_finding_and_judging_changes_no_fact() -> None:
    assert judge(clean_report()) == []
    report, same = rich_report(), rich_report()
    judge(report)
    assert report == same


# Graph breaks.


@pytest.mark.parametrize(("effect", "says"), [("split", "compiled all the same"), ("eager", "in inner()")])
def test_a_break_inside_of_a_package_is_told_with_what_it_leaves(effect: Effect, says: str) -> None:
    report = empty_report()
    inner = Location("/env/lib/python3.11/site-packages/helper/core.py", 9, None, "inner", "print(x)")
    report.graph_breaks = [graph_break("b1", effect, PLACE, stack=[PLACE, inner], expression="print(x)")]
    (finding,) = found_by(report, "graph-break")
    assert "It breaks inside helper, in inner() (core.py:9)." in finding.advice and says in finding.advice


@pytest.mark.parametrize(("file", "told"), [("_functorch/autograd_function.py", True), ("nn/functional.py", False)])
def test_a_line_that_the_compiler_runs_for_the_programs_own_is_no_package(file: str, told: bool) -> None:
    report = empty_report()
    inner = Location(f"/env/lib/python3.11/site-packages/torch/{file}", 9, None, "inner", "fn(x)")
    report.graph_breaks = [graph_break("b1", "split", PLACE, stack=[PLACE, inner], expression="Double.apply(x)")]
    (finding,) = found_by(report, "graph-break")
    assert ("It breaks inside torch" not in finding.advice) is told


@pytest.mark.parametrize(("compiled", "own"), [(True, True), (False, False)])
def test_a_call_that_a_package_makes_is_moved_out_by_the_program_that_calls_it(compiled: bool, own: bool) -> None:
    """Where the program's own line is in what was compiled: else it calls the whole."""
    report = empty_report()
    report.compilations = [compilation("0/0")] if compiled else []
    package = Location("/env/lib/python3.11/site-packages/helper/core.py", 9, None, "step", "loss.backward()")
    caller = Location(report.compilations[0].location.file if compiled else "/w/m.py", 41, None, "forward", "run(loss)")
    report.graph_breaks = [graph_break(
        "b1", "split", package, gb_type="Unsupported Tensor.backward() call", stack=[caller, package],
        expression="loss.backward()", compile_ids=["0/0"],
    )]  # fmt: skip
    (finding,) = found_by(report, "graph-break")
    assert (f"`{caller.code}`" in finding.advice, "helper" not in finding.advice) == (own, own)


def test_refused_functions_did_not_fall_back_and_are_told_once() -> None:
    """Under fullgraph nothing runs in eager: the program gets an exception, and here it caught it."""
    report = eager_report()
    for each in report.compilations:
        each.status = "failed"
        each.breaks = ["b1"]
    report.graph_breaks = [graph_break("b1", "error", PLACE, compile_ids=["0/0", "1/0"])]
    assert [f.rule for f in judge(report)] == ["graph-break"]
    # The same id in another process is another compile.
    report.compilations = [compilation("0/0", process=1)]
    report.compilations[0].status = "failed"
    assert len(found_by(report, "compile-failed")) == 1


def test_the_cookbook_names_the_users_own_expression() -> None:
    report = empty_report()
    block = "scale = head.item()\nreturn x / scale\n"
    fields = {"gb_type": ITEM, "gb_id": "GB0124", "explanation": "", "expression": "head.item()", "block": block}
    report.graph_breaks = [graph_break("b1", "split", PLACE, **fields)]
    (finding,) = found_by(report, "graph-break")
    assert finding.detail is not None and finding.detail.recipe and finding.detail.example is not None
    assert "`head.item()`" in finding.advice
    assert finding.advice == finding.detail.action


SET_IT = "Enable it with `torch._dynamo.config.capture_scalar_outputs = True`"


@pytest.mark.parametrize(
    ("hints", "advice"),
    [
        (["This graph break is fundamental - no.", "Move it\n  out.", "Another."], "Move it out. Another."),
        ([], "PyTorch gives no hint for this one."),
        (["Please report an issue to PyTorch."], "Please report an issue to PyTorch."),
        (["Avoid `min`.", "To log, try `reorderable_logging_functions`."], "Avoid `min`."),
        ([SET_IT], f"{SET_IT}. "),
    ],
)
def test_without_a_recipe_pytorchs_telling_hints_are_the_advice(hints: list[str], advice: str) -> None:
    report = empty_report()
    never_seen = {"gb_type": "Never seen", "gb_id": None, "hints": hints, "explanation": "Because."}
    report.graph_breaks = [graph_break("b1", "split", PLACE, **never_seen)]
    (finding,) = found_by(report, "graph-break")
    assert finding.title == "Never seen" and finding.advice.startswith(advice)
    assert (finding.advice == advice) is (hints != [SET_IT]), "a setting is not told as the end of it"
    assert finding.detail is not None and finding.detail.why == "Because."


# Recompilations.


def test_the_measured_cost_of_recompiles_is_told_only_where_all_are_known() -> None:
    report = empty_report()
    again = recompile("r2", "0/2", seconds=0.25, expected="5", actual="6", guard="x 5 6")
    report.recompiles = [recompile("r1", "0/1", seconds=0.5), again]
    (finding,) = found_by(report, "recompile")
    assert (finding.severity, finding.evidence) == ("warning", ["r1", "r2"])
    assert all(part in finding.advice for part in ("x.size(0)", "4", "5", "6"))
    assert finding.impact is not None
    assert finding.impact.compile_seconds == 0.75
    report.recompiles[1].seconds = None
    assert found_by(report, "recompile")[0].impact is None


def test_the_limit_that_raises_says_so_and_is_told_once() -> None:
    report = clean_report()
    limit = recompile("r2", "0/2", cause="limit", source=None, expected=None, actual=None, guard="", seconds=None)
    report.recompiles = [recompile("r1", "0/1"), limit]
    raised = graph_break("b1", "error", PLACE, compile_ids=["0/2"])
    raised.gb_id, raised.gb_type = "GB0039", "Dynamo recompile limit exceeded"
    report.graph_breaks = [raised]
    (finding,) = judge(report)
    assert (finding.rule, finding.severity, finding.evidence) == ("recompile-limit", "error", ["r1", "r2", "b1"])
    assert "raises" in finding.title and "eager" not in finding.title
    assert finding.detail is not None and "runs in eager" not in finding.detail.why


def test_at_a_limit_the_cause_is_that_of_the_function_and_others_are_told_where_none_has_half() -> None:
    here, below = Location("/w/model.py", 5, function="step"), Location("/w/model.py", 50, function="helper")
    of_size = {"cause": "shape", "source": "x.size()[0]"}
    again = [recompile(f"r{n}", f"0/{n}", location=here, cause="value", source="n") for n in (1, 2)]
    again += [
        recompile(f"r{n}", f"0/{n}", location=here, cause="value", source=name) for n, name in ((3, "m"), (4, "k"))
    ]
    again += [recompile("r5", "0/5", location=here, change="c1", **of_size)]
    again += [recompile(f"r{n}", f"1/{n}", location=below, change="c1", **of_size) for n in range(6, 12)]
    for limited, share in ((False, "2 of 6"), (True, "")):
        report = clean_report()
        more = [recompile(f"r{n}", f"0/{n}", location=here, cause="value", source="n") for n in range(21, 24)]
        last = recompile("r12", "0/12", location=here, cause="limit", source="m")
        report.recompiles = [*again, *(more if limited else []), last]
        (found,) = found_by(report, "recompile-limit")
        assert found.detail is not None and "x.size(0)" not in found.title
        others = "the others: `n` (2), `k` (1), `x.size(0)` (1)"
        assert (others in found.advice) is not limited and (share or "Also changed") in found.advice


# Nothing compiled, all in eager, failures.


@pytest.mark.parametrize("status", [status for status in get_args(Status) if status != "incomplete"])
def test_nothing_compiled_gives_the_reason_and_no_other_end_is_called_so(status: Status) -> None:
    told = [(each.rule, each.severity, each.advice) for each in judge(empty_report(status, "It was never called."))]
    nothing = ("nothing-compiled", "error", "It was never called.")
    assert told == ([nothing] if status == "nothing_compiled" else [])


@pytest.mark.parametrize("status", ["timed_out", "interrupted"])
def test_a_compile_that_the_end_of_the_run_cut_short_did_not_fail(status: Status) -> None:
    report = clean_report()
    report.outcome.status = status
    report.compilations[1].status = "failed"
    report.compilations[1].reason = "the process ended while this was compiling"
    assert found_by(report, "compile-failed") == []


# Order.


def test_the_most_urgent_comes_first() -> None:
    report = clean_report()
    report.compilations[0].status = "failed"
    report.graph_breaks = [
        graph_break("b1", "split", PLACE, occurrences=1),
        graph_break("b2", "split", PLACE, occurrences=5),
        graph_break("b3", "partly_eager", PLACE, occurrences=1),
        graph_break("b4", "eager", PLACE, occurrences=1),
        graph_break("b5", "error", PLACE, occurrences=1, compile_ids=["9/9"]),
    ]
    report.recompiles = [recompile("r1", "0/1")]
    found = judge(report)
    evidence = [f.evidence[0] for f in found]
    assert [f.severity for f in found] == ["error"] * 2 + ["warning"] * 5
    assert set(evidence[:2]) == {"b5", "0/0"}
    assert evidence[2:] == ["b4", "b3", "b2", "b1", "r1"]


def test_a_rule_that_fails_costs_nobody_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(report: Report) -> Iterator[tuple[int, Finding]]:
        yield 1 // len(report.measurements), Finding("broken", "info", "B")

    broken = Rule("B", "B.", "info", "broken", explode)
    monkeypatch.setattr(module, "rules", lambda: (broken, *rules()))
    report = rich_report()
    expected = len(report.graph_breaks)
    found = judge(report)
    assert sum(f.rule == "graph-break" for f in found) == expected
    assert any("broken" in note and "ZeroDivisionError" in note for note in report.capture.notes)


# --fail-on.


def test_every_level_that_can_be_reached_is_accepted() -> None:
    for level in ["none", "error", "warning", "info", *(rule_id for rule in rules() for rule_id in rule.ids)]:
        check_fail_on(level)


@pytest.mark.parametrize("level", ["max-break-ms=0.5", "max_break_ms=.5", "max-break-ms=5e-1"])
def test_a_limit_on_the_price_of_a_break_is_a_level(level: str) -> None:
    check_fail_on(level)
    assert break_limit(level) == 0.5


@pytest.mark.parametrize(
    "level", ["max-break-ms", "max-break-ms=", "max-break-ms=0", "max-break-ms=nan", "max_break_ms=-1"]
)
def test_a_limit_without_milliseconds_is_refused(level: str) -> None:
    with pytest.raises(UsageError, match=r"max-break-ms=0\.5"):
        check_fail_on(level)


@pytest.mark.parametrize("level", ["", "fatal", "Error", "GB0059", "graph_break", "min-speedup=2"])
def test_a_level_that_nothing_can_reach_is_refused(level: str) -> None:
    with pytest.raises(UsageError, match="graph-break"):
        check_fail_on(level)


def test_a_measured_price_is_told_and_ranks_before_a_lower_one() -> None:
    report = priced_report()
    assert report.measurements[0].prices is not None
    dear, cheap = report.measurements[0].prices.breaks
    dear.break_id, cheap.break_id = cheap.break_id, dear.break_id
    next(each for each in report.graph_breaks if each.id == dear.break_id).compile_seconds = 0.9
    priced = [each for each in judge(report) if each.impact and each.impact.ms_per_call is not None]
    alone = {name: each.impact for each in priced for name in each.evidence if len(each.evidence) == 1}
    assert alone[dear.break_id] == Impact(
        1.4, 1.4 / 3.1, 0.9, "of compile time", pytest.approx(1.7),
        calls=1000, seconds=pytest.approx(0.9 + 1.4),
    )  # fmt: skip
    assert alone[cheap.break_id] == Impact(0.2, 0.2 / 3.1, without_ms=pytest.approx(2.9))
    for severity in get_args(Severity):
        own = [each.impact.ms_per_call for each in priced if each.severity == severity and each.impact]
        assert own == sorted(own, key=lambda ms: -(ms or 0.0))


def test_a_caller_that_a_break_leaves_in_eager_is_named_with_the_lines_that_are_likely_to_break_next() -> None:
    report = empty_report()
    call, later = Location("/w/model.py", 26, function="Net.four"), Location("/w/model.py", 27, code="if y.any():")
    inner = Location("/w/model.py", 12, function="two")
    own = LeftInEager(inner, "", "1/0", [Location("/w/model.py", 14, code="print(x)")])
    report.compilations = [compilation("6/0", seconds=1.5)]
    report.graph_breaks = [
        graph_break("b1", "split", inner, left_in_eager=[LeftInEager(call, "loop", "6/0", [later]), own])
    ]
    (found,) = found_by(report, "caller-in-eager")
    assert (found.location, found.evidence) == (call, ["b1", "6/0"])
    assert "`four`" in found.title and "`two`" in found.title and "loop" in found.title
    assert "model.py:12" in found.advice and "line 27 (`if y.any():`)" in found.advice.lower()
    assert found.impact is not None and found.impact.compile_seconds == 1.5
    (about,) = found_by(report, "graph-break")
    assert "line 14 (`print(x)`)" in about.advice.lower() and "line 27" not in about.advice.lower()


@pytest.mark.parametrize(("caller", "apart"), [("forward", True), ("main", False), ("<module>", False)])
def test_a_function_that_is_compiled_by_itself_because_of_a_break_is_told_of_that_first(
    caller: str, apart: bool
) -> None:
    report = empty_report()
    outer, inner = Location("/w/model.py", 20, function="Net.forward"), Location("/w/model.py", 5, function="step")
    call = Location("/w/model.py", 26, function=caller, code="y = step(x)")
    again = recompile("r1", "1/1", location=inner, previous="1/0")
    report.compilations = [
        Compilation("0/0", 0, 0, outer, "eager", function="Net.forward"),
        Compilation("1/0", 0, 0, inner, "compiled", function="step", caller=call),
    ]
    left = LeftInEager(Location("/w/model.py", 28, function="Net.forward"), "loop", "0/0")
    report.graph_breaks = [
        graph_break("b1", "eager", Location("/w/model.py", 28, function="forward"), left_in_eager=[left])
    ]
    report.recompiles = [again]
    (found,) = found_by(report, "recompile")
    assert ("model.py:28 (b1)" in found.advice) is apart
    # What is called there is traced: a mark in that line would raise.
    assert ("mark_dynamic" in found.advice) is not apart and "dynamic=True" in found.advice


def test_what_costs_most_comes_first_whatever_it_is() -> None:
    """Compile time plus the time of a call times the calls that were seen, within a severity; a part that is not known
    counts for nothing, and what has no cost at all stays where it was.
    """
    report = empty_report()
    report.capture.recorded_calls = 200

    def costing(rule: str, impact: Impact | None, severity: Severity = "warning") -> Finding:
        return Finding(rule, severity, rule, impact=impact)

    found = [
        costing("failed", None, "error"),
        costing("cheap", Impact(compile_seconds=1.0)),
        costing("free", None),
        costing("calls", Impact(ms_per_call=20.0)),
        costing("both", Impact(ms_per_call=10.0, compile_seconds=2.5)),
        costing("note", Impact(compile_seconds=99.0), "info"),
    ]
    ordered = [each.rule for each in costliest_first(report, found)]
    assert ordered == ["failed", "both", "free", "calls", "cheap", "note"]
    report.findings = found
    assert "200 calls" in order_words(report)
    report.graph_breaks = [graph_break("b1", "split", PLACE)]
    hangs_on = Finding("again", "warning", "again", after="b1")
    around = Finding("around", "warning", "around", Location("x.py", 2), evidence=["b1"])
    ends = Finding("ends", "warning", "ends", PLACE, evidence=["b1"])
    both = [each.rule for each in costliest_first(report, [*found[:3], around, hangs_on, *found[3:], ends])]
    assert both == ["failed", "both", "free", "around", "ends", "again", "calls", "cheap", "note"]
    report.findings = [each for each in found if each.impact is None or each.impact.ms_per_call is None]
    assert "compile time" in order_words(report) and "not measured" in order_words(report)
    report.findings = found[:2]
    assert order_words(report) == ""


def test_a_break_in_code_that_a_decorator_generated_is_not_told_of_the_line_that_calls_it() -> None:
    report = empty_report()
    place = Location(MODEL, 9, None, "main", "loss = fast(x)")
    drawn = {"context": "Random.getrandbits", "gb_type": "Attempted to call function marked as skipped"}
    report.graph_breaks = [graph_break("b1", "split", place, stack=[place], compile_ids=["0/0"], **drawn)]
    (as_before,) = found_by(report, "graph-break")
    made = compilation("0/0")
    made.location = Location("<@beartype(lib.nets.Net.forward) at 0x7f8d>", 1, None, "forward")
    report.compilations = [made]
    (found,) = found_by(report, "graph-break")
    assert "__wrapped__" not in as_before.advice
    assert "`Net.forward = Net.forward.__wrapped__`" in found.advice and "`@beartype`" in found.title


def test_a_break_that_a_generator_brings_up_again_names_the_first_one() -> None:
    report = empty_report()
    inner, outer = Location(MODEL, 71, None, "__init__"), Location(MODEL, 128, None, "forward")
    again = {
        "gb_type": "Read uninitialized cell",
        "context": "Skipping frame due to graph break in a generator's next() call.",
    }
    report.graph_breaks = [
        graph_break("b1", "eager", inner, compile_ids=["0/0", "2/0"]),
        graph_break("b2", "eager", outer, compile_ids=["2/0"], **again),
    ]
    _, found = found_by(report, "graph-break")
    assert f"{MODEL.rpartition('/')[2]}:71 (b1)" in found.advice and "`None`" not in found.advice
    report.graph_breaks[1].compile_ids = []  # As in a damaged log.
    assert len(found_by(report, "graph-break")) == 2 and report.capture.notes == []


def test_what_raised_is_told_unless_it_was_compiled_again_later() -> None:
    place, raised = Location("/w/serve.py", 5, function="serve"), Location("/w/serve.py", 7, function="serve")
    refused = Compilation("0/0", 0, 0, place, "eager", function="serve", raised=raised)
    inner = Compilation("1/0", 0, 0, Location("/w/serve.py", 1), "eager", function="check", raised=raised)
    compiled = Compilation("0/0", 0, 1, place, "compiled", function="serve")
    for again, told in ((), 1), ((inner,), 1), ((compiled,), 0):
        report = clean_report()
        report.compilations = [refused, *again]
        found = found_by(report, "raised-while-traced")
        assert len(found) == told and all(("`check`" in each.title) is (inner in again) for each in found)

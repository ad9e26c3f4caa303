"""What only installed packages can change is told together, and what the program can change stays apart."""

from __future__ import annotations

from typing import Any

import pytest

from dynalyze.report import GraphBreak, Location, Report
from dynalyze.rules.rule import judge, reaches
from sample_reports import MODEL, compilation, empty_report, graph_break, recompile

SITE = "/env/lib/python3.11/site-packages"
CALLED = Location(MODEL, 88, None, "main", "loss = model(batch)")


def inside(number: int, package: str = "gauss", **changes: Any) -> GraphBreak:
    """A break in a line of a package, whose type no recipe or setting is for."""
    place = Location(f"{SITE}/{package}/core.py", number, None, f"step{number}", "thing()")
    fields = {
        "gb_type": "Some new type",
        "hints": ["Do not do that."],
        "stack": [CALLED, place],
        "compile_ids": ["1/0"],
    }
    return graph_break(f"b{number}", "split", place, **{**fields, **changes})


def again(report: Report, number: int, caller: Location, **changes: Any) -> None:
    """Have a function of the package be compiled again, for what calls it at this place."""
    place = Location(f"{SITE}/gauss/core.py", 100 + number, None, f"inner{number}", "def inner():")
    first = compilation(f"{number}/0")
    first.location, first.caller = place, caller
    report.compilations.append(first)
    fields: dict[str, Any] = {"previous": f"{number}/0", "location": place, "source": "x.size()[0]"}
    report.recompiles.append(recompile(f"r{number}", f"{number}/1", **(fields | changes)))


def report_with(*breaks: GraphBreak) -> Report:
    report = empty_report()
    report.graph_breaks = list(breaks)
    return report


def rules_of(report: Report) -> list[str]:
    return [finding.rule for finding in judge(report)]


def test_many_breaks_of_packages_are_one_finding_with_all_of_them_as_evidence() -> None:
    report = report_with(*map(inside, (1, 2, 3)), inside(4, "linear"))
    (finding,) = judge(report)
    assert (finding.rule, finding.evidence) == ("inside-packages", ["b1", "b2", "b3", "b4"])
    assert finding.title == "4 graph breaks inside of gauss and linear"
    assert finding.location is not None and finding.location.line == 1
    assert reaches([finding], "graph-break") and reaches([finding], "inside-packages")


def test_what_torch_refused_is_told_by_itself() -> None:
    refused = inside(5)
    refused.effect = "error"
    found = judge(report_with(*map(inside, (1, 2, 3, 4)), refused))
    assert [(each.severity, each.rule) for each in found] == [("error", "graph-break"), ("warning", "inside-packages")]


def test_a_few_are_told_one_by_one() -> None:
    assert rules_of(report_with(*map(inside, (1, 2, 3)))) == ["graph-break"] * 3


@pytest.mark.parametrize("kind", ["transformers", "library"])
def test_the_breaks_of_a_library_s_model_are_what_was_asked_for(kind: Any) -> None:
    report = report_with(*map(inside, range(1, 6)))
    report.target.kind = kind
    assert rules_of(report) == ["graph-break"] * 5


def test_what_a_setting_or_the_program_can_end_stays_apart() -> None:
    item = inside(5, hints=["Set `torch._dynamo.config.capture_scalar_outputs = True`"])
    own = graph_break("b6", "split", Location(MODEL, 44, 12, "forward", "print(x)"))
    report = report_with(*map(inside, (1, 2, 3, 4)), item, own)
    apart = {finding.rule: finding.evidence for finding in judge(report)}
    assert apart["inside-packages"] == ["b1", "b2", "b3", "b4"]
    assert sorted(each for finding in judge(report) for each in finding.evidence) == [f"b{n}" for n in range(1, 7)]


def test_recompiles_are_inside_where_the_package_makes_the_call() -> None:
    theirs = Location(f"{SITE}/gauss/core.py", 7, None, "outer", "inner(x)")
    report = report_with(*map(inside, (1, 2)))
    again(report, 2, theirs)
    again(report, 3, theirs, cause="value", source="name", expected="'a'", actual="'b'")
    again(report, 4, CALLED)
    together, apart = sorted(judge(report), key=lambda each: each.rule)
    assert (together.rule, together.evidence) == ("inside-packages", ["b1", "b2", "r2", "r3"])
    assert (apart.rule, apart.evidence) == ("recompile", ["r4"])
    assert "dynamic=True)`: 1 of the recompiles" in together.advice, "a text is no size"


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"cause": "value", "source": "name", "expected": "'a'", "actual": "'b'"}, "Leave it"),
        ({"cause": "value", "source": "d", "expected": "0.5", "actual": "0.25"}, "dynamic=True"),
        ({"cause": "identity", "source": "method", "expected": None, "actual": None}, "Leave it"),
        ({"cause": "value", "source": "self.table", "expected": "None", "actual": "object"}, "once in eager"),
        (
            {"cause": "global_state", "source": "grad_mode", "expected": "True", "actual": "False"},
            "Expected if you train",
        ),
    ],
)
def test_a_recompile_inside_of_a_package_is_told_what_its_user_can_do(changes: dict[str, Any], word: str) -> None:
    report = report_with()
    again(report, 1, Location(f"{SITE}/gauss/core.py", 7, None, "outer", "inner(x)"), **changes)
    (finding,) = judge(report)
    assert (finding.rule, finding.package) == ("recompile", "gauss") and word in finding.advice


def test_a_function_at_the_limit_says_which_break_leaves_it_by_itself() -> None:
    """Layer.forward was a part of Net.forward until line 44 of it broke there."""
    net, layer = Location(MODEL, 10, None, "Net.forward"), Location(MODEL, 40, None, "Layer.forward")
    called, broke = Location(MODEL, 12, None, "forward", "layer(x)"), Location(MODEL, 44, None, "forward", "print(x)")
    report = report_with(graph_break("b1", "split", broke, stack=[CALLED, called, broke], compile_ids=["0/0", "1/0"]))
    for name, place in (("0/0", net), ("1/0", layer)):
        report.compilations.append(compilation(name))
        report.compilations[-1].location = place
    again = {"previous": "1/0", "location": layer, "cause": "value", "source": "k", "expected": "1", "actual": "2"}
    report.recompiles = [recompile("r1", "1/1", **again), recompile("r2", "1/8", **{**again, "cause": "limit"})]
    (finding,) = [each for each in judge(report) if each.rule == "recompile-limit"]
    assert finding.advice.startswith("End the break at model.py:44 (b1) first")
    report.graph_breaks[0].compile_ids = ["1/0"]  # Met in Layer.forward alone, as where the program calls it.
    (finding,) = [each for each in judge(report) if each.rule == "recompile-limit"]
    assert finding.advice.startswith("Fix the cause first")

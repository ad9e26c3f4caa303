"""The table and the commands of a fix; its sentences are in tests/data/approved."""

from __future__ import annotations

from dynalyze.render.text.fixes import (
    before_and_after,
    of_whole,
    patch_head,
    unsafe_command,
    verdict,
    write_command,
)
from dynalyze.report.fixes import CompileCounts, Evidence, Fix, Fixed
from sample_reports import fixed_report


def test_the_table_counts_the_whole_program_or_else_its_calls() -> None:
    calls = Evidence(before=CompileCounts(2, 3, 0), after=CompileCounts(0, 1, 0))
    rows = [("graph breaks", 2, 0), ("graphs", 3, 1), ("recompiles", 0, 0)]
    assert before_and_after(Fixed(evidence=calls, before=CompileCounts(9, 9, 9))) == ("the program's calls", rows)
    assert before_and_after(Fixed(before=CompileCounts(2, 3, 0), after=CompileCounts(0, 1, 0))) == (
        "the whole program",
        rows,
    )
    assert before_and_after(Fixed()) == ("", [])


def test_what_is_not_verified_is_no_command_that_writes_without_saying_so() -> None:
    report = fixed_report()
    assert report.fixed is not None
    assert write_command(report, report.fixed) == "dynalyze fix model.py --write"
    assert unsafe_command(report, report.fixed) == ""
    for each in report.fixes:
        each.status = "suggested"
    assert write_command(report, report.fixed) == ""
    assert unsafe_command(report, report.fixed) == "dynalyze fix model.py --write --unsafe-fixes"
    report.command = ["fix", "model.py", "--write", "--unsafe-fixes"]
    assert unsafe_command(report, report.fixed) == ""


def test_a_patch_begins_with_comments_about_what_is_in_it() -> None:
    report = fixed_report()
    assert report.fixed is not None
    report.fixes[1].evidence.effects = ["raises RuntimeError in place of ValueError", "logged in addition: 'INFO a'"]
    report.fixes[2].status, report.fixes[2].reason = "suggested", "no call runs it"
    for suggested in (False, True):
        head = patch_head(report, suggested=suggested)
        assert all(line.startswith("# ") for line in head.splitlines())
        assert [f"# {name} " in head for name in ("f1", "f2", "f3")] == [False, True, suggested]
    report.fixed.evidence = None
    assert of_whole(report.fixed) == []


def test_the_first_line_says_whose_change_it_was_and_whether_it_holds() -> None:
    report = fixed_report()
    assert report.fixed is not None
    given = report.fixed
    given.given, report.fixes = True, report.fixes[1:2]
    assert verdict(report, given).startswith("Verified")
    report.outcome.status, report.outcome.message = "failed", "ValueError: x"
    given.given, report.graph_breaks, report.fixes = False, [], []
    assert report.outcome.message in verdict(report, given)


def test_why_no_setting_holds_is_in_the_first_line() -> None:
    report = fixed_report()
    assert report.fixed is not None
    setting = "torch._dynamo.config.assume_static_by_default = False"
    tried = Fix("f1", [], "setting", "rejected", "Set it", reason="it fails", setting=setting, recompiles=["r1"])
    report.graph_breaks, report.fixes, report.fixed.kept = [], [tried], []
    said = verdict(report, report.fixed)
    assert "Fixed none" in said and said.endswith("dynamic=True was rejected: it fails.")

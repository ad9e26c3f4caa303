"""The table and the commands of a fix; its sentences are in tests/data/approved."""

from __future__ import annotations

from dynalyze.render.words.fixes import before_and_after, unsafe_command, write_command
from dynalyze.report.fixes import CompileCounts, Evidence, Fixed
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

"""What is said of how a fix was checked."""

from __future__ import annotations

import pytest

from dynalyze.render.words.fixes import before_and_after, caveats, of_calls, of_whole, unsafe_command, write_command
from dynalyze.report import Location
from dynalyze.report.fixes import BranchSide, CompileCounts, CompiledOperators, Evidence, Fix, Fixed, WholeProgram
from sample_reports import fixed_report


@pytest.mark.parametrize(
    ("evidence", "said"),
    [
        (Evidence(), []),
        (Evidence(3, outputs="bitwise"), ["Outputs bit-identical on the program's inputs, in eager and traced."]),
        (Evidence(3, 20, outputs="tolerance", gradients=True),
         ["Outputs and gradients match up to rounding on the program's inputs and 20 random ones, in eager and "
          "traced."]),
        (Evidence(3, 20, raised=2, outputs="bitwise"),
         ["Outputs bit-identical on the program's inputs and 20 random ones, in eager and traced; 2 of the random ones "
          "raised the same exception before and after."]),
        (Evidence(3, outputs="different", compiled_before=CompiledOperators(14, 16),
                  compiled_after=CompiledOperators(1_200, 1_300)),
         ["Outputs differ on the program's inputs, in eager and traced.",
          "Compiled: 1,200 of 1,300 operators of the program's calls (was 14 of 16)."]),
    ],
)  # fmt: skip
def test_what_was_compared_of_the_calls(evidence: Evidence, said: list[str]) -> None:
    assert of_calls(evidence) == said


SAME = ["exit status", "printed lines"]


@pytest.mark.parametrize(
    ("evidence", "said"),
    [
        (None, []),
        (Evidence(1, outputs="bitwise", backend="eager", accuracy="equal", program=WholeProgram(2, compared=SAME)),
         ["The whole program, run 3 times: same exit status and printed lines."]),
        (Evidence(1, outputs="bitwise", backend="inductor", accuracy="benign",
                  program=WholeProgram(2, True, [*SAME, "files"], left_out=["standard error varies"])),
         ["Outputs under inductor are about as exact as in eager, held to fp64.",
          "The whole program, run 3 times in a sandbox: same exit status, printed lines and files.",
          "Not compared: standard error varies."]),
        (Evidence(1, outputs="bitwise", backend="inductor", accuracy="suspicious",
                  program=WholeProgram(2, compared=["exit status"], different="the program prints 2")), []),
        (Evidence(1, outputs="bitwise", backend="inductor", program=WholeProgram(unchecked=["it was not run"])), []),
        (Evidence(1, outputs="bitwise", backend="inductor", accuracy="equal"),
         ["Outputs under inductor match eager.", "There is no whole program to run: only calls were compared."]),
    ],
)  # fmt: skip
def test_what_was_compared_of_the_whole(evidence: Evidence | None, said: list[str]) -> None:
    assert of_whole(Fixed(["f1"], evidence=evidence)) == said


@pytest.mark.parametrize(
    ("effect", "said"),
    [
        ("not printed any more: 'x'", "no longer prints 'x'"),
        ("not printed as an error any more: 'x'", "no longer prints to standard error 'x'"),
        ("not kept any more: seconds", "no longer keeps seconds"),
        ("logged in addition: 'INFO a'", "also logs 'INFO a'"),
        ("raises RuntimeError in place of ValueError", "raises RuntimeError in place of ValueError"),
        ("the same side effects, in another order", "differs: the same side effects, in another order"),
    ],
)
def test_what_compiled_code_does_otherwise_is_a_sentence(effect: str, said: str) -> None:
    fix = Fix("f1", ["b1"], "source", "verified", evidence=Evidence(effects=[effect]))
    assert caveats(fix) == [f"Compiled code {said}."]


def test_lines_that_no_call_reached() -> None:
    sides = [BranchSide(Location("m.py", line)) for line in (12, 14)]
    fix = Fix("f1", ["b1"], "source", "verified", evidence=Evidence(sides=sides))
    assert caveats(fix) == ["No call reached lines 12 and 14; what happens there was not checked."]


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

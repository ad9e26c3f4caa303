"""What `fix` says where it can prove nothing."""

from __future__ import annotations

import pytest

from dynalyze.fix.run import note_nothing_verified
from dynalyze.report import Outcome, Report, Target


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        (Outcome("failed", "The program raised NameError: name 'a' is not defined at net.py:3"), True),
        (Outcome("failed", "NameError: the program was killed."), True),
        (Outcome("failed", ""), False),
        (Outcome("complete", "net.py"), False),
    ],
)
def test_how_a_program_failed_is_said_where_nothing_could_be_proved(outcome: Outcome, told: bool) -> None:
    report = Report("0", "", [], {}, Target("script", "net.py"), outcome)
    note_nothing_verified(report, "the run failed")
    (note,) = report.capture.notes
    assert note.startswith("Nothing could be verified: the run failed.")
    assert ("NameError" in note) is told and not note.endswith("..")

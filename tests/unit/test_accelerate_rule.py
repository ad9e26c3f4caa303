"""Where torch.compile is called by Accelerate, its arguments are settings of Accelerate."""

from __future__ import annotations

from typing import Any

import pytest

from dynalyze.report import Cause, Finding, Location, Outcome, Recompile, Report, Target
from dynalyze.report.models import ModuleFacts
from dynalyze.rules.diagnoses.accelerate_settings import RULE

PREPARE = "/opt/venv/lib/python3.11/site-packages/accelerate/accelerator.py"


def judged(file: str, options: dict[str, Any], *causes: Cause) -> list[Finding]:
    place = Location("/home/ada/train.py", 3, function="forward")
    report = Report(
        "0.1.0", "2026-11-21T00:00:00Z", [], {}, Target("script", "train.py:9"), Outcome("complete"),
        modules=[ModuleFacts("m1", "Ranker", file, 2073, options=options)],
        recompiles=[Recompile(f"r{n}", f"0/{n}", "0/0", place, cause) for n, cause in enumerate(causes, 1)],
    )  # fmt: skip
    return [finding for _, finding in RULE.judge(report)]


def test_its_settings_are_named_where_a_size_made_a_recompile() -> None:
    (found,) = judged(PREPARE, {"backend": "inductor"}, "dtype", "shape")
    assert found.severity == "info" and found.evidence == ["m1", "r2"]
    assert "Ranker" in found.title and "TorchDynamoPlugin(dynamic=True)" in found.advice


@pytest.mark.parametrize(
    ("file", "options", "causes"),
    [
        ("/home/ada/train.py", {}, ["shape"]),
        (PREPARE, {"dynamic": True}, ["shape"]),
        (PREPARE, {}, ["dtype"]),
        (PREPARE, {}, []),
    ],
    ids=["called by the program", "dynamic already", "no matter of sizes", "no recompile"],
)
def test_nothing_is_said_elsewhere(file: str, options: dict[str, Any], causes: list[Cause]) -> None:
    assert judged(file, options, *causes) == []

"""Known findings pass, new ones fail, mended ones are told; moved lines change nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from comparison_reports import MODEL, at, broken, compiled
from comparison_reports import report as plain_report
from dynalyze.audit.policy import Policy, with_options
from dynalyze.audit.verdict import judge_policy
from dynalyze.audit.waivers import AuditBaseline, known_of, read_baseline, to_json
from dynalyze.report import Report
from dynalyze.text.errors import UsageError
from sample_audits import judged

POLICY = with_options(Policy(), fail_on=None, baseline=True, warmup=False)


def run(*lines: tuple[int, str], status: Any = "complete") -> Report:
    breaks = [broken(at(line, code), id=f"b{number}") for number, (line, code) in enumerate(lines, 1)]
    return judged(plain_report(*breaks, status=status, compilations=[compiled("0/0")], folder=str(Path(MODEL).parent)))


def saved(folder: Path, report: Report) -> AuditBaseline:
    file = folder / "known.json"
    file.write_text(to_json(known_of(report.findings, report)), encoding="utf-8")
    return read_baseline(file)


def test_known_findings_pass(tmp_path: Path) -> None:
    report = run((12, "print(x)"), (20, "x.item()"))
    baseline = saved(tmp_path, report)
    verdict = judge_policy(report, POLICY, baseline)
    assert verdict.passed
    assert (verdict.known, verdict.new, verdict.fixed) == (2, [], [])
    assert verdict.baseline == str(tmp_path / "known.json")


def test_with_a_baseline_a_new_warning_fails_although_its_limit_holds(tmp_path: Path) -> None:
    baseline = saved(tmp_path, run())
    report = run((12, "print(x)"))
    assert not judge_policy(report, replace(POLICY, max_graph_breaks=5), baseline).passed
    assert judge_policy(report, replace(POLICY, max_graph_breaks=5, fail_on=("error",)), baseline).passed


def test_a_baseline_holds_no_code_and_no_path_of_the_machine(tmp_path: Path) -> None:
    report = run((12, 'print("the secret plan")'))
    text = to_json(known_of(report.findings, report))
    assert "secret" not in text
    assert str(Path(MODEL).parent) not in text
    assert json.loads(text)["findings"][0]["file"] == "model.py"
    assert text == to_json(list(reversed(known_of(report.findings, report))))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is not a baseline of dynalyze"),
        (b"[]", "is not a baseline of dynalyze"),
        (b"\xff\xfe", "is not a baseline of dynalyze"),
        (b'{"findings": [{"rule": "graph-break"}]}', "is not a baseline of dynalyze"),
        (b'{"baseline_version": 2, "findings": []}', "this dynalyze reads 1"),
        (None, "no such file; --update-baseline writes it"),
    ],
)
def test_what_is_no_baseline(tmp_path: Path, data: bytes | None, says: str) -> None:
    file = tmp_path / "known.json"
    if data is not None:
        file.write_bytes(data)
    with pytest.raises(UsageError, match=says):
        read_baseline(file)

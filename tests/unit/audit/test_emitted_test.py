"""The pytest file of an audit: one test for each wrong answer, by the script that shows it or by the target."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dynalyze.audit.emitted_test import emit_test
from dynalyze.bench.plan import Plan
from dynalyze.capture.bench.protocol import Configuration, Work
from dynalyze.report import Outcome, Report, Target
from dynalyze.report.audit import Bisection, StageRun
from dynalyze.report.measurements import Accuracy, AccuracyVerdict, BrokenContract, InputVariant

_OBJECT: dict[str, Any] = {"kind": "object", "path": "net.py", "module": None, "name": "make", "inputs": []}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tests").mkdir()
    return tmp_path / "tests" / "test_net.py"


def _report(verdict: AccuracyVerdict, *variants: InputVariant) -> Report:
    report = Report("0", "", [], {"torch": "2.13.0"}, Target("object", "net.py"), Outcome("complete"))
    fault = BrokenContract("stride", "output", "has stride (6, 1)", "has stride (1, 2)")
    contracts = [fault] if verdict == "suspicious" else []
    report.accuracy = [Accuracy("default", verdict=verdict, contracts=contracts, variants=list(variants))]
    return report


def _plan(source: dict[str, Any]) -> Plan:
    return Plan(source, (Configuration("default", backend="aot_eager"),), works=(Work(phase="forward"),))


def _asked(file: Path) -> list[dict[str, Any]]:
    """What the written tests hand to `wrong_answers`; each is wrong, and says so."""
    asked: list[dict[str, Any]] = []
    names: dict[str, Any] = {"__file__": str(file)}
    exec(compile(file.read_text(), str(file), "exec"), names)
    names["wrong_answers"] = lambda **given: asked.append(given) or "it is wrong"
    for name, test in list(names.items()):
        if name.startswith("test_"):
            with pytest.raises(AssertionError, match="it is wrong"):
                test()
    return asked


def test_the_target_is_asked_again_from_where_the_file_lies(file: Path) -> None:
    report = _report("suspicious")
    stages = [StageRun("dynamo", "eager", "equal"), StageRun("aot_autograd", "aot_eager", "suspicious")]
    report.bisections = [Bisection("default", stage="aot_autograd", stages=stages)]
    assert "test_net.py" in emit_test(report, _plan(_OBJECT), file)
    (asked,) = _asked(file)
    assert Path(asked["source"]["path"]).resolve() == file.parents[1] / "net.py"
    assert asked["configuration"] == {"name": "default", "backend": "aot_eager"} and "variant" not in asked
    assert "# Works round it: backend='eager'\n" in file.read_text()
    assert "has stride (1, 2)" in file.read_text() and "subprocess" not in file.read_text()


def test_inputs_that_were_varied_are_varied_again(file: Path) -> None:
    report = _report("equal", InputVariant("NaN", "suspicious", "output"), InputVariant("batch 0", "left out"))
    emit_test(report, _plan(_OBJECT), file)
    assert [asked["variant"] for asked in _asked(file)] == ["NaN"]


def test_a_script_that_shows_it_is_kept_beside_the_file_with_its_data(file: Path) -> None:
    report = _report("suspicious")
    report.folder = str(file.parents[1])
    script = file.parents[1] / "net.repro.py"
    script.write_text('DATA = "net.repro.pt"\n')
    script.with_suffix(".pt").write_bytes(b"data")
    report.bisections = [Bisection("default", stage="inductor", op="torch.softmax", repro="net.repro.py")]
    emit_test(report, _plan({"kind": "bundle"}), file)
    assert "wrong_answers(" not in file.read_text() and "test_net_net.repro.py" in file.read_text()
    assert (file.parent / "test_net_net.repro.py").read_text() == 'DATA = "test_net_net.repro.pt"\n'
    assert (file.parent / "test_net_net.repro.pt").read_bytes() == b"data"


def test_without_wrong_answers_or_a_way_to_ask_again_nothing_is_written(file: Path) -> None:
    assert "no answers were found wrong" in emit_test(_report("benign"), _plan(_OBJECT), file)
    assert "FILE:NAME" in emit_test(_report("suspicious"), _plan({"kind": "bundle"}), file)
    assert not file.exists()

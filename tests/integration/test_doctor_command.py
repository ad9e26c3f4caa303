"""`dynalyze doctor` on real interpreters: this one, one that is switched off, without a compiler, without torch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from program import TRACEBACK, dynalyze


@pytest.fixture(autouse=True)
def _no_cache_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TORCHDYNAMO_DISABLE", "TORCH_COMPILE_DISABLE", "CXX"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.slow  # Imports every package, and compiles with Inductor from empty caches.
def test_here_it_works(tmp_path: Path) -> None:
    ended = dynalyze("doctor", "--json", "-", cwd=tmp_path)
    assert ended.status == 0, ended.stdout
    found = json.loads(ended.stdout)
    assert found["works"]
    lines = {line["check"]: line for line in found["lines"]}
    for check in (
        "torch",
        "C++ compiler",
        "Python headers",
        "Dynamo alone",
        "Inductor, CPU",
    ):
        assert lines[check]["status"] == "ok", lines[check]
    import torch

    assert found["facts"]["torch"] == torch.__version__


@pytest.mark.slow
def test_no_compiler_and_no_word_of_the_user(tmp_path: Path) -> None:
    user = "zquser"
    env = {"CXX": f"/opt/{user}/g++", "USER": user, "LOGNAME": user, "HOME": f"/home/{user}"}
    ended = dynalyze("doctor", "--json", "-", "--redact", cwd=tmp_path, env=env)
    assert ended.status == 1 and user not in ended.stdout + ended.stderr
    lines = {line["check"]: line for line in json.loads(ended.stdout)["lines"]}
    assert lines["C++ compiler"]["fatal"]
    assert lines["C++ compiler"]["mend"] == "unset CXX, or export CXX=g++"
    assert lines["Dynamo alone"]["status"] == "ok"
    assert lines["Inductor, CPU"] == {
        **lines["Inductor, CPU"],
        "status": "unknown",
        "found": "not tried: no C++ compiler works",
    }
    assert "importing torchao" not in ended.stderr


def test_no_interpreter_at_all(tmp_path: Path) -> None:
    ended = dynalyze("doctor", "--python", "/nowhere/python", cwd=tmp_path)
    assert ended.status == 2
    assert "/nowhere/python cannot be started" in ended.stderr
    assert TRACEBACK not in ended.stderr

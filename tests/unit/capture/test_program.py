"""A program run by dynalyze finds what Python itself would have given it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from limits import WALL_SECONDS

# Stands in for start.py without the listener: runs a program and prints how it ended.
DRIVER = """
import json, sys
sys.path[0] = {capture!r}
from dynalyze.capture import program
from dynalyze.capture.inputs import Misuse
try:
    ending, names = program.{call}
    told = {{**vars(ending), "names": sorted(n for n in names if not n.startswith("__"))}}
except Misuse as misuse:
    told = {{"misuse": str(misuse)}}
open({told!r}, "w").write(json.dumps(told))
"""
CAPTURE = str(Path(__file__).resolve().parents[3] / "analyzer" / "dynalyze" / "capture")


def run(folder: Path, call: str, stdin: str = "") -> tuple[dict[str, Any], str, str]:
    """Ending, standard output and standard error of a call of run_script or run_module."""
    told = folder / "told.json"
    driver = DRIVER.format(capture=CAPTURE, call=call, told=str(told))
    done = subprocess.run(
        [sys.executable, "-c", driver],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=WALL_SECONDS,
        input=stdin,
    )
    assert told.exists(), done.stderr
    return json.loads(told.read_text()), done.stdout, done.stderr


def script(
    folder: Path, source: str | bytes, *arguments: str, name: str = "model.py"
) -> tuple[dict[str, Any], str, str]:
    (folder / name).write_bytes(source if isinstance(source, bytes) else source.encode())
    return run(folder, f"run_script({name!r}, {list(arguments)!r})")


@pytest.mark.parametrize(
    ("leaving", "status"),
    [
        ("sys.exit()", 0),
        ("sys.exit(None)", 0),
        ("sys.exit(0)", 0),
        ("sys.exit(3)", 3),
        ("sys.exit(256)", 0),
        ("sys.exit(-1)", 255),
        ("sys.exit(True)", 1),
        ("sys.exit('no batch')", 1),
        ("raise SystemExit(4)", 4),
        ("raise ValueError('x')", 1),
        ("raise KeyboardInterrupt", 130),
    ],
)
def test_the_exit_status_is_what_a_shell_would_see(tmp_path: Path, leaving: str, status: int) -> None:
    told, _, err = script(tmp_path, f"import sys\n{leaving}\n")
    assert told["exit_status"] == status
    assert ("no batch" in err) == ("no batch" in leaving)
    if "Interrupt" not in leaving:
        done = subprocess.run([sys.executable, "model.py"], cwd=tmp_path, capture_output=True, check=False)
        assert done.returncode == status


def test_the_programs_own_excepthook_is_heeded(tmp_path: Path) -> None:
    source = "import sys\nsys.excepthook = lambda kind, e, trace: print('hooked', e)\nraise ValueError('x')\n"
    told, out, err = script(tmp_path, source)
    assert out == "hooked x\n"
    assert "Traceback" not in err
    assert told["exit_status"] == 1


def test_a_broken_module_that_the_program_imports_is_its_own_failure(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("def f(:\n")
    told, _, err = script(tmp_path, "import broken\n")
    assert (told["exit_status"], told["exception"]) == (1, "SyntaxError")
    assert "broken.py" in err


def test_no_future_of_ours_leaks_into_the_program(tmp_path: Path) -> None:
    """dynalyze's own modules postpone annotations; the program's are evaluated unless it asks otherwise."""
    _, out, _ = script(tmp_path, "def f(x: int): ...\nprint(f.__annotations__)\n")
    assert out == "{'x': <class 'int'>}\n"


@pytest.mark.parametrize("name", ["no_such_module", "package.none", "package"])
def test_modules_that_cannot_be_run_are_the_users_mistake(tmp_path: Path, name: str) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    told, _, err = run(tmp_path, f"run_module({name!r}, [])")
    assert name in told["misuse"]
    assert "Traceback" not in err


def test_a_package_that_fails_on_import_is_the_programs_own_failure(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("raise ValueError('no config')\n")
    (tmp_path / "package" / "sub.py").write_text("print('never')\n")
    told, out, err = run(tmp_path, "run_module('package.sub', [])")
    assert (told["exit_status"], told["exception"], out) == (1, "ValueError", "")
    assert "no config" in err
    assert told["file"] == str(tmp_path / "package" / "__init__.py")

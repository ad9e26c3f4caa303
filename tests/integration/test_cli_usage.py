"""Wrong usage: exit status 2, one line that says what is wrong, no traceback, and nothing left behind."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from program import TRACEBACK, Outcome, dynalyze, explain, in_process

from limits import WALL_SECONDS

MODEL = """\
import torch
from torch import nn

class Net(nn.Module):
    def forward(self, x):
        return x.relu()

class Sized(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, width)

    def forward(self, x):
        return self.layer(x)

net = Net()
settings = {"width": 4}
"""

COMPILES = """\
import torch

@torch.compile(backend="eager")
def double(x):
    return x * 2

double(torch.ones(3))
"""

as_root = pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everything; run as another user")


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    """A folder with a model in it, and one beside it for temporary files."""
    folder = tmp_path / "here"
    folder.mkdir()
    (tmp_path / "temporary").mkdir()
    (folder / "model.py").write_text(MODEL)
    (folder / "text.txt").write_text("no program")
    (folder / "empty").mkdir()
    return folder


def contents(cwd: Path) -> dict[Path, bytes | None]:
    """Every file below the folder and the one for temporary files, hidden too; no caches of Python or torch."""
    caches = ("__pycache__", "torchinductor_")
    paths = [path for path in cwd.parent.rglob("*") if not any(part.startswith(caches) for part in path.parts)]
    return {path: path.read_bytes() if path.is_file() else None for path in paths}


def run(*arguments: str, cwd: Path) -> Outcome:
    return dynalyze(*arguments, cwd=cwd, env={"TMPDIR": str(cwd.parent / "temporary")})


def run_here(*arguments: str, cwd: Path) -> Outcome:
    return in_process(*arguments, cwd=cwd, env={"TMPDIR": str(cwd.parent / "temporary")})


def refused(*arguments: str, cwd: Path, says: str, runs: Callable[..., Outcome] = run) -> str:
    """Run dynalyze, which has to refuse in one line that matches `says`, and to leave everything as it was."""
    before = contents(cwd)
    ended = runs(*arguments, cwd=cwd)
    assert ended.status == 2, ended.stderr[-2000:]
    assert ended.stdout == ""
    assert TRACEBACK not in ended.stderr
    assert len(ended.stderr.splitlines()) == 1, ended.stderr
    assert ended.stderr.startswith("dynalyze: ")
    assert re.search(says, ended.stderr), ended.stderr
    assert contents(cwd) == before
    return ended.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], r"model\.py"),
        (["nope.py"], r"no such file: nope\.py"),
        (["nope/model.py:Net"], r"no such file: nope/model\.py"),
        (["."], r"\. is a directory"),
        (["empty"], r"empty is a directory"),
        (["-m", "no-module"], r"no-module"),
        (["model.py:"], r"after the colon"),
        (["model.py:Net()"], r"after the colon"),
        (["hf:"], r"hf: needs a name"),
        (["hf:all"], r"hf:all names many models"),
        (["hf:LlamaModel", "--input", "torch.ones(2)"], r"--input is not for hf:LlamaModel"),
        (["-m", "module", "hf:LlamaModel"], r"-m module and hf:LlamaModel exclude each other"),
        (["model.py:Net", "--full-size"], r"--full-size is for .*hf:NAME"),
        (["model.py", "--input", "torch.ones(2)"], r"--input is for an object"),
        (["model.py:Net", "--input", ""], r"--input is empty"),
        (["model.py:Net", "--input", "   "], r"--input is empty"),
        (["model.py:Net", "--input", "torch.randn(2,"], r"--input 'torch\.randn\(2,'"),
        (["model.py:Net", "--input", "x = 3"], r"--input 'x = 3'"),
        (["model.py", "--timeout", "0"], r"--timeout"),
        (["model.py", "--timeout", "soon"], r"--timeout.*soon"),
        (["model.py", "--stop-after", "-1"], r"--stop-after"),
        (["model.py", "--dynamic", "maybe"], r"--dynamic.*maybe"),
        (["model.py", "--no-such-option"], r"--no-such-option"),
        (["model.py", "--fail-on", "disaster"], r"--fail-on disaster.*graph-break"),
        (["model.py", "--json", ""], r"--json"),
        (["model.py", "--json", "empty"], r"--json empty: .*directory"),
        (["model.py", "--json", "none/report.json"], r"--json none/report\.json: no such directory: none"),
        (["model.py", "--html", "empty"], r"--html empty: .*directory"),
        (["model.py", "--html", "none/page.html"], r"--html none/page\.html: no such directory: none"),
        (["model.py", "--html", "text.txt/page.html"], r"--html text\.txt/page\.html"),
        (["model.py", "--python", "no-such-python"], r"no-such-python"),
        (["model.py", "--python", "empty"], r"empty"),
        (["model.py", "--python", "text.txt"], r"text\.txt"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_refused_before_anything_runs(cwd: Path, arguments: list[str], says: str) -> None:
    refused("explain", *arguments, cwd=cwd, says=says, runs=run_here)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["model.py:Nope"], r"no 'Nope' in .*model\.py.*Net"),
        (["model.py:settings"], r"'settings' is a dict"),
        (["model.py:Sized"], r"Sized.*width"),
        (["model.py:Net"], r"Net takes \(.*x\).*--input"),
        (["no_package.model:Net"], r"no_package"),
        (["model.py:Net", "--input", "1/0"], r"--input '1/0'.*ZeroDivisionError"),
        (["model.py:Net", "--input", "torch.ones(2)", "--backend", "gpu9"], r"unknown backend 'gpu9'.*inductor"),
        (["model.py:Net", "--input", "torch.ones(2)", "--backend", "nothing:here"], r"nothing:here"),
        (["model.py:Net", "--input", "torch.ones(2)", "--mode", "fastest"], r"'fastest'.*max-autotune"),
        (["model.py:Net", "--input", "torch.ones(2)", "--dtype", "float5"], r"'float5'"),
        (["model.py:Net", "--input", "torch.ones(2)", "--device", "warp"], r"--device warp"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_refused_by_the_child(cwd: Path, arguments: list[str], says: str) -> None:
    refused("explain", *arguments, cwd=cwd, says=says)


def test_compile_options_on_a_program_that_compiles_itself(cwd: Path) -> None:
    options = ["--dynamic", "on", "--train"]
    (cwd / "own.py").write_text(COMPILES)
    line = refused("explain", "own.py", *options, cwd=cwd, says=r"own\.py compiles by itself \(own\.py:3\)")
    assert all(option in line for option in options if option.startswith("--"))


OWN = """
import torch
net = torch.compile(torch.nn.Linear(4, 4), mode="max-autotune-no-cudagraphs")

@torch.compile
def double(x):
    return x * 2

with torch.no_grad():
    net(double(torch.ones(2, 4)))
"""


def test_a_backend_takes_the_place_of_the_program_s_own_and_is_named(cwd: Path) -> None:
    """A quick look: nothing is generated, and the decorator without arguments is compiled so too."""
    (cwd / "own.py").write_text(OWN)
    ended, report = explain("own.py", "--backend", "eager", cwd=cwd)
    assert (ended.status, report["outcome"]["status"]) == (0, "complete")
    assert (len(report["compilations"]), report["kernels"]) == (2, [])
    (note,) = [note for note in report["capture"]["notes"] if note.startswith("--backend eager ")]
    assert "backend='inductor' (own.py:3)" in note and "mode='max-autotune-no-cudagraphs' (own.py:3)" in note
    assert "--backend eager took the place" in ended.stdout


@as_root
def test_an_unreadable_program(cwd: Path) -> None:
    (cwd / "model.py").chmod(0)
    ended = run("explain", "model.py", cwd=cwd)
    assert ended.status == 2
    assert TRACEBACK not in ended.stderr
    assert re.search(r"model\.py.*[Pp]ermission denied", ended.stderr)


@pytest.mark.parametrize(
    ("name", "text"),
    [("logging", "def log(x): print(x)"), pytest.param("calendar", "DAYS = 7", marks=pytest.mark.slow)],
)
def test_a_file_named_as_a_module_of_python_is_found_as_by_plain_python(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    program = tmp_path / "model.py"
    program.write_text(f"import torch, {name}\nprint(torch.ones(2).tolist(), {name}.__file__)\n", encoding="utf-8")
    plain = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False, timeout=WALL_SECONDS)
    ended = dynalyze("explain", "model.py", cwd=tmp_path, real=True)
    assert plain.stdout in ended.stderr
    assert ended.status == (0 if plain.returncode == 0 else 2)
    if plain.returncode:
        (said,) = [line for line in ended.stderr.splitlines() if line.startswith("dynalyze: ")]
        assert plain.stderr.splitlines()[-1] in said
        assert str(tmp_path / f"{name}.py") in said


def test_a_part_of_a_package_is_to_be_run_as_a_module(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "parts.py").write_text("WIDTH = 2\n")
    (tmp_path / "package" / "model.py").write_text("from .parts import WIDTH\nprint(WIDTH)\n")
    ended = dynalyze("explain", "package/model.py", cwd=tmp_path)
    assert "-m package.model)" in " ".join(ended.stdout.split())
    followed = dynalyze("explain", "-m", "package.model", cwd=tmp_path)
    assert "2\n" in followed.stderr and TRACEBACK not in followed.stderr

"""`dynalyze fix --write` and `--patch` as a user runs them: what is on disk then, also where it was interrupted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from program import dynalyze
from warm_starts import start_dynalyze

from limits import WALL_SECONDS

BREAK = b"        torch._dynamo.graph_break()\n"
NET = b"""\
import torch
import zz_part

\x0c
TEXT = 'one\xe2\x80\xa8two'
\x0c

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(4, 4)

    def forward(self, x):
        y = self.lin(x)
        torch._dynamo.graph_break()
        return zz_part.twice(y)


torch.manual_seed(0)
model = torch.compile(Net(), backend="eager")
with torch.no_grad():
    print(model(torch.ones(2, 4)).sum().item(), ascii(zz_part.NAME))
"""
PART = b"""\
# coding: latin-1
import torch

NAME = '\xe9'


def twice(y):
        torch._dynamo.graph_break()
        return y * 2
"""
# Without a sandbox effects of the program would be refused; test_wrong_changes.py has what takes one.
FIX = ("fix", "net.py", "--no-bench", "--quiet-target", "--sandbox", "off")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two files, of which one has form feeds and \\r\\n at its ends, and the other names another encoding."""
    (tmp_path / "net.py").write_bytes(NET.replace(b"\n", b"\r\n"))
    (tmp_path / "zz_part.py").write_bytes(PART)
    return tmp_path


def test_every_byte_stays_but_those_of_the_lines_that_go(folder: Path) -> None:
    before = {name: (folder / name).read_bytes() for name in ("net.py", "zz_part.py")}
    done = dynalyze(*FIX, "--patch", "p.diff", "--write", cwd=folder, bench=True)
    assert done.status == 0, done.stderr
    after = {"net.py": NET.replace(BREAK, b"").replace(b"\n", b"\r\n"), "zz_part.py": PART.replace(BREAK, b"")}
    assert {name: (folder / name).read_bytes() for name in before} == after
    said = done.stdout.splitlines()
    for name, content in before.items():
        assert f"Wrote {name} (backup: {name}.orig). Undo: mv {name}.orig {name}" in said
        assert (folder / f"{name}.orig").read_bytes() == content
        subprocess.run(["mv", f"{name}.orig", name], cwd=folder, check=True)
    subprocess.run(["git", "apply", "p.diff"], cwd=folder, check=True)
    assert {name: (folder / name).read_bytes() for name in before} == after


@pytest.mark.slow
def test_what_was_found_before_an_interruption_is_in_the_patch(folder: Path) -> None:
    """Both changes hold by themselves then; the proof of the whole is lacking."""
    given = [*FIX, "--write", "--json", "fix.json", "--patch", "p.diff"]
    command, variables = start_dynalyze(given, {}, measures=True)
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **variables},
    ) as running:  # fmt: skip
        assert running.stderr is not None
        for line in running.stderr:
            if "verifying all changes together" in line:
                running.send_signal(signal.SIGINT)
                break
        out, err = running.communicate(timeout=WALL_SECONDS)
    assert running.returncode == 130, err
    assert (folder / "net.py").read_bytes() == NET.replace(b"\n", b"\r\n")
    report = json.loads((folder / "fix.json").read_text())
    assert {each["status"] for each in report["fixes"]} == {"suggested"} and not report["fixed"]["kept"]
    assert report["fixed"]["patch"] and "Suggested, not verified" in out and "interrupted" in out
    subprocess.run(["git", "apply", "p.diff"], cwd=folder, check=True)
    assert (folder / "zz_part.py").read_bytes() == PART.replace(BREAK, b"")

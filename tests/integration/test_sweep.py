"""The real `dynalyze sweep`: what each kind of failure costs, what a kill costs, and what the files hold."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from fork_client import ANEW
from program import Outcome, dynalyze
from shared_runs import made_once
from warm_starts import start_dynalyze

from dynalyze.sweep.folder import SweepFolder
from limits import WALL_SECONDS

CLEAN = """
import torch

model = torch.nn.Linear(4, 4)
example_inputs = (torch.randn(2, 4),)
"""
BREAKS = """
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        print("canary from a target")
        return x + 1

class Wrong(torch.nn.Module):
    def forward(self, x):
        return x @ torch.ones(7, 7)

class Two(torch.nn.Module):
    def forward(self, x):
        return x + 1 if x.shape[0] == 2 else x

def marked():
    x = torch.ones(2, 3)
    torch._dynamo.mark_dynamic(x, 0)  # works in eager; compile refuses to make a constant of it
    return Two(), (x,)

example_inputs = (torch.ones(2, 3),)
"""
PROGRAMS = {
    "clean.py": CLEAN,
    "objects.py": BREAKS,
    "aborts.py": "import os\nprint('going', flush=True)\nos.abort()\n",
    "hangs.py": "import time\ntime.sleep(600)\n",
    "swells.py": "import time\nheld = [bytearray(64 << 20) for _ in range(40)]\ntime.sleep(600)\n",
    "raises.py": "raise KeyError('of its own')\n",
    "defines.py": "import torch\n\nclass Net(torch.nn.Module):\n    pass\n",
}
TARGETS = ("hf:BertModel", "clean.py", "objects.py:Net", "objects.py:Wrong", "objects.py:marked", "aborts.py")
EXPECTED = {
    "hf:BertModel": "full_graph",
    "clean.py": "full_graph",
    "objects.py:Net": "graph_break",
    "objects.py:Wrong": "eager_error",
    "objects.py:marked": "compile_error",
    "aborts.py": "crash",
    "swells.py": "crash",
    "raises.py": "eager_error",
    "defines.py": "create_error",
}


class Swept(NamedTuple):
    """A sweep that several tests look at."""

    folder: Path
    ended: Outcome
    document: dict[str, Any]


def with_programs(folder: Path) -> Path:
    for name, text in PROGRAMS.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return with_programs(tmp_path)


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Swept:
    """One sweep over every kind of end."""
    return made_once(tmp_path_factory, "sweep", sweep_of_all)


def sweep_of_all(folder: Path) -> Swept:
    more = ("swells.py", "raises.py", "defines.py")
    ended = dynalyze(
        "sweep", *TARGETS, *more, "--out", "out", "--memory", "1200M", "--workers", "2",
        "--json", "-", "--html", "index.html", cwd=with_programs(folder), env={ANEW: "swells.py"},
    )  # fmt: skip
    assert ended.status == 0, ended.stderr[-3000:]
    return Swept(folder, ended, json.loads(ended.stdout))


def _rows(document: dict[str, Any]) -> dict[str, Any]:
    return {row["target"]: row for row in document["items"]}


def test_each_failure_costs_its_own_item(swept: Swept) -> None:
    assert {target: row["status"] for target, row in _rows(swept.document).items()} == EXPECTED


def test_errors_say_what_happened(swept: Swept) -> None:
    rows = _rows(swept.document)
    for target, said in {
        "aborts.py": "SIGABRT", "swells.py": "more than 1.2 GiB", "raises.py": "of its own",
        "objects.py:marked": "Constraint", "objects.py:Wrong": "RuntimeError", "defines.py": "only defines Net",
    }.items():  # fmt: skip
        assert said in rows[target]["error"], target
    assert rows["hf:BertModel"]["error"] is None
    assert rows["raises.py"]["error_at"] == "raises.py:1"
    assert rows["objects.py:Wrong"]["error_at"] == "objects.py:11"


def test_a_row_has_its_breaks_and_its_model(swept: Swept) -> None:
    rows = _rows(swept.document)
    [found] = rows["objects.py:Net"]["breaks"]
    assert (found["path"], found["line"], found["gb_id"]) == ("objects.py", 6, "GB0059")
    assert rows["hf:BertModel"]["family"] == "bert"
    assert rows["hf:BertModel"]["graphs"] == 1
    assert rows["hf:BertModel"]["peak_memory"] > 100 << 20


def test_every_row_that_ran_opens_its_report(swept: Swept) -> None:
    for target, row in _rows(swept.document).items():
        page = (swept.folder / "out" / row["page"]).read_text(encoding="utf-8")
        assert "<html" in page, target
        report = json.loads((swept.folder / "out" / row["report"]).read_text(encoding="utf-8"))
        assert len(report["graph_breaks"]) == row["graph_breaks"]


def test_the_other_outputs_hold_the_same_rows(swept: Swept) -> None:
    folder = swept.folder
    lines = (folder / "out/rows.jsonl").read_text(encoding="utf-8").splitlines()
    assert {(row["target"], row["status"]) for row in map(json.loads, lines)} == set(EXPECTED.items())
    for index, prefix in (("out/index.html", ""), ("index.html", "out/")):
        page = (folder / index).read_text(encoding="utf-8")
        for row in swept.document["items"]:
            assert f'href="{prefix}{row["page"]}"' in page


def test_standard_output_carries_nothing_of_the_targets(swept: Swept) -> None:
    ended = swept.ended
    assert ended.stdout.startswith("{")
    assert "aborts.py | going" in ended.stderr  # of those that failed
    assert "canary from a target" not in ended.stderr  # and of no other


def test_what_is_done_is_not_done_again(swept: Swept, folder: Path) -> None:
    shutil.copytree(swept.folder / "out", folder / "again")
    command = ("sweep", *TARGETS, "--out", "again", "--resume", "--fail-on", "compile_error", "--json", "again.json")
    ended = dynalyze(*command, cwd=folder)
    assert ended.status == 1  # an earlier row meets --fail-on
    assert "of 7 items" not in ended.stderr  # nothing ran, so there was no progress to tell
    assert {row["target"] for row in json.loads((folder / "again.json").read_text())["items"]} == set(TARGETS)
    (folder / "raises.py").write_text(PROGRAMS["raises.py"] + "\n# changed\n", encoding="utf-8")
    ended = dynalyze(*command[:1], "raises.py", *command[2 + len(TARGETS) - 1 :], cwd=folder)
    assert ended.status == 0
    assert len((folder / "again/rows.jsonl").read_text().splitlines()) == len(EXPECTED) + 1


def test_a_hang_is_ended_and_the_rest_goes_on(folder: Path) -> None:
    command = ("sweep", "hangs.py", "raises.py", "--timeout", "6", "--out", "late", "--workers", "1", "--json", "-")
    ended = dynalyze(*command, "--fail-on", "timeout", "--quiet-target", cwd=folder)
    rows = _rows(json.loads(ended.stdout))
    assert ended.status == 1
    assert {target: row["status"] for target, row in rows.items()} == {
        "hangs.py": "timeout",
        "raises.py": "eager_error",
    }
    assert "--timeout" in rows["hangs.py"]["error"]
    assert 4 <= rows["hangs.py"]["seconds"] < 60  # a program is asked to stop when three quarters are over


KILLED = ("hf:BertModel", "hf:GPT2Model", "objects.py:Net", "raises.py")


def _start(folder: Path, out: str, *more: str, targets: tuple[str, ...] = KILLED) -> subprocess.Popen[bytes]:
    command, variables = start_dynalyze(["sweep", *targets, "--out", out, "--workers", "2", *more], {})
    env, silent = {**os.environ, **variables}, subprocess.DEVNULL
    return subprocess.Popen(command, cwd=folder, env=env, stdin=silent, stdout=silent, stderr=silent)


def _table(folder: Path, out: str) -> list[tuple[str, str, int, str]]:
    document = json.loads((folder / f"{out}.json").read_text(encoding="utf-8"))
    return [(row["target"], row["status"], row["graph_breaks"], row["key"]) for row in document["items"]]


@pytest.mark.slow
def test_killed_at_random_moments_and_resumed_it_is_the_same_table(folder: Path) -> None:
    """DYNALYZE_KILLS kills of the parent (1 unless told otherwise), none of which may leave a process behind."""
    assert _start(folder, "whole", "--json", "whole.json").wait(timeout=WALL_SECONDS) == 0
    chance = random.Random(os.environ.get("DYNALYZE_KILL_SEED", "7"))
    for _ in range(int(os.environ.get("DYNALYZE_KILLS", "1"))):
        with _start(folder, "killed", "--resume") as process:
            time.sleep(chance.uniform(1, 14))
            process.send_signal(signal.SIGKILL)
        _wait_for_the_end_of("killed", folder)
    assert _start(folder, "killed", "--resume", "--json", "killed.json").wait(timeout=WALL_SECONDS) == 0
    assert _table(folder, "killed") == _table(folder, "whole")
    rows = (folder / "killed/rows.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(rows) == len({json.loads(row)["key"] for row in rows}) == len(KILLED)


def test_ctrl_c_keeps_what_is_done(folder: Path) -> None:
    """One has ended; the fork server is starting, or its model runs, and one hangs."""
    targets = ("hf:BertModel", "raises.py", "hangs.py")
    process = _start(folder, "stopped", targets=targets)
    rows = folder / "stopped" / "rows.jsonl"
    deadline = time.monotonic() + WALL_SECONDS
    while not (rows.exists() and rows.stat().st_size):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=WALL_SECONDS) == 130
    done = rows.read_text(encoding="utf-8").splitlines()
    assert all(json.loads(row)["status"] in EXPECTED.values() for row in done)
    assert 0 < len(done) < len(targets)
    assert "<html" in (folder / "stopped/index.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["hf:BertModl"], "BertModel"),
        (["clean.py", "--backend", "nope"], "unknown backend 'nope'"),
        (["clean.py", "--configs", "fulgraph"], "did you mean fullgraph"),
        (["clean.py", "--batch", "3"], "--batch is for"),
        (["clean.py", "--fail-on", "perhaps"], "--fail-on perhaps"),
        (["clean.py", "--memory", "lots"], "--memory lots"),
        (["gone.py"], "no such file: gone.py"),
        (["clean.py", "--python", "/no/such/python"], "/no/such/python"),
        (["clean.py", "--json", "x.json", "--html", "x.json"], "both name x.json"),
    ],
)
def test_mistakes_are_one_line_and_exit_status_2(folder: Path, arguments: list[str], said: str) -> None:
    ended = dynalyze("sweep", *arguments, "--out", "mistakes", cwd=folder)
    assert (ended.status, ended.stdout) == (2, "")
    assert len(ended.stderr.strip().splitlines()) == 1
    assert said in ended.stderr


def _wait_for_the_end_of(out: str, folder: Path) -> None:
    """Nothing may be left that holds the folder's lock; what was started dies with its parent."""
    deadline = time.monotonic() + WALL_SECONDS
    while True:
        try:
            with SweepFolder(folder / out, resume=True):
                return
        except Exception:
            assert time.monotonic() < deadline
            time.sleep(0.1)

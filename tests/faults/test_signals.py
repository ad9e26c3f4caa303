"""What a run leaves when a signal ends it, and what the next one does about that.

A row is one planted fault and what must come out.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from program import TRACEBACK, dynalyze, wait_for, working_in
from warm_starts import start_dynalyze

from dynalyze.cli import group
from dynalyze.files import temporary
from limits import WALL_SECONDS

WAITS = """\
import pathlib, time
pathlib.Path("ready").touch()
while True:
    time.sleep(0.05)
"""
COMPILED = 'import torch\ntorch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))\n'
PATIENT = COMPILED + WAITS
CHECKPOINTS = WAITS.replace(
    "import pathlib",
    "import signal, sys\nsignal.signal(signal.SIGTERM, lambda *_: (open('saved', 'w'), sys.exit(0)))\nimport pathlib",
)
DEAF = WAITS.replace("import pathlib", "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nimport pathlib")
SLOW_FORWARD = """\
import pathlib, time, torch
class Net(torch.nn.Module):
    def forward(self, x):
        pathlib.Path("ready").touch()
        time.sleep(0.2)
        return x + 1
"""


@dataclass(frozen=True)
class Ended:
    """A run that got signals: what it printed, what it left in its temporary folder, and who outlived it."""

    status: int
    stdout: str
    stderr: str
    left: list[str]
    alive: list[str]


def signalled(
    folder: Path,
    *arguments: str,
    numbers: Sequence[int],
    whole_group: bool = False,
    before: Sequence[str] | None = None,
) -> Ended:
    """Run a command with a temporary folder of its own, and send it signals once the target says that it runs.

    It is a fork (warm_starts), which has a group of its own, but for the `whole_group` and behind a command `before`.
    """
    scratch = folder / "scratch"
    scratch.mkdir(exist_ok=True)
    env = {**os.environ, "TMPDIR": str(scratch), "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache")}
    command, variables = [*(before or ()), sys.executable, "-m", "dynalyze", *arguments], {}
    if before is None and not whole_group:
        command, variables = start_dynalyze(arguments, {}, measures=arguments[0] == "bench")
    with subprocess.Popen(
        command, cwd=folder, env={**env, **variables}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            wait_for(folder / "ready", process)
            for count, number in enumerate(numbers):
                time.sleep(0.6 if count else 0)  # What comes at once counts as one.
                (os.killpg if whole_group else os.kill)(process.pid, number)
            stdout, stderr = process.communicate(timeout=WALL_SECONDS)
        finally:
            process.kill()
    left = [path.name for path in scratch.glob("dynalyze-*")]
    return Ended(process.returncode, stdout, stderr, left, working_in(folder))


SIGNALS = [
    pytest.param(PATIENT, [signal.SIGTERM], False, id="SIGTERM"),
    pytest.param(PATIENT, [signal.SIGHUP], False, marks=pytest.mark.slow, id="SIGHUP"),
    pytest.param(PATIENT, [signal.SIGQUIT], False, marks=pytest.mark.slow, id="SIGQUIT"),
    pytest.param(PATIENT, [signal.SIGINT], False, marks=pytest.mark.slow, id="SIGINT"),
    pytest.param(PATIENT, [signal.SIGTERM], True, marks=pytest.mark.slow, id="SIGTERM to the whole group"),
    pytest.param(DEAF, [signal.SIGTERM, signal.SIGTERM], True, id="twice to the whole group, where nobody heeds it"),
    pytest.param(DEAF, [signal.SIGINT, signal.SIGTERM], True, marks=pytest.mark.slow, id="SIGINT and then SIGTERM"),
]


@pytest.mark.parametrize(("program", "numbers", "whole_group"), SIGNALS)
def test_a_signal_ends_a_run_with_its_report(
    tmp_path: Path, program: str, numbers: list[int], whole_group: bool
) -> None:
    (tmp_path / "main.py").write_text(program)
    ended = signalled(tmp_path, "explain", "main.py", "--json", "r.json", numbers=numbers, whole_group=whole_group)
    assert ended.status == 128 + numbers[0], ended
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["outcome"]["status"] == "interrupted"
    assert len(report["compilations"]) == program.count("torch.compile")
    assert (ended.left, ended.alive) == ([], [])


ROADS = [
    pytest.param(
        PATIENT,
        ("explain", "main.py", "--json", "-", "--artifacts", "a"),
        marks=pytest.mark.slow,
        id="explain, JSON on the output",
    ),
    pytest.param(PATIENT, ("bench", "main.py", "--json", "-"), marks=pytest.mark.slow, id="the run of a bench"),
    pytest.param(
        SLOW_FORWARD,
        ("bench", "main.py:Net", "--allow-effects", "--input", "torch.ones(2)", "--json", "-"),
        id="a bench",
    ),
    pytest.param(PATIENT, ("audit", "main.py", "--json", "-"), marks=pytest.mark.slow, id="audit"),
    pytest.param(WAITS, ("sweep", "main.py", "--workers", "1", "--json", "-"), id="sweep"),
]


@pytest.mark.parametrize(("program", "arguments"), ROADS)
def test_a_signal_ends_every_command_that_runs_something(
    tmp_path: Path, program: str, arguments: tuple[str, ...]
) -> None:
    (tmp_path / "main.py").write_text(program)
    ended = signalled(tmp_path, *arguments, numbers=[signal.SIGTERM])
    assert ended.status == 143, ended
    document = json.loads(ended.stdout)
    assert arguments[0] == "sweep" or document["outcome"]["status"] == "interrupted"
    assert (ended.left, ended.alive) == ([], [])


def test_a_program_that_handles_a_signal_gets_that_signal(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(CHECKPOINTS)
    ended = signalled(tmp_path, "explain", "main.py", "--json", "r.json", numbers=[signal.SIGTERM])
    assert (ended.status, (tmp_path / "saved").exists()) == (143, True)


def test_nohup_is_honoured(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(WAITS)
    numbers = [signal.SIGHUP, signal.SIGTERM]
    before = ["env", "--ignore-signal=HUP"]
    if subprocess.run([*before, "true"], capture_output=True).returncode:
        pytest.skip("this env has no --ignore-signal")
    ended = signalled(tmp_path, "explain", "main.py", "--json", "r.json", numbers=numbers, before=before)
    assert ended.status == 143


def test_doctor_ends_by_a_signal_without_a_trace(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/__init__.py").write_text("import pathlib, time\npathlib.Path('ready').touch()\ntime.sleep(9999)")
    os.environ["PYTHONPATH"], before = f"{tmp_path}{os.pathsep}{(was := os.environ.get('PYTHONPATH', ''))}", was
    try:
        ended = signalled(tmp_path, "doctor", numbers=[signal.SIGTERM, signal.SIGTERM], before=())
    finally:
        os.environ["PYTHONPATH"] = before
    assert ended.status == 143, ended
    assert TRACEBACK not in ended.stderr
    assert (ended.left, ended.alive) == ([], [])


# ---- folders of runs that were killed ---------------------------------------------------------------------------


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(temporary, "_cleared", set())
    yield tmp_path
    temporary.remove_all()


def left_behind(base: Path, **owner: object) -> Path:
    """The folder of a run that was killed; `owner` is what is different about it."""
    folder = Path(tempfile.mkdtemp(prefix="dynalyze-", dir=base))
    dead = subprocess.Popen(["true"])
    dead.wait()
    told = {"pid": dead.pid, "started": "1", "host": os.uname().nodename, **owner}
    (folder / temporary.OWNER).write_text(json.dumps(told))
    (folder / temporary.OWNER).chmod(0o600)
    (folder / "bundle").mkdir()
    (folder / "bundle/model.pt").write_text("weights")
    return folder


def a_dead_run(base: Path) -> Path:
    return left_behind(base)


def a_dead_run_whose_number_is_ours(base: Path) -> Path:
    return left_behind(base, pid=os.getpid(), started="1")


def a_live_run(base: Path) -> Path:
    return left_behind(base, pid=os.getpid(), started=temporary._started(os.getpid()))


def another_machine(base: Path) -> Path:
    return left_behind(base, host="elsewhere")


def the_users_own(base: Path) -> Path:
    folder = base / "dynalyze-mynotes1"
    folder.mkdir(mode=0o700)
    (folder / "notes").touch()
    return folder


def no_owner_that_can_be_read(base: Path) -> Path:
    folder = left_behind(base)
    (folder / temporary.OWNER).write_text("")
    return folder


def others_may_write_to_it(base: Path) -> Path:
    folder = left_behind(base)
    folder.chmod(0o777)
    return folder


def a_link_to_a_dead_run(base: Path) -> Path:
    (base / "kept").mkdir()
    folder = left_behind(base / "kept")
    (base / "dynalyze-link1234").symlink_to(folder)
    return folder


CLEARED = [
    (a_dead_run, True),
    (a_dead_run_whose_number_is_ours, True),
    (a_live_run, False),
    (another_machine, False),
    (the_users_own, False),
    (no_owner_that_can_be_read, False),
    (others_may_write_to_it, False),
    (a_link_to_a_dead_run, False),
]


@pytest.mark.parametrize(("plant", "is_cleared"), CLEARED, ids=lambda value: getattr(value, "__name__", ""))
def test_the_folders_of_dead_runs_alone_are_cleared(
    scratch: Path, plant: Callable[[Path], Path], is_cleared: bool
) -> None:
    folder = plant(scratch)
    inside = sorted(folder.rglob("*"))
    temporary.TemporaryFolder().remove()
    assert folder.exists() is not is_cleared
    assert is_cleared or sorted(folder.rglob("*")) == inside


def test_a_folder_whose_lock_is_held_is_left_alone(scratch: Path) -> None:
    folder = left_behind(scratch)
    with (folder / temporary.OWNER).open("r+") as mark:
        fcntl.flock(mark, fcntl.LOCK_EX)
        temporary.TemporaryFolder().remove()
    assert (folder / "bundle/model.pt").exists()


def test_what_links_in_a_dead_runs_folder_lead_to_stays(scratch: Path) -> None:
    (scratch / "precious").mkdir()
    (scratch / "precious/file").touch()
    folder = left_behind(scratch)
    (folder / "to_folder").symlink_to(scratch / "precious")
    (folder / "to_file").symlink_to(scratch / "precious/file")
    temporary.TemporaryFolder().remove()
    assert not folder.exists()
    assert (scratch / "precious/file").exists()


def test_the_next_run_clears_the_folder_of_one_that_was_killed(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(WAITS)
    killed = signalled(tmp_path, "explain", "main.py", numbers=[signal.SIGKILL], before=())
    assert killed.status == -signal.SIGKILL
    assert killed.left
    (tmp_path / "ready").unlink()
    (tmp_path / "main.py").write_text("")
    scratch = tmp_path / "scratch"
    assert dynalyze("explain", "main.py", cwd=tmp_path, env={"TMPDIR": str(scratch)}).status == 0
    assert list(scratch.glob("dynalyze-*")) == []


def test_a_live_runs_folder_outlives_its_neighbours(tmp_path: Path) -> None:
    first, second = temporary.TemporaryFolder("fork"), temporary.TemporaryFolder()
    second.remove()
    code = "from dynalyze.files.temporary import TemporaryFolder; TemporaryFolder().remove()"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=WALL_SECONDS)
    assert first.path.is_dir()
    first.remove()
    assert not first.path.exists()


def test_the_command_group_leaves_signals_as_they_were() -> None:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
    before = [signal.getsignal(number) for number in numbers]
    assert group.run(["rules", "print"]) == 0
    assert [signal.getsignal(number) for number in numbers] == before

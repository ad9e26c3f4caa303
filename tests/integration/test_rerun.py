"""A measuring process that runs the program again: its calls are measured where they are made, unpickled."""

from __future__ import annotations

import os
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
from bench_process import BY_EAGER_BACKEND, EAGER, started

from dynalyze.capture.bench.protocol import AS_WRITTEN, Configuration, WorkerRequest
from dynalyze.capture.bench.rerun import exits_caught, stopped_after
from dynalyze.capture.program import SoftStop

WRITTEN = Configuration(AS_WRITTEN)

ALONE = """
    import sys
    assert "torch" not in sys.modules, "torch is imported by the program alone"
"""
STREAMED = """
    import os, sys
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(8, 8)
            self.rows = (n for n in range(9))  # This cannot be pickled.

        def forward(self, x):
            return self.inner(x).relu()

    net = Net()
    print("argument", sys.argv[1])
"""


def request(script: Path, configuration: Configuration = EAGER, **fields: Any) -> WorkerRequest:
    """A request to run this script again."""
    source = {
        "kind": "program", "mode": "script", "path": str(script), "module": None, "arguments": ["first"],
        "seconds": fields.pop("seconds", 60.0), "made": fields.pop("made", None),
    }  # fmt: skip
    return WorkerRequest(source=source, **{"configuration": configuration, "threads": 1, **fields})


def script(folder: Path, *texts: str) -> Path:
    path = folder / "program.py"
    path.write_text("\n".join(textwrap.dedent(text) for text in texts))
    return path


def compiled_frames(asked: WorkerRequest, *, new: bool = False) -> tuple[dict[str, Any], int, str]:
    """What it loaded, how many frames it compiled in the passes, and why they would mislead."""
    with started(asked, new=new) as process:
        loaded = process.done("load")
        warmed = process.done("warm", seconds=20, most=5)
        invalid = process.done("check")["invalid"]
        assert process.end() == (0, "argument first\n", "")  # What the program prints is its own.
        return loaded, warmed["counts"]["compiled_frames"], invalid


# It compiles by itself, in place too, and leaves by os._exit.
COMPILING = """
    net.compile(backend="eager", dynamic=False)
    double = torch.compile(lambda x: x * 2, backend="eager")
    for n in (2, 3):
        double(net(torch.randn(n, 8))).sum().backward()
    os._exit(0)
"""


@pytest.mark.parametrize(
    ("configuration", "frames", "new"),
    [(EAGER, 0, False), pytest.param(BY_EAGER_BACKEND, 4, True, marks=pytest.mark.slow), (WRITTEN, 4, True)],
)
def test_a_program_that_compiles_by_itself(
    tmp_path: Path, configuration: Configuration, frames: int, new: bool
) -> None:
    path = script(tmp_path, *([ALONE] if new else []), STREAMED, COMPILING)
    loaded, compiled, invalid = compiled_frames(request(path, configuration, phase="train"), new=new)
    assert (loaded["calls"], loaded["phase"], loaded["threads"]) == (4, "train", 1)
    assert [(name, calls) for name, _, calls in loaded["made"]] == [
        ("Net", 1), ("<lambda>", 1), ("Net", 1), ("<lambda>", 1),
    ]  # fmt: skip
    assert (compiled, invalid) == (frames, "")


def test_a_program_that_compiles_nothing(tmp_path: Path) -> None:
    path = script(tmp_path, STREAMED, "net.eval()\nwith torch.no_grad():\n    net(torch.randn(5, 8))\n")
    loaded, compiled, invalid = compiled_frames(request(path, BY_EAGER_BACKEND))
    assert (loaded["calls"], loaded["phase"], loaded["batch"]) == (1, "forward", 5)
    assert (compiled, invalid) == (1, "")


def test_example_inputs(tmp_path: Path) -> None:
    path = script(tmp_path, STREAMED, "model = net\nexample_inputs = [(torch.randn(5, 8),), (torch.randn(6, 8),)]\n")
    with started(request(path)) as process:
        assert process.done("load")["items"] == 11


@pytest.mark.parametrize(
    ("ends", "made", "says"),
    [
        ("raise ValueError('no file')", None, "run again, the program failed: ValueError: no file"),
        pytest.param("sys.exit(3)", None, "run again, the program failed: exit status 3", marks=pytest.mark.slow),
        ("", [["Net", "(Tensor[2, 8] float32)", 2]], "made other calls: 1 instead of 2"),
        pytest.param(
            "",
            [["Net", "(Tensor[4, 8] float32)", 1]],
            "made other calls: for example Net(Tensor[2, 8] float32), 1 times",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_what_differs_from_the_first_run_is_not_measured(tmp_path: Path, ends: str, made: Any, says: str) -> None:
    path = script(tmp_path, STREAMED, f"net(torch.randn(2, 8))\n{ends}")
    with started(request(path, made=made)) as process:
        error = process.refused("load")
    assert error["kind"] == "not_replayable"
    assert says in error["message"]


def test_no_calls_at_all(tmp_path: Path) -> None:
    with started(request(script(tmp_path, STREAMED))) as process:
        assert "made no call" in process.refused("load")["message"]


def test_a_program_that_goes_on_is_stopped() -> None:
    with pytest.raises(SoftStop), stopped_after(0.05):
        while True:
            time.sleep(0.01)
    with stopped_after(0.05):
        pass
    time.sleep(0.1)  # Nothing is stopped any more.


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_os_exit_ends_the_program_and_real_processes_that_it_forks() -> None:
    with pytest.raises(SoftStop), exits_caught():
        os._exit(3)
    with exits_caught():
        child = os.fork()
        if child == 0:
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7

"""What a program does to itself while it is recorded: one row a fault, with what must come out all the same.

Each program has the one graph break of `BREAKS`; what it prints and writes must be as without us.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from program import TRACEBACK, dynalyze

HEAD = """
import logging, logging.config, os, pathlib, sys, torch
"""
BREAKS = """
@torch.compile(backend="eager")
def broken(x):
    x = x + 1
    torch._dynamo.graph_break()  # HERE
    return x * 2
"""
CALL = """
broken(torch.ones(2))
"""
ALL_LOGGERS = "for logger in [logging.getLogger(name) for name in list(logging.root.manager.loggerDict)]:\n    "
# The event file is open by then, and the next file of the program gets its number.
OPEN = """
@torch.compile(backend="eager")
def before(x):
    return x + 1
before(torch.ones(2))
"""
TAKE = """
files = [open(f"user{i}.txt", "w") for i in range(12)]
"""
KEEP = """
for file in files:
    file.write("end")
    file.close()
assert [os.path.getsize(file.name) for file in files] == [3] * 12, [os.path.getsize(file.name) for file in files]
"""


@dataclass(frozen=True)
class Fault:
    """A program, and what its report must say."""

    program: str
    status: str = "complete"
    breaks: int = 1
    note: str = ""
    check: Callable[[dict[str, Any], Path], None] = lambda report, folder: None


def shows_the_line(report: dict[str, Any], folder: Path) -> None:
    (found,) = report["graph_breaks"]
    assert found["location"]["code"] == "torch._dynamo.graph_break()  # HERE"
    assert "# HERE" in "\n".join(found["snippet"]["lines"])


def said_what_is_missing(report: dict[str, Any], folder: Path) -> None:
    assert "incomplete-record" in [finding["rule"] for finding in report["findings"]]
    assert report["capture"]["listener_errors"]


def set_up(logging_code: str) -> Fault:
    return Fault(HEAD + logging_code + BREAKS + CALL)


def half_way(logging_code: str) -> Fault:
    """Logging changes when the first graph has been compiled."""
    return Fault(HEAD + OPEN + logging_code + BREAKS + CALL)


def descriptors(closing: str) -> Fault:
    return Fault(HEAD + OPEN + closing + TAKE + BREAKS + CALL + KEEP, note="opened again")


def edited(statement: str, *, before: bool = True) -> Fault:
    edit = f"here = pathlib.Path(__file__)\n{statement}\n"
    parts = (HEAD, edit, BREAKS, CALL) if before else (HEAD, BREAKS, CALL, edit)
    return Fault("".join(parts), note="changed while the program ran", check=shows_the_line)


SLOW = pytest.mark.slow
DAEMON = "\nif os.fork():\n    os._exit(os.wait()[1] >> 8)\nos.setsid()\n"
FAULTS = {
    # Python's logging.
    "dictConfig": set_up('logging.config.dictConfig({"version": 1})'),
    "levels of all loggers": half_way(ALL_LOGGERS + "logger.setLevel(logging.WARNING)"),
    "handlers of all loggers": half_way(ALL_LOGGERS + "logger.handlers = []"),
    "all loggers disabled": half_way(ALL_LOGGERS + "logger.disabled = True"),
    "torch's trace logger emptied": half_way("torch._logging._internal.trace_log.handlers.clear()"),
    "levels at debug": set_up(ALL_LOGGERS + "logger.setLevel(logging.DEBUG)"),
    "a logger class that refuses": half_way("logging.Logger.handle = logging.Logger.callHandlers = print"),
    "basicConfig with force": half_way("logging.basicConfig(level=logging.ERROR, force=True); logging.disable()"),
    "logging shut down": half_way("logging.shutdown()"),
    "torch's logs set": half_way("torch._logging.set_logs(graph_breaks=True, recompiles=True)"),
    # torch's own state.
    "torch's counters cleared": half_way("torch._dynamo.utils.counters.clear()"),
    "torch reset": half_way("torch._dynamo.reset(); torch._dynamo.utils.clear_compilation_metrics()"),
    "deaf for good": Fault(
        HEAD + OPEN + "torch._logging._internal.trace_log = logging.getLogger('elsewhere')" + BREAKS + CALL,
        "incomplete", 0, check=said_what_is_missing,
    ),
    "deaf from the beginning": Fault(
        HEAD + "torch._logging.trace_structured = lambda *given, **more: None" + BREAKS + CALL,
        "incomplete", 0, check=said_what_is_missing,
    ),
    # Descriptors.
    "closerange": descriptors("os.closerange(3, 1024)"),
    "another file on the number": descriptors(
        "null = os.open(os.devnull, os.O_WRONLY)\nfor number in range(3, 64):\n    if number != null:\n"
        "        os.dup2(null, number)\n"
    ),
    "a daemon": Fault(HEAD + OPEN + DAEMON + "os.closerange(3, 1024)" + TAKE + BREAKS + CALL + KEEP),
    "a child after closerange": Fault(
        HEAD + OPEN + "os.closerange(3, 1024)" + TAKE
        + "if not os.fork():\n    torch.ones(2)\n    os._exit(0)\nos.wait()\n" + BREAKS + CALL + KEEP,
        note="opened again",
    ),
    "its own folder removed": Fault(
        HEAD + "import shutil\n" + BREAKS + CALL + "shutil.rmtree(os.environ['DYNALYZE_RUN'])\n",
        "incomplete", check=said_what_is_missing,
    ),
    "another working folder": Fault(HEAD + "os.mkdir('deep'); os.chdir('deep')" + BREAKS + CALL),
    # The source.
    "edited before the call": edited("here.write_text('launch(rockets)\\n' * 3 + here.read_text())"),
    "edited after the call": edited("here.write_text('launch(rockets)\\n' * 3 + here.read_text())", before=False),
    "same size and time": edited(
        "old = here.stat()\nhere.write_text(here.read_text().replace('  # HERE', '#THERE#'))\n"
        "os.utime(here, ns=(old.st_atime_ns, old.st_mtime_ns))", before=False,
    ),
    "emptied": edited("here.write_text('')"),
    "deleted": edited("here.unlink()"),
    "a folder in its place": edited("here.unlink(); here.mkdir()", before=False),
    "an imported module edited": Fault(
        HEAD + f"pathlib.Path('part.py').write_text('import torch' + {BREAKS!r})\nsys.path.insert(0, os.getcwd())\n"
        "import part\npathlib.Path('part.py').write_text('# nothing')\npart.broken(torch.ones(2))\n",
        note="part.py changed while the program ran", check=shows_the_line,
    ),
}  # fmt: skip
QUICK = (
    "dictConfig", "levels of all loggers", "torch's trace logger emptied", "torch's counters cleared", "deaf for good",
    "closerange", "its own folder removed", "another file on the number", "a daemon", "edited before the call",
    "same size and time", "an imported module edited",
)  # fmt: skip


@pytest.mark.parametrize("name", [name if name in QUICK else pytest.param(name, marks=SLOW) for name in FAULTS])
def test_what_a_program_does_costs_no_fact(name: str, tmp_path: Path) -> None:
    fault = FAULTS[name]
    (tmp_path / "m.py").write_text(textwrap.dedent(fault.program).lstrip())
    ended = dynalyze("explain", "m.py", "--json", "-", cwd=tmp_path)
    assert ended.status == 0, ended.stderr
    assert TRACEBACK not in ended.stderr
    report = json.loads(ended.stdout)
    assert report["outcome"]["status"] == fault.status
    assert len(report["graph_breaks"]) == fault.breaks
    assert fault.note in " ".join(report["capture"]["notes"])
    if not fault.note:
        assert report["capture"]["notes"] == []
    fault.check(report, tmp_path)

"""What a compile took by torch's own clock, phase by phase without the phases inside, and the memory it added.

torch tells when each step of a compile begins and ends, in the thread that takes it: other threads compile kernels
meanwhile, and one clock cannot run twice. Memory is read at each of these moments, on Linux.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from dataclasses import dataclass, field
from typing import Any

from dynalyze.capture.events import CompileMemorySeen
from dynalyze.capture.process_tree import command_of, descendants, size_of

# The phase of a step by the first of these that its name begins with; another step belongs to the one around it.
_PHASES = {
    "build_guards": "guards",
    "backend_compile": "aot_autograd",
    "entire_backward_compile": "aot_autograd",
    "_recursive_": "inductor",
    "inductor_": "inductor",
    "code_gen": "code_generation",
    "compile_file": "kernels",
    "async_compile": "kernels",
    "PyCodeCache": "kernels",
    "CachingAutotuner": "kernels",
}
# Between two looks at compilers, in seconds: one of C++ runs for a second.
_PAUSE = 0.1


@dataclass
class _Step:
    name: str
    phase: str
    began: float
    inside: float = 0.0
    """What the steps inside of it took."""
    compilers: _Compilers | None = None


@dataclass
class _Compile:
    """The compile that a thread is at: its open steps, and what those that ended took by themselves."""

    steps: list[_Step] = field(default_factory=list)
    own: dict[str, float] = field(default_factory=dict)
    resident: int = 0
    peak: int = 0
    highest: int = 0
    others: int = 0
    known: frozenset[int] = frozenset()


class CompileCosts:
    """Follows the compiles of one process, each in its thread."""

    def __init__(self) -> None:
        self._now = threading.local()

    def step(self, payload: Any) -> None:
        """A record of torch's for a trace viewer: the beginning or the end of a step."""
        try:
            record = json.loads(payload)
            kind, name, at = record["ph"], str(record["name"]), float(record["ts"]) / 1e6
        except (TypeError, ValueError, KeyError, RecursionError):
            return
        now = self._of_thread()
        if kind == "B":
            if not now.steps:
                now = self._now.compile = _started()
            around = now.steps[-1].phase if now.steps else "dynamo"
            phase = next((phase for start, phase in _PHASES.items() if name.startswith(start)), around)
            builds = phase == "kernels" != around and now.resident
            now.steps.append(_Step(name, phase, at, compilers=_Compilers(now.known) if builds else None))
        elif kind == "E" and any(step.name == name for step in now.steps):
            while (ended := _pop(now)).name != name:
                pass  # An exception ended it.
            length = at - ended.began
            now.own[ended.phase] = now.own.get(ended.phase, 0.0) + max(0.0, length - ended.inside)
            if now.steps:
                now.steps[-1].inside += length
        now.peak = max(now.peak, _resident())

    def of_compile(self) -> tuple[dict[str, float], CompileMemorySeen | None]:
        """The seconds of each phase without those inside it, and the memory, of the compile that ends now."""
        now = self._of_thread()
        own, now.own = {phase: round(seconds, 6) for phase, seconds in now.own.items()}, {}
        return own, _memory(now) if now.resident else None

    def _of_thread(self) -> _Compile:
        if not hasattr(self._now, "compile"):
            self._now.compile = _Compile()
        found: _Compile = self._now.compile
        return found


def _started() -> _Compile:
    resident = _resident()
    return _Compile(
        resident=resident, peak=resident, highest=size_of("self/status", "VmHWM"), known=frozenset(descendants())
    )


def _pop(now: _Compile) -> _Step:
    step = now.steps.pop()
    if step.compilers is not None:
        now.others = max(now.others, step.compilers.end())
    return step


def _memory(now: _Compile) -> CompileMemorySeen:
    """The kernel's own high-water mark is exact where this compile raised it."""
    resident, highest = _resident(), size_of("self/status", "VmHWM")
    peak = highest if highest > now.highest else max(now.peak, resident)
    return CompileMemorySeen(max(0, peak - now.resident), resident - now.resident, now.others)


class _Compilers:
    """Looks now and then at the memory of the processes that were started since, while kernels are built.

    The kernel's own mark of processes that have ended is of no use: it counts what the process had that forked them.
    """

    def __init__(self, known: frozenset[int]) -> None:
        self._known = known
        self._most = 0
        self._ended = threading.Event()
        self._command = command_of("self")
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def end(self) -> int:
        """The most that they held at once, in bytes."""
        self._ended.set()
        self._thread.join()
        self._look()
        return self._most

    def _watch(self) -> None:
        while not self._ended.wait(_PAUSE):
            self._look()

    def _look(self) -> None:
        # A fork that has not begun its own program yet has the memory of this one.
        started = (pid for pid in descendants() if pid not in self._known and command_of(pid) != self._command)
        self._most = max(self._most, sum(resident - shared for resident, shared in map(_pages, started)))


def _resident() -> int:
    return _pages("self")[0]


def _pages(pid: int | str) -> tuple[int, int]:
    """Resident memory of a process in bytes, and how much of that is of files; 0 where the system does not tell."""
    with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/statm", "rb") as file:  # noqa: PTH123
        page, (_, resident, shared, *_) = os.sysconf("SC_PAGE_SIZE"), map(int, file.read().split())
        return resident * page, shared * page
    return 0, 0

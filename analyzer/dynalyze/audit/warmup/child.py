"""Starts the child of the warm-up check, and reads back what it told."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from dynalyze.audit.warmup.facts import Warmed, read_warmed
from dynalyze.bench.plan import Work
from dynalyze.capture.bench.wire import WorkerRequest
from dynalyze.capture.wire import WARMUP_FILE
from dynalyze.events.reading import read_run
from dynalyze.facts.build import misuse
from dynalyze.files.temporary import TemporaryFolder
from dynalyze.launch.caches import NOTHING_REMEMBERED, cache_variables
from dynalyze.launch.progress import progress_line
from dynalyze.launch.run import Command, Ending, Reason, run
from dynalyze.launch.streams import Streams
from dynalyze.launch.watch import Watch
from dynalyze.report.audit import Stopping
from dynalyze.text.errors import UsageError

_START = Path(__file__).resolve().parents[2] / "capture" / "start.py"

_STOPPED: dict[Reason, Stopping] = {"timed_out": "out_of_time", "interrupted": "interrupted"}

Passes = Sequence[tuple[str, Sequence[int]]]
"""Names of passes, each with the numbers of the shapes in their order."""


@dataclass(frozen=True)
class Order:
    """What one process has to do: `request` without sizes, the works with theirs, and the passes over them."""

    request: WorkerRequest
    works: tuple[Work, ...]
    passes: Passes
    caches: Path
    seconds: float


@dataclass(frozen=True)
class Runner:
    """How the processes are started."""

    label: str
    python: str | None = None
    quiet: bool = False

    def run(self, order: Order) -> Child:
        """Run one process to its end, or to its limit.

        Raises:
            UsageError: what was asked for cannot be; or the interpreter did not start.
        """
        with TemporaryFolder() as folder:
            return self._run(order, folder)

    def _run(self, order: Order, folder: Path) -> Child:
        (folder / WARMUP_FILE).write_text(json.dumps(_fields(order)), encoding="utf-8")
        python = self.python or sys.executable
        streams = Streams(self.label, quiet=self.quiet)
        progress, every = progress_line(streams)
        watch = Watch(folder, None, progress, every)
        command = Command([python, str(_START), str(folder)], _environment(order.caches))
        ending = run(command, timeout=order.seconds, streams=streams, stop_file=folder / "stop", watch=watch.poll)
        log = read_run(folder)
        mistake = misuse(log)
        if mistake is not None:
            raise UsageError(mistake)
        said = streams.last_lines()
        if not log.processes and ending.reason == "ended":
            raise UsageError(f"{python} did not start: {said[-1].strip() if said else 'it wrote nothing'}")
        return Child(read_warmed(log, [work.sizes for work in order.works]), ending)


@dataclass(frozen=True)
class Child:
    """A process of the check that has ended."""

    warmed: Warmed
    ending: Ending

    @property
    def stopped(self) -> Stopping:
        """Whether Ctrl-C or the limit ended it."""
        return _STOPPED.get(self.ending.reason, "") if self.warmed.ended is None else ""

    @property
    def problem(self) -> str:
        """Why it did not make all of its calls; "" where it did."""
        if self.warmed.ended is not None:
            return self.warmed.ended.error
        made = sum(call.ended is not None for call, _ in self.warmed.calls)
        where = f" after {made} calls" if made != 1 else " after 1 call"
        if self.ending.reason == "timed_out":
            return f"the time was up{where}"
        if self.ending.reason == "interrupted":
            return f"interrupted{where}"
        return f"its process ended with status {self.ending.exit_status}{where}"


def _fields(order: Order) -> dict[str, object]:
    sizes = [{"batch": work.batch, "sequence": work.sequence, "shape": dict(work.shape)} for work in order.works]
    return {
        "request": asdict(order.request),
        "shapes": sizes,
        "passes": [[name, list(at)] for name, at in order.passes],
    }


def _environment(caches: Path) -> Mapping[str, str]:
    """With caches of its own: whatever an earlier program left does not count."""
    return {**os.environ, **NOTHING_REMEMBERED, **cache_variables(caches)}

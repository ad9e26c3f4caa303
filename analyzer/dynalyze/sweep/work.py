"""One item from its start to its row: run it, read what it wrote, judge it, make its report and page.

Knows nothing of the sweep's folder, of other items, or of who asks: a local worker, a node of a cluster, a test.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path

import msgspec

from dynalyze.bench import SHORT_PAIRS
from dynalyze.bench.measure import add_bench
from dynalyze.bench.plan import Plan, works
from dynalyze.capture import process_tree
from dynalyze.capture.bench.protocol import Configuration
from dynalyze.capture.settings import CompileArguments, Placement, settings_of
from dynalyze.capture.wire import OUTPUT_FILE, REQUEST_FILE
from dynalyze.facts.build import Ended, EndReason
from dynalyze.files.temporary import TemporaryFolder
from dynalyze.launch.forkserver import ForkServer, ServerLost, run_forked
from dynalyze.launch.observe import Observation, Observed, observed, read_log, report_of, request_of
from dynalyze.privacy import showable
from dynalyze.report import Report
from dynalyze.sweep.records import TRACED, Item, Row
from dynalyze.sweep.rows import after_eager, bare_row, judge_run, row_of
from dynalyze.text.errors import DynalyzeError, UsageError

_OUTPUT_BYTES = 16 * 1024
_LOOK_SECONDS = 0.5
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
# numpy's library would start its threads when it is imported, which is before the fork.
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}


@dataclass(frozen=True)
class RunSettings:
    """What holds for every item of a sweep. `memory` in bytes, None without a limit; `threads` of torch on the CPU.

    With `spawn` no item is forked: each imports torch for itself. Models come from these `libraries`, by prefix.
    """

    python: str | None = None
    timeout: float = 600.0
    memory: int | None = None
    threads: int | None = None
    command: tuple[str, ...] = ()
    no_source: bool = False
    redact: bool = False
    show_values: bool = False
    bench: bool = False
    bench_seconds: float = 60.0
    spawn: bool = False
    inductor: bool = False
    libraries: tuple[str, ...] = ()

    @property
    def env(self) -> dict[str, str]:
        wanted = {} if self.threads is None else {name: str(self.threads) for name in _THREAD_VARIABLES}
        return {name: value for name, value in wanted.items() if name not in os.environ}

    def forks(self, item: Item) -> bool:
        """Whether a process that has imported torch and the libraries already may run it."""
        on_cpu = not (item.options.device or "cpu").startswith("cuda")
        return item.spec.mode == "library" and on_cpu and not self.spawn


@dataclass
class Finished:
    """A row, and the contents of its files; `output` is the end of what the item printed."""

    row: Row
    report: bytes | None = None
    page: bytes | None = None
    output: str = ""


def run_item(item: Item, settings: RunSettings, address: str | None = None) -> Finished:
    """The results of one item; `address` is that of a fork server, for items that are forked. Raises ServerLost where
    that died meanwhile, of this item or of another one.
    """
    started = _forked(item, settings, address) if address and settings.forks(item) else _fresh(item, settings)
    try:
        with started as ran:
            return _finish(item, settings, ran)
    except DynalyzeError as error:
        return Finished(bare_row(item, "create_error", str(error)))
    except ServerLost:
        raise
    except Exception as error:  # A fault of ours costs one item.
        traceback.print_exc()
        return Finished(bare_row(item, "crash", f"dynalyze itself failed: {type(error).__name__}: {error}"))


def _finish(item: Item, settings: RunSettings, ran: _Ran) -> Finished:
    report = ran.seen.report
    verdict = judge_run(item, report, ran.seen.log, settings.memory if ran.exceeded else None)
    if verdict.unsure:
        verdict = after_eager(verdict, works=works_in_eager(_observation(item, settings), report.outcome.seconds))
    if settings.bench and verdict.status in TRACED:
        add_bench(ran.seen, item.spec, _plan(item, settings))
    shown = showable(report, no_source=settings.no_source, redact=settings.redact, show_values=settings.show_values)
    if verdict.error is not None and settings.no_source:
        # An error says no more than the report: an exception's text may quote the program.
        verdict = replace(verdict, error=shown.outcome.message or verdict.status.replace("_", " "))
    row = row_of(item, shown, verdict, ran.peak)
    return Finished(row, msgspec.json.encode(shown), page_of(shown), _tail(ran.output))


def page_of(report: Report) -> bytes:
    from dynalyze.render import html

    return html.render(report).encode(errors="backslashreplace")


@dataclass
class _Ran:
    """A run that has ended, while its folder is there. `exceeded`: it held more memory than it may; `peak`: the most
    bytes that were seen.
    """

    seen: Observed
    output: Path
    exceeded: bool
    peak: int | None


@contextmanager
def _forked(item: Item, settings: RunSettings, address: str) -> Iterator[_Ran]:
    with TemporaryFolder() as folder:
        observation = _observation(item, settings)
        (folder / REQUEST_FILE).write_text(json.dumps(request_of(observation)), encoding="utf-8")
        answer = run_forked(address, folder, settings.timeout, settings.memory)
        log = read_log(folder)
        reason: EndReason = "timed_out" if answer.reason == "timed_out" else "ended"
        status = None if reason == "timed_out" else answer.status
        report = report_of(log, Ended(reason, status, answer.seconds), observation)
        exceeded = answer.reason == "memory"
        yield _Ran(Observed(report, log, folder), folder / OUTPUT_FILE, exceeded, answer.maxrss)


@contextmanager
def _fresh(item: Item, settings: RunSettings) -> Iterator[_Ran]:
    """In a process of its own, as `dynalyze explain` runs it; its output goes to a file."""
    with TemporaryFolder("output") as folder, ExitStack() as running:
        output = folder / OUTPUT_FILE
        watch = _MemoryWatch(settings.memory)
        with output.open("w", encoding="utf-8") as file, redirect_stderr(file), watch:
            seen = running.enter_context(observed(_observation(item, settings)))
        yield _Ran(seen, output, watch.exceeded, watch.peak or None)


class _MemoryWatch:
    """Kills what this process started inside the `with` block once that holds more than `limit` bytes; `exceeded` is
    set then. `peak` is the most that was seen.
    """

    def __init__(self, limit: int | None) -> None:
        self.exceeded, self.peak = False, 0
        self._limit = 1 << 62 if limit is None else limit
        self._others = set[int]()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dynalyze-memory", daemon=True)

    def __enter__(self) -> _MemoryWatch:
        self._others = _children(process_tree.processes())
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._end.wait(_LOOK_SECONDS):
            seen = process_tree.processes()
            own = _children(seen) - self._others
            pids = [pid for root in own for pid in process_tree.below(root, seen)]
            held = process_tree.memory_of(pids, seen, self._limit)
            self.peak = max(self.peak, held)
            if held > self._limit and pids:
                self.exceeded = True
                # All but the supervisors right below this process: they clean up, and tell how the target ended.
                for pid in pids:
                    with contextlib.suppress(OSError):
                        if seen[pid].parent != os.getpid():
                            os.kill(pid, signal.SIGKILL)


def _children(seen: dict[int, process_tree.Seen]) -> set[int]:
    return {pid for pid, each in seen.items() if each.parent == os.getpid()}


def _observation(item: Item, settings: RunSettings) -> Observation:
    return Observation(
        target=item.spec, options=item.options, timeout=settings.timeout, python=settings.python,
        command=settings.command, bundle=settings.bench,
    )  # fmt: skip


def _plan(item: Item, settings: RunSettings) -> Plan:
    options = item.options
    return Plan(
        source={},
        configurations=(Configuration("default", **settings_of(options, CompileArguments)),),
        works=works(None, None, None, train=options.train),
        **settings_of(options, Placement),
        pairs=SHORT_PAIRS,
        total=settings.bench_seconds,
        seconds=settings.bench_seconds / 12,
        more_time=f"dynalyze bench {item.spec.spec}",
        timeout=settings.timeout,
        python=settings.python,
        quiet=True,
        memory=False,
    )


def _tail(file: Path) -> str:
    try:
        with file.open("rb") as output:
            output.seek(0, 2)
            output.seek(max(0, output.tell() - _OUTPUT_BYTES))
            return output.read().decode(errors="replace")
    except OSError:
        return ""


def works_in_eager(observation: Observation, seconds: float) -> bool:
    """Whether an item works with torch.compile switched off, given several times the `seconds` that it took compiled.

    For objects alone: a program might do again what it should do once.
    """
    limited = replace(
        observation, timeout=min(observation.timeout, 60.0 + 5 * seconds), bundle=False,
        switches={"TORCH_COMPILE_DISABLE": "1"},
    )  # fmt: skip
    try:
        with redirect_stderr(StringIO()), observed(limited) as seen:
            return seen.report.outcome.status in ("complete", "nothing_compiled", "incomplete")
    except DynalyzeError:
        return False


class Runner:
    """Starts its fork server with the first item that is forked, and again when it died. One item at a time."""

    def __init__(self, settings: RunSettings) -> None:
        self.settings = settings
        self._server: ForkServer | None = None

    def run(self, item: Item) -> Finished:
        for attempt in (1, 2):
            try:
                finished = run_item(item, self.settings, self.address(item))
                finished.row.attempts = attempt
                return finished
            except ServerLost:
                continue
            except UsageError as error:
                return Finished(bare_row(item, "create_error", str(error), attempt))
        return Finished(bare_row(item, "crash", "it ended the fork server, twice", 2))

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    def address(self, item: Item) -> str | None:
        """The address of a fork server that lives, for an item that is forked. Raises UsageError where torch cannot be
        imported.
        """
        if not self.settings.forks(item):
            return None
        if self._server is not None and not self._server.alive:
            self.close()
        if self._server is None:
            environment = {**_ONE_THREAD, **os.environ, **self.settings.env}
            what = ["serve", *(["inductor"] if self.settings.inductor else []), *self.settings.libraries]
            self._server = ForkServer(self.settings.python or sys.executable, environment, what)
        return self._server.address

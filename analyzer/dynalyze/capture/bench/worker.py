"""A measuring process: takes one command after the other from its parent, and answers each. See `protocol`.

There is no listener in it and none in what it starts: everything runs as it would without dynalyze.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from multiprocessing.connection import Client
from pathlib import Path
from typing import Any

from dynalyze import registry
from dynalyze.capture.bench.commands import End, Loaded, Warmed
from dynalyze.capture.bench.failures import Failed, answer_of, kind_of, one_line, reset_traceback
from dynalyze.capture.bench.load import load
from dynalyze.capture.bench.protocol import COMMANDS, SOCKET_FILE, Configuration, Failure, WorkerRequest
from dynalyze.capture.bench.validity import Compiles
from dynalyze.capture.bench.workload import Workload, run_untimed
from dynalyze.capture.containment import Containment
from dynalyze.capture.hooks import after_import
from dynalyze.capture.shapes import Dim
from dynalyze.capture.torch_private import runtime
from dynalyze.capture.wire import REQUEST_FILE, RUN_VARIABLE, TRACE_VARIABLE

_CAPTURE = Path(__file__).resolve().parents[1]


def main(run: Path) -> int:
    """Serve the parent that listens in `run` until it says `end` or goes away."""
    request = read_request(json.loads((run / REQUEST_FILE).read_text(encoding="utf-8")))
    before = Path.cwd()
    os.chdir(run)
    try:  # By a relative name: the path of a socket must not be longer than some hundred bytes.
        connection = Client(SOCKET_FILE, "AF_UNIX")
    finally:
        os.chdir(before)
    _live_unobserved()
    session = MeasuringSession(request, run)
    with connection, contextlib.suppress(EOFError, OSError):
        command = {"do": ""}
        while command["do"] != End.do:
            command = json.loads(connection.recv_bytes())
            connection.send_bytes(json.dumps(_finite(session.handle(command)), allow_nan=False).encode())
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(0)  # At once: the target's exit handlers and threads have no say in a measurement.


def read_request(fields: dict[str, Any]) -> WorkerRequest:
    dims = tuple(Dim(*dim) for dim in fields["dims"])
    return WorkerRequest(**{**fields, "configuration": Configuration(**fields["configuration"]), "dims": dims})


def _live_unobserved() -> None:
    """Leave nothing of a recording run to this process nor to those that it starts."""
    boot = str(_CAPTURE / "boot")
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path and path != boot]
    os.environ.update({"PYTHONPATH": os.pathsep.join(paths)} if paths else {})
    for name in (TRACE_VARIABLE, RUN_VARIABLE, *([] if paths else ["PYTHONPATH"])):
        os.environ.pop(name, None)
    if sys.path and Path(sys.path[0] or os.curdir).resolve() == _CAPTURE:
        del sys.path[0]
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)


def _finite(value: Any) -> Any:
    """JSON has no infinities: a number that is none becomes null."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


class MeasuringSession:
    """One configuration of one workload in this process."""

    def __init__(self, request: WorkerRequest, run: Path) -> None:
        self.run = run
        self._request = request
        self.configuration = request.configuration
        self.compiles = Compiles()
        self._contained: Containment | None = None
        self._loaded: Workload | None = None
        self.device = ""
        self.steps: list[Any] = []
        self.timer: Any = None
        self.recent: list[float] = []
        self.changes: Any = None
        """The ChangeChecker of this process, once a command has made it; so for `bisector`."""
        self.bisector: Any = None

    def handle(self, message: dict[str, Any]) -> dict[str, Any]:
        """Carry out a command; whatever goes wrong becomes the answer, for this process has to live on."""
        registry.modules("child")  # Which declare commands.
        try:
            if (kind := COMMANDS.get(message["do"])) is None:
                raise Failed("internal", f"unknown command {message['do']!r}")
            found = kind(**{name: value for name, value in message.items() if name != "do"}).carry_out(self)
            answer = {"ok": True, **(found if isinstance(found, dict) else asdict(found))}
            refused = self._refused()
        except BaseException as error:
            answer = answer_of(error, "load" if message["do"] == "load" else self._blame())
            refused = self._refused(error)
            reset_traceback(error)
        return {"ok": False, "error": {"kind": "effects", "message": refused}} if refused else answer

    def _contain(self) -> None:
        """Let nothing out of this process from here on, but for what its parent and torch's caches get."""
        if not self._request.allow_effects:
            self._contained = Containment(self.run, [self.run.parent])

    def _refused(self, error: BaseException | None = None) -> str:
        """What the target wanted to do to the outside, whatever became of the command; "" for nothing."""
        return self._contained.reason(error) if self._contained is not None else ""

    def load(self) -> Loaded:
        # What a library reads and keeps to build a model is not the program's doing.
        is_library = self._request.source["kind"] == "library"
        if not is_library:
            self._contain()
        settings = self.configuration.settings
        if settings:  # Once torch can be told: a program imports it when it wants to.
            after_import("torch._dynamo", lambda _: runtime.run_settings(settings))
        is_program = self._request.source["kind"] == "program"
        if not is_program:
            self._watch_compiles()
        if self._contained is not None:
            self._contained.watch.offline = not is_program
        self._loaded, facts = load(self._request)
        if self._contained is not None:
            self._contained.watch.offline = False
        if is_library:
            self._contain()
        if changes := self._request.extra.get("changes"):
            from dynalyze.capture.fixing.records import SourceChange
            from dynalyze.capture.fixing.swap import Swap

            Swap([SourceChange(**each) for each in changes]).apply()
        if is_program:  # Torch is imported by the program, as it would be without us; nothing compiles until here.
            self._watch_compiles()
        self.device = facts.device
        from dynalyze.capture.bench.configure import check

        # A configuration that torch does not know is refused before anything is measured.
        for fields in self._request.extra.get("check", ()):
            check(Configuration(**fields))
        return facts

    def _watch_compiles(self) -> None:
        """Count every compile from here on; in the eager arm there is to be none."""
        self.compiles.listen()
        if not self.configuration.compile:
            runtime.stay_eager()

    def warm(self, seconds: float, most: int) -> Warmed:
        from dynalyze.capture.bench.timing import warm

        self.configure()
        # Without a flush: its buffer would count as the model's memory.
        one_pass = lambda: float(self.timer.passes(self.steps, 1, flush=False)[0])  # noqa: E731
        try:
            warmed = warm(one_pass, lambda: self.compiles.activity, seconds, most)
        except (Exception, SystemExit) as error:
            raise self._judged(error) from None
        self.recent = warmed.calls_ms[-5:]
        self.compiles.mark()
        counts = self.compiles.counts()
        return replace(warmed, counts=counts, phases=runtime.phases(), cache=runtime.cache_counts())

    def configure(self) -> None:
        """Make the steps of the configured target, once."""
        if self.steps:
            return
        from dynalyze.capture.bench.timing import timer_for

        self.steps = self.workload().steps(self.target())
        self.timer = timer_for(self.device)

    def target(self) -> Callable[..., Any]:
        from dynalyze.capture.bench.configure import target_of

        return target_of(self.workload(), self.configuration, self.device)

    def workload(self) -> Workload:
        if self._loaded is None:
            raise Failed("internal", "nothing is loaded yet")
        return self._loaded

    def _blame(self) -> Failure:
        return "compile" if self.configuration.compile else "eager"

    def _judged(self, error: BaseException) -> Failed:
        """The failure, which is eager's where the model fails in eager as well."""
        kind, message = kind_of(error, self._blame()), one_line(error)
        reset_traceback(error)
        if kind == "compile":
            workload = self.workload()
            try:
                run_untimed(workload.steps(workload.model))
            except (Exception, SystemExit) as again:
                kind, message = kind_of(again, "eager"), one_line(again)
        return Failed(kind, message)

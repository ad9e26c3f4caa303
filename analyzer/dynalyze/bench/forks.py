"""Measuring processes forked off a server that has imported what they need, where that is as good as a start."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from dynalyze.capture.bench.protocol import WorkerRequest
from dynalyze.launch.forkserver import Forked, ForkServer, ServerLost, have_imported
from dynalyze.text.errors import UsageError


class Forks:
    """The fork server of a benchmark, started with the first process that is forked.

    What a measuring process has imported in its life the server imports before it forks the next. `refused` says why
    nothing is forked (any more): then every process is started by itself.
    """

    def __init__(
        self, python: str, environment: Mapping[str, str], output: tuple[int, int], attend: Callable[[], None]
    ) -> None:
        self._start = partial(ForkServer, python, environment, output=output, attend=attend)
        self._attend = attend
        self._server: ForkServer | None = None
        self._known: set[str] = set()
        self._wanted: list[str] = []
        # macOS loads frameworks that do not survive a fork.
        self.refused = "" if sys.platform.startswith("linux") else f"{sys.platform} does not fork safely"

    def child(
        self, request: WorkerRequest, folder: Path, seconds: float, environment: Mapping[str, str]
    ) -> Forked | None:
        """A process for what `folder` asks for; None where it has to be started by itself.

        A program that is run again imports what it wants by itself, when it wants to.
        """
        if self.refused or request.source.get("kind") == "program":
            return None
        try:
            return Forked(self._ready(request).address, folder, seconds, environment)
        except (UsageError, ServerLost) as problem:
            self.refused = str(problem)
            self.close()
            return None

    def learn(self, modules: list[str]) -> None:
        """Keep in mind what a process has imported."""
        self._wanted += [name for name in modules if name not in self._known]
        self._known.update(modules)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    def _ready(self, request: WorkerRequest) -> ForkServer:
        if self._server is None:
            self._server = self._start(["fork-measures", *_needs(request)])
        wanted, self._wanted = self._wanted, []
        if wanted and (against := have_imported(self._server.address, wanted, self._attend)):
            raise ServerLost(against)
        return self._server


def _needs(request: WorkerRequest) -> list[str]:
    """What the server imports at its start, beside torch."""
    compiles = request.configuration.compile and request.configuration.backend == "inductor"
    checked = any(each["compile"] and each["backend"] == "inductor" for each in request.extra.get("check", ()))
    transformers = ["transformers"] if request.source.get("kind") == "transformers" else []
    inductor = ["inductor"] if compiles or checked else []
    on_cpu = ["cpu"] if inductor and not (request.device or "cpu").startswith("cuda") else []
    return [*transformers, *inductor, *on_cpu]

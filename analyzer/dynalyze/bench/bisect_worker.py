"""The process that takes the steps of a bisection; where one kills it, the next step has a new one."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any

from dynalyze.bench.workers import Worker, WorkerFailed, Workshop
from dynalyze.capture.bench.wire import WorkerRequest


class StepTaker:
    """Asks for one step after the other; to be used in a `with` block."""

    def __init__(self, shop: Workshop, request: WorkerRequest, caches: Path) -> None:
        self._shop = shop
        self._request = request
        self._caches = caches
        self._worker: Worker | None = None

    def __enter__(self) -> StepTaker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._dismiss(kind, error, trace)

    def take(self, step: str, **details: Any) -> dict[str, Any]:
        """The answer to a step.

        Raises:
            WorkerFailed: it could not be taken, or cost the process its life.
            Stopped: the time is up, or Ctrl-C was pressed.
        """
        try:
            return self._ready().ask("bisect", step=step, **details)
        except WorkerFailed as error:
            if error.kind in ("died", "timed_out"):
                self._dismiss(type(error), error, None)
            raise

    def _ready(self) -> Worker:
        if self._worker is None:
            self._worker = self._shop.worker(self._request, self._caches)
            self._worker.__enter__()
            self._worker.ask("load")
        return self._worker

    def _dismiss(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.__exit__(kind, error, trace)

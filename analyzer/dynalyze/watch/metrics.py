"""Counts of a job by rank, served to Prometheus."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from dynalyze.text.errors import UsageError
from dynalyze.watch.job import JobState
from dynalyze.watch.records import JobRank, Notice

COUNTS: dict[str, tuple[str, Callable[[JobRank], float]]] = {
    "steps": ("Steps that have ended.", lambda row: row.steps),
    "frames": ("Frames compiled.", lambda row: row.compiles),
    "recompiles": ("Frames compiled again.", lambda row: row.recompiles),
    "waited_seconds": ("How much longer steps took while others compiled.", lambda row: row.waited_seconds),
    "step_seconds": ("Running median of a step.", lambda row: (row.usual_ms or 0.0) / 1e3),
}
_BUCKETS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)


class JobMetrics:
    """Serves the counts of a job at `[ADDRESS:]PORT`, 127.0.0.1 unless an address is given.

    Raises UsageError where that cannot be, or prometheus-client is missing.
    """

    def __init__(self, job: JobState, where: str) -> None:
        try:
            import prometheus_client as prometheus
        except ImportError as error:
            raise UsageError("--metrics-port needs prometheus-client: pip install 'dynalyze[watch]'") from error
        address, _, port = where.rpartition(":")
        if not port.isdigit() or int(port) > 65535:
            raise UsageError(f"--metrics-port {where}: give PORT or ADDRESS:PORT")
        self._job = job
        self._registry = prometheus.CollectorRegistry()
        self._notices = prometheus.Counter(
            "dynalyze_notices", "Notices given of the job.", ["kind"], registry=self._registry
        )
        self._compiles = prometheus.Histogram(
            "dynalyze_compile_seconds", "How long compiles took.", ["rank", "recompile"], buckets=_BUCKETS,
            registry=self._registry,
        )  # fmt: skip
        job.on_compile = lambda process, compile: self._compiles.labels(
            _label(process.rank), str(compile.again).lower()
        ).observe(compile.seconds)
        self._registry.register(self)
        try:
            self._server, self._thread = prometheus.start_http_server(
                int(port), address or "127.0.0.1", registry=self._registry
            )
        except OSError as error:
            raise UsageError(f"--metrics-port {where}: {error.strerror}") from error

    def count(self, notice: Notice) -> None:
        self._notices.labels(notice.kind).inc()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def collect(self) -> Iterator[Any]:
        """Called by prometheus-client, in its thread, at each scrape."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        names = list(self._job.processes)
        rows = self._job.rows(names, time.monotonic())
        for name, (about, value) in COUNTS.items():
            family = (GaugeMetricFamily if name == "step_seconds" else CounterMetricFamily)(
                f"dynalyze_{name}", about, labels=["rank", "process"]
            )
            for row, process in zip(rows, names, strict=True):
                family.add_metric([_label(row.rank), process], value(row))
            yield family


def _label(rank: int | None) -> str:
    return "" if rank is None else str(rank)

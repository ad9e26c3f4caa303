"""The records that a benchmark's answers become."""

from __future__ import annotations

from dynalyze.bench.configurations import EAGER
from dynalyze.bench.records import ConfigRun, measurement
from dynalyze.capture.bench.protocol import Configuration, Work
from dynalyze.report.measurements import Pair


def test_eager_takes_the_same_in_its_own_row_and_beside_each_configuration() -> None:
    eager, row = ConfigRun(EAGER, Work()), ConfigRun(Configuration("default"), Work())
    eager.pairs = [Pair([3.0, 3.1], [3.2, 3.3])]
    row.pairs = [Pair([2.0, 2.1], [1.0, 1.1])]
    eager.eager_samples = [3.0, 3.1, 3.2, 3.3, 2.0, 2.1]
    alone, beside = measurement(eager, eager), measurement(row, eager)
    assert alone.latency_ms is not None and alone.latency_ms == beside.eager_latency_ms
    assert beside.latency_ms is not None and beside.latency_ms.p50 == 1.05

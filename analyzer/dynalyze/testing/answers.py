"""What a test of `dynalyze audit --emit-test` asks: does compiled still answer otherwise than eager?"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from dynalyze.bench.workers import WorkerPool
from dynalyze.capture.bench.protocol import Configuration, WorkerRequest
from dynalyze.capture.shapes import Dim
from dynalyze.launch.streams import Streams

_SECONDS = 600.0


def wrong_answers(
    source: dict[str, Any], configuration: Mapping[str, Any], *, variant: str = "", dims: Any = (), **work: Any
) -> str:
    """Why compiled answers otherwise than eager, by the accuracy test of `dynalyze bench`; "" where it does not.

    All are fields of capture/bench/protocol.py `WorkerRequest`, and `variant` is one of its VARIANTS of the inputs. It
    runs in a process of its own with empty caches.

    Raises:
        WorkerFailed: the process could not load the program, or it died.
        AssertionError: the answers cannot be compared.
    """
    request = WorkerRequest(
        source=source, configuration=Configuration(**configuration), dims=tuple(Dim(*dim) for dim in dims), **work
    )
    with ExitStack() as processes:
        pool = processes.enter_context(WorkerPool(Streams("", quiet=True, once=True), _SECONDS))
        worker = processes.enter_context(pool.worker(request, pool.empty_caches()))
        worker.ask("load")
        answer = worker.ask("accuracy", variant=variant)
    reason = str(answer.get("reason", ""))
    assert answer["verdict"] in ("equal", "benign", "rounding only", "suspicious"), f"not comparable: {reason}"
    return (reason or "suspicious") if answer["verdict"] == "suspicious" else ""

"""Hearing torch's trace whatever a program does to Python's logging, and torch's own counts beside it."""

from __future__ import annotations

import logging
import logging.config
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch._logging._internal as internal

from dynalyze.capture import adapter_trace

Heard = list[tuple[dict[str, Any], Any]]


@pytest.fixture
def heard() -> Iterator[Heard]:
    told: Heard = []
    end = adapter_trace.listen(lambda metadata, payload: told.append((metadata, payload)))
    yield told
    end()


@pytest.fixture
def logging_as_it_was() -> Iterator[None]:
    manager = logging.root.manager
    kept = {name: state(logger) for name, logger in manager.loggerDict.items()}
    root, disabled, known = state(logging.root), manager.disable, dict(manager.loggerDict)
    yield
    manager.loggerDict.clear()
    manager.loggerDict.update(known)
    for name, was in kept.items():
        vars(known[name]).clear()
        vars(known[name]).update(was)
    vars(logging.root).update(root)
    manager.disable = disabled


def state(logger: object) -> dict[str, Any]:
    """What a logger holds, without the lists that a set-up may change in place."""
    return {name: list(value) if isinstance(value, list) else value for name, value in vars(logger).items()}


def all_loggers(change: Callable[[logging.Logger], object]) -> Callable[[], None]:
    def act() -> None:
        for name in list(logging.root.manager.loggerDict):
            change(logging.getLogger(name))

    return act


SET_UPS = {
    "nothing": lambda: None,
    "dictConfig": lambda: logging.config.dictConfig({"version": 1}),
    "levels": all_loggers(lambda logger: logger.setLevel(logging.CRITICAL)),
    "debug levels": all_loggers(lambda logger: logger.setLevel(logging.DEBUG)),
    "handlers replaced": all_loggers(lambda logger: setattr(logger, "handlers", [])),
    "handlers cleared": all_loggers(lambda logger: logger.handlers.clear()),
    "disabled": all_loggers(lambda logger: setattr(logger, "disabled", True)),
    "filters": all_loggers(lambda logger: logger.addFilter(lambda record: False)),
    "logging.disable": lambda: logging.disable(logging.CRITICAL),
    "no loggers": lambda: logging.root.manager.loggerDict.clear(),
    "torch's own reset": internal._init_logs,
    "torch's logger itself": lambda: internal.trace_log.handlers.clear(),
    "its debug": lambda: setattr(logging.Logger, "debug", lambda *args, **kwargs: None),
}


@pytest.mark.parametrize("set_up", SET_UPS)
def test_a_record_is_heard_whatever_became_of_logging(
    set_up: str, heard: Heard, logging_as_it_was: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.Logger, "debug", logging.Logger.debug)  # Put back what a set-up replaces.
    SET_UPS[set_up]()
    internal.trace_structured("artifact", lambda: {"name": "x"}, payload_fn=lambda: "text", expect_trace_id=False)
    payloads = [payload for metadata, payload in heard if metadata.get("artifact") == {"name": "x"}]
    assert payloads == ["text"]


def test_the_users_own_handlers_get_what_they_would_without_us(heard: Heard) -> None:
    class Keeping(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            kept.append((record.metadata, record.pathname))  # type: ignore[attr-defined]

    kept: list[Any] = []
    handler = Keeping()
    internal.trace_log.addHandler(handler)
    assert handler in logging.getLogger(adapter_trace.TRACE_LOGGER).handlers
    internal.trace_structured("artifact", lambda: {"name": "x"}, expect_trace_id=False)
    internal.trace_log.removeHandler(handler)
    assert handler not in logging.getLogger(adapter_trace.TRACE_LOGGER).handlers
    assert [(record["artifact"], path) for record, path in kept] == [({"name": "x"}, __file__)]


def test_torch_is_left_as_it_was_when_the_last_one_ends() -> None:
    before = internal.trace_log
    ends = [adapter_trace.listen(lambda metadata, payload: None) for _ in range(2)]
    assert internal.trace_log is not before
    ends[0]()
    assert internal.trace_log is not before
    ends[1]()
    assert internal.trace_log is before


def test_without_the_name_in_torch_a_handler_hears_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch._logging._internal", types.ModuleType("moved"))
    told: Heard = []
    end = adapter_trace.listen(lambda metadata, payload: told.append((metadata, payload)))
    logger = logging.getLogger(adapter_trace.TRACE_LOGGER)
    logger.debug("", extra={"metadata": {"artifact": 1}, "payload": "text"})
    end()
    logger.debug("", extra={"metadata": {"artifact": 2}, "payload": "text"})
    assert told == [({"artifact": 1}, "text")]


def test_counts_are_torchs_own() -> None:
    before = adapter_trace.counted()

    @torch.compile(backend="eager")
    def broken(x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        torch._dynamo.graph_break()
        return x + 2

    broken(torch.ones(3))
    after = adapter_trace.counted()
    assert (after.graphs - before.graphs, after.breaks - before.breaks) == (2, 1)


def test_where_dynamo_is_not_imported_nothing_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch._dynamo.utils")
    assert adapter_trace.counted() == adapter_trace.Counted()

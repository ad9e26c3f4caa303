"""Keeps torch's trace out of pytest's "Captured log": from pytest 9.2 on it holds hundreds of empty lines a compile."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from dynalyze.capture.torch_private.trace import TRACE_LOGGER


@contextmanager
def quiet_trace() -> Iterator[None]:
    """Without pytest's own handlers on the logger of torch's trace, which is for programs; all others stay."""
    logger = logging.getLogger(TRACE_LOGGER)
    set_aside = [handler for handler in logger.handlers if type(handler).__module__.startswith("_pytest.")]
    for handler in set_aside:
        logger.removeHandler(handler)
    try:
        yield
    finally:
        for handler in set_aside:
            logger.addHandler(handler)

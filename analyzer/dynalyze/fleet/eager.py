"""Whether an item works without compiling: the question that tells eager_error from compile_error."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import replace
from io import StringIO

from dynalyze.launch.observe import Observation, observe
from dynalyze.text.errors import DynalyzeError

_SWITCH = "TORCH_COMPILE_DISABLE"


def works(observation: Observation, seconds: float) -> bool:
    """Run it once more with torch.compile switched off; it may take some times as long as it did compiled.

    For objects alone: a program might do again what it should do once.
    """
    limited = replace(observation, timeout=min(observation.timeout, 60.0 + 5 * seconds), bundle=False)
    with redirect_stderr(StringIO()), _switched_off():
        try:
            report = observe(limited)
        except DynalyzeError:
            return False
    return report.outcome.status in ("complete", "nothing_compiled", "incomplete")


@contextmanager
def _switched_off() -> Iterator[None]:
    before = os.environ.get(_SWITCH)
    os.environ[_SWITCH] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_SWITCH]
        else:
            os.environ[_SWITCH] = before

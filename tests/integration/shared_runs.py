"""A run that several tests look at is made once, although the tests of one module are spread over processes."""

from __future__ import annotations

import fcntl
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

Found = TypeVar("Found")


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], Found]) -> Found:
    """What `make` returns of a new folder, from the first process that asks; the others wait, and get the same.

    A fixture of a module is made again by each worker of pytest-xdist that gets one of its tests. This one is not, and
    a name that two modules use is one run for both. Whoever asks only reads what is in the folder.
    """
    folder = _of_all_workers(factory) / f"shared-{name}"
    answer = folder.with_suffix(".pickle")
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not answer.exists():
            shutil.rmtree(folder, ignore_errors=True)  # Of a process whose run failed.
            folder.mkdir()
            answer.write_bytes(pickle.dumps(make(folder)))
    found: Found = pickle.loads(answer.read_bytes())
    return found


def _of_all_workers(factory: pytest.TempPathFactory) -> Path:
    """The folder of this test run; a worker's own is one below it."""
    own = factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own

"""One run for all workers of pytest-xdist: the helper that other tests share theirs with."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from shared_runs import made_once


class Worker:
    """As much of pytest's factory as is asked of it: each worker has a folder of its own in that of the run."""

    def __init__(self, run: Path, name: str) -> None:
        self._own = run / name
        self._own.mkdir()

    def getbasetemp(self) -> Path:
        return self._own


@pytest.fixture
def workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw0")
    return [Worker(tmp_path, f"gw{number}") for number in range(3)]


def test_workers_that_ask_at_once_share_one_run(workers: list[Any]) -> None:
    runs = []

    def make(folder: Path) -> Path:
        runs.append(folder)
        time.sleep(0.05)
        (folder / "written").touch()
        return folder

    with ThreadPoolExecutor(len(workers)) as pool:
        found = list(pool.map(lambda worker: made_once(worker, "run", make), workers))
    assert found == runs * len(workers)
    assert (runs[0] / "written").exists()


def test_a_run_that_failed_is_made_again_in_an_empty_folder(workers: list[Any]) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise ValueError("no run")

    with pytest.raises(ValueError, match="no run"):
        made_once(workers[0], "run", fail)
    assert made_once(workers[1], "run", lambda folder: list(folder.iterdir())) == []

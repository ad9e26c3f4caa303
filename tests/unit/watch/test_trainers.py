"""What a watched training counts, and the curves of ranks that an elastic job starts anew."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from dynalyze.integrations.training import RecordsTraining
from dynalyze.watch import training
from dynalyze.watch.records import JobRank
from dynalyze.watch.tensorboard import Board


def rank(steps: int, restart: int = 0) -> JobRank:
    return JobRank(restart, 0, "node0", 100 + restart, restart, "running", steps, "step", 10.0, 2, 1, 3.0, 0.5)


def test_accumulated_batches_end_no_step(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Lightning ends batches at steps 0, 0, 1, 1, 2 of its own count where two make a step."""
    counted: list[int] = []
    monkeypatch.setattr(training.start, "begin_training", lambda folder, number: folder)
    monkeypatch.setattr(training.start, "stepped", counted.append)
    watched = training.WatchedTraining(tmp_path, 0)
    for step in (0, 0, 1, 1, 2):
        watched.stepped(step)
    assert counted == [1, 2]


def test_a_second_training_of_a_process_is_told_where_its_records_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(training.start, "begin_training", lambda folder, number: tmp_path / "first")
    for name in ("first", "second"):
        RecordsTraining(watch=tmp_path / name)._begin(0, (), first=False)
    (told,) = caplog.messages
    assert str(tmp_path / "first") in told and str(tmp_path / "second") in told


def test_a_restarted_rank_has_a_curve_of_its_own(tmp_path: Path) -> None:
    board = Board(tmp_path)
    board.show([rank(50), rank(7, restart=1)])
    board.close([rank(50), rank(9, restart=1)])
    steps = {
        folder.name: [each.step for each in EventAccumulator(str(folder)).Reload().Tensors("dynalyze/recompiles")]
        for folder in tmp_path.iterdir()
    }
    assert steps == {"rank 0": [50], "rank 0, restart 1": [7, 9]}


def test_a_full_disk_ends_the_curves_and_not_the_watching(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Full:
        def __init__(self, folder: str) -> None: ...

        def add_scalar(self, *values: Any) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        def close(self) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    board = Board(tmp_path)
    board._writer = Full
    for steps in (1, 2):
        board.show([rank(steps)])
    board.close([rank(3)])
    assert capsys.readouterr().err.count("No space left on device") == 1

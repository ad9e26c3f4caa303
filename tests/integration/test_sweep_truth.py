"""Whether a sweep tells the truth: its statuses against those that torch and transformers alone give."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from plain_statuses import CASES

from limits import WALL_SECONDS

HERE = Path(__file__).parent
NAMES = tuple(CASES)


@pytest.fixture(scope="module")
def truth() -> dict[str, str]:
    """One word a class; the process that finds it imports nothing of ours."""
    plain = subprocess.run(
        [sys.executable, str(HERE / "plain_statuses.py"), *NAMES],
        capture_output=True, text=True, timeout=WALL_SECONDS, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=True,
    )  # fmt: skip
    told: dict[str, str] = json.loads(plain.stdout)
    assert set(told) == set(NAMES)
    assert set(told.values()) == {"full_graph", "graph_break"}, told  # Its own configurations are sound.
    return told


@pytest.mark.slow
def test_a_sweep_agrees_with_torch(truth: dict[str, str], tmp_path: Path) -> None:
    targets = [f"hf:{name}" for name in NAMES]
    command = [sys.executable, "-m", "dynalyze", "sweep", *targets, "--out", str(tmp_path / "sweep"), "--json", "-"]
    run = subprocess.run([*command, "--workers", "2"], capture_output=True, text=True, timeout=WALL_SECONDS)
    assert run.returncode == 0, run.stderr[-2000:]
    rows = {row["target"].removeprefix("hf:"): row for row in json.loads(run.stdout)["items"]}
    assert {name: row["status"] for name, row in rows.items()} == truth
    for name, row in rows.items():
        assert (row["graph_breaks"] > 0) == (truth[name] == "graph_break")
        assert len(row["breaks"]) == row["graph_breaks"]
        assert all(each["reason"] and each["line"] > 0 and each["file"] for each in row["breaks"]), name
        assert (tmp_path / "sweep" / row["report"]).is_file()

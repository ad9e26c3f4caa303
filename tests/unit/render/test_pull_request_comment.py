"""The Action's comment on a pull request: made once for a target, and updated by later runs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / ".github" / "comment.sh"
# `gh` as far as the script needs it: it writes down each call, and lists the comments that there are.
GH = """#!/usr/bin/env bash
printf '%s\\n' "$*" >> calls
case "$*" in *--paginate*) cat comments 2>/dev/null || true;; esac
[ -z "${FAIL:-}" ] || [[ "$*" == *--paginate* ]]
"""


@pytest.fixture
def calls(tmp_path: Path) -> Path:
    (tmp_path / "gh").write_text(GH)
    (tmp_path / "gh").chmod(0o755)
    (tmp_path / "report.md").write_text("1 graph break\n")
    return tmp_path / "calls"


def commented(folder: Path, **more: str) -> str:
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", "GITHUB_REPOSITORY": "me/model", "PULL": "7", **more}
    done = subprocess.run(
        [SCRIPT, "report.md", "model.py:Net"], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_the_first_run_makes_a_comment_with_a_mark_of_its_target(tmp_path: Path, calls: Path) -> None:
    assert commented(tmp_path) == ""
    _, made = calls.read_text().splitlines()
    assert made.startswith("api --silent repos/me/model/issues/7/comments ")
    mark, text = (tmp_path / "report.md.comment").read_text().splitlines()
    assert mark.startswith("<!-- dynalyze ") and text == "1 graph break"


def test_a_later_run_updates_that_comment(tmp_path: Path, calls: Path) -> None:
    (tmp_path / "comments").write_text("41\n42\n")
    assert commented(tmp_path) == ""
    assert (
        calls.read_text().splitlines()[-1].startswith("api --silent --method PATCH repos/me/model/issues/comments/41")
    )


def test_without_the_right_to_comment_the_job_goes_on(tmp_path: Path, calls: Path) -> None:
    assert commented(tmp_path, FAIL="1").startswith("::warning title=dynalyze::")
    assert calls.exists()

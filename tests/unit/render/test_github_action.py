"""GitHub's action: annotations from a SARIF log, and its comment on a pull request, made once for a target."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from dynalyze.render import sarif
from sample_reports import hostile_report, rich_report

ROOT = Path(__file__).parents[3]


def annotate(log: Any) -> list[str]:
    spec = importlib.util.spec_from_file_location("annotate", ROOT / ".github" / "annotate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: list[str] = module.commands(log)
    return found


def result(**more: Any) -> dict[str, Any]:
    place = {"artifactLocation": {"uri": "a,b.py"}, "region": {"startLine": 7}}
    said = {"ruleId": "graph-break", "level": "error", "message": {"text": "50 %\nof it"}}
    return {**said, "locations": [{"physicalLocation": place}], **more}


def test_a_finding_is_a_command_at_its_line() -> None:
    line = "::error file=a%2Cb.py,line=7,title=dynalyze%3A graph-break::50 %25%0Aof it"
    assert annotate({"runs": [{"results": [result(), result(suppressions=[{}]), result(locations=[])]}]}) == [line]


def test_there_are_no_more_than_github_shows() -> None:
    many = [result() for _ in range(12)] + [result(level="note")]
    assert [line.split()[0] for line in annotate({"runs": [{"results": many}]})] == ["::error"] * 10 + ["::notice"]


def test_no_text_of_a_program_ends_a_command_or_begins_one() -> None:
    for report in (rich_report(), hostile_report()):
        for line in annotate(json.loads(sarif.render(report))):
            assert line.startswith(("::error ", "::warning ", "::notice ")) and len(line.splitlines()) == 1


def test_the_action_names_options_that_are_there() -> None:
    import yaml

    action = yaml.safe_load((ROOT / "action.yml").read_text())
    (_, run) = action["runs"]["steps"]
    assert action["runs"]["using"] == "composite"
    from dynalyze.cli.group import group

    audit = group.get_command(group.make_context("dynalyze", [], resilient_parsing=True), "audit")
    assert audit is not None
    given = ["model.py", "--python", "p", "--no-bench", "--sarif", "s", "--markdown", "m", "--html", "h"]
    assert all(word in run["run"] or word == "--no-bench" for word in given if word.startswith("--"))
    audit.make_context("audit", given)


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

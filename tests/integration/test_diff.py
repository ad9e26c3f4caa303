"""`dynalyze diff` on the real program: explain, change the code, explain again, compare."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from program import TRACEBACK, dynalyze, explain, in_process
from shared_runs import made_once

BEFORE = """\
import torch

@torch.compile(backend="eager")
def scale(x, n):
    print("scaling", n)
    return x * n

@torch.compile(backend="eager")
def total(x):
    y = x.sin()
    if y.sum() > 0:
        y = y + 1
    return y

for n in (1, 2, 3):
    scale(torch.ones(4), n)
total(torch.ones(4))
"""
# One break fixed, all lines moved, one break added.
AFTER = "# A comment\n\n" + BEFORE.replace('    print("scaling", n)\n', "").replace(
    "    return y\n", '    torch._dynamo.graph_break(msg="canary_message")\n    return y.cos()\n'
)


class Two(NamedTuple):
    folder: Path
    before: Path
    after: Path


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Two:
    """The reports of one program before and after a change, each in a checkout of its own."""
    return made_once(tmp_path_factory, "diff", explained_twice)


def explained_twice(folder: Path) -> Two:
    files = []
    for name, code in (("before", BEFORE), ("after", AFTER)):
        checkout = folder / f"checkout-{name}"
        checkout.mkdir()
        (checkout / "model.py").write_text(code)
        ended, _ = explain("model.py", cwd=checkout)
        assert ended.status == 0, ended.stderr[-3000:]
        files.append((checkout / "explained.json").rename(folder / f"{name}.json"))
    return Two(folder, *files)


def lines(changes: list[dict[str, Any]]) -> list[tuple[int | None, int | None]]:
    return [tuple(each[side] and each[side]["location"]["line"] for side in ("before", "after")) for each in changes]  # type: ignore[misc]


def test_what_a_change_fixed_broke_and_left_alone(two: Two) -> None:
    ended = dynalyze("diff", two.before, two.after, "--json", "-", cwd=two.folder)
    assert (ended.status, ended.stderr) == (0, "")
    found = json.loads(ended.stdout)
    breaks = found["breaks"]
    added = AFTER.splitlines().index('    torch._dynamo.graph_break(msg="canary_message")') + 1
    assert lines(breaks["fixed"]) == [(5, None)]
    assert lines(breaks["new"]) == [(None, added)]
    assert lines(breaks["unchanged"]) == [(11, 12)]
    assert breaks["changed"] == []
    assert found["differences"] == []
    # The part after the print read `n` as well, and was compiled again as well.
    assert (found["recompiles"]["before"], found["recompiles"]["after"]) == (2, 1)
    assert found["verdict"].startswith("1 break fixed, 1 new, 1 unchanged; recompiles ")
    assert [item["kind"] for item in found["regressions"]] == ["break"]


def test_summary_page_and_exit_status(two: Two, tmp_path: Path) -> None:
    ended = dynalyze(
        "diff", two.before, two.after, "--fail-on", "regression", "--html", "d.html", "--json", "d.json", cwd=tmp_path
    )
    assert (ended.status, ended.stderr) == (1, "")
    assert ended.stdout.startswith("1 break fixed, 1 new, 1 unchanged; recompiles ")
    assert "\x1b" not in ended.stdout
    page = (tmp_path / "d.html").read_text()
    assert "Content-Security-Policy" in page
    assert json.loads((tmp_path / "d.json").read_text())["verdict"] in page.replace("→", "->")


def test_the_way_back_is_a_regression_as_well(two: Two) -> None:
    """The print is new then. Only a report beside itself has none."""
    assert dynalyze("diff", two.after, two.before, "--fail-on", "regression", cwd=two.folder).status == 1
    same = dynalyze("diff", two.after, two.after, "--fail-on", "regression", cwd=two.folder)
    assert same.status == 0
    assert same.stdout.startswith("2 breaks unchanged; 1 recompile as before;")


def test_without_source_no_line_of_code_is_shown_and_the_matching_stays(two: Two, tmp_path: Path) -> None:
    ended = dynalyze("diff", two.before, two.after, "--no-source", "--json", "d.json", "--html", "d.html", cwd=tmp_path)
    assert ended.stdout.startswith("1 break fixed, 1 new, 1 unchanged; ")
    for text in (ended.stdout, (tmp_path / "d.json").read_text(), (tmp_path / "d.html").read_text()):
        assert "canary_message" not in text
        assert "y.sum()" not in text


def test_it_needs_no_torch(two: Two, tmp_path: Path) -> None:
    ended = dynalyze("diff", two.before, two.after, "--html", "d.html", cwd=tmp_path, python=("-X", "importtime"))
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in ended.stderr.splitlines()}
    assert "msgspec" in imported
    assert "torch" not in imported


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "No such file"),
        ("", "is not a report of dynalyze"),
        ("{}", "schema_version"),
        ('{"schema_version": 1}', "is not a report of dynalyze"),
        ('{"schema_version": 99}', "schema_version is 99"),
        ("[1, 2]", "is not a report of dynalyze"),
        ("\udcff\x00", "is not a report of dynalyze"),
    ],
)
@pytest.mark.parametrize("side", ["before", "after"])
def test_a_wrong_input_is_one_line(two: Two, tmp_path: Path, content: str | None, says: str, side: str) -> None:
    wrong = tmp_path / "wrong.json"
    if content is not None:
        wrong.write_bytes(content.encode(errors="surrogateescape"))
    inputs = (wrong, two.after) if side == "before" else (two.before, wrong)
    ended = in_process("diff", *inputs, "--json", "out.json", cwd=tmp_path)
    assert (ended.status, ended.stdout) == (2, "")
    assert len(ended.stderr.splitlines()) == 1
    assert says in ended.stderr
    assert str(wrong) in ended.stderr
    assert TRACEBACK not in ended.stderr
    assert not (tmp_path / "out.json").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--json", "before.json"], "would overwrite what is read"),
        (["--html", "./after.json"], "would overwrite what is read"),
        (["--json", "x", "--html", "x"], "both name x"),
        (["--html", "-"], "--html needs a file"),
        (["--json", "none/x"], "no such directory"),
        (["--fail-on", "warning"], "warning"),
    ],
)
def test_a_wrong_option_is_one_line(two: Two, arguments: list[str], says: str) -> None:
    kept = two.before.read_bytes()
    ended = in_process("diff", two.before, two.after, *arguments, cwd=two.folder)
    assert (ended.status, ended.stdout) == (2, "")
    assert says in " ".join(ended.stderr.split())
    assert TRACEBACK not in ended.stderr
    assert two.before.read_bytes() == kept


def test_a_report_is_needed_on_either_side(two: Two) -> None:
    ended = dynalyze("diff", two.before, cwd=two.folder)
    assert ended.status == 2
    assert "AFTER" in ended.stderr

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

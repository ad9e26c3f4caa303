"""Commands that run no target, as on Windows: without what Python lacks there, and with its console."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from dynalyze.cli.group import _COMMANDS, _RUN_NO_TARGET
from dynalyze.report.document import to_json
from limits import WALL_SECONDS
from sample_reports import clean_report, rich_report

_AS_ON_WINDOWS = Path(__file__).parents[2] / "stand_ins" / "as_on_windows.py"


def run(folder: Path, *commands: list[str]) -> tuple[list[int], str, str]:
    """The exit statuses of these commands, their output in the code page of a console, and their standard error."""
    (folder / "commands.json").write_text(json.dumps(commands))
    strict = ("-X", "warn_default_encoding", "-W", "error::EncodingWarning")
    console = {**os.environ, "PYTHONIOENCODING": "cp437:backslashreplace"}
    done = subprocess.run(
        [sys.executable, *strict, _AS_ON_WINDOWS, "commands.json"],
        cwd=folder, env=console, capture_output=True, check=False, timeout=WALL_SECONDS,
    )  # fmt: skip
    said = done.stderr.decode("cp437").splitlines()
    ends = [int(line.split()[-1]) for line in said if line.startswith("exit status")]
    return ends, done.stdout.decode("cp437"), "\n".join(line for line in said if not line.startswith("exit status"))


def test_reports_are_read_compared_and_explained(tmp_path: Path) -> None:
    for name, report in (("before", rich_report()), ("after", clean_report())):
        (tmp_path / f"{name}.json").write_text(to_json(report))
    ends, shown, said = run(
        tmp_path,
        ["report", "before.json", "--html", "page.html", "--json", "again.json", "--markdown", "text.md"],
        ["report", "before.json"],
        ["diff", "before.json", "after.json", "--html", "diff.html"],
        ["rules"], ["rules", "GB0059"], ["--version"],
    )  # fmt: skip
    assert ends == [0] * 6, said
    assert "graph break" in shown
    assert {"page.html", "again.json", "text.md", "diff.html"} <= {path.name for path in tmp_path.iterdir()}
    assert b"\r" not in (tmp_path / "again.json").read_bytes()


def test_what_runs_a_target_says_where_it_can(tmp_path: Path) -> None:
    commands = [name for name in _COMMANDS if name not in _RUN_NO_TARGET]
    arguments = {
        "attach": ["1"],
        "verify": ["one.py", "two.py"],
        "cache": ["one.py", "two.py"],
        "doctor": [],
        "mcp": [],
    }
    ends, shown, said = run(tmp_path, *([name, *arguments.get(name, ["one.py"])] for name in commands), ["--help"],
                            ["explain", "--help"])  # fmt: skip
    assert ends == [2] * len(commands) + [0, 0], said
    assert said.count("WSL") == len(commands)
    assert "Traceback" not in said
    assert "Usage: dynalyze" in shown

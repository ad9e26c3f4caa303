"""Runs `dynalyze explain` on every program in tests/cases and compares its report with the truth beside it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import warm_starts
from case_checks import PYTHON, Expectation, Json, Outcome, Place, differences, resolved

CASES = Path(__file__).resolve().parents[1] / "cases"
FILES = sorted(CASES.glob("*/expect*.json"))
KILL_AFTER = 5


def case_id(path: Path) -> str:
    """`folder`, or `folder-variant` for a second expectation of the same program."""
    variant = path.name.removeprefix("expect").removesuffix(".json").lstrip(".")
    return "-".join(filter(None, (path.parent.name, variant)))


@pytest.mark.parametrize("file", FILES, ids=case_id)
def test_report_says_what_is_true(file: Path, tmp_path: Path) -> None:
    expected, folder = Expectation.read(file), tmp_path / "case"
    shutil.copytree(file.parent, folder, ignore=shutil.ignore_patterns("expect*.json", "__pycache__", "README.md"))
    assert list(misplaced(expected, folder)) == []
    outcome = explain(expected, folder)
    survivors = list(still_running(expected, folder))
    faults = differences(expected, outcome) + survivors
    assert not faults, "\n  ".join(["", expected.truth, *faults, f"standard error: {outcome.stderr[-3000:]}"])
    assert spoilt_and_not_noticed(expected, outcome) == []


def explain(expected: Expectation, folder: Path) -> Outcome:
    """Run `dynalyze explain` on the case, in its folder, under its wall limit.

    What crashes, hangs or leaves processes behind is started for real; all else may be forked, see warm_starts.
    """
    file = folder.parent / "report.json"
    arguments = ["explain", "--no-bench", *expected.target]
    arguments += ["--json", "-" if expected.json_to_stdout else str(file), *expected.options]
    arguments += ["--python", PYTHON] if PYTHON else []
    if expected.arguments:
        arguments += ["--", *expected.arguments]
    died = any(status is None or status < 0 for status in expected.target_exit_status)
    if PYTHON or expected.fresh or expected.ends or died or not warm_starts.can_fork({}):
        status, stdout, stderr = started(arguments, expected, folder)
    else:
        status, stdout, stderr = warm_starts.run_dynalyze(arguments, folder, {}, None, expected.wall)
    text = stdout if expected.json_to_stdout else file.read_text() if file.exists() else ""
    return Outcome(folder, status, stdout, stderr, json.loads(text) if text.strip() else None)


def started(arguments: list[str], expected: Expectation, folder: Path) -> tuple[int | None, str, str]:
    """Exit status and both streams of a process of its own."""
    command = [sys.executable, "-m", "dynalyze", *arguments]
    streams = [folder.parent / name for name in ("stdout", "stderr")]
    with streams[0].open("wb") as out, streams[1].open("wb") as err:
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
        )
        status = wait(process, expected.wall)
    stdout, stderr = (stream.read_text(errors="replace") for stream in streams)
    return status, stdout, stderr


def wait(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    """The exit status; None where the wall limit was reached, and then nothing of its group is left."""
    try:
        return process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=KILL_AFTER)


def still_running(expected: Expectation, folder: Path) -> Iterator[str]:
    """Processes that the target started, known by the pid files it wrote, that outlived dynalyze."""
    for name in expected.ends:
        file = folder / name
        if not file.exists():
            yield f"the target never wrote {name}"
            continue
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(file.read_text()), signal.SIGKILL)
            yield f"the process of {name} outlived dynalyze"


def misplaced(expected: Expectation, folder: Path) -> Iterator[str]:
    """The breaks whose line does not hold the named code any more, as after an edit of the program."""
    for wanted in [*expected.breaks, *expected.extras]:
        place = Place.parse(wanted.at[0])
        if place.line is not None:
            line = resolved(place.path, folder).read_text().splitlines()[place.line - 1]
            column = line.find(wanted.code) if wanted.column is None else wanted.column
            if column < 0 or not line.startswith(wanted.code, column):
                yield f"not in its line: {wanted}"


# ---- the comparison itself: a spoilt report does not pass --------------------------------------------------

Spoiler = Callable[[Json], object]

SPOILERS: dict[str, Spoiler] = {
    "another status": lambda r: r["outcome"].update(status="other"),
    "another exit status of the target": lambda r: r["outcome"].update(exit_status=77),
    "another kind": lambda r: r["target"].update(kind="trace"),
    "other arguments": lambda r: r["target"]["arguments"].append("--more"),
    "another schema": lambda r: r.update(schema_version=2),
    "a list lost": lambda r: r.pop("kernels"),
    "a break too many": lambda r: r["graph_breaks"].append(STRANGER),
    "a compilation twice": lambda r: r["compilations"].extend([r["compilations"][0] if r["compilations"] else {}] * 2),
    "a path that is none": lambda r: r["traced_files"].append({"path": "<string>"}),
}
BREAK_SPOILERS: dict[str, Spoiler] = {
    "lost": lambda r: r["graph_breaks"].pop(0),
    "listed twice": lambda r: r["graph_breaks"].append({**r["graph_breaks"][0], "id": "again"}),
    "a line further": lambda r: move(r["graph_breaks"][0]),
    "in another file": lambda r: move(r["graph_breaks"][0], file="/elsewhere.py"),
    "of another id": lambda r: r["graph_breaks"][0].update(gb_id="GB9999"),
    "of another effect": lambda r: r["graph_breaks"][0].update(effect=other_effect(r)),
    "without a stack": lambda r: r["graph_breaks"][0].update(stack=[]),
    "never seen": lambda r: r["graph_breaks"][0].update(occurrences=0),
}
STRANGER: Json = {
    "id": "bx",
    "gb_id": "GB0001",
    "effect": "split",
    "occurrences": 1,
    "location": {"file": "/elsewhere.py", "line": 3},
    "stack": [{"file": "/elsewhere.py", "line": 3}],
}


def move(entry: Json, **change: Any) -> None:
    """Move a break together with its stack, so that the place alone is wrong."""
    entry["location"].update(change or {"line": entry["location"]["line"] + 1})
    entry["stack"].append(entry["location"])


def other_effect(report: Json) -> str:
    """An effect that no case accepts in place of the true one."""
    return "error" if report["graph_breaks"][0]["effect"] != "error" else "partly_eager"


def spoilt_and_not_noticed(expected: Expectation, outcome: Outcome) -> list[str]:
    """Ways to spoil the true outcome in which the comparison still finds no difference."""
    statuses = [replace(outcome, exit_status=status) for status in (None, expected.exit_status + 1)]
    spoilt = {f"exit status {each.exit_status}": each for each in statuses}
    if expected.report:
        spoilt["no report"] = replace(outcome, report=None)
        text = json.dumps(outcome.report)  # Read anew, which takes a tenth of a deep copy.
        for name, spoil in {**SPOILERS, **(BREAK_SPOILERS if expected.breaks else {})}.items():
            report: Json = json.loads(text) or {}
            # A promised break comes first: the spoilers spoil that.
            report["graph_breaks"].sort(
                key=lambda entry: not any(each.fits(entry, outcome.folder) for each in expected.breaks)
            )
            spoil(report)
            spoilt[name] = replace(outcome, report=report)
    return [name for name, each in spoilt.items() if not differences(expected, each)]

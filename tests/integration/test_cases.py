"""Runs `dynalyze explain` on every program in tests/cases and compares its report with the truth beside it."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import warm_starts
from case_checks import PYTHON, Expectation, ExpectedBreak, Json, Outcome, Place, differences, resolved

CASES = Path(__file__).resolve().parents[1] / "cases"
FILES = sorted(CASES.glob("*/expect*.json"))
KILL_AFTER = 5


def case_id(path: Path) -> str:
    """`folder`, or `folder-variant` for a second expectation of the same program."""
    variant = path.name.removeprefix("expect").removesuffix(".json").lstrip(".")
    return "-".join(filter(None, (path.parent.name, variant)))


@pytest.fixture(params=FILES, ids=case_id)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Expectation, Path]:
    return copied(request.param, tmp_path)


def copied(file: Path, tmp_path: Path) -> tuple[Expectation, Path]:
    """An expectation and a copy of its program."""
    folder = tmp_path / "case"
    shutil.copytree(file.parent, folder, ignore=shutil.ignore_patterns("expect*.json", "__pycache__", "README.md"))
    return Expectation.read(file), folder


def test_report_says_what_is_true(case: tuple[Expectation, Path]) -> None:
    expected, folder = case
    outcome = explain(expected, folder)
    survivors = list(still_running(expected, folder))
    faults = differences(expected, outcome) + survivors
    assert not faults, "\n  ".join(["", expected.truth, *faults, f"standard error: {outcome.stderr[-3000:]}"])


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


# ---- the comparison itself: a true report passes, a spoilt one does not -----------------------------------


@pytest.fixture
def true_run(case: tuple[Expectation, Path]) -> tuple[Expectation, Outcome]:
    """A run that says exactly what the case expects, made up without dynalyze."""
    expected, folder = case
    for name, text in expected.writes.items():
        (folder / name).write_text(text)
    stdout, stderr = " ".join(expected.stdout_has), " ".join(expected.stderr_has)
    report = true_report(expected, folder) if expected.report else None
    return expected, Outcome(folder, expected.exit_status, stdout, stderr, report)


def true_report(expected: Expectation, folder: Path) -> Json:
    keys = [(p, e) for p in range(expected.processes) for e in range((expected.epochs or 1) // expected.processes or 1)]
    return {
        "schema_version": 1,
        "environment": {},
        "target": {"kind": expected.kind, "arguments": expected.arguments},
        "outcome": {"status": expected.status[0], "exit_status": expected.target_exit_status[0]},
        "processes": [],
        "compilations": [{"compile_id": "0/0", "process": p, "epoch": e} for p, e in keys],
        "graph_breaks": [true_break(f"b{n}", wanted, folder) for n, wanted in enumerate(expected.breaks)],
        "recompiles": [
            {"id": f"r{n}", "cause": cause, "location": {"file": "/x.py", "line": 1}}
            for n, cause in enumerate(expected.recompiles or [])
        ],
        "traced_files": [true_file(resolved(name, folder)) for name in expected.traced],
        "findings": [{"rule": rule} for rule in expected.findings],
        **{name: [] for name in ("graphs", "kernels", "accuracy", "measurements")},
    }


def true_break(identity: str, wanted: ExpectedBreak, folder: Path) -> Json:
    location = {**true_location(wanted.at[0], folder), "column": wanted.column}
    steps = wanted.through[0] if wanted.through else wanted.at[:1]
    return {
        "id": identity,
        "gb_id": wanted.id[0],
        "effect": wanted.effect[0],
        "location": location,
        "stack": [true_location(step, folder) for step in steps],
        "occurrences": wanted.occurrences,
    }


def true_location(place: str, folder: Path) -> Json:
    parsed = Place.parse(place)
    return {"file": str(resolved(parsed.path, folder)), "line": parsed.line or 1}


def true_file(path: Path) -> Json:
    return {"path": str(path), "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}


def test_true_report_agrees(true_run: tuple[Expectation, Outcome]) -> None:
    assert differences(*true_run) == []


def test_lines_hold_the_code(case: tuple[Expectation, Path]) -> None:
    """An edited program cannot leave its expectation behind: the named line still holds the named code."""
    expected, folder = case
    for wanted in [*expected.breaks, *expected.extras]:
        place = Place.parse(wanted.at[0])
        if place.line is not None:
            line = resolved(place.path, folder).read_text().splitlines()[place.line - 1]
            assert wanted.code in line
            if wanted.column is not None:
                assert line[wanted.column :].startswith(wanted.code)


Spoiler = Callable[[Json], object]

SPOILERS: dict[str, Spoiler] = {
    "another status": lambda r: r["outcome"].update(status="other"),
    "another exit status of the target": lambda r: r["outcome"].update(exit_status=77),
    "another kind": lambda r: r["target"].update(kind="trace"),
    "other arguments": lambda r: r["target"]["arguments"].append("--more"),
    "another schema": lambda r: r.update(schema_version=2),
    "a list lost": lambda r: r.pop("kernels"),
    "a break too many": lambda r: r["graph_breaks"].append(STRANGER),
    "a compilation twice": lambda r: r["compilations"].append(r["compilations"][0]),
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


def test_spoilt_report_differs(true_run: tuple[Expectation, Outcome]) -> None:
    expected, outcome = true_run
    if not expected.report:
        pytest.skip("the case has no report")
    spoilers = {**SPOILERS, **(BREAK_SPOILERS if expected.breaks else {})}
    passed = [name for name, spoil in spoilers.items() if not differences(expected, spoilt(outcome, spoil))]
    assert not passed


def test_spoilt_run_differs(true_run: tuple[Expectation, Outcome]) -> None:
    expected, outcome = true_run
    if expected.report:
        assert differences(expected, Outcome(outcome.folder, outcome.exit_status, "", outcome.stderr, None))
    for status in (None, expected.exit_status + 1):
        assert differences(expected, Outcome(outcome.folder, status, outcome.stdout, outcome.stderr, outcome.report))


def spoilt(outcome: Outcome, spoil: Spoiler) -> Outcome:
    report = copy.deepcopy(outcome.report)
    assert report is not None
    spoil(report)
    return Outcome(outcome.folder, outcome.exit_status, outcome.stdout, outcome.stderr, report)

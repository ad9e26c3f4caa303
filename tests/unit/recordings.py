"""Event sequences that torch really sent, kept in tests/data/events; see record.py there for how they came about."""

from __future__ import annotations

import json
import sysconfig
from pathlib import Path
from typing import Any

import dynalyze
from dynalyze.events.log import RunLog
from dynalyze.events.reading import read_run

FOLDER = Path(__file__).resolve().parents[1] / "data" / "events"
TORCH = "/opt/venv/lib/python3.11/site-packages/torch"
_PATHS = {"{dynalyze}": str(Path(dynalyze.__file__).parent), "{torch}": TORCH, "{stdlib}": sysconfig.get_path("stdlib")}
# What the listener reads from live objects of the compiler; torch's own texts say the rest.
_LIVE: dict[str, dict[str, Any]] = {
    "compile_start": {"owner": ""},
    "break": {"message": "", "type": None, "above": [], "inside": []},
    "error": {"message": "", "type": None, "above": [], "inside": []},
    "recompile": {"expected": None, "actual": None},
}


def program(name: str) -> Path:
    """The source of a recorded program."""
    return FOLDER / name / "model.py"


def recorded(name: str, kind: str = "live") -> list[dict[str, Any]]:
    """The events of a recording, with the paths of this machine."""
    text = (FOLDER / name / f"{kind}.jsonl").read_text()
    for mark, path in {**_PATHS, "{program}": str(FOLDER / name)}.items():
        text = text.replace(mark, json.dumps(path)[1:-1])
    return [json.loads(line) for line in text.splitlines()]


def without_live_fields(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**event, **_LIVE.get(event["event"], {})} for event in events]


def as_run(events: list[dict[str, Any]], folder: Path) -> RunLog:
    """Write the events as a run's only file, and read them as dynalyze does."""
    (folder / "events").mkdir(parents=True)
    lines = [json.dumps(event) + "\n" for event in events]
    (folder / "events" / "4711-1.jsonl").write_text("".join(lines))
    return read_run(folder)


def line_with(name: str, code: str, nth: int = 1) -> int:
    """The number of the nth line of a recorded program that holds `code`."""
    found = [i for i, line in enumerate(program(name).read_text().splitlines(), 1) if code in line]
    return found[nth - 1]

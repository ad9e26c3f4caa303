"""Reads a sweep that was written before: its `--json` document, or the folder of one that may still be running."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from dynalyze.files.read_write import read_document, read_input
from dynalyze.sweep.records import SCHEMA_VERSION, Row, Sweep
from dynalyze.text.json_text import read_json

ROWS = "rows.jsonl"
ABOUT = "sweep.json"


class _Kind(msgspec.Struct):
    """What tells a sweep from a report: a list of items."""

    items: msgspec.Raw = msgspec.Raw()


class _About(msgspec.Struct):
    """What stands beside the rows in a sweep's folder."""

    dynalyze: str = ""
    created: str = ""
    command: list[str] = []
    environment: dict[str, Any] = {}
    planned: int = 0
    workers: int = 1
    notes: list[str] = []
    order: list[str] = []
    seconds: float = 0.0
    schema_version: int = SCHEMA_VERSION


def is_sweep(path: Path) -> bool:
    """Whether a file or folder claims to be a sweep; what cannot be read claims nothing."""
    if path.is_dir():
        return (path / ROWS).is_file()
    if path.suffix == ".jsonl":
        return True
    try:
        return read_json(read_input(path), _Kind).items != msgspec.Raw()
    except (OSError, msgspec.DecodeError):
        return False


def read_sweep(path: Path) -> Sweep:
    """The sweep in a file or folder.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no sweep of a version that we know; the message names what is wrong.
    """
    if path.is_dir() or path.suffix == ".jsonl":
        return _of_rows(path / ROWS if path.is_dir() else path)
    sweep = read_document(read_input(path), Sweep)
    _check_version(sweep.schema_version)
    return sweep


def rows_in(content: bytes) -> list[Row]:
    """The rows of a JSONL: a later row of an item replaces an earlier one, a last line that was cut off is left out.

    Raises:
        ValueError: a whole line is no row.
    """
    found: dict[tuple[str, str], Row] = {}
    for row in _whole_rows(content):
        identity = (row.key, "") if row.key else (row.target, row.configuration)
        found.pop(identity, None)
        found[identity] = row
    return list(found.values())


def _whole_rows(content: bytes) -> Iterator[Row]:
    lines = content.split(b"\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield read_document(line, Row)
        except msgspec.DecodeError as error:
            if number == len(lines):  # No newline after it: the writer was killed in it.
                return
            raise ValueError(f"line {number}: {error}") from error


def _of_rows(path: Path) -> Sweep:
    rows = rows_in(read_input(path))
    beside = path.with_name(ABOUT)
    about = read_document(read_input(beside), _About) if beside.is_file() else _About()
    _check_version(about.schema_version)
    if about.order:  # The folder may hold rows of items that its last sweep was not asked for.
        known = {row.key: row for row in rows}
        rows = [known[key] for key in about.order if key in known]
    return Sweep(
        dynalyze=about.dynalyze,
        created=about.created,
        command=about.command,
        items=rows,
        environment=about.environment,
        seconds=about.seconds,
        planned=about.planned or len(rows),
        workers=about.workers,
        notes=about.notes,
    )


def _check_version(version: int) -> None:
    if version != SCHEMA_VERSION:
        raise ValueError(f"schema_version {version} is not the version {SCHEMA_VERSION} that this dynalyze reads")

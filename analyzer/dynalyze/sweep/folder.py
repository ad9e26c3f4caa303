"""The folder of a sweep: rows, reports and pages as they come, a lock against a second sweep; and reading one back."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from dynalyze.files.read_write import read_document, read_input, write_whole_file
from dynalyze.privacy.redaction import redaction
from dynalyze.report import sensitivity
from dynalyze.sweep.records import SCHEMA_VERSION, Row, Sweep
from dynalyze.text.errors import UsageError
from dynalyze.text.json_text import read_json

if TYPE_CHECKING:
    from dynalyze.sweep.records import Item
    from dynalyze.sweep.work import Finished

ROWS = "rows.jsonl"
ABOUT = "sweep.json"
INDEX = "index.html"
_LOCK = ".lock"
_REPORTS = "reports"


def is_sweep(path: Path) -> bool:
    if path.is_dir():
        return (path / ROWS).is_file()
    try:
        # A report has no list of items.
        return "items" in read_json(read_input(path), dict[str, msgspec.Raw])
    except (OSError, msgspec.DecodeError):
        return False


def read_sweep(path: Path) -> Sweep:
    """The sweep in a file or folder. Raises UsageError where there is none, or one of another schema version."""
    try:
        if path.is_dir():
            rows, beside = rows_in(read_input(path / ROWS)), path / ABOUT
            about = read_document(read_input(beside), About) if beside.is_file() else About()
            sweep = sweep_of(about, rows)
        else:
            sweep = read_document(read_input(path), Sweep)
        if sweep.schema_version != SCHEMA_VERSION:
            raise ValueError(
                f"schema_version {sweep.schema_version} is not the version {SCHEMA_VERSION} that this dynalyze reads"
            )
        return sweep
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{path} is not a sweep of dynalyze: {error}") from error


def rows_in(content: bytes) -> list[Row]:
    """The rows of a JSONL, the latest of each item; without a last line that was cut off. Raises ValueError where a
    whole line is no row.
    """
    found: dict[tuple[str, str, str], Row] = {}
    lines = content.split(b"\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = read_document(line, Row)
        except msgspec.DecodeError as error:
            if number == len(lines):  # No newline after it: the writer was killed in it.
                break
            raise ValueError(f"line {number}: {error}") from error
        identity = row.key, row.target, row.configuration
        found.pop(identity, None)
        found[identity] = row
    return list(found.values())


class About(msgspec.Struct):
    """The sweep that the rows of a folder belong to; `order` are the keys of its items in the order of the command."""

    dynalyze: sensitivity.Word = ""
    created: sensitivity.Word = ""
    command: sensitivity.CommandLine = []
    environment: sensitivity.Settings = {}
    order: list[sensitivity.Word] = []
    planned: int = 0
    workers: int = 1
    notes: list[sensitivity.Message] = []
    seconds: float = 0.0
    schema_version: int = SCHEMA_VERSION


class SweepFolder:
    """A folder that is locked inside its `with` block. Without `resume` rows of an earlier sweep are refused."""

    def __init__(self, path: Path, *, resume: bool) -> None:
        self.path = path
        self.rows: dict[str, Row] = {}
        self._resume = resume
        self._file = -1
        self._opened = ExitStack()

    def __enter__(self) -> SweepFolder:
        import fcntl  # Not on Windows, where a folder is only read.

        with ExitStack() as opened:
            try:
                self.path.mkdir(parents=True, exist_ok=True)
                lock = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except OSError as error:
                raise UsageError(f"--out {self.path} cannot be written: {error.strerror}") from error
            opened.callback(os.close, lock)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UsageError(f"{self.path}: another sweep is running there; wait, or name another --out") from None
            self._file = os.open(self.path / ROWS, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            opened.callback(os.close, self._file)
            self._read_rows()
            self._opened = opened.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._opened.close()

    def append(self, row: Row) -> None:
        """Add a row, and return when it is on the disk: neither a kill nor a power failure takes it back."""
        data = msgspec.json.encode(row) + b"\n"
        while data:
            data = data[os.write(self._file, data) :]
        os.fsync(self._file)
        self.rows[row.key] = row

    def describe(self, about: About) -> None:
        write_whole_file(self.path / ABOUT, msgspec.json.format(msgspec.json.encode(about), indent=1) + b"\n")

    def _read_rows(self) -> None:
        data = (self.path / ROWS).read_bytes()
        whole = data[: data.rfind(b"\n") + 1]  # Without a last line that was cut short.
        os.ftruncate(self._file, len(whole))
        try:
            found = rows_in(whole)
        except ValueError as error:
            raise UsageError(f"{self.path / ROWS} is damaged: {error}; name another --out") from error
        if found and not self._resume:
            raise UsageError(
                f"{self.path} holds {len(found)} rows of an earlier sweep: continue it with --resume, "
                "or start a new one with another --out"
            )
        self.rows = {row.key: row for row in found}


def sweep_of(about: About, rows: Iterable[Row]) -> Sweep:
    """The document of a sweep: its own items' rows in the order of the command; the folder may hold rows of others."""
    items = list(rows)
    if about.order:
        known = {row.key: row for row in items}
        items = [known[key] for key in about.order if key in known]
    fields = {name: getattr(about, name) for name in about.__struct_fields__ if name != "order"}
    return Sweep(**{**fields, "items": items, "planned": about.planned or len(items)})


def store(folder: Path, item: Item, finished: Finished, *, hide_names: bool = False) -> None:
    """Write report and page below the sweep's folder, and their names, relative to it, into the row."""
    stem = re.sub(r"[^\w.=+-]+", "_", redaction()(item.file_stem)) if hide_names else item.file_stem
    for suffix, content, field in ((".json", finished.report, "report"), (".html", finished.page, "page")):
        if content is not None:
            name = f"{_REPORTS}/{stem}{suffix}"
            (folder / name).parent.mkdir(exist_ok=True)
            write_whole_file(folder / name, content)
            setattr(finished.row, field, name)

"""The folder of a sweep: rows as they come, what they belong to, and a lock against a second sweep in it."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from dynalyze.fleet.reading import ABOUT, ROWS, rows_in
from dynalyze.sweep.records import SCHEMA_VERSION, Row, Sweep
from dynalyze.text.errors import UsageError

INDEX = "index.html"
_LOCK = ".lock"


class About(msgspec.Struct):
    """What the rows of a folder belong to. `order` are the keys of the items in the order they were asked for."""

    dynalyze: str
    created: str
    command: list[str]
    environment: dict[str, Any]
    order: list[str]
    planned: int
    workers: int
    notes: list[str] = []
    seconds: float = 0.0
    schema_version: int = SCHEMA_VERSION


class SweepFolder:
    """An open folder; a context manager that holds its lock.

    Raises:
        UsageError: another sweep is at work in it, or it holds rows and `resume` was not asked for.
    """

    def __init__(self, path: Path, *, resume: bool) -> None:
        self.path = path
        self.rows: dict[str, Row] = {}
        self._resume = resume
        self._file = self._lock = -1

    def __enter__(self) -> SweepFolder:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise UsageError(f"--out {self.path} cannot be written: {error.strerror}") from error
        try:
            self._take_lock()
            self._open_rows()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for descriptor in (self._file, self._lock):
            if descriptor >= 0:
                os.close(descriptor)
        self._file = self._lock = -1

    def append(self, row: Row) -> None:
        """Add a row. It is on the disk when this returns: neither a kill nor a power failure takes it back."""
        data = msgspec.json.encode(row) + b"\n"
        while data:
            data = data[os.write(self._file, data) :]
        os.fsync(self._file)
        self.rows[row.key] = row

    def describe(self, about: About) -> None:
        """Write down what the rows belong to."""
        write(self.path / ABOUT, msgspec.json.format(msgspec.json.encode(about), indent=1) + b"\n")

    def _take_lock(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"{self.path}: another sweep is at work there; wait, or name another --out") from None

    def _open_rows(self) -> None:
        path = self.path / ROWS
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        os.ftruncate(self._file, whole_bytes(path))
        try:
            found = rows_in(path.read_bytes())
        except ValueError as error:
            raise UsageError(f"{path} is damaged: {error}; name another --out") from error
        if found and not self._resume:
            raise UsageError(
                f"{self.path} holds {len(found)} rows of an earlier sweep: --resume goes on with it, "
                "another --out begins anew"
            )
        self.rows = {row.key: row for row in found}


def whole_bytes(path: Path) -> int:
    """How far the file goes without a last line that was cut short."""
    data = path.read_bytes()
    return len(data) if data.endswith(b"\n") or not data else data.rfind(b"\n") + 1


def write(path: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    partial = path.with_name(f".{path.name}.part")
    partial.write_bytes(data)
    partial.replace(path)


def sweep_of(about: About, rows: dict[str, Row]) -> Sweep:
    """The document of a sweep: the rows of its own items, in the order in which they were asked for."""
    return Sweep(
        dynalyze=about.dynalyze,
        created=about.created,
        command=about.command,
        items=[rows[key] for key in about.order if key in rows],
        environment=about.environment,
        seconds=about.seconds,
        planned=about.planned,
        workers=about.workers,
        notes=about.notes,
    )

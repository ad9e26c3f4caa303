"""Reads a report, or a sweep, that an earlier command wrote."""

from __future__ import annotations

from pathlib import Path

import msgspec

from dynalyze.errors import UsageError
from dynalyze.fleet.reading import is_sweep as is_sweep
from dynalyze.fleet.reading import read_sweep as _read_sweep
from dynalyze.fleet.records import Sweep
from dynalyze.report import Report
from dynalyze.report_json import from_json

_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, ValueError, RecursionError)


def read_report(path: Path, kind: str = "a report of dynalyze", hint: str = "") -> Report:
    """The report in a file.

    Raises:
        UsageError: the file cannot be read, or is not `kind`; one line, with `hint` at its end.
    """
    try:
        return from_json(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except _UNREADABLE as error:
        raise UsageError(f"{path} is not {kind}: {_reason(error)}{hint}") from error


def read_sweep(path: Path) -> Sweep:
    """The sweep in a file or folder.

    Raises:
        UsageError: it cannot be read, or is no sweep; one line.
    """
    try:
        return _read_sweep(path)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except _UNREADABLE as error:
        raise UsageError(f"{path} is not a sweep of dynalyze: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)

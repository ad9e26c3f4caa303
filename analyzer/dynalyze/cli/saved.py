"""Reads a report, or a sweep, that an earlier command wrote."""

from __future__ import annotations

from pathlib import Path

import msgspec

from dynalyze.files.input_files import read_input
from dynalyze.fleet.folder import is_sweep as is_sweep
from dynalyze.fleet.folder import read_sweep as _read_sweep
from dynalyze.report import Report
from dynalyze.report.document import from_json
from dynalyze.sweep.records import Sweep
from dynalyze.text.errors import UsageError


def read_report(path: Path, kind: str = "a report of dynalyze", hint: str = "") -> Report:
    """The report in a file.

    Raises:
        UsageError: the file cannot be read, or is not `kind`; one line, with `hint` at its end.
    """
    try:
        return from_json(read_input(path))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except (msgspec.DecodeError, ValueError) as error:
        raise UsageError(f"{path} is not {kind}: {error}{hint}") from error


def read_sweep(path: Path) -> Sweep:
    """The sweep in a file or folder.

    Raises:
        UsageError: it cannot be read, or is no sweep; one line.
    """
    try:
        return _read_sweep(path)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except (msgspec.DecodeError, ValueError) as error:
        raise UsageError(f"{path} is not a sweep of dynalyze: {error}") from error

"""What a command says of an error that nobody foresaw: one line, and a file for an issue where the fault is ours."""

from __future__ import annotations

import errno
import os
import platform
import shlex
import sys
import tempfile
import traceback

import click
import msgspec

import dynalyze
from dynalyze import privacy
from dynalyze.files.paths import working_folder
from dynalyze.report import printable
from dynalyze.report.held import CommandLine, ErrorText, Word

_ISSUES = "https://github.com/dynalyze/dynalyze/issues"
_LONGEST = 256 * 1024
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


def told(error: Exception) -> str:
    """The line for an error that reached the group of commands."""
    if isinstance(error, OSError):
        return _of_system(error)
    if isinstance(error, MemoryError):
        return "memory ran out"
    if isinstance(error, RuntimeError) and str(error).startswith("Symlink loop"):  # From pathlib, before Python 3.13.
        return str(error)
    what = "nested too deeply" if isinstance(error, RecursionError) else _first_line(error)
    return f"a fault of dynalyze: {what}; {_kept(error)}"


def _of_system(error: OSError) -> str:
    reason = error.strerror or _first_line(error)
    if error.filename is None and _is_of_click(error):
        return f"standard output cannot be written: {reason}"
    if error.filename is None and error.errno == errno.ENOENT and not working_folder():
        return "the current folder is gone; change to one that is there"
    if error.filename is None and error.errno in _NO_ROOM:
        return f"{reason}; temporary files are in {tempfile.gettempdir()} (TMPDIR)"
    if error.filename is None:
        return reason
    names = [
        os.fsdecode(name) if isinstance(name, bytes) else str(name)
        for name in (error.filename, error.filename2)
        if name
    ]
    return f"{' and '.join(names) or '(a file without a name)'}: {reason}"


def _is_of_click(error: OSError) -> bool:
    """Whether it came of what Click prints itself, as a help text."""
    return any(frame.f_code is click.echo.__code__ for frame, _ in traceback.walk_tb(error.__traceback__))


def _first_line(error: Exception) -> str:
    said = str(error).strip().splitlines()
    return f"{type(error).__name__}: {said[0]}" if said else type(error).__name__


class _Fault(msgspec.Struct):
    versions: Word
    command: CommandLine
    traceback: ErrorText


def _kept(error: Exception) -> str:
    """Where the details are, without secrets, home folder, user and host."""
    try:
        trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        versions = f"dynalyze {dynalyze.__version__}, Python {platform.python_version()}, {platform.platform()}"
        fault = _Fault(versions, [printable(word) for word in sys.argv[1:]], printable(trace[-_LONGEST:]))
        fault = privacy.redact(privacy.mask_secrets(fault))
        descriptor, name = tempfile.mkstemp(prefix="dynalyze-error-", suffix=".txt")
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"{fault.versions}\ndynalyze {shlex.join(fault.command)}\n\n{fault.traceback}")
    except Exception as problem:
        return f"its details could not be written ({_first_line(problem)}); please report it at {_ISSUES}"
    return f"please attach {name} to an issue at {_ISSUES}"

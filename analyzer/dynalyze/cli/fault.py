"""Crash reports: a file for an issue, without secrets, home folder, user and host."""

from __future__ import annotations

import os
import platform
import shlex
import sys
import tempfile
import traceback

import msgspec

import dynalyze
from dynalyze import privacy
from dynalyze.report import printable
from dynalyze.report.sensitivity import CommandLine, ErrorText, Word
from dynalyze.text.errors import first_line

_ISSUES = "https://github.com/dynalyze/dynalyze/issues"
_LONGEST = 256 * 1024
"""Characters of a traceback, its end."""


class _Fault(msgspec.Struct):
    versions: Word
    command: CommandLine
    traceback: ErrorText


def kept(error: Exception) -> str:
    """Write the crash report; returns what to do with it."""
    try:
        trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        versions = f"dynalyze {dynalyze.__version__}, Python {platform.python_version()}, {platform.platform()}"
        fault = _Fault(versions, [printable(word) for word in sys.argv[1:]], printable(trace[-_LONGEST:]))
        fault = privacy.redact(privacy.mask_secrets(fault))
        descriptor, name = tempfile.mkstemp(prefix="dynalyze-error-", suffix=".txt")
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"{fault.versions}\ndynalyze {shlex.join(fault.command)}\n\n{fault.traceback}")
    except Exception as problem:
        return f"its details could not be written ({first_line(problem)}); please report it at {_ISSUES}"
    return f"please attach {name} to an issue at {_ISSUES}"

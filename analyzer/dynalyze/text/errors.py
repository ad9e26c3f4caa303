"""Errors that end a command with one clear line and exit status 2."""

from __future__ import annotations


class DynalyzeError(Exception):
    """Anything we say to the user instead of a traceback; the message is the line."""


class UsageError(DynalyzeError):
    """A mistake in what the user asked for; the message says what to do."""


def first_line(error: BaseException) -> str:
    """The type of an exception and the first line of its message."""
    said = str(error).strip().splitlines()
    return f"{type(error).__name__}: {said[0]}" if said else type(error).__name__

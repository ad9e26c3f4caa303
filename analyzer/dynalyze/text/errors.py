"""Errors that end a command with one clear line and exit status 2."""

from __future__ import annotations


class DynalyzeError(Exception):
    """An error whose message is the one line that the user sees."""


class UsageError(DynalyzeError):
    """A mistake of the user's; the message says what to do."""


def first_line(error: BaseException) -> str:
    """The type of an exception and the first line of its message."""
    said = str(error).strip().splitlines()
    return f"{type(error).__name__}: {said[0]}" if said else type(error).__name__

"""Errors that end a command with one clear line and exit status 2."""

from __future__ import annotations


class DynalyzeError(Exception):
    """Anything we say to the user instead of a traceback; the message is the line."""


class UsageError(DynalyzeError):
    """A mistake in what the user asked for; the message says what to do."""

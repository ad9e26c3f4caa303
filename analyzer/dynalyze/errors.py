"""Errors that end a command with one clear line.

DynalyzeError          anything we say to the user instead of a traceback
└── UsageError         the user's mistake: exit status 2
"""

from __future__ import annotations


class DynalyzeError(Exception):
    exit_status = 1


class UsageError(DynalyzeError):
    """A mistake in what the user asked for; the message says what to do."""

    exit_status = 2

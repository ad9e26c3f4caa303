"""Asks the interpreter that will run the items: its versions, its architectures, whether it knows the options."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import msgspec

from dynalyze.capture.settings import CompileOptions
from dynalyze.launch import question
from dynalyze.text.errors import UsageError

_SECONDS = 300.0


class Interpreter(msgspec.Struct):
    """What is known of it. `listed` has the names behind each pattern."""

    python: str
    torch: str | None
    transformers: str | None
    listed: dict[str, list[str]] = {}
    mistakes: list[str] = []

    @property
    def versions(self) -> dict[str, Any]:
        """The part of it that decides results."""
        return {"python": self.python, "torch": self.torch, "transformers": self.transformers}


def inquire(
    python: str | None, options: Sequence[CompileOptions], patterns: Sequence[str], names: Sequence[str]
) -> Interpreter:
    """Ask once, for everything.

    Raises:
        UsageError: it does not start, lacks torch or transformers, or does not know an option or a name.
    """
    request = {"compile": [asdict(each) for each in options], "patterns": list(patterns), "names": list(names)}
    python = python or sys.executable
    answer, status, said = question.ask(python, "inquire", request, _SECONDS)
    if status is None:
        raise UsageError(f"{python} did not import torch within {_SECONDS:.0f} s")
    try:
        interpreter = msgspec.convert(answer, Interpreter)
    except msgspec.ValidationError:
        raise UsageError(f"{python} cannot be used: {said or f'it ended with status {status}'}") from None
    if interpreter.mistakes:
        raise UsageError(interpreter.mistakes[0])
    return interpreter

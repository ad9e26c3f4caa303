"""The code that Dynamo made of a frame, as Python where depyf is installed, else as its disassembly."""

from __future__ import annotations

import dis
import importlib.util
import types
from typing import Any

_HOW = "# Install depyf beside torch to have this as Python.\n"


def as_python(code: types.CodeType) -> str:
    """Readable text of a code object; always valid Python, comments at worst."""
    if importlib.util.find_spec("depyf") is None:
        return _HOW + _disassembled(code)
    try:
        return f"{_decompiled(code).rstrip()}\n"
    except Exception as error:  # Bytecode of a newer Python, say.
        reason = " ".join(str(error).split())[:200]
        return f"# depyf could not decompile this: {type(error).__name__}: {reason}\n{_disassembled(code)}"


def _decompiled(code: types.CodeType) -> str:
    depyf: Any = importlib.import_module("depyf")
    return str(depyf.decompile(code))


def _disassembled(code: types.CodeType) -> str:
    lines = dis.Bytecode(code).dis().splitlines()
    return "".join(f"# {line}".rstrip() + "\n" for line in [f"{code.co_name}:", *lines])

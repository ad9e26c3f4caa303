"""What expressions of some lines were when the program ran: looked at in the frame, just before the line runs."""

from __future__ import annotations

import ast
import contextlib
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from dynalyze.capture.fixing.watching import traced

Places = Mapping[tuple[str, int], Sequence[str]]
"""Expressions to look at, by file and line."""

_READ = (ast.Expression, ast.Name, ast.Load, ast.Attribute)


def look(places: Places, run: Callable[[], Any]) -> dict[tuple[str, int], dict[str, dict[str, Any]]]:
    """Run, and say of each expression what it was when its line ran first. Only names and attributes are looked at."""
    compiled = {
        place: [(text, compile(text, "<look>", "eval")) for text in expressions if _only_reads(text)]
        for place, expressions in places.items()
    }
    files = {file for file, _ in places}
    found: dict[tuple[str, int], dict[str, dict[str, Any]]] = {}

    def see(frame: types.FrameType) -> None:
        place = frame.f_code.co_filename, frame.f_lineno
        for text, code in compiled.get(place, ()):
            known = found.setdefault(place, {})
            if text not in known:
                with contextlib.suppress(Exception):
                    known[text] = described(eval(code, frame.f_globals, frame.f_locals))

    with traced(lambda code: code.co_filename in files, "line", see):
        run()
    return found


def _only_reads(text: str) -> bool:
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError):
        return False
    return all(isinstance(node, _READ) for node in ast.walk(tree))


def described(value: Any) -> dict[str, Any]:
    """The fields of `fix.sites.Value`."""
    if isinstance(value, torch.Tensor):
        return {
            "kind": "tensor", "name": type(value).__name__, "dtype": str(value.dtype).removeprefix("torch."),
            "dims": value.dim(),
        }  # fmt: skip
    if isinstance(value, types.ModuleType):
        return {"kind": "module", "name": value.__name__}
    if isinstance(value, torch.nn.Module):
        return {"kind": "nn.Module", "name": f"{type(value).__module__}.{type(value).__qualname__}"}
    if callable(value):
        module = getattr(value, "__module__", None) or ("torch" if type(value).__module__ == "torch" else "")
        name = getattr(value, "__qualname__", None) or getattr(value, "__name__", type(value).__name__)
        kind = "class" if isinstance(value, type) else "function"
        return {"kind": kind, "name": f"{_public(value, module)}.{name}" if module else str(name)}
    return {"kind": type(value).__name__}


def _public(value: Any, module: str) -> str:
    """torch's own functions are built in, under names that nobody writes."""
    name = getattr(value, "__name__", "")
    if module.startswith(("torch._C", "torch._VariableFunctions")) and getattr(torch, name, None) is value:
        return "torch"
    return module

"""What expressions of some lines were when the program ran: looked at in the frame, just before the line runs."""

from __future__ import annotations

import ast
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from dynalyze.capture.fixing import ARGUMENT, RETURNED

Places = Mapping[tuple[str, int], Sequence[str]]
"""Expressions to look at, by file and line."""

_READ = (ast.Expression, ast.Name, ast.Load, ast.Attribute)
_MOST_ITEMS = 8


def look(places: Places, run: Callable[[], Any]) -> dict[tuple[str, int], dict[str, dict[str, Any]]]:
    """Run, and say of each expression what it was when its line ran first. Only names and attributes are looked at."""
    compiled = {
        place: [(text, compile(text, "<look>", "eval")) for text in expressions if _only_reads(text)]
        for place, expressions in places.items()
    }
    files = {file for file, _ in places}
    found: dict[tuple[str, int], dict[str, dict[str, Any]]] = {}
    returning: dict[types.FrameType, list[tuple[str, int]]] = {}
    given: dict[types.FrameType, dict[str, dict[str, Any]]] = {}

    def local(frame: types.FrameType, event: str, value: Any) -> Any:
        place = frame.f_code.co_filename, frame.f_lineno
        if event == "return":
            given.pop(frame, None)
            for each in returning.pop(frame, ()):
                found[each].setdefault(RETURNED, described(value))
        if event == "line" and place in compiled:
            known = found.setdefault(place, {})
            known.update({name: value for name, value in given.get(frame, {}).items() if name not in known})
            if RETURNED in places[place] and not frame.f_code.co_name.startswith("<"):
                returning.setdefault(frame, []).append(place)
            for text, code in compiled[place]:
                if text not in known:
                    try:
                        known[text] = described(eval(code, frame.f_globals, frame.f_locals))
                    except Exception:
                        continue
        return local

    def enter(frame: types.FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        if event != "call" or code.co_filename not in files:
            return None
        lines = {line for *_, line in code.co_lines() if line is not None}
        if any(file == code.co_filename and line in lines for file, line in places):
            given[frame] = {f"{ARGUMENT}{name}": described(value) for name, value in frame.f_locals.items()}
        return local

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        run()
    finally:
        sys.settrace(before)
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
            "dims": value.dim(), "requires_grad": value.requires_grad, "sizes": list(value.shape),
        }  # fmt: skip
    if isinstance(value, torch.dtype):
        return {"kind": "dtype", "name": str(value).removeprefix("torch.")}
    if isinstance(value, types.ModuleType):
        return {"kind": "module", "name": value.__name__}
    if isinstance(value, torch.nn.Module):
        return {"kind": "nn.Module", "name": f"{type(value).__module__}.{type(value).__qualname__}"}
    if callable(value):
        module = getattr(value, "__module__", None) or ("torch" if type(value).__module__ == "torch" else "")
        name = getattr(value, "__qualname__", None) or getattr(value, "__name__", type(value).__name__)
        kind = "class" if isinstance(value, type) else "function"
        return {"kind": kind, "name": f"{_public(value, module)}.{name}" if module else str(name)}
    if isinstance(value, (list, tuple)) and value and len({type(each) for each in value}) == 1:
        told = isinstance(value[0], torch.Tensor | tuple) or type(value[0]) is int
        items = {"items": [described(each) for each in value]} if told and len(value) <= _MOST_ITEMS else {}
        return {"kind": type(value).__name__, "name": type(value[0]).__name__, **items}
    return {"kind": type(value).__name__, **({"number": value} if type(value) is int else {})}


def _public(value: Any, module: str) -> str:
    """torch's own functions are built in, under names that nobody writes."""
    name = getattr(value, "__name__", "")
    if module.startswith(("torch._C", "torch._VariableFunctions")) and getattr(torch, name, None) is value:
        return "torch"
    return module

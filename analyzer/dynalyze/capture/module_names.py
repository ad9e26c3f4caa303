"""What the program calls its modules, and which of them were compiled with one code."""

from __future__ import annotations

import re
import sys
import types
import weakref
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import torch

_INDEX = re.compile(r"\.(\d+)(?=\.|$)")
_MOST_FRAMES = 50
_OURS = str(Path(__file__).resolve().parents[1])
_TORCH = str(Path(torch.__file__).parent)


class Modules:
    """The modules whose code was compiled so far, by the number of the code.

    Names are looked for only once a code has a second module: reading the variables of a running function keeps what
    they held alive for as long as it runs (up to Python 3.12).
    """

    def __init__(self) -> None:
        self._of_code: dict[str, dict[int, weakref.ref[torch.nn.Module]]] = {}

    def met(self, code: str, module: torch.nn.Module, frames: Iterable[types.FrameType]) -> dict[int, list[str]]:
        """Note a module with its code; where others have that too, what all of them are called, by their ids."""
        known = self._of_code.setdefault(code, {})
        known[id(module)] = weakref.ref(module)
        if len(known) < 2:
            return {}
        callers = list(frames)
        living = ((token, reference()) for token, reference in known.items())
        return {token: names_of(each, callers) for token, each in living if each is not None}


def names_of(module: torch.nn.Module, frames: Iterable[types.FrameType]) -> list[str]:
    """Expressions for a module, the innermost caller's own variable first: `layer`, then `self.layers[2]`.

    A variable may stand for one module after the other; a path below another module is its own alone.
    """
    found: list[str] = []
    for _, frame in zip(range(_MOST_FRAMES), frames, strict=False):
        scopes = (frame.f_locals,) if frame.f_locals is frame.f_globals else (frame.f_locals, frame.f_globals)
        for scope in scopes:
            known = [(name, value) for name, value in list(scope.items()) if name.isidentifier()]
            found += [name for name, value in known if _plain(value) is module]
            found += (f"{name}{path}" for name, value in known for path in _paths(_plain(value), module))
        if found:
            break
    return list(dict.fromkeys(found))


def _paths(holder: Any, module: torch.nn.Module) -> Iterator[str]:
    """Where a module stands below another one: `.layers[2]`."""
    if isinstance(holder, torch.nn.Module) and holder is not module:
        for name, part in torch.nn.Module.named_modules(holder):
            if _plain(part) is module and part is not holder:
                yield _INDEX.sub(r"[\1]", f".{name}".replace("._orig_mod", ""))


def _plain(value: Any) -> Any:
    """The module itself where torch.compile's wrapper around it stands."""
    parts = vars(value).get("_modules") if isinstance(value, torch.nn.Module) else None
    return parts.get("_orig_mod", value) if isinstance(parts, dict) else value


def frames_of_program() -> Iterator[FrameType]:
    """The frames above, innermost first, without torch's and ours."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not frame.f_code.co_filename.startswith((_OURS, _TORCH, "<frozen")):
            yield frame
        frame = frame.f_back


def expression_of(module: Any, frames: list[FrameType]) -> str:
    """What the program calls a module: `model`, `model.encoder`, `main:net` for a local of main(), "" if nothing."""
    main = sys.modules.get("__main__")
    spaces: list[tuple[str, dict[str, Any]]] = [("", vars(main))] if main is not None else []
    spaces += [
        (f"{frame.f_code.co_name}:", frame.f_locals) for frame in reversed(frames) if frame.f_code.co_name != "<module>"
    ]
    for find in (_own_name, _name_of_part, _name_of_attribute):
        for scope, names in spaces:
            name = find(module, names)
            if name:
                return scope + name
    return ""


def _own_name(module: Any, names: dict[str, Any]) -> str:
    return next((name for name, value in list(names.items()) if value is module), "")


def _name_of_part(module: Any, names: dict[str, Any]) -> str:
    for name, value in list(names.items()):
        if issubclass(type(value), torch.nn.Module):
            path = next((path for path, part in value.named_modules() if part is module), "")
            if path:
                return name + "".join(f"[{each}]" if each.isdigit() else f".{each}" for each in path.split("."))
    return ""


def _name_of_attribute(module: Any, names: dict[str, Any]) -> str:
    for name, value in list(names.items()):
        held = getattr(value, "__dict__", None)
        if type(held) is dict and not issubclass(type(value), (type, types.ModuleType, torch.nn.Module)):
            attribute = _own_name(module, held)
            if attribute:
                return f"{name}.{attribute}"
    return ""

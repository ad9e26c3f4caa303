"""Which modules were compiled with one code, and what the program calls them."""

from __future__ import annotations

import re
import types
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import torch

_INDEX = re.compile(r"\.(\d+)(?=\.|$)")
_MOST_FRAMES = 50


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

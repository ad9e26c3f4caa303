"""Hooks that are registered on modules whose code is compiled already: that code never runs them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any

from dynalyze.capture.events import HookSeen
from dynalyze.capture.torch_private import dynamo
from dynalyze.capture.torch_private.watching import watch_registrations

_MOST_ROOTS = 500
_MOST_HOOKS = 100


class LateHooks:
    """Emits each registration on a module below one that was in the frame of a compile."""

    def __init__(self, emit: Callable[[HookSeen], None]) -> None:
        self._emit = emit
        self._roots: dict[weakref.ref[Any], list[str]] = {}
        self._hooked: dict[int, weakref.ref[Any]] = {}
        self._number = 0

    def compiled(self, key: str, modules: Iterable[Any]) -> None:
        """A compile, by its epoch and id, and the modules in whose names its frame has them."""
        for module in modules:
            if len(self._roots) < _MOST_ROOTS:
                self._roots.setdefault(weakref.ref(module), []).append(key)
            for number in [number for number, hooked in self._hooked.items() if _holds(module, hooked())]:
                del self._hooked[number]
                self._emit(HookSeen(number=number, met=True))

    def watch(self) -> Callable[[], None]:
        """Look at registrations from here on; Dynamo must be imported. Returns what ends it."""
        return watch_registrations(self._registered)

    def _registered(self, module: Any, method: str) -> None:
        if not self._roots or self._number >= _MOST_HOOKS or not dynamo.hooks_go_unguarded():
            return
        roots = list(self._roots.items())
        keys = dict.fromkeys(key for root, compiles in roots if _holds(root(), module) for key in compiles)
        caller = next(dynamo.calling_frames(), None)
        if keys and caller is not None:
            self._number += 1
            self._hooked[self._number] = weakref.ref(module)
            place, name = dynamo.entry(caller), type(module).__qualname__
            self._emit(HookSeen(place, method, name, list(keys), self._number))


def _holds(root: Any, module: Any) -> bool:
    """Whether a module is another, or a part of it; a module that is gone is none."""
    return root is not None and module is not None and any(each is module for each in root.modules())

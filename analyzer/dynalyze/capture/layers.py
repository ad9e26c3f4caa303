"""A function put around one of torch's, and taken away again in whatever order several of them end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

_MARK = "_dynalyze_layer"
_lock = threading.RLock()


class Layer:
    """One function around `owner.name`. What it surrounds is `original`; `active` until it is taken away."""

    def __init__(self, owner: Any, name: str) -> None:
        self.original: Callable[..., Any] = getattr(owner, name)
        self.active = True
        self._owner = owner
        self._name = name
        self._function: Callable[..., Any] | None = None

    def put(self, function: Callable[..., Any]) -> Callable[[], None]:
        """Put `function` in the place of the original; returns what takes it away."""
        with _lock:
            self._function = function
            setattr(function, _MARK, self)
            setattr(self._owner, self._name, function)
        return self._take_away

    def _take_away(self) -> None:
        """What others put around it meanwhile stays; it goes with the last of ours that is around it."""
        with _lock:
            self.active = False
            while (outermost := _layer_of(getattr(self._owner, self._name))) is not None and not outermost.active:
                setattr(self._owner, self._name, outermost.original)


def _layer_of(function: Any) -> Layer | None:
    """The layer that a function is; functools.wraps copies the mark of one to functions of others."""
    found = getattr(function, _MARK, None)
    return found if isinstance(found, Layer) and found._function is function else None

"""Calls methods in a forked child while their objects live; os.register_at_fork would keep them for ever."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable

_methods: dict[weakref.WeakMethod[Callable[[], None]], None] = {}
_registered: list[bool] = []


def after_fork(method: Callable[[], None]) -> None:
    """Call a bound method in each process that is forked from here on, in the order of registration."""
    if hasattr(os, "register_at_fork") and not _registered:
        os.register_at_fork(after_in_child=_call_all)
        _registered.append(True)
    _methods[weakref.WeakMethod(method, lambda gone: _methods.pop(gone, None))] = None


def _call_all() -> None:
    for reference in list(_methods):
        method = reference()
        if method is not None:
            method()

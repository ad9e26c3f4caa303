"""Hooks into code that is not ours: a patched function of torch's, the import of a module, a fork."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

_PATCH_MARK = "_dynalyze_patch"
ORIGINAL_MARK = "_dynalyze_original"
"""The attribute of a wrapper of ours that holds what it is around, for those who write functions of the program."""
_lock = threading.RLock()
_methods: dict[weakref.WeakMethod[Callable[[], None]], None] = {}


class Patch:
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
            setattr(function, _PATCH_MARK, self)
            setattr(self._owner, self._name, function)
        return self._take_away

    def _take_away(self) -> None:
        """What others put around it meanwhile stays; it goes with the last of ours that is around it."""
        with _lock:
            self.active = False
            while True:
                function = getattr(self._owner, self._name)
                patch = getattr(function, _PATCH_MARK, None)  # functools.wraps copies the mark to functions of others.
                if not isinstance(patch, Patch) or patch._function is not function or patch.active:
                    return
                setattr(self._owner, self._name, patch.original)


def after_import(name: str, act: Callable[[ModuleType], object], *, without: str = "") -> Callable[[], None]:
    """Call `act` with the module once it has been imported; at once where it already is. Returns what calls it off.

    The environment variable `without` is not there while the module is imported.
    """
    if name in sys.modules:
        act(sys.modules[name])
        return lambda: None
    watch = _ImportWatch(name, act, without)
    sys.meta_path.insert(0, watch)
    return watch.call_off


class _ImportWatch(importlib.abc.MetaPathFinder):
    """Finds one module as the others would, and adds a call after its execution.

    It stays until the module is executed: many programs only ask first whether there is one (`find_spec("torch")`).
    """

    def __init__(self, name: str, act: Callable[[ModuleType], object], without: str) -> None:
        self._name = name
        self.act = act
        self.without = without
        self._looking = threading.local()
        self.over = False

    def call_off(self) -> None:
        self.over = True
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._name or getattr(self._looking, "now", False):
            return None
        self._looking.now = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._looking.now = False
        if spec is not None and spec.loader is not None:
            spec.loader = _ActingLoader(spec.loader, self)
        return spec


class _ActingLoader(importlib.abc.Loader):
    def __init__(self, loader: importlib.abc.Loader, watch: _ImportWatch) -> None:
        self._loader = loader
        self._watch = watch

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # The module is to look as if nothing had been there, to pickle and to inspect.
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        without = self._watch.without
        hidden = os.environ.pop(without, None) if without else None
        try:
            self._loader.exec_module(module)
        finally:
            if hidden is not None:
                os.environ[without] = hidden
        if not self._watch.over:
            self._watch.call_off()
            self._watch.act(module)


def after_fork(method: Callable[[], None]) -> None:
    """Call a bound method in each process that is forked from here on, in the order of registration."""
    _methods[weakref.WeakMethod(method, lambda gone: _methods.pop(gone, None))] = None


def _forked() -> None:
    for reference in list(_methods):
        if (method := reference()) is not None:
            method()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)

"""What the recorded calls of a program went to, held for making them again at its end.

A program that makes one large model after the other has room for one of them. So what was called is held past the
program only up to a number of bytes: above that, as soon as the next parameter is made, all may go that the program
itself holds no more.
"""

from __future__ import annotations

import contextlib
import types
import weakref
from collections.abc import Callable
from typing import Any

import torch

from dynalyze.capture.hooks import Patch
from dynalyze.capture.nested_values import has_finalizer, reachable_modules

MOST_BYTES = 256 << 20
"""Of parameters, in all that is held."""


class Held:
    """A module or function that is called, and what was compiled of it. What has a `__del__` is not held: it would run
    late.
    """

    def __init__(self, target: Any) -> None:
        self.name = name_of(target)
        self.has_finalizers = _has_finalizers(target)
        self.nbytes = _bytes_of_parameters(target)
        self._reference = _reference_to(target)
        self._target: Any = None
        self._compiled: Callable[..., Any] | None = None

    @property
    def target(self) -> Any:
        """None where the program let it go."""
        return self._reference() if self._target is None else self._target

    def is_for(self, target: Any) -> bool:
        own = self.target
        # A method that is referred to weakly is made anew each time.
        return own is target or (type(own) is types.MethodType and bool(own == target))

    def keep(self, target: Any) -> None:
        if self._target is None and not self.has_finalizers:
            self._target = target
            _holding.check()

    def let_go(self) -> None:
        self._target = self._compiled = None

    def compiled(self, make: Callable[[Any], Callable[..., Any]]) -> Callable[..., Any]:
        """What `make` compiles of it, the same as long as it is held."""
        compiled = self._compiled or make(self.target)
        self._compiled = compiled if self.is_kept else None
        return compiled

    @property
    def is_kept(self) -> bool:
        return self._target is not None


class _Holding:
    """All that is held in this process."""

    def __init__(self) -> None:
        self.all: weakref.WeakValueDictionary[int, Held] = weakref.WeakValueDictionary()
        self.is_too_much = False
        self._watches = False

    def check(self) -> None:
        self.is_too_much = sum(each.nbytes for each in self.all.values() if each.is_kept) > MOST_BYTES
        if self.is_too_much and not self._watches:
            self._watches = True
            self._watch_parameters()

    def _watch_parameters(self) -> None:
        """A parameter is made by a constructor, by a copy, or by loading a checkpoint."""
        patch = Patch(torch.nn.Parameter, "__new__")
        original: Any = patch.original

        def __new__(*args: Any, **kwargs: Any) -> Any:
            if self.is_too_much:
                self.is_too_much = False
                for each in list(self.all.values()):
                    each.let_go()
            return original(*args, **kwargs)

        # In the place of torch's own: torch would compile the frame of any other.
        place, code = original.__code__, __new__.__code__
        __new__.__code__ = code.replace(co_filename=place.co_filename, co_firstlineno=place.co_firstlineno)
        patch.put(__new__)


_holding = _Holding()


def hold(target: Any) -> Held:
    """Hold what is about to be called."""
    held = _holding.all.get(id(target))
    if held is None or not held.is_for(target):
        held = _holding.all[id(target)] = Held(target)
    held.keep(target)
    return held


def _bytes_of_parameters(target: Any) -> int:
    lazy = torch.nn.parameter.UninitializedTensorMixin
    with contextlib.suppress(Exception):  # A subclass of a tensor, or of a module, may do anything.
        parameters = {each for root in reachable_modules(target) for each in root.parameters()}
        return sum(each.numel() * each.element_size() for each in parameters if not isinstance(each, lazy))
    return 0


def _has_finalizers(target: Any) -> bool:
    """Whether a module, one of its parts or what one of them holds runs code of the user's as it goes."""
    parts = target.modules() if isinstance(target, torch.nn.Module) else [getattr(target, "__self__", target)]
    return any(has_finalizer(each) for part in parts for each in (part, *getattr(part, "__dict__", {}).values()))


def name_of(target: Any) -> str:
    """The name of a module's class, or of a function."""
    return type(target).__name__ if isinstance(target, torch.nn.Module) else getattr(target, "__qualname__", "function")


def _reference_to(target: Any) -> Callable[[], Any]:
    kind = weakref.WeakMethod if type(target) is types.MethodType else weakref.ref
    with contextlib.suppress(TypeError):
        return kind(target)
    return lambda: target

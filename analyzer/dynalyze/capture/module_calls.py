"""Sees the calls of nn.Modules from outside of torch.compile.

nn.Module.__call__ is wrapped on the class, and so is each `__call__` that a class brings of its own. A hook would be
traced into the program's compile, and nothing is attached to any instance.
"""

from __future__ import annotations

import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch

from dynalyze.capture.hooks import after_fork
from dynalyze.capture.torch_private import compiled_calls

Handler = Callable[[Callable[..., Any], Any, tuple[Any, ...], dict[str, Any]], Any]
"""Makes a call of a module: given the original `__call__`, the module and its arguments, returns its outputs."""


class _Thread(threading.local):
    inside = False
    """A call of this thread is handled as a whole: the calls below it go straight through."""


class ModuleCalls:
    """Hands each call of a module to `handle`, but for those that a compiler watches and those `inside` of another."""

    def __init__(self, handle: Handler) -> None:
        self.handle = handle
        self.active = False
        self.thread = _Thread()
        self._wrapped: list[tuple[type[torch.nn.Module], Any, Any]] = []
        after_fork(self._after_fork)

    def install(self) -> None:
        """Begin. Called right after torch was imported."""
        self.active = True
        original, wrapper = self._wrap(torch.nn.Module)
        _replace_copies(original, wrapper)
        for kind in _subclasses(torch.nn.Module):
            self._defined(kind)
        torch.nn.Module.__init_subclass__ = classmethod(lambda kind, **rest: self._new_class(kind, rest))

    def remove(self) -> None:
        """Put the originals back; cheap, from any thread, as often as you like."""
        if not self.active:
            return
        self.active = False
        del torch.nn.Module.__init_subclass__
        for kind, original, wrapper in self._wrapped:
            # Somebody else may have patched it after us: then our wrapper stays below theirs, and only passes on.
            if vars(kind).get("__call__") is wrapper:
                kind.__call__ = original
            _replace_copies(wrapper, original)

    def _wrap(self, kind: type[torch.nn.Module]) -> tuple[Any, Any]:
        original = vars(kind)["__call__"]
        wrapper = _wrapping(self, original)
        self._wrapped.append((kind, original, wrapper))
        kind.__call__ = wrapper
        return original, wrapper

    def _new_class(self, kind: type[torch.nn.Module], rest: dict[str, Any]) -> None:
        super(torch.nn.Module, kind).__init_subclass__(**rest)
        if self.active:
            self._defined(kind)

    def _defined(self, kind: type[torch.nn.Module]) -> None:
        """A class of the program or of a library; torch's own, and those made by compilers, are left alone."""
        is_torchs = kind.__module__.partition(".")[0] == "torch"
        if isinstance(vars(kind).get("__call__"), types.FunctionType) and not is_torchs:
            self._wrap(kind)

    def _after_fork(self) -> None:
        self.thread.inside = False


def _wrapping(calls: ModuleCalls, original: Callable[..., Any]) -> Callable[..., Any]:
    """The function that takes the place of a `__call__`."""
    thread = calls.thread
    is_compiling = torch.compiler.is_compiling
    compile_callback = compiled_calls.compile_callback

    def _wrapped_call_impl(self: Any, *args: Any, **kwargs: Any) -> Any:
        # Only calls into C before the first return: under torch.compile a frame of ours would be compiled too.
        if is_compiling() or thread.inside or not calls.active or compile_callback() is not None:
            return original(self, *args, **kwargs)
        return calls.handle(original, self, args, kwargs)

    return _disguised(_wrapped_call_impl, original)


def _disguised(wrapper: Any, original: Any) -> Callable[..., Any]:
    """Give the wrapper the name and a place in the file of torch's own `__call__`: torch's rules on what to skip and
    to inline go by both, and would compile the frame of any other. All else is the original's.
    """
    code = torch.nn.Module._call_impl.__code__
    wrapper.__code__ = wrapper.__code__.replace(co_filename=code.co_filename, co_firstlineno=code.co_firstlineno)
    if isinstance(original, types.FunctionType):
        wrapper.__module__, wrapper.__qualname__ = original.__module__, original.__qualname__
        wrapper.__doc__ = original.__doc__
        wrapper.__annotations__ = dict(original.__annotations__)
    made: Callable[..., Any] = wrapper
    return made


def _replace_copies(old: Any, new: Any) -> None:
    """torch compares nn.Module.__call__ with copies taken at import, to see that nobody patched it."""
    for name, attribute in compiled_calls.CALL_COPIES:
        module = sys.modules.get(name)
        if module is not None and getattr(module, attribute, None) is old:
            setattr(module, attribute, new)


def _subclasses(kind: type[Any]) -> Iterator[type[Any]]:
    for each in kind.__subclasses__():
        yield each
        yield from _subclasses(each)

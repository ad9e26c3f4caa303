"""Notes each call of torch.compile: what it wrapped, where, and with which options."""

from __future__ import annotations

import contextlib
import functools
import inspect
import types
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from dynalyze.capture.events import CompileCall, Lost, Wrapped
from dynalyze.capture.hooks import Patch
from dynalyze.capture.inspecting.module_watch import Inspection
from dynalyze.capture.installed import is_installed
from dynalyze.capture.listener import Listener
from dynalyze.capture.torch_private.dynamo import calling_frames

if TYPE_CHECKING:
    from dynalyze.capture.calls import CompiledRecording

Undo = Callable[[], None]
_OF_BACKEND = ("backend", "mode", "options")
"""Arguments of torch.compile that belong to a backend: another one may not know them."""

_MOST_TREES = 20
"""Modules whose parts are told. Nobody who compiles more of them, block by block, looks for smaller parts."""


class _Place(NamedTuple):
    """A call of torch.compile: its plain arguments as written, and where it stands."""

    arguments: str
    file: str
    line: int
    function: str


_Handle = Callable[[Any, Any, dict[str, Any], dict[str, Any]], Any]


class CompileCalls:
    """Keeps weak references to what was wrapped, so that it can be explained at the end why nothing compiled."""

    def __init__(
        self,
        listener: Listener,
        torch: ModuleType,
        recording: CompiledRecording | None,
        inspection: Inspection,
        on_call: Callable[[], None],
        is_ours: Callable[[], bool],
        backend: Any = None,
        *,
        leave_out: bool = False,
    ) -> None:
        """`on_call` is called when the program compiles a module, or anything in its own code; `is_ours` tells whether
        it is dynalyze that compiles, in this thread. A `backend` takes the place of those that the program asks for;
        with `leave_out` none of its calls compiles anything.
        """
        self._backend = backend
        self._leave_out = leave_out
        self._on_call = on_call
        self._is_ours = is_ours
        self._inspection = inspection
        self._recording = recording
        self._listener = listener
        self._torch = torch
        self.wrapped: list[tuple[Wrapped, Any, Any]] = []
        """What was wrapped where, with weak references to the object and to what torch.compile returned for it."""
        self._with_tree: list[Any] = []
        self._functions: list[tuple[Any, tuple[Any, str], _Place]] = []
        overrides = leave_out or backend is not None
        surround_compile(torch, self._compiled, override=self._overridden if overrides else None)

    def _overridden(self, given: dict[str, Any]) -> dict[str, Any]:
        """The arguments of a call of torch.compile with our backend, without those that belong to the program's own."""
        if self._leave_out and not self._is_ours():
            return left_out(given)
        if self._backend is None or self._is_ours() or given.get("backend", "inductor") == self._backend:
            return given
        return {**{name: value for name, value in given.items() if name not in _OF_BACKEND}, "backend": self._backend}

    def _compiled(self, model: Any, result: Any, given: dict[str, Any], left: dict[str, Any]) -> Any:
        if self._is_ours():
            self._inspection.given(getattr(model, "__self__", model), *caller()[:2], left)
            return result
        if self._leave_out:
            file, line, function = caller()
            self._listener.emit(CompileCall(name=_name(model), file=file, line=line, function=function, left_out=True))
            return result
        if self._recording is not None:
            try:
                result = self._recording.watch(model, result, self._overridden(given))
            except Exception as error:
                self._lost("calls of a compiled function", error)
        try:
            self._note(model, result, given, left)
        except Exception as error:  # What the user's own torch.compile returned must reach the user.
            self._lost("torch.compile call", error)
        return result

    def _emit_tree(self, module: Any, name: str, place: _Place, within: str = "") -> None:
        from dynalyze.capture.module_tree import module_tree
        from dynalyze.capture.torch_private.compiled_calls import original_of

        module = original_of(module)  # A compiled step may call a model that is compiled as well.
        if any(each() is module for each in self._with_tree) or len(self._with_tree) >= _MOST_TREES:
            return
        self._with_tree.append(_weak(module))
        tree = module_tree(name, module, None)
        tree.within, tree.arguments, tree.file, tree.line, tree.function = within, *place
        self._listener.emit(tree)

    def emit_trees_of_functions(self) -> None:
        """The parts of modules that compiled functions of the program name: globals, what they close over, and what the
        object of a method holds.
        """
        for target, holder, place in self._functions:
            try:
                wrapped = target()
                function = None if wrapped is None else inspect.unwrap(wrapped)
                if not isinstance(function, types.FunctionType) or is_installed(place.file):
                    continue
                for name, each in _named_by(function, *holder).items():
                    # By its type: a proxy answers isinstance with code of its own.
                    if issubclass(type(each), self._torch.nn.Module):
                        self._emit_tree(each, name, place, _name(function))
            except Exception as error:
                self._lost("parts of a module", error)

    def _lost(self, what: str, error: Exception) -> None:
        self._listener.emit(Lost(message=f"{what}: {type(error).__name__}: {error}"[:500]))

    def wrapped_by_program(self, called: set[int]) -> list[Wrapped]:
        """What code of the program itself wrapped, not an installed library; `called` are the ids of called objects."""
        found = []
        for call, target, wrapper in self.wrapped:
            if not is_installed(call.file):
                call.called, call.bypassed = (each() is not None and id(each()) in called for each in (wrapper, target))
                found.append(call)
        return found

    def _note(self, model: Any, result: Any, given: dict[str, Any], options: dict[str, Any]) -> None:
        owner = getattr(model, "__self__", model)
        file, line, function = caller()
        kind = "module" if isinstance(owner, self._torch.nn.Module) else "function"
        name = type(owner).__qualname__ if owner is not model or kind == "module" else _name(model)
        shown = {key: repr(value)[:200] for key, value in options.items() if key != "model"}
        own = {"backend": "inductor", **given} if self._backend is not None else {}
        overridden = {
            key: repr(own[key])[:200] for key in _OF_BACKEND if own.get(key) not in (None, options.get(key))
        }  # fmt: skip
        self._listener.emit(CompileCall(kind, name, file, line, function, shown, overridden, id(owner)))
        self._listener.skips.emit_disabled(model)
        self._inspection.given(owner, file, line, options)
        # Whether `module.compile()` was called of a module whose forward is torch's own code, as nn.Sequential's.
        home = str(getattr(getattr(type(owner), "forward", None), "__module__", "")) if kind == "module" else ""
        of_torch = owner is not model and home.startswith("torch.") and _name(model).endswith("._call_impl")
        wrapped = Wrapped(kind, name, file, line, in_place_of_torch=of_torch)
        self.wrapped.append((wrapped, _weak(owner), _weak(result)))
        place = _Place(_as_written(given), file, line, function)
        if kind == "module":
            self._emit_tree(owner, _called_there(owner), place)
        else:
            held = (_weak(owner), _called_there(owner)) if owner is not model else (lambda: None, "")
            self._functions.append((_weak(getattr(model, "__func__", model)), held, place))
        if kind == "module" or not is_installed(file):
            self._on_call()


def _named_by(function: types.FunctionType, holder: Callable[[], Any], called: str) -> dict[str, Any]:
    """What a function names, by what the code that compiles it calls that; `holder` is the object of a method."""
    named = {name: function.__globals__.get(name) for name in function.__code__.co_names}
    if called:
        held = getattr(holder(), "__dict__", {})
        named = {f"{called}.{name}": held.get(name) for name in named}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # A variable that nobody has set.
            named[name] = cell.cell_contents
    return named


def _as_written(given: dict[str, Any]) -> str:
    """Plain arguments of torch.compile without the defaults, which a decorator hands over too."""
    plain = {name: each for name, each in given.items() if isinstance(each, str | bool) and each != "inductor"}
    return ", ".join(f"{name}={each!r}" for name, each in plain.items() if each is not False or name == "dynamic")


def _name(model: Any) -> str:
    return getattr(model, "__qualname__", None) or type(model).__qualname__


def _weak(value: Any) -> Any:
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: None


def caller() -> tuple[str, int, str]:
    """The innermost line outside torch and dynalyze that asked for the compile."""
    frame = next(calling_frames(), None)
    return (frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name) if frame is not None else ("", 0, "")


def _called_there(module: Any) -> str:
    """What the code that compiles a module calls it: `net`, `self.model`; "" where it is called nothing there."""
    from dynalyze.capture.compile_candidates import name_in

    frame = next(calling_frames(), None)
    return name_in(frame, module) if frame is not None else ""


def surround_compile(
    torch: Any, handle: _Handle, before: Callable[[], None] = lambda: None,
    override: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
) -> Undo:  # fmt: skip
    """Call `handle(model, result, given, left)` after each torch.compile, and give the program what that returns.

    `given` are the keyword arguments as the program gave them, and `left` are what torch left of them: it takes entries
    out of the dict of options. `override` says which it gets in their place. Returns what ends it.
    """
    patch = Patch(torch, "compile")

    @functools.wraps(patch.original)
    def compile(*args: Any, **kwargs: Any) -> Any:
        before()
        given = {key: dict(value) if type(value) is dict else value for key, value in kwargs.items()}
        if override is not None:
            if not args and kwargs.get("model") is None:  # A decorator: torch would call back with our arguments.
                return functools.partial(compile, **{key: value for key, value in given.items() if key != "model"})
            kwargs = override(kwargs)
        result = patch.original(*args, **kwargs)
        model = args[0] if args else kwargs.get("model")
        return result if model is None or not patch.active else handle(model, result, given, kwargs)

    return patch.put(compile)


def left_out(given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call of torch.compile that gives back what it is given."""
    return {**given, "disable": True}


def watch_compile_calls(torch: Any, inspection: Inspection, before: Callable[[], None] = lambda: None) -> Undo:
    """Notice the modules that a process gives to torch.compile; what it gets back is torch's own. `before` is called
    before each call. Returns what ends it.
    """

    def handle(model: Any, result: Any, _: dict[str, Any], options: dict[str, Any]) -> Any:
        with contextlib.suppress(Exception):  # The user's own call goes before any fact.
            inspection.given(model, *caller()[:2], options)
        return result

    return surround_compile(torch, handle, before)

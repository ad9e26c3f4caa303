"""Notes each call of torch.compile: what it wrapped, where, and with which options."""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from dynalyze.capture.events import CompileCall, Lost, Wrapped
from dynalyze.capture.hooks import Patch
from dynalyze.capture.inspecting.module_watch import Inspection
from dynalyze.capture.listener import Listener
from dynalyze.capture.torch_private.dynamo import frames_from

if TYPE_CHECKING:
    from dynalyze.capture.compiled_recording import CompiledRecording

_OURS = str(Path(__file__).resolve().parents[1])
_INSTALLED = {"site-packages", "dist-packages"}


class CompileCalls:
    """Keeps weak references to what was wrapped, so that it can be explained at the end why nothing compiled."""

    def __init__(
        self,
        listener: Listener,
        torch: ModuleType,
        recording: CompiledRecording | None = None,
        inspection: Inspection | None = None,
        on_call: Callable[..., None] = lambda **_: None,
        is_ours: Callable[[], bool] = lambda: False,
    ) -> None:
        """`on_call` is called with `at_rest=True` when the program compiles a module, or anything in its own code;
        `is_ours` tells whether it is dynalyze that compiles, in this thread.
        """
        self._on_call = on_call
        self._is_ours = is_ours
        self._inspection = inspection
        self._recording = recording
        self._listener = listener
        self._torch = torch
        self.wrapped: list[tuple[Wrapped, Any, Any]] = []
        """What was wrapped where, with weak references to the object and to what torch.compile returned for it."""

    def install(self) -> None:
        original = self._torch.compile
        note, record, is_ours, inspection = self._note, self._record, self._is_ours, self._inspection

        @functools.wraps(original)
        def compile(*args: Any, **kwargs: Any) -> Any:
            # torch takes entries out of the dict of options.
            given = {key: dict(value) if type(value) is dict else value for key, value in kwargs.items()}
            model = args[0] if args else kwargs.get("model")
            result = original(*args, **kwargs)
            if is_ours():
                if inspection is not None:
                    inspection.given(getattr(model, "__self__", model), *caller()[:2], kwargs)
            elif model is not None:
                result = record(model, result, given)
                note(model, result, kwargs)
            return result

        self._torch.compile = compile  # type: ignore[attr-defined]

    def wrapped_by_program(self, called: set[int]) -> list[Wrapped]:
        """What code of the program itself wrapped, not an installed library; `called` are the ids of called objects."""
        found = []
        for call, target, wrapper in self.wrapped:
            if not _INSTALLED & set(Path(call.file).parts):
                call.called, call.bypassed = (each() is not None and id(each()) in called for each in (wrapper, target))
                found.append(call)
        return found

    def _record(self, model: Any, result: Any, options: dict[str, Any]) -> Any:
        """The result, with its calls recorded where that is asked for."""
        if self._recording is None:
            return result
        try:
            return self._recording.watch(model, result, options)
        except Exception as error:
            self._listener.emit(Lost(message=f"calls of a compiled function: {type(error).__name__}: {error}"[:500]))
            return result

    def _note(self, model: Any, result: Any, options: dict[str, Any]) -> None:
        try:
            owner = getattr(model, "__self__", model)
            file, line, function = caller()
            kind = "module" if isinstance(owner, self._torch.nn.Module) else "function"
            name = type(owner).__qualname__ if owner is not model or kind == "module" else _name(model)
            shown = {key: repr(value)[:200] for key, value in options.items() if key != "model"}
            generates = callable(getattr(owner, "generate", None))
            self._listener.emit(
                CompileCall(
                    kind=kind, name=name, file=file, line=line, function=function, options=shown, generates=generates
                )
            )
            self._listener.skips.emit_disabled(model)
            if self._inspection is not None:
                self._inspection.given(owner, file, line, options)
            # Whether `module.compile()` was called of a module whose forward is torch's own code, as nn.Sequential's.
            home = str(getattr(getattr(type(owner), "forward", None), "__module__", "")) if kind == "module" else ""
            of_torch = owner is not model and home.startswith("torch.") and _name(model).endswith("._call_impl")
            wrapped = Wrapped(kind, name, file, line, generates=generates, in_place_of_torch=of_torch)
            self.wrapped.append((wrapped, _weak(owner), _weak(result)))
            if kind == "module" or not _INSTALLED & set(Path(file).parts):
                self._on_call(at_rest=True)
        except Exception as error:  # What the user's own torch.compile returned must reach the user.
            self._listener.emit(Lost(message=f"torch.compile call: {type(error).__name__}: {error}"[:500]))


def _name(model: Any) -> str:
    return getattr(model, "__qualname__", None) or type(model).__qualname__


def _weak(value: Any) -> Any:
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: None


def caller() -> tuple[str, int, str]:
    """The innermost line outside torch and dynalyze that asked for the compile."""
    torch_folder = str(Path(sys.modules["torch"].__file__ or "").parent)
    for frame in frames_from(sys._getframe(2)):
        file = frame.f_code.co_filename
        if not file.startswith((torch_folder, _OURS)):
            return file, frame.f_lineno, frame.f_code.co_name
    return "", 0, ""


def watch_compile_calls(
    torch: Any, inspection: Inspection, on_call: Callable[[], None] = lambda: None
) -> Callable[[], None]:
    """Notice the modules that a process gives to torch.compile; what it gets back is torch's own.

    `on_call` is called before each. Returns what ends it.
    """
    patch = Patch(torch, "compile")

    @functools.wraps(patch.original)
    def compile(*args: Any, **kwargs: Any) -> Any:
        on_call()
        result = patch.original(*args, **kwargs)
        model = args[0] if args else kwargs.get("model")
        if model is not None and patch.active:
            try:
                inspection.given(model, *caller()[:2], kwargs)
            except Exception:
                return result  # The user's own call goes before any fact.
        return result

    return patch.put(compile)

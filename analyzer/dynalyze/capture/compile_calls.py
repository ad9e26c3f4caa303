"""Notes each call of torch.compile: what it wrapped, where, and with which options."""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from dynalyze.capture.hooks import Patch
from dynalyze.capture.inspecting.module_watch import Inspection
from dynalyze.capture.listener import Listener

if TYPE_CHECKING:
    from dynalyze.capture.compiled_recording import CompiledRecording

_OURS = str(Path(__file__).resolve().parents[1])
_INSTALLED = {"site-packages", "dist-packages"}
_NO_LINE = ("", 0, "")


class CompileCalls:
    """Keeps weak references to what was wrapped, so that silence can be explained at the end."""

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
        self.wrapped: list[dict[str, Any]] = []

    def install(self) -> None:
        original = self._torch.compile
        note, record, is_ours, inspection = self._note, self._record, self._is_ours, self._inspection

        @functools.wraps(original)
        def compile(*args: Any, **kwargs: Any) -> Any:
            # torch takes entries out of the dict of options.
            given = {key: dict(value) if type(value) is dict else value for key, value in kwargs.items()}
            model = args[0] if args else kwargs.get("model")
            if is_ours():
                result = original(*args, **kwargs)
                if inspection is not None:
                    inspection.given(getattr(model, "__self__", model), *caller()[:2], kwargs)
                return result
            result = original(*args, **kwargs)
            if model is not None:
                result = record(model, result, given)
                note(model, result, kwargs)
            return result

        self._torch.compile = compile  # type: ignore[attr-defined]

    def made_by_program(self) -> list[dict[str, Any]]:
        """The calls made in code of the program itself, not in an installed library."""
        return [call for call in self.wrapped if not _INSTALLED & set(Path(call["file"]).parts)]

    def _record(self, model: Any, result: Any, options: dict[str, Any]) -> Any:
        """The result, with its calls recorded where that is asked for."""
        if self._recording is None:
            return result
        try:
            return self._recording.watch(model, result, options)
        except Exception as error:
            self._listener.tell("lost", message=f"calls of a compiled function: {type(error).__name__}: {error}"[:500])
            return result

    def _note(self, model: Any, result: Any, options: dict[str, Any]) -> None:
        try:
            owner = getattr(model, "__self__", model)
            file, line, function = caller()
            entry = {
                "kind": "module" if isinstance(owner, self._torch.nn.Module) else "function",
                "name": type(owner).__qualname__ if owner is not model or _is_module(owner) else _name(model),
                "file": file,
                "line": line,
                "function": function,
                "options": {key: repr(value)[:200] for key, value in options.items() if key != "model"},
                "generates": callable(getattr(owner, "generate", None)),
                "in_place_of_torch": owner is not model and _is_torchs(owner) and _name(model).endswith("._call_impl"),
            }
            self._listener.tell("compile_call", **entry)
            self._listener.skips.tell_disabled(model)
            if self._inspection is not None:
                self._inspection.given(owner, file, line, options)
            self.wrapped.append({**entry, "object": _weak(owner), "wrapper": _weak(result)})
            if entry["kind"] == "module" or not _INSTALLED & set(Path(file).parts):
                self._on_call(at_rest=True)
        except Exception as error:  # What the user's own torch.compile returned must reach the user.
            self._listener.tell("lost", message=f"torch.compile call: {type(error).__name__}: {error}"[:500])


def _is_module(value: Any) -> bool:
    torch = sys.modules["torch"]
    return isinstance(value, torch.nn.Module)


def _is_torchs(module: Any) -> bool:
    """Whether the forward of a module is torch's own code, as that of nn.Sequential is."""
    forward = getattr(type(module), "forward", None)
    return _is_module(module) and str(getattr(forward, "__module__", "")).startswith("torch.")


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
    frame = sys._getframe(2)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith((torch_folder, _OURS)):
            return file, frame.f_lineno, frame.f_code.co_name
        if frame.f_back is None:
            break
        frame = frame.f_back
    return _NO_LINE


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

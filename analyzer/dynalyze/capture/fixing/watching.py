"""What a call does beside the tensors that it returns: the structure of its outputs, what it prints, logs and opens,
the attributes and inputs that it changes; and which lines of some functions ran.
"""

from __future__ import annotations

import contextlib
import io
import logging
import re
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from dynalyze.capture.nested_values import children, container_base, is_plain_object
from dynalyze.capture.torch_private import runtime

Effect = tuple[str, str]
"""What was done ("printed", "logged", "warned", "opened", ...) and with what."""

_SCALARS = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.Size)
_DEEPEST, _LONGEST = 6, 500
_AUDITED = {"os.system": "ran", "subprocess.Popen": "ran", "socket.connect": "connected to", "os.remove": "removed",
            "os.rename": "renamed"}  # fmt: skip
_TORCH = str(Path(torch.__file__).parent)
_WRITES = frozenset("wax+")
_OF_DYNAMO = re.compile(r"__|sub_\w+_\d+$")
"""Globals that are Python's own, or put there by Dynamo for code that it made."""


class _Audit:
    """Python keeps a hook for ever: one for the process, which listens only where somebody asks."""

    listener: Callable[[str, tuple[Any, ...]], None] | None = None
    installed = False

    @classmethod
    def hook(cls, event: str, given: tuple[Any, ...]) -> None:
        if cls.listener is not None:
            cls.listener(event, given)


@contextlib.contextmanager
def effects(seen: list[Effect]) -> Iterator[None]:
    """Note in `seen`, in order, what is printed, logged, warned of, written to and started inside."""
    caches = tuple(runtime.cache_folders().values())
    if not _Audit.installed:
        sys.addaudithook(_Audit.hook)
        _Audit.installed = True

    class Note(io.TextIOBase):
        def write(self, text: str) -> int:
            if seen and seen[-1][0] == "printed":  # One print is several writes.
                text = seen.pop()[1] + text
            seen.append(("printed", text))
            return len(text)

    def audit(event: str, given: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(given[1], str) and _WRITES & set(given[1]):
            if not str(given[0]).startswith(caches):
                seen.append(("opened", str(given[0])))
        elif event in _AUDITED:
            seen.append((_AUDITED[event], str(given[0])[:_LONGEST]))

    def handle(logger: logging.Logger, record: logging.LogRecord) -> None:
        if not record.name.startswith("torch."):
            seen.append(("logged", f"{record.levelname} {record.getMessage()}"[:_LONGEST]))

    original = logging.Logger.handle
    with contextlib.ExitStack() as stack:
        caught = stack.enter_context(warnings.catch_warnings(record=True))
        warnings.simplefilter("always")
        stack.enter_context(contextlib.redirect_stdout(Note()))
        stack.enter_context(contextlib.redirect_stderr(Note()))
        logging.Logger.handle = handle  # type: ignore[method-assign, assignment]
        stack.callback(setattr, logging.Logger, "handle", original)
        _Audit.listener = audit
        stack.callback(setattr, _Audit, "listener", None)
        yield
    # torch warns of what it compiles: that is no effect of the program.
    own = [each for each in caught or () if not each.filename.startswith(_TORCH)]
    seen += [("warned", str(each.message)[:_LONGEST]) for each in own]


def outline(value: Any, depth: int = 0) -> Any:
    """The structure of a nested value: its types, what its tensors look like and all other values, comparable."""
    if isinstance(value, torch.Tensor):
        return (
            type(value).__name__, str(value.dtype), tuple(value.shape), value.device.type, value.requires_grad,
            value.stride() if value.layout is torch.strided else str(value.layout),
        )  # fmt: skip
    if isinstance(value, _SCALARS):
        return type(value).__name__, "nan" if isinstance(value, float) and value != value else value
    base = container_base(value)
    if depth >= _DEEPEST or (base is None and not is_plain_object(value)) or isinstance(value, torch.nn.Module):
        return (type(value).__name__,)
    inside = base.items(value) if base is not None and issubclass(base, dict) else children(value)
    return type(value).__name__, tuple((_key(key), outline(item, depth + 1)) for key, item in inside)


def _key(key: Any) -> Any:
    return key if isinstance(key, (str, int)) else str(key)


def attributes(model: Any, spaces: list[dict[str, Any]]) -> dict[str, Any]:
    """What modules and globals hold that is no tensor of torch.nn's own bookkeeping, by name."""
    found = {}
    for name, part in model.named_modules() if isinstance(model, torch.nn.Module) else ():
        for key, value in vars(part).items():
            if not key.startswith("_"):
                found[f"{name}.{key}".lstrip(".")] = outline(value)
    for space in spaces:
        for key, value in list(space.items()):
            if not _OF_DYNAMO.match(key) and not isinstance(value, (types.ModuleType, types.FunctionType, type)):
                found[f"global {key}"] = outline(value)
    return found


def aliases(inputs: list[tuple[str, torch.Tensor]], outputs: list[tuple[str, torch.Tensor]]) -> list[tuple[str, ...]]:
    """Which outputs share memory with which inputs and with each other."""
    groups: dict[int, list[str]] = {}
    for name, tensor in [*((f"input {n}", t) for n, t in inputs), *((f"output {n}", t) for n, t in outputs)]:
        if type(tensor) is torch.Tensor and tensor.layout is torch.strided and tensor.numel():
            groups.setdefault(tensor.untyped_storage().data_ptr(), []).append(name)
    shared = [tuple(sorted(names)) for names in groups.values() if any(n.startswith("output ") for n in names)]
    return sorted(names for names in shared if len(names) > 1)


@contextlib.contextmanager
def lines_run(codes: set[types.CodeType], seen: set[tuple[str, int]]) -> Iterator[None]:
    """Note which lines of these functions run inside, by file and number."""

    def local(frame: types.FrameType, event: str, _: Any) -> Any:
        if event == "line":
            seen.add((frame.f_code.co_filename, frame.f_lineno))
        return local

    def enter(frame: types.FrameType, event: str, _: Any) -> Any:
        return local if event == "call" and frame.f_code in codes else None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        yield
    finally:
        sys.settrace(before)

"""What a call does besides returning tensors: the structure of its outputs, what it prints and logs, the attributes and
inputs that it changes; which lines of some functions ran, and what expressions in them were.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import io
import logging
import re
import sys
import types
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import torch

from dynalyze.capture.bench.contracts import sharing
from dynalyze.capture.nested_values import children, container_base, is_plain_object

Effect = tuple[str, str]
"""What was done ("printed", "logged", "warned", ...) and with what."""

SCALARS = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.Size)
_LONGEST, _LONGEST_TOLD, _MOST = 500, 40, 5_000
_TORCH = (str(Path(torch.__file__).parent), "<eval_with_key>")  # Its files, and its graphs as code.
_READ = (ast.Expression, ast.Name, ast.Load, ast.Attribute)
_REST = "all further values"
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_NUMBERS = re.compile(r"0x[0-9a-f]+|\d+(\.\d+)?(e[-+]?\d+)?", re.IGNORECASE)


@contextlib.contextmanager
def effects(seen: list[Effect]) -> Iterator[None]:
    """Note in `seen`, in order, what is printed, logged and warned inside. Effects beyond the process are refused
    before they happen (capture/containment.py).
    """

    def handle(logger: logging.Logger, record: logging.LogRecord) -> None:
        if not record.name.startswith("torch."):
            seen.append(("logged", f"{record.levelname} {record.name} {record.getMessage()}"[:_LONGEST]))

    def warn(message: Any, category: Any, filename: str, *_: Any) -> None:
        # torch warns of what it compiles: that is no effect of the program.
        if not filename.startswith(_TORCH):
            seen.append(("warned", f"{category.__name__}: {message}"[:_LONGEST]))

    original = logging.Logger.handle
    with contextlib.ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("always")
        warnings.showwarning = warn  # type: ignore[assignment]
        stack.enter_context(contextlib.redirect_stdout(_Note(seen, "printed")))
        stack.enter_context(contextlib.redirect_stderr(_Note(seen, "printed as an error")))
        logging.Logger.handle = handle  # type: ignore[method-assign, assignment]
        stack.callback(setattr, logging.Logger, "handle", original)
        yield


class _Note(io.TextIOBase):
    """A stream each line of which is an effect."""

    def __init__(self, seen: list[Effect], what: str) -> None:
        self._seen = seen
        self._what = what

    def write(self, text: str) -> int:
        for line in text.splitlines(keepends=True):
            last = self._seen[-1] if self._seen else ("", "")
            if last[0] == self._what and not last[1].endswith("\n"):  # One print is several writes.
                self._seen[-1] = self._what, last[1] + line
            else:
                self._seen.append((self._what, line))
        return len(text)


def effects_that_differ(one: list[Effect], other: list[Effect]) -> list[str]:
    """The side effects that the second list lacks, has in addition, or has in another order."""
    if one == other:
        return []
    lacking, more = Counter(one) - Counter(other), Counter(other) - Counter(one)
    found = [f"not {what} any more: {_quoted(text)}" for what, text in lacking]
    found += [in_addition(each) for each in more]
    return found or ["the same side effects, in another order"]


def in_addition(effect: Effect) -> str:
    """An additional effect, in words."""
    return f"{effect[0]} in addition: {_quoted(effect[1])}"


def _quoted(text: str) -> str:
    text = text.strip()
    return repr(text if len(text) <= _LONGEST_TOLD else f"{text[:_LONGEST_TOLD]}...")


def without_numbers(text: str) -> str:
    """A text that can be compared although it holds a time, a duration or an address."""
    return _NUMBERS.sub("#", text)


@dataclass
class Outline:
    """A nested value, flat and comparable: `values` by path, and the `tensors` among them."""

    values: dict[str, Any] = field(default_factory=dict)
    tensors: dict[str, torch.Tensor] = field(default_factory=dict)

    def add(self, path: str, value: Any) -> None:
        """Keep one more value; after many, what all the rest of them come to."""
        if len(self.values) < _MOST:
            self.values[path] = value
        else:
            rest = f"{self.values.get(_REST)} {path} {value}"
            self.values[_REST] = hashlib.sha256(rest.encode(errors="surrogatepass")).hexdigest()


def outlined(value: Any, path: str, into: Outline, *, copies: bool = True) -> Outline:
    """Add a value to an outline: its types, keys and numbers, the properties of its tensors, and what it holds twice.
    The outline gets copies of the tensors, or the tensors themselves.
    """
    seen: dict[int, str] = {}
    kept: list[Any] = []  # Whatever has its id in `seen`.

    def walk(value: Any, path: str) -> None:
        if isinstance(value, SCALARS):
            into.add(path, (type(value).__name__, repr(value)))
            return
        if isinstance(value, torch.Tensor):
            into.add(path, _look_of(value))
            if value.device.type != "meta":
                into.tensors[path] = value.detach().clone() if copies else value
            return
        if id(value) in seen:
            into.add(path, ("the same as", seen[id(value)]))
            return
        seen[id(value)] = path
        kept.append(value)
        base = container_base(value)
        if isinstance(value, torch.nn.Module) or (base is None and not is_plain_object(value)):
            into.add(path, (type(value).__name__, _content(value)))
            return
        if base is not None and issubclass(base, (set, frozenset)):
            into.add(path, (type(value).__name__, sorted(map(repr, base.__iter__(value)))))
            return
        inside = dict(children(value))
        own = base.items(value) if base is not None and issubclass(base, dict) else ()
        order = [_key(key) for key, _ in own] if base is not None else sorted(map(_key, inside))
        into.add(path, (type(value).__name__, order if order else len(inside)))
        for key, item in inside.items():
            walk(item, path + (f".{key}" if isinstance(key, str) else f"[{_key(key)}]"))

    walk(value, path)
    return into


def _look_of(tensor: torch.Tensor) -> Any:
    if tensor.layout is not torch.strided:
        return type(tensor).__name__, str(tensor.dtype), str(tensor.layout), tensor.requires_grad
    strides = tuple(step for size, step in zip(tensor.shape, tensor.stride(), strict=True) if size != 1)
    return (
        type(tensor).__name__, str(tensor.dtype), tuple(tensor.shape), tensor.device.type, tensor.requires_grad,
        strides, tensor.is_inference(), tensor.requires_grad and tensor.is_leaf, *_added_to(tensor),
    )  # fmt: skip


def _added_to(tensor: torch.Tensor) -> list[Any]:
    """What a program sets on a tensor."""
    added = [
        (name, repr(value)) for name, value in sorted(vars(tensor).items())
        if isinstance(value, SCALARS) and not name.startswith("_")
    ]  # fmt: skip
    return ["keeps its gradient", *added] if tensor.retains_grad else added


def _content(value: Any) -> Any:
    """What identifies a value without contents, as far as values of two runs can be compared."""
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
        name = f"{value.__module__}.{value.__qualname__}"
        return (name, *_made_of(value)) if isinstance(value, types.FunctionType) and "<" in name else name
    if isinstance(value, Iterator) and type(value).__module__ in ("builtins", "itertools"):
        with contextlib.suppress(TypeError):
            return _shortened(repr(value.__reduce__()))
    if isinstance(value, torch.nn.Module):
        return id(value)
    if type(value).__module__.partition(".")[0] == "numpy" and hasattr(value, "tobytes"):
        return str(value.dtype), value.shape, hashlib.sha256(value.tobytes()).hexdigest()
    with contextlib.suppress(Exception):
        return _shortened(repr(value))
    return None


def _made_of(function: types.FunctionType) -> Iterator[Any]:
    """What tells a function that another one makes from the others that it makes: its code, and what it closes over."""
    yield _shortened(repr(code_of(function.__code__)))
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # Not filled yet.
            held = cell.cell_contents
            yield held.__qualname__ if isinstance(held, types.FunctionType) else _content(held)
    yield [_content(each) for each in function.__defaults__ or ()]


def code_of(code: types.CodeType) -> tuple[Any, ...]:
    """A function's code, wherever it is."""
    inner = tuple(code_of(each) if isinstance(each, types.CodeType) else (type(each), each) for each in code.co_consts)
    return code.co_code, inner, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars


def _shortened(text: str) -> str:
    """A text without addresses; of a long one the beginning, and what tells it from others that begin so."""
    text = _ADDRESS.sub("", text)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + hashlib.sha256(text.encode()).hexdigest()


def _key(key: Any) -> str:
    return repr(key)[:_LONGEST] if isinstance(key, SCALARS) else type(key).__name__


def aliases(named: Iterable[tuple[str, torch.Tensor]]) -> dict[str, list[str]]:
    """For each tensor that shares memory, by name, the others that it shares it with."""
    return {name: sorted(names - {name}) for names in sharing(named) for name in names}


@contextlib.contextmanager
def traced(
    enters: Callable[[types.CodeType], bool], event: str, see: Callable[[types.FrameType], object]
) -> Iterator[None]:  # fmt: skip
    """Call `see` for each "line" or "opcode" that runs inside, in the functions that `enters` accepts."""

    def local(frame: types.FrameType, happened: str, _: Any) -> Any:
        if happened == event:
            see(frame)
        return local

    def enter(frame: types.FrameType, happened: str, _: Any) -> Any:
        if happened != "call" or not enters(frame.f_code):
            return None
        frame.f_trace_opcodes = event == "opcode"
        return local

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        yield
    finally:
        sys.settrace(before)


def lines_run(codes: Collection[types.CodeType], seen: set[tuple[str, int]]) -> AbstractContextManager[None]:
    """Note which lines of these functions run inside, by file and number."""
    return traced(codes.__contains__, "line", lambda frame: seen.add((frame.f_code.co_filename, frame.f_lineno)))


def instructions_run(
    codes: Collection[types.CodeType], seen: set[tuple[types.CodeType, int]]
) -> AbstractContextManager[None]:  # fmt: skip
    """Note which instructions of these functions run inside: each side of an expression has its own."""
    return traced(codes.__contains__, "opcode", lambda frame: seen.add((frame.f_code, frame.f_lasti)))


def look(
    places: Mapping[tuple[str, int], Sequence[str]], run: Callable[[], Any]
) -> dict[tuple[str, int], dict[str, dict[str, Any]]]:
    """Run, and return what each expression, given by file and line, was just before its line ran first. Only names and
    attributes are looked at.
    """
    compiled = {
        place: [(text, compile(text, "<look>", "eval")) for text in expressions if _only_reads(text)]
        for place, expressions in places.items()
    }
    files = {file for file, _ in places}
    found: dict[tuple[str, int], dict[str, dict[str, Any]]] = {}

    def see(frame: types.FrameType) -> None:
        place = frame.f_code.co_filename, frame.f_lineno
        for text, code in compiled.get(place, ()):
            known = found.setdefault(place, {})
            if text not in known:
                with contextlib.suppress(Exception):
                    known[text] = described(eval(code, frame.f_globals, frame.f_locals))

    with traced(lambda code: code.co_filename in files, "line", see):
        run()
    return found


def _only_reads(text: str) -> bool:
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError):
        return False
    return all(isinstance(node, _READ) for node in ast.walk(tree))


def described(value: Any) -> dict[str, Any]:
    """The fields of `fix.sites.Value`."""
    if isinstance(value, torch.Tensor):
        return {
            "kind": "tensor", "name": type(value).__name__, "dtype": str(value.dtype).removeprefix("torch."),
            "dims": value.dim(),
        }  # fmt: skip
    if isinstance(value, types.ModuleType):
        return {"kind": "module", "name": value.__name__}
    if isinstance(value, torch.nn.Module):
        return {"kind": "nn.Module", "name": f"{type(value).__module__}.{type(value).__qualname__}"}
    if callable(value):
        module = getattr(value, "__module__", None) or ("torch" if type(value).__module__ == "torch" else "")
        name = getattr(value, "__qualname__", None) or getattr(value, "__name__", type(value).__name__)
        kind = "class" if isinstance(value, type) else "function"
        return {"kind": kind, "name": f"{_public(value, module)}.{name}" if module else str(name)}
    return {"kind": type(value).__name__}


def _public(value: Any, module: str) -> str:
    """torch's own functions are built in, under names that nobody writes."""
    name = getattr(value, "__name__", "")
    if module.startswith(("torch._C", "torch._VariableFunctions")) and getattr(torch, name, None) is value:
        return "torch"
    return module

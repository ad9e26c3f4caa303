"""Events and reports written by hand, for the tests of facts, rules and outputs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from dynalyze.capture.events import (
    BreakSeen,
    CompileEnded,
    CompileStarted,
    ErrorSeen,
    Event,
    Frame,
    GraphSeen,
    ProcessStarted,
    RecompileSeen,
    TorchLoaded,
)
from dynalyze.events.log import ProcessLog, RunLog
from dynalyze.report import Report

Filled = TypeVar("Filled", bound=msgspec.Struct)

TORCH = "/opt/venv/lib/python3.11/site-packages/torch"
MODEL = "/home/ada/ranker/model.py"
PRINT = (
    "Failed to trace builtin operator\n"
    "  Explanation: Dynamo does not know how to trace builtin operator `print` with argument types ['str'] "
    "(has_kwargs False)\n"
    "  Hint: Avoid calling builtin `print` with argument types ['str'].\n"
    "  Hint: Please report an issue to PyTorch.\n"
    "\n"
    "  Developer debug context: builtin print [<class 'ConstantVariable'>] False\n"
    "\n"
    " For more details about this graph break, please visit: "
    "https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0059.html"
)
BRANCH = (
    "Data-dependent branching\n"
    "  Explanation: Detected data-dependent branching.\n"
    "  Hint: Use `torch.cond` to express dynamic control flow.\n"
    "\n"
    "  Developer debug context: attempted to jump with TensorVariable()\n"
    "\n"
    " For more details about this graph break, please visit: "
    "https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0170.html"
)
LOOP = (
    "graph break in loop\n"
    "  Explanation: torch.compile detected a graph break in a for/while loop.\n"
    "  Hint: This graph break may have been caused by an earlier graph break.\n"
    "\n"
    "  Developer debug context: frame skipped: f\n"
)
THEN = "\n\n*** While handling this graph break, another graph break occurred: ***\n\n"
SPLIT = "Encountered graph break when attempting to trace CALL: a function call, e.g. f(x, y):\n\n"
SKIPPED = (
    "Failed to handle graph break gracefully. Skipping the function and falling back to eager. "
    "Graph break encountered:\n\n"
)
PARTLY = (
    "Encountered graph break that we cannot resume from. Compiling up to the previous resumable state, then skipping "
    "the rest of the function. Graph break encountered:\n\n"
)


def frame(line: int, name: str = "forward", file: str = MODEL, columns: tuple[int, int] | None = None) -> Frame:
    start, end = columns or (None, None)
    return Frame(file, line, name, start, end)


def torch_frame(line: int = 1, name: str = "inner", file: str = "nn/functional.py") -> Frame:
    return Frame(f"{TORCH}/{file}", line, name)


MAIN = frame(90, "<module>")


def payload(message: str, stack: Sequence[Frame], reason: str = SPLIT) -> str:
    """The text of a break event, as torch composes it."""
    place = stack[-1]
    lines = "".join(f'  File "{f.file}", line {f.line}, in {f.name}\n    code\n' for f in stack)
    return (
        f"Graph break in user code at {place.file}:{place.line}\nGraph Break Reason: {reason}{message}\n\n"
        f"User code traceback:\n{lines}"
    )


def start(
    id: str = "0/0", code: Frame | None = None, stack: Sequence[Frame] = (MAIN,), epoch: int = 0, **more: Any
) -> Event:
    return CompileStarted(id=id, epoch=epoch, code=code or frame(10), stack=list(stack), **more)


def end(id: str = "0/0", epoch: int = 0, backward: bool = False, **metrics: Any) -> Event:
    """The end of a compile; one that gave code unless `metrics` say otherwise."""
    return CompileEnded(id=id, epoch=epoch, backward=backward, metrics={"has_guarded_code": True, **metrics})


def broke(
    inside: Sequence[Frame], message: str = PRINT, reason: str = SPLIT, above: Sequence[Frame] = (MAIN,), **more: Any
) -> Event:
    """A break event with its live fields. `inside` begins with the compiled frame."""
    text = payload(message, [*above, *inside], reason)
    fields = {"id": "0/0", "text": text, "message": message, "above": list(above), "inside": list(inside)}
    return BreakSeen(**{**fields, **more})


def failed(inside: Sequence[Frame], message: str = PRINT, above: Sequence[Frame] = (MAIN,), **more: Any) -> Event:
    """An error event that ends a compile."""
    fields = {
        "id": "0/0", "text": f"Traceback\n{message}", "message": message, "exception": "Unsupported",
        "above": list(above), "inside": list(inside),
    }  # fmt: skip
    return ErrorSeen(**{**fields, **more})


def again(text: str, id: str = "0/1", **more: Any) -> Event:
    return RecompileSeen(id=id, text=text, **more)


def process(*events: Event, number: int = 0, pid: int = 4711, **more: Any) -> ProcessLog:
    started = ProcessStarted(**{"pid": pid, "main": number == 0, "command": ["model.py"], "python": "3.11.7", **more})
    return ProcessLog(number, started, list(events))


def run_of(*events: Event) -> RunLog:
    """A run of one process that loaded torch."""
    return RunLog([process(TorchLoaded(version="2.13.0", folder=TORCH), *events)])


def write_source(folder: Path, text: str | bytes, name: str = "model.py") -> str:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


Choose = Callable[[Sequence[Any]], Any]
"""Takes one of several values that a field may have."""


def first(values: Sequence[Any]) -> Any:
    """The simplest choice."""
    return values[0]


def filled_report(text: str, choose: Choose = first) -> Report:
    """A report with every field of every struct filled, and `text` in each that holds free text."""
    report = filled(Report, text, choose)
    report.schema_version = 1
    return report


def filled(kind: type[Filled], text: str, choose: Choose = first) -> Filled:
    """A document of this kind in which `text` stands wherever free text may.

    It is made from the types, so a field that is added later is filled as well. `choose` takes the words of fields that
    hold one of a few, and whether switches are on.
    """
    document = _filled(kind, text, choose)
    assert isinstance(document, kind)
    return document


def _filled(kind: Any, text: str, choose: Choose) -> Any:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind(**{name: _filled(hint, text, choose) for name, hint in _fields(kind)})
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is list:
        return [_filled(arguments[0], text, choose)]
    if origin is dict:
        return {text: _filled(arguments[1], text, choose)}
    simple: dict[Any, Any] = {str: text, Any: text, int: 1, float: 1.0}
    if kind in simple:
        return simple[kind]
    if kind is bool:
        return choose((True, False))
    if arguments:  # A union: its first part, which is never None. A Literal: one of its words.
        return choose(arguments) if isinstance(arguments[0], str) else _filled(arguments[0], text, choose)
    raise TypeError(f"a field of a kind that this builder does not know: {kind}")


@functools.cache
def _fields(kind: type[msgspec.Struct]) -> list[tuple[str, Any]]:
    hints = get_type_hints(kind)
    return [(name, hints[name]) for name in kind.__struct_fields__]


def texts_of(value: Any, path: str = "report") -> list[tuple[str, str]]:
    """Every text in a report, keys of dictionaries included, with the path of its field."""
    if isinstance(value, str):
        return [(path, value)]
    if isinstance(value, msgspec.Struct):
        return [each for name in value.__struct_fields__ for each in texts_of(getattr(value, name), f"{path}.{name}")]
    if isinstance(value, dict):
        keys = [each for key in value for each in texts_of(key, f"{path}{{key}}")]
        return keys + [each for item in value.values() for each in texts_of(item, f"{path}{{}}")]
    if isinstance(value, list | tuple):
        return [each for item in value for each in texts_of(item, f"{path}[]")]
    return []


def graphs_run(*seen: tuple[str, str], events: tuple[Any, ...] = ()) -> RunLog:
    """A run whose compile 0/0 wrote these (stage, text)."""
    texts = {str(number): text for number, (_, text) in enumerate(seen)}
    graphs = [GraphSeen(id="0/0", stage=stage, text=str(number)) for number, (stage, _) in enumerate(seen)]
    run = run_of(start(), *graphs, *events)
    run.read_text = lambda name: texts.get(name, "")
    return run

"""Turns whatever a target raises into the answer to a command: a kind, and one line."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.capture import environment
from dynalyze.capture.bench.protocol import Failure
from dynalyze.capture.inputs import Misuse

_LONGEST = 500
_EXPLAINED = "Explanation:"
_MEMORY_CLASSES = ("OutOfMemoryError", "MemoryError")
_MEMORY_TEXTS = ("out of memory", "can't allocate memory", "cannot allocate memory")


class Failed(Exception):
    """Something could not be measured; `kind` is a protocol.Failure."""

    def __init__(self, kind: Failure, message: str) -> None:
        super().__init__(message)
        self.kind: Failure = kind
        self.message = message


def answer_of(error: BaseException, kind: Failure) -> dict[str, object]:
    """The answer for `error`, raised where a failure is of `kind` unless the error itself says more."""
    if reason := environment.torch_refusal(error):
        return {"ok": False, "error": {"kind": "misuse", "message": reason}}
    return {"ok": False, "error": {"kind": kind_of(error, kind), "message": one_line(error)}}


def kind_of(error: BaseException, otherwise: Failure) -> Failure:
    """The kind of a failure; any error in the chain may tell of memory, for compilers wrap what they meet."""
    if isinstance(error, Failed):
        return error.kind
    if isinstance(error, Misuse):
        return "misuse"
    for each in _chain(error):
        if any(cls.__name__ in _MEMORY_CLASSES for cls in type(each).__mro__):
            return "out_of_memory"
        if isinstance(each, RuntimeError) and any(text in str(each).lower() for text in _MEMORY_TEXTS):
            return "out_of_memory"
    return otherwise


def one_line(error: BaseException) -> str:
    """The class and the first line of its message that says anything; a heading takes the line below it along."""
    text = str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # "backend='inductor' raised:" says nothing without the line below it.
    first = " ".join(lines[: 2 if lines and lines[0].endswith(":") else 1])
    if len(lines) > 1 and lines[1].startswith(_EXPLAINED):  # The type of a graph break alone does not say what failed.
        first += f": {lines[1].removeprefix(_EXPLAINED).strip()}"
    if isinstance(error, (Failed, Misuse)):
        return first[:_LONGEST]
    if isinstance(error, SystemExit):
        return f"the target left with sys.exit({error.code!r})"[:_LONGEST]
    name = type(error).__name__
    return (f"{name}: {first}" if first else name)[:_LONGEST]


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        inner = getattr(error, "inner_exception", None)  # As torch's BackendCompilerFailed has it.
        error = inner if isinstance(inner, BaseException) else error.__cause__ or error.__context__


def reset_traceback(error: BaseException) -> None:
    """Let go of the frames of a failed call: they hold its tensors, which would count as memory in use."""
    for each in _chain(error):
        each.__traceback__ = None

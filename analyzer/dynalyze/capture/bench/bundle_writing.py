"""Writes the calls that a program made into a file of the run, for the processes that measure to make them again."""

from __future__ import annotations

import contextlib
import inspect
import os
import shutil
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import torch

from dynalyze.capture.bench import pickling
from dynalyze.capture.bench.bundle import BUNDLE_FILE, Bundle, BundledCall, digest_of
from dynalyze.capture.call_context import Modes, ModuleStates, RandomState
from dynalyze.capture.calls import Call, Recorder, choose, name_of
from dynalyze.capture.clone import CannotClone, freeze
from dynalyze.capture.compiled_recording import CompiledRecording, Written
from dynalyze.capture.events import BundleWritten
from dynalyze.capture.inputs import Inputs

BYTE_CAP = 16 << 30
Made: TypeAlias = tuple[str, str, int]
"""Name of the callable, signature of the call as a text, number of calls."""
_PARAMETERS_NOTE = "Parameters are those that the program ended with, in every call."


@dataclass
class Collected:
    """The calls to write, with the callables they go to; `cut` says what was not recorded."""

    targets: list[Any] = field(default_factory=list)
    calls: list[BundledCall] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    written: list[Written | None] = field(default_factory=list)
    cut: list[str] = field(default_factory=list)
    made: list[Made] = field(default_factory=list)


def from_recordings(compiled: CompiledRecording | None, eager: Recorder | None) -> Collected | None:
    """The calls of a program's compiled callables, or else of its modules; None where no call can be made again."""
    if compiled is not None:
        compiled.recorder.stop()
        if choose(compiled.recorder):
            return _from_recorder(compiled.recorder, compiled.written)
    if eager is not None and choose(eager):
        return _from_recorder(eager, [])
    return None


def _from_recorder(recorder: Recorder, written: list[Written]) -> Collected:
    """A callable that the program compiled in two ways is listed twice, so that it can be compiled so again."""
    made = Collected(cut=recorder.cut, made=calls_made(recorder))
    known: dict[tuple[int, int | None], int] = {}
    for call in choose(recorder):
        number = known.setdefault((id(call.module), call.compiled_by), len(made.targets))
        if number == len(made.targets):
            made.targets.append(call.module if written else _uncompiled(call.module))
            made.names.append(name_of(call.module))
            made.written.append(None if call.compiled_by is None else written[call.compiled_by])
        made.calls.append(_bundled(call, number))
    return made


def calls_made(recorder: Recorder) -> list[Made]:
    """All calls that the program made, kept or not: by what they were given, how often it was."""
    return [(name_of(seen.module), seen.text, seen.calls) for seen in recorder.signatures]


def from_examples(model: Any, calls: list[Inputs], *, backward: bool) -> Collected:
    """Example inputs of a model, as if the program had called it with them.

    Raises:
        CannotClone: an input cannot be copied.
    """
    made = Collected([_uncompiled(model)], names=[name_of(model)], written=[None])
    state, _ = ModuleStates().take(model, BYTE_CAP)
    for call in calls:
        frozen = freeze(tuple(call), BYTE_CAP)
        made.calls.append(BundledCall(0, frozen, Modes.now(), state, RandomState.now(), backward))
    return made


def write_examples(
    model: Any, calls: list[Inputs], run: Path, cloudpickle: str | None, *, backward: bool
) -> BundleWritten:
    """Write example inputs of a model; takes and returns what `write` does."""
    try:
        made = from_examples(model, calls, backward=backward)
    except CannotClone as error:
        return BundleWritten(error=f"an input cannot be copied: {error}")
    return write(made, run, cloudpickle)


def write(collected: Collected, run: Path, cloudpickle: str | None) -> BundleWritten:
    """Write the bundle and return the event of it; its `error` says why there is none.

    Without the folder of `cloudpickle` (None) nothing is written: the event holds which calls there were.
    """
    began = time.perf_counter()
    event = BundleWritten(
        calls=len(collected.calls), names=collected.names, backwards=sum(call.backward for call in collected.calls),
        written=any(each is not None for each in collected.written),
        options=[options_given(each) for each in collected.written if each is not None],
        made=collected.made, cut=collected.cut,
        sys_path=list(sys.path), arguments=list(sys.argv), folder=_current_folder(),
    )  # fmt: skip
    if cloudpickle is None:
        return event
    path = run / BUNDLE_FILE
    try:
        _write(collected, path, cloudpickle, event)
    except Exception as error:
        with contextlib.suppress(OSError):
            path.unlink()
        event.error = str(error) if isinstance(error, pickling.CannotPickle) else f"{type(error).__name__}: {error}"
    event.seconds = time.perf_counter() - began
    return event


def nothing(compiled: CompiledRecording | None, eager: Recorder | None) -> BundleWritten:
    """The event where no call can be made again: the reason, in a sentence."""
    cut = [*(compiled.unsupported if compiled else ()), *(compiled.recorder.cut if compiled else ())]
    cut += eager.cut if eager else []
    reason = "no call of a module or of a compiled function was seen in the program's main process"
    if eager is None:
        reason = "the program did not import torch"
    return BundleWritten(cut=cut, error=cut[0] if cut else reason)


def _write(collected: Collected, path: Path, cloudpickle: str, event: BundleWritten) -> None:
    package = pickling.load_cloudpickle(cloudpickle)
    written, lost = _as_written(collected.written, package)
    bundle = Bundle(collected.targets, collected.calls, collected.names, written)
    pickling.save(bundle, path, package, min(BYTE_CAP, shutil.disk_usage(path.parent).free // 2))
    event.file, event.digest, event.nbytes = BUNDLE_FILE, digest_of(path), path.stat().st_size
    event.cannot_write = lost
    event.notes = [*([_PARAMETERS_NOTE] if event.backwards else []), *([lost] if lost else [])]


def options_given(written: Written) -> dict[str, Any]:
    """The arguments of torch.compile that differ from its defaults, as JSON for people: functions by their names."""
    defaults = {name: each.default for name, each in inspect.signature(torch.compile).parameters.items()}
    return {
        name: _plain(value)
        for name, value in written.arguments.items()
        if not (name in defaults and type(value) is type(defaults[name]) and value == defaults[name])
    }


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return getattr(value, "__qualname__", type(value).__qualname__)


def _as_written(written: list[Written | None], package: Any) -> tuple[list[bytes | Written | None], str]:
    """How the program compiled, each entry by itself: a backend may be a function that cannot travel. Then the second
    value says why.
    """
    made: list[bytes | Written | None] = []
    lost = ""
    for each in written:
        try:
            made.append(None if each is None else pickling.dumps(each, package))
        except Exception as error:
            made.append(b"")
            lost = f"The program's own arguments of torch.compile cannot travel: {type(error).__name__}: {error}"
    return made, lost


def _uncompiled(target: Any) -> Any:
    """The module behind one that torch.compile returned."""
    return getattr(target, "_orig_mod", target)


def _bundled(call: Call, number: int) -> BundledCall:
    kept = call.kept
    assert kept is not None
    return BundledCall(number, kept.inputs, kept.modes, kept.state, kept.random, call.backward)


def _current_folder() -> str:
    try:
        return os.getcwd()  # noqa: PTH109 - as the program sees it.
    except OSError:
        return ""

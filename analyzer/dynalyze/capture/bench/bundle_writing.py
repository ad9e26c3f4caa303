"""Writes the calls that a program made into a file of the run, for the processes that measure to make them again."""

from __future__ import annotations

import contextlib
import inspect
import logging
import os
import shutil
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from dynalyze.capture import side_effects
from dynalyze.capture.bench import pickling
from dynalyze.capture.bench.bundle import BUNDLE_FILE, Bundle, BundledCall, digest_of
from dynalyze.capture.bench.monkey_patches import find_patches
from dynalyze.capture.call_context import Modes, ModuleStates, RandomState
from dynalyze.capture.calls import CompiledAs, CompiledRecording, KeptCall, Recorder, choose
from dynalyze.capture.clone import CannotClone, freeze
from dynalyze.capture.events import BundleWritten
from dynalyze.capture.held import name_of
from dynalyze.capture.inputs import Inputs

BYTE_CAP = 16 << 30
_PARAMETERS_NOTE = "Benchmark calls use the final weights."


@dataclass
class Collected:
    """The calls to write; `cut` says what was not recorded, and `made` lists all calls that the program made, kept or
    not: name of the callable, signature of the call as a text, number of calls.
    """

    bundle: Bundle
    cut: list[str] = field(default_factory=list)
    made: list[tuple[str, str, int]] = field(default_factory=list)


def from_recordings(compiled: CompiledRecording | None, eager: Recorder | None) -> Collected | None:
    """The calls of a program's compiled callables, or else of its modules; None where no call can be made again.

    A callable that the program compiled in two ways is listed twice, so that it can be compiled so again.
    """
    recorder, written, chosen = eager, [], []
    if compiled is not None:
        compiled.recorder.stop()
        if chosen := choose(compiled.recorder):
            recorder, written = compiled.recorder, compiled.written
    chosen = chosen or (choose(recorder) if recorder is not None else [])
    if recorder is None or not chosen:
        return None
    bundle = Bundle([], [], [], [])
    known: dict[tuple[int, int | None], int] = {}
    for call in chosen:
        number = known.setdefault((id(call.held), call.compiled_by), len(bundle.targets))
        if number == len(bundle.targets):
            bundle.targets.append(call.module if written else _uncompiled(call.module))
            bundle.names.append(call.held.name)
            bundle.written.append(None if call.compiled_by is None else written[call.compiled_by])
        assert call.kept is not None
        bundle.calls.append(BundledCall(number, call.kept, call.backward, call.backward_twice))
    made = [(seen.name, seen.text, seen.calls) for seen in recorder.signatures]
    return Collected(bundle, recorder.cut, made)


def from_examples(model: Any, calls: list[Inputs], *, backward: bool) -> Collected:
    """Example inputs, as if the program had called the model with them. Raises CannotClone."""
    bundle = Bundle([_uncompiled(model)], [], [name_of(model)], [None])
    state, _ = ModuleStates().take(model, BYTE_CAP)
    for call in calls:
        frozen = freeze(tuple(call), BYTE_CAP)
        kept = KeptCall(frozen, Modes.now(), state, RandomState.now(), frozen.nbytes)
        bundle.calls.append(BundledCall(0, kept, backward))
    return Collected(bundle)


def write_examples(
    model: Any, calls: list[Inputs], run: Path, cloudpickle: str | None, *, backward: bool
) -> BundleWritten:
    """Write example inputs of a model; takes and returns what `write` does."""
    try:
        return write(from_examples(model, calls, backward=backward), run, cloudpickle)
    except CannotClone as error:
        return BundleWritten(error=f"an input cannot be copied: {error}")


def write(collected: Collected, run: Path, cloudpickle: str | None, most: int = BYTE_CAP) -> BundleWritten:
    """Write the bundle, of `most` bytes of tensors, and return the event of it; its `error` says why there is none.

    Without the folder of `cloudpickle` (None) nothing is written: the event holds which calls there were.
    """
    began = time.perf_counter()
    bundle = replace(collected.bundle, written=list(collected.bundle.written), levels=_levels())
    event = BundleWritten(
        calls=len(bundle.calls), names=bundle.names, backwards=sum(call.backward for call in bundle.calls),
        written=any(each is not None for each in bundle.written),
        options=[options_given(each) for each in bundle.written if isinstance(each, CompiledAs)],
        made=collected.made, cut=collected.cut, sys_path=list(sys.path), arguments=list(sys.argv),
    )  # fmt: skip
    with contextlib.suppress(OSError):
        event.folder = os.getcwd()  # noqa: PTH109 - as the program sees it.
    if cloudpickle is None:
        return event
    path = run / BUNDLE_FILE
    try:
        package = pickling.load_cloudpickle(cloudpickle)
        lost = _pickle_arguments(bundle, package)
        bundle.patches = find_patches(bundle.targets, package)
        room = min(most, shutil.disk_usage(path.parent).free // 2, _room_on_device())
        with side_effects.refused([run]):  # `__getstate__` and `__reduce__` are the user's code.
            pickling.save(bundle, path, package, room)
        event.file, event.digest, event.nbytes = BUNDLE_FILE, digest_of(path), path.stat().st_size
        event.cannot_write = lost
        event.notes = [*([_PARAMETERS_NOTE] if event.backwards else []), *([lost] if lost else [])]
    except Exception as error:
        with contextlib.suppress(OSError):
            path.unlink()
        event.error = str(error) if isinstance(error, pickling.CannotPickle) else f"{type(error).__name__}: {error}"
        event.too_large = isinstance(error, pickling.PickleTooLarge)
    except side_effects.Refused as refused:
        path.unlink(missing_ok=True)
        event.error = f"its calls are not written for another process: {refused.effect}"
    event.seconds = time.perf_counter() - began
    return event


def _levels() -> dict[str, int]:
    """The levels that the program gave to loggers, "" for the root, by their names."""
    every = {"": logging.root, **logging.root.manager.loggerDict}
    own = {name: each for name, each in every.items() if not name.startswith(("torch", "dynalyze"))}
    return {name: each.level for name, each in own.items() if isinstance(each, logging.Logger) and each.level}


def _room_on_device() -> int:
    """How many bytes two processes can have on the GPU, each with as much again to work with; no limit without one."""
    if not torch.cuda.is_initialized():
        return BYTE_CAP
    return int(torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory) // 4


def nothing(compiled: CompiledRecording | None, eager: Recorder | None) -> BundleWritten:
    """The event for a program without a call that can be repeated, with the reason."""
    cut = [*compiled.unsupported, *compiled.recorder.cut] if compiled else []
    cut += eager.cut if eager else []
    reason = "no call of a module or of a compiled function was seen in the program's main process"
    if eager is None:
        reason = "the program did not import torch"
    return BundleWritten(cut=cut, error=cut[0].rstrip(".") if cut else reason)


def options_given(written: CompiledAs) -> dict[str, Any]:
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


def _pickle_arguments(bundle: Bundle, package: Any) -> str:
    """Pickle how the program compiled, each entry by itself: a backend may be a function that cannot travel.

    Returns why one of them cannot, "" where all can.
    """
    lost = ""
    for number, each in enumerate(bundle.written):
        try:
            bundle.written[number] = None if each is None else package.dumps(each)
        except Exception as error:
            bundle.written[number] = b""
            lost = f"The program's own arguments of torch.compile cannot travel: {type(error).__name__}: {error}"
    return lost


def _uncompiled(target: Any) -> Any:
    """The module behind one that torch.compile returned."""
    return getattr(target, "_orig_mod", target)

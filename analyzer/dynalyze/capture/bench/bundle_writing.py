"""Writes the calls that a program made into a file of the run, for the processes that measure to make them again."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dynalyze.capture.ambient import Modes, RandomState
from dynalyze.capture.bench import pickling
from dynalyze.capture.bench.bundle import BUNDLE_FILE, Bundle, BundledCall, digest_of
from dynalyze.capture.calls import Call, Recorder, name_of
from dynalyze.capture.clone import CannotClone, freeze
from dynalyze.capture.compiled_recording import CompiledRecording
from dynalyze.capture.inputs import Inputs
from dynalyze.capture.module_state import ModuleStates
from dynalyze.capture.replay import as_called, choose

BYTE_CAP = 16 << 30
_PARAMETERS_NOTE = "Parameters are those that the program ended with, in every call."


@dataclass
class Collected:
    """The calls to write, with the callables they go to; `cut` says what was not recorded."""

    targets: list[Any] = field(default_factory=list)
    calls: list[BundledCall] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    arguments: list[dict[str, Any] | None] = field(default_factory=list)
    cut: list[str] = field(default_factory=list)


def from_recordings(compiled: CompiledRecording | None, eager: Recorder | None) -> Collected | None:
    """What a program gave to its compiled callables, or else to its modules; None where no call can be made again."""
    if compiled is not None:
        compiled.recorder.stop()
        if choose(compiled.recorder):
            return _from_recorder(compiled.recorder, compiled.arguments)
    if eager is not None and choose(eager):
        return _from_recorder(eager, {})
    return None


def _from_recorder(recorder: Recorder, arguments: dict[int, dict[str, Any]]) -> Collected:
    made = Collected(cut=recorder.cut)
    known: dict[int, int] = {}
    for call in choose(recorder):
        number = known.setdefault(id(call.module), len(made.targets))
        if number == len(made.targets):
            made.targets.append(as_called(call.module))
            made.names.append(name_of(call.module))
            made.arguments.append(arguments.get(id(call.module)))
        made.calls.append(_bundled(call, number))
    return made


def write_examples(model: Any, calls: list[Inputs], run: Path, cloudpickle: str, *, backward: bool) -> dict[str, Any]:
    """Write example inputs of a model, as if the program had called it with them; returns as `write` does."""
    made = Collected([as_called(model)], names=[name_of(model)], arguments=[None])
    try:
        state, _ = ModuleStates().take(model, BYTE_CAP)
        for call in calls:
            frozen = freeze(tuple(call), BYTE_CAP)
            made.calls.append(BundledCall(0, frozen, Modes.now(), state, RandomState.now(), backward))
    except CannotClone as error:
        return {"file": "", "error": f"an input cannot be copied: {error}", "calls": 0}
    return write(made, run, cloudpickle)


def write(collected: Collected, run: Path, cloudpickle: str) -> dict[str, Any]:
    """Write the bundle and return the fields of the event that tells of it; `error` says why there is none."""
    began = time.perf_counter()
    path = run / BUNDLE_FILE
    told: dict[str, Any] = {
        "file": "", "digest": "", "nbytes": 0, "error": "", "calls": len(collected.calls), "names": collected.names,
        "backwards": sum(call.backward for call in collected.calls),
        "written": any(arguments is not None for arguments in collected.arguments),
        "cut": collected.cut, "notes": [],
        "sys_path": list(sys.path), "arguments": list(sys.argv), "folder": _current_folder(),
    }  # fmt: skip
    try:
        told.update(_written(collected, path, cloudpickle))
    except Exception as error:
        with contextlib.suppress(OSError):
            path.unlink()
        told["error"] = str(error) if isinstance(error, pickling.CannotPickle) else f"{type(error).__name__}: {error}"
    return {**told, "seconds": time.perf_counter() - began}


def nothing(compiled: CompiledRecording | None, eager: Recorder | None) -> dict[str, Any]:
    """The fields of the event where no call can be made again: the reason, in a sentence."""
    cut = [*(compiled.unsupported if compiled else ()), *(compiled.recorder.cut if compiled else ())]
    cut += eager.cut if eager else []
    reason = "no call of a module or of a compiled function was seen in the program's main process"
    if eager is None:
        reason = "the program did not import torch"
    return {"file": "", "calls": 0, "cut": cut, "error": cut[0] if cut else reason}


def _written(collected: Collected, path: Path, cloudpickle: str) -> dict[str, Any]:
    package = pickling.load_cloudpickle(cloudpickle)
    written, notes = _as_written(collected.arguments, package)
    if any(call.backward for call in collected.calls):
        notes.append(_PARAMETERS_NOTE)
    bundle = Bundle(collected.targets, collected.calls, collected.names, written)
    pickling.save(bundle, path, package, min(BYTE_CAP, shutil.disk_usage(path.parent).free // 2))
    return {"file": BUNDLE_FILE, "digest": digest_of(path), "nbytes": path.stat().st_size, "notes": notes}


def _as_written(arguments: list[dict[str, Any] | None], package: Any) -> tuple[list[bytes], list[str]]:
    """The program's own arguments of torch.compile, each by itself: a backend may be a function that cannot travel."""
    made, notes = [], []
    for each in arguments:
        try:
            made.append(b"" if each is None else pickling.dumps(each, package))
        except Exception as error:
            made.append(b"")
            notes.append(f"The program's own arguments of torch.compile cannot travel: {type(error).__name__}: {error}")
    return made, notes


def _bundled(call: Call, number: int) -> BundledCall:
    kept = call.kept
    assert kept is not None
    return BundledCall(number, kept.inputs, kept.modes, kept.state, kept.random, call.backward)


def _current_folder() -> str:
    try:
        return os.getcwd()  # noqa: PTH109 - as the program sees it.
    except OSError:
        return ""

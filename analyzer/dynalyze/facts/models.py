"""What is known of the model of an `hf:` target: what was built, and why it never came to be compiled."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dynalyze.events.log import RunLog
from dynalyze.events.types import EagerCall, ModelBuilt, ObjectStarted, StageFailed
from dynalyze.report import FailedStage, TargetModel

_NOT_BUILT = {
    "config": "its configuration cannot be had",
    "weights": "its weights cannot be had",
    "inputs": "no inputs could be made for it",
}


def target_model(run: RunLog) -> TargetModel | None:
    """The model that was built; None for targets of another kind, or where it never was."""
    built, eager = _only(run, ModelBuilt), _only(run, EagerCall)
    if built is None:
        return None
    return TargetModel(
        built.class_name,
        built.family,
        built.parameters,
        built.inputs,
        warm=eager is not None,
        eager_seconds=None if eager is None else round(eager.seconds, 3),
    )


def failed_stage(run: RunLog) -> FailedStage | None:
    """Why there was nothing to compile; None where it came to that."""
    told = _only(run, StageFailed)
    if told is None:
        return None
    return FailedStage(told.stage, told.exception, told.message, told.file, told.line, told.out_of_memory)


def why_never_compiled(name: str, failed: FailedStage) -> str:
    """The failure in one sentence: `LlamaModel could not be built: ValueError: ... (modeling_llama.py:12).`"""
    if failed.stage == "eager":
        what = "runs out of memory in eager already" if failed.out_of_memory else "fails in eager already"
    elif failed.out_of_memory:
        what = "could not be built: out of memory"
    else:
        what = f"could not be built{_reason(failed.stage)}"
    place = f" ({Path(failed.file).name}:{failed.line})" if failed.file else ""
    return f"{name} {what}: {failed.message.rstrip('.')}{place}."


def doing(run: RunLog, name: str) -> str:
    """What was going on with a model before it was compiled, as a clause; empty once it was."""
    if _only(run, ObjectStarted) is not None:
        return ""
    return f"while {name} ran in eager" if _only(run, ModelBuilt) is not None else f"while {name} was being built"


def notes(run: RunLog) -> Iterator[str]:
    """What a reader has to know of a model that was built, one sentence each."""
    built, started = _only(run, ModelBuilt), _only(run, ObjectStarted)
    if built is not None:
        yield from (*built.notes, *(started.notes if started is not None else ()))


def _reason(stage: str) -> str:
    return f", {_NOT_BUILT[stage]}" if stage in _NOT_BUILT else ""


def _only(run: RunLog, kind: type[Any]) -> Any:
    """The event of this kind of the main process."""
    for log in run.processes[:1]:
        for event in log.events:
            if isinstance(event, kind):
                return event
    return None

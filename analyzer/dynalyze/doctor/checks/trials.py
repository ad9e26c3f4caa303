"""torch.compile itself, tried."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.doctor.records import Facts, Line, Trial
from dynalyze.render.amounts import duration


def check(facts: Facts) -> Iterator[Line]:
    """Each backend and device that was tried. One device that works is enough for compile to work."""
    inductor = [trial for trial in facts.trials if trial.backend == "inductor"]
    none_works = bool(inductor) and all(trial.error for trial in inductor)
    for trial in facts.trials:
        yield _line(trial, fatal=none_works or trial.backend == "eager")


def _line(trial: Trial, *, fatal: bool) -> Line:
    name = f"compile with {trial.backend} on {trial.device}"
    if not trial.error:
        return Line(name, "ok", f"a small function came out right, in {duration(trial.seconds)}")
    if trial.unfinished:
        return Line(name, "unknown", trial.error, "dynalyze doctor --timeout 600")
    return Line(name, "problem", trial.error, fatal=fatal)

"""torch.compile itself, tried."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.doctor.records import Facts, Line, Trial
from dynalyze.text.amounts import duration

GROUP = "torch.compile, tried"

_NAMES = {"eager": "Dynamo alone", "inductor cpu": "Inductor, CPU", "inductor cuda": "Inductor, GPU"}


def check(facts: Facts) -> Iterator[Line]:
    """Each backend and device that was tried. One device that works is enough for compile to work."""
    if not facts.imports:
        return
    if facts.switched_off:
        yield Line("torch.compile", "unknown", "not tried: it is switched off")
        return
    inductor = [trial for trial in facts.trials if trial.backend == "inductor"]
    none_works = bool(inductor) and all(trial.error for trial in inductor)
    for trial in facts.trials:
        yield _line(trial, fatal=none_works or trial.backend == "eager")
    if facts.no_compiler:
        yield Line("Inductor, CPU", "unknown", "not tried: no C++ compiler works")


def _line(trial: Trial, *, fatal: bool) -> Line:
    backend = trial.backend if trial.backend == "eager" else f"{trial.backend} {trial.device}"
    name = _NAMES.get(backend, backend)
    if not trial.error:
        return Line(name, "ok", f"a small function came out right, in {duration(trial.seconds)}")
    if trial.unfinished:
        return Line(name, "unknown", trial.error, "dynalyze doctor --timeout 600")
    return Line(name, "problem", trial.error, fatal=fatal)

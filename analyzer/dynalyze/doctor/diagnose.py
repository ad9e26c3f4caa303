"""Judges the facts by every check, and sums them up."""

from __future__ import annotations

from msgspec.structs import replace

import dynalyze
from dynalyze.doctor.checks import caches, compiler, gpu, packages, torch_itself, trials, variables
from dynalyze.doctor.records import Diagnosis, Facts, Line
from dynalyze.text.amounts import count_of

CHECKS = (torch_itself, compiler, gpu, caches, variables, packages, trials)


def diagnose(facts: Facts) -> Diagnosis:
    """Every line of every check, in their order."""
    lines = [replace(line, group=module.GROUP) for module in CHECKS for line in module.check(facts)]
    fatal = [line for line in lines if line.fatal and line.status == "problem"]
    return Diagnosis(dynalyze.__version__, not fatal, _summary(facts, lines, fatal), lines, facts)


def _summary(facts: Facts, lines: list[Line], fatal: list[Line]) -> str:
    if fatal:
        return f"torch.compile cannot work here. {fatal[0].check}: {fatal[0].found}."
    problems = sum(line.status == "problem" for line in lines)
    warnings = sum(line.status == "warning" for line in lines)
    told = [count_of(problems, "problem")] if problems else []
    told += [count_of(warnings, "warning")] if warnings else []
    beside = f", with {' and '.join(told)}" if told else ""
    if not any(trial.backend == "inductor" and not trial.error for trial in facts.trials):
        return f"It is not known whether torch.compile works here{beside}."
    return f"torch.compile works here{beside}."

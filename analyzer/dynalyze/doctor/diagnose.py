"""Judges the facts by every check, and sums them up."""

from __future__ import annotations

import dynalyze
from dynalyze.doctor.checks import caches, compiler, gpu, packages, torch_itself, trials, variables
from dynalyze.doctor.records import Diagnosis, Facts, Line
from dynalyze.render.amounts import count_of

CHECKS = (torch_itself, compiler, gpu, caches, variables, packages, trials)


def diagnose(facts: Facts) -> Diagnosis:
    """Every line of every check, in their order."""
    lines = [line for module in CHECKS for line in module.check(facts)]
    fatal = [line for line in lines if line.fatal and line.status == "problem"]
    return Diagnosis(dynalyze.__version__, not fatal, _summary(lines=lines, fatal=fatal), lines, facts)


def _summary(*, lines: list[Line], fatal: list[Line]) -> str:
    if fatal:
        return f"torch.compile cannot work here. {fatal[0].check}: {fatal[0].found}."
    problems = sum(line.status == "problem" for line in lines)
    warnings = sum(line.status == "warning" for line in lines)
    if not problems and not warnings:
        return "torch.compile works here."
    told = [count_of(problems, "problem")] if problems else []
    told += [count_of(warnings, "warning")] if warnings else []
    return f"torch.compile works here, with {' and '.join(told)}."

"""`--attention-matrix`: every attention implementation with every dtype and cache, each tried in processes of its own.

A combination that crashes or hangs costs its own cell. What cannot be had on this device, or with what is installed,
is a cell `not_here` with transformers' own reason, and never a failure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

from dynalyze.audit.attention_cells import (
    STATIC,
    Available,
    Combination,
    ProcessTrials,
    Trials,
    add_accuracy,
    add_speed,
    caches_of,
    not_here,
    recorded_cell,
)
from dynalyze.bench.plan import Plan
from dynalyze.bench.workers import Limits, Stopped, WorkerFailed, WorkerPool
from dynalyze.capture.settings import LANGUAGE_PHASES
from dynalyze.facts.attention_matrix import RAN, is_own
from dynalyze.launch.spec import TargetSpec
from dynalyze.launch.streams import Streams
from dynalyze.report.audit import AttentionMatrix
from dynalyze.text.errors import UsageError
from dynalyze.text.visible import say

DTYPES = ("float32", "bfloat16", "float16")

_MOST_OF_THE_TIME = 0.25
"""The share of the whole that one process may take."""

_STOPPED = {"interrupted": "Interrupted", "out_of_time": "The time was up"}


def check_target(target: TargetSpec, phase: str = "forward") -> None:
    """Refuse, before anything runs, what has no attention to choose.

    Raises:
        UsageError: a program, or a phase of a language model for an object.
    """
    if not target.rebuilt:
        raise UsageError(
            f"--attention-matrix makes the model anew for each cell, which {target.spec} cannot give: name an "
            "architecture of transformers (hf:NAME), or a FILE:NAME that makes the model"
        )
    if target.asked is None and phase in LANGUAGE_PHASES:
        raise UsageError(f"--attention-matrix in phase {phase} is for hf:NAME; a FILE:NAME is called as it is")


def check_model(target: TargetSpec, plan: Plan) -> None:
    """Refuse what turns out to be no model of transformers once it is loaded, in a process of its own.

    Raises:
        UsageError: it is none. A target that fails by itself is told by those who run it.
        KeyboardInterrupt: Ctrl-C was pressed meanwhile.
    """
    if target.asked is not None:
        return
    streams = Streams(Path(target.path or target.stem).name, quiet=True)
    with WorkerPool(streams, Limits(plan.timeout), python=plan.python) as pool:
        try:
            ProcessTrials(target, plan, pool).available((), DTYPES)
        except WorkerFailed:
            return
        except Stopped as stop:
            raise KeyboardInterrupt from stop


def attention_matrix(
    target: TargetSpec,
    plan: Plan,
    *,
    attentions: tuple[str, ...] | None = None,
    dtypes: tuple[str, ...] | None = None,
    caches: tuple[str, ...] | None = None,
    progress: Callable[[str], None] | None = None,
) -> AttentionMatrix:
    """Try every combination as the plan says: its first configuration and workload, timed with `seconds` alone.

    Without `attentions` those are tried that the model's class supports. Ctrl-C, and the end of `plan.total`, end it
    with the cells that are finished.

    Raises:
        UsageError: the target is no model of transformers, or something that was asked for is unknown.
    """
    work = plan.works[0]
    check_target(target, work.phase)
    if plan.total is not None:  # What hangs must not cost all others.
        plan = replace(plan, timeout=min(plan.timeout, plan.total * _MOST_OF_THE_TIME))
    caches = caches or caches_of(work.phase)
    matrix = AttentionMatrix(caches=[each for each in caches if each], phase=work.phase)
    matrix.own_cache = "" if caches == ("",) else (STATIC if plan.static_cache else "dynamic")
    matrix.backend = (plan.configurations or (plan.default,))[0].backend
    streams = Streams(Path(target.path or target.stem).name, quiet=plan.quiet, once=True)
    show = progress or say
    with WorkerPool(streams, Limits(plan.timeout, plan.total), python=plan.python) as pool:
        trials = ProcessTrials(target, plan, pool)
        try:
            available = trials.available(attentions or (), dtypes or DTYPES)
        except WorkerFailed as error:
            matrix.notes.append(f"Nothing could be tried: {error.message}")
            return matrix
        except Stopped as stop:
            return _stop(matrix, stop)
        _describe(matrix, available, dtypes or DTYPES)
        fill(matrix, available, caches, trials, show)
    return matrix


def fill(
    matrix: AttentionMatrix, available: Available, caches: Sequence[str], trials: Trials, show: Callable[[str], None]
) -> None:
    """Try the combinations one after another, then time those that ran: a time limit costs speeds before cells."""
    combinations = [
        Combination(attention, dtype, cache)
        for attention, cache, dtype in product(available.names, caches, matrix.dtypes)
    ]
    try:
        for number, combination in enumerate(combinations, 1):
            if combination.attention in available.refused:
                reason = available.refused[combination.attention]
                matrix.cells.append(not_here(f"cell{number}", combination, reason))
                continue
            show(f"attention matrix, cell {number} of {len(combinations)}: {combination.name}")
            _try(matrix, f"cell{number}", combination, trials)
        _time(matrix, dict(zip((cell.id for cell in matrix.cells), combinations, strict=True)), trials, show)
    except Stopped as stop:
        _stop(matrix, stop)


def _time(
    matrix: AttentionMatrix, combinations: Mapping[str, Combination], trials: Trials, show: Callable[[str], None]
) -> None:
    """Time what ran, the target's own combination first."""
    if not trials.timed:
        return
    ran = [cell for cell in matrix.cells if cell.status in RAN]
    order = sorted(ran, key=lambda cell: not is_own(cell, matrix))
    for number, cell in enumerate(order, 1):
        combination = combinations[cell.id]
        show(f"attention matrix, speed {number} of {len(order)}: {combination.name}")
        try:
            add_speed(cell, combination, trials)
        except Stopped as stop:
            for left in order[number - 1 :]:
                left.notes.append(f"{_STOPPED[stop.reason]} before it was timed.")
            raise


def _try(matrix: AttentionMatrix, name: str, combination: Combination, trials: Trials) -> None:
    """The cell is in the matrix as soon as it is known what became of it."""
    cell = recorded_cell(name, combination, trials)
    matrix.cells.append(cell)
    try:
        add_accuracy(cell, combination, trials)
    except Stopped as stop:
        cell.notes.append(f"{_STOPPED[stop.reason]} before its accuracy was known.")
        raise


def _describe(matrix: AttentionMatrix, available: Available, dtypes: Sequence[str]) -> None:
    matrix.attentions, matrix.dtypes = list(available.names), list(dict.fromkeys(dtypes))
    matrix.model, matrix.device = available.model, available.device
    matrix.own_attention, matrix.own_dtype = available.own_attention, available.own_dtype
    if available.unsupported:
        names = ", ".join(available.unsupported)
        matrix.notes.append(f"Not tried, for transformers' class {available.model} does not support it: {names}.")
    matrix.notes += [f"For {name} transformers takes {used} here." for name, used in available.replaced.items()]


def _stop(matrix: AttentionMatrix, stop: Stopped) -> AttentionMatrix:
    matrix.stopped = stop.reason
    return matrix

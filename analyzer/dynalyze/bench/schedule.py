"""The schedule: what happens in which process, and when. Only one process works at a time while anything is timed.

first calls   a new process with empty caches, alone
extras        the peaks of memory and the accuracy, each in a process of its own
pairs         in a round a fresh eager process takes turns with a fresh one of each configuration, one after the
              other in random order, and with another eager one: the control

All but first calls of what compiles, and memory, may be forked off a server that has done the imports.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dynalyze.bench.workers import Worker, WorkerFailed, WorkerPool
from dynalyze.capture.bench import commands
from dynalyze.capture.bench.protocol import CONCLUSIVE, VARIANTS, Answer, Command, WorkerRequest
from dynalyze.events.log import RunLog
from dynalyze.events.reading import read_run
from dynalyze.report.measurements import Pair

BLOCK_SECONDS = 0.05
_OF_A_VARIANT = ("verdict", "reason", "contracts")
_MOST_BLOCKS = 20
_FEWEST_BLOCKS = 2
# Samples that are kept of one block; of a longer one every second or n-th, so that all of its time is seen.
_MOST_SAMPLES = 50

# How long, and how often, a model is called until its calls are steady.
_COLD_WARMING = commands.Warm(30.0, 500)
PAIR_WARMING = commands.Warm(3.0, 300)
_BUDGET_WARMING = 0.01  # Of a budget: how long the calls of one process may take to become steady.
_BUDGET_ANSWERS = 0.1  # Of a budget: how long answers may take to compare in a process that was timed.


@dataclass(frozen=True)
class Arm:
    """One side of a pair: what runs, and the folder of its compiler's caches (None: where a program of the user's keeps
    them). `python` is another interpreter than that of the pool.
    """

    request: WorkerRequest
    caches: Path | None
    python: str | None = None


@dataclass(frozen=True)
class FirstCalls:
    """The answers of a process with empty caches."""

    load: commands.Loaded
    warm: commands.Warmed
    check: commands.Checked
    memory: commands.Peaks | None = None
    step_memory: commands.MeasuredSteps | None = None
    accuracy: dict[str, Any] | None = None


def first_calls(
    pool: WorkerPool, arm: Arm, *, memory: bool, new: bool, budget: float | None = None, step_memory: bool = False
) -> FirstCalls:
    """Load the model in a process of its own and call it until its calls are steady.

    A `new` process has imported nothing before. With `memory` its peak is measured in the end, which includes the
    compile; with `step_memory` each training step is looked at.
    """
    with pool.worker(arm.request, arm.caches, new=new, python=arm.python) as worker:
        load = worker.ask(commands.Load())
        warm = worker.ask(limits(_COLD_WARMING, budget))
        check = worker.ask(commands.Check())
        peaks = worker.ask(commands.MeasureMemory()) if memory else None
        return FirstCalls(load, warm, check, peaks, step_memory_of(worker) if step_memory else None)


@dataclass(frozen=True)
class RecordedProcess:
    """A process whose compiles were recorded in `run`, by the torch in this folder."""

    worker: Worker
    first: FirstCalls
    run: RunLog
    torch_folder: str


@contextmanager
def recorded(pool: WorkerPool, arm: Arm, budget: float | None) -> Iterator[RecordedProcess]:
    """A warm process whose compiles are recorded, to be asked more. Raises WorkerFailed."""
    with pool.worker(arm.request, arm.caches) as worker:
        load = worker.ask(commands.Load())
        warmed = worker.ask(recording(budget))
        first = FirstCalls(load, warmed, worker.ask(commands.Check()))
        yield RecordedProcess(worker, first, read_run(worker.folder), warmed.torch_folder)


def step_memory_of(worker: Worker) -> commands.MeasuredSteps:
    """What training steps keep, or the `problem`."""
    try:
        return worker.ask(commands.MeasureSteps())
    except WorkerFailed as error:
        return commands.MeasuredSteps(problem=error.message)


def extra(
    pool: WorkerPool, arm: Arm, command: Command[Answer], patience: float = math.inf, *, new: bool = False
) -> Answer:
    """The answer of a process of its own with warm caches. A `new` one has imported nothing before."""
    with _alone(pool, arm, patience, new=new) as worker:
        return worker.ask(command)


@contextmanager
def _alone(pool: WorkerPool, arm: Arm, patience: float, *, new: bool = False) -> Iterator[Worker]:
    with pool.worker(arm.request, arm.caches, new=new, python=arm.python) as worker:
        worker.end_after(patience)
        worker.ask(commands.Load())
        yield worker


def peaks(pool: WorkerPool, arm: Arm, patience: float) -> tuple[commands.Peaks, commands.Warmed]:
    """The peak memory of a process that does its own imports, and its first calls, with warm caches."""
    with _alone(pool, arm, patience, new=True) as worker:
        warm = worker.ask(PAIR_WARMING)
        return worker.ask(commands.MeasureMemory()), warm


def varied(pool: WorkerPool, arm: Arm, seconds: float) -> Iterator[dict[str, Any]]:
    """The accuracy test on variants of the inputs, in one process as long as it lives: name, verdict, reason,
    contracts. Variants for which there is no time are "not tried".
    """
    waiting, end = list(VARIANTS), time.monotonic() + seconds
    while waiting:
        with pool.worker(arm.request, arm.caches) as worker:
            worker.ask(commands.Load())
            while waiting:
                name = waiting.pop(0)
                if time.monotonic() > end:
                    yield {"name": name, "verdict": "not tried", "reason": f"{seconds:g} s were over"}
                    continue
                try:
                    answer = worker.ask(commands.CompareAnswers(variant=name))
                except WorkerFailed as error:
                    yield {"name": name, "verdict": "not comparable", "reason": error.message}
                    break  # It may have died of it.
                if answer["verdict"]:
                    yield {"name": name} | {key: answer[key] for key in _OF_A_VARIANT if key in answer}


@dataclass(frozen=True)
class Turns:
    """The samples of two processes, and the first calls of the second: if `forked`, it had imported the compiler before
    them.
    """

    pair: Pair
    first: FirstCalls
    forked: bool


class SharedArm:
    """A side that several pairs share: one process takes turns with the others of a round, one after the other. It is
    started with the first of them.
    """

    def __init__(self, pool: WorkerPool, arm: Arm) -> None:
        self._pool = pool
        self._arm = arm
        self._stack = ExitStack()
        self._started: tuple[Worker, commands.Warmed] | None = None

    def __enter__(self) -> SharedArm:
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def take_turns(
        self, arm: Arm, seconds: float, generator: random.Random, budget: float | None = None, *, answers: bool = False
    ) -> Turns:
        """Time it and a fresh process for this many seconds together: block by block, in random order.

        With `answers` the other is compared with eager in the end (`accuracy` of its first calls; None if that takes
        the whole test).
        """
        if self._started is None:
            (own,) = self._stack.enter_context(loaded([self._arm], self._pool, generator))
            self._started = own, own.ask(limits(PAIR_WARMING, budget))
        own, warmed = self._started
        with loaded([arm], self._pool, generator) as (other,):
            warm = other.ask(limits(PAIR_WARMING, budget))
            pair = Pair(*timed_turns([own, other], [warmed, warm], seconds, generator))
            check = other.ask(commands.Check())
            equal = _answers_at_once(other, budget) if answers else None
            return Turns(pair, FirstCalls(other.load, warm, check, accuracy=equal), other.forked)


def _answers_at_once(worker: Worker, budget: float | None) -> dict[str, Any] | None:
    """The accuracy of the code that a process has compiled; None if the whole test is needed."""
    worker.end_after(math.inf if budget is None else budget * _BUDGET_ANSWERS)
    try:
        answer = worker.ask(commands.CompareAnswers(at_once=True))
    except WorkerFailed:  # What was timed stands all the same.
        return None
    return answer if answer["verdict"] in CONCLUSIVE else None


@contextmanager
def loaded(arms: Sequence[Arm], pool: WorkerPool, generator: random.Random) -> Iterator[list[Worker]]:
    """Fresh processes that have loaded, in the order of the arms; they are started in random order."""
    with ExitStack() as stack:
        # Which process is oldest, and so may have got the best memory, must not depend on what it runs.
        order = generator.sample(range(len(arms)), len(arms))
        workers = {
            at: stack.enter_context(pool.worker(arms[at].request, arms[at].caches, python=arms[at].python))
            for at in order
        }
        # Two runs of one program at the same time could get into each other's way: they load one after the other. So do
        # forked ones: without imports to do, threads of torch that spin take more than the second core gives.
        is_program = arms[0].request.source.get("kind") == "program"
        together = not is_program and not all(worker.forked for worker in workers.values())
        for worker in workers.values():
            worker.send(commands.Load())
            if not together:
                worker.load = worker.receive(commands.Load)
        for worker in workers.values() if together else ():
            worker.load = worker.receive(commands.Load)
        yield [workers[at] for at in range(len(arms))]


def timed_turns(
    workers: Sequence[Worker], warmed: Sequence[commands.Warmed], seconds: float, generator: random.Random
) -> list[list[float]]:
    """The samples of warm processes, block by block in random order; of a long block only every n-th."""
    each = seconds / len(workers)
    steady_ms = max(float(min(warm.calls_ms[-3:], default=0.0)) for warm in warmed)
    blocks = block_count(each, steady_ms)
    samples: list[list[float]] = [[] for _ in workers]
    for turn in turns(blocks, generator, len(workers)):
        found = workers[turn].ask(commands.Block(each / blocks)).samples_ms
        samples[turn].extend(found[:: -(-len(found) // _MOST_SAMPLES) or 1])
    return samples


def turns(blocks: int, generator: random.Random, processes: int = 2) -> list[int]:
    """Whose turn it is, block by block: each process once a round, in random order within the round."""
    return [turn for _ in range(blocks) for turn in generator.sample(range(processes), processes)]


def block_count(seconds: float, pass_ms: float) -> int:
    """Into how many blocks an arm's seconds are split: many, but each long enough for two passes, since passes come
    before each that do not count.
    """
    return max(_FEWEST_BLOCKS, min(_MOST_BLOCKS, int(seconds / max(BLOCK_SECONDS, 2 * pass_ms / 1000))))


def limits(warming: commands.Warm, budget: float | None) -> commands.Warm:
    """The limit on warming up, if the whole benchmark has a budget."""
    return warming if budget is None else replace(warming, seconds=min(warming.seconds, budget * _BUDGET_WARMING))


def recording(budget: float | None) -> commands.Record:
    return commands.Record(**vars(limits(PAIR_WARMING, budget)))

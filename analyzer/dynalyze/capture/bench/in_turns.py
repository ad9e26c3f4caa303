"""Times eager and compiled in the process that made the calls, on the same parameters: for a model too large to copy,
or one whose tracing leaves no time for three pairs of processes.

The two take turns, as processes do elsewhere (bench/schedule.py); eager is timed twice in a turn, for the control. What
was compiled by the program is used as it is. What two processes differ by, as where their memory lies, is not in it.
"""

from __future__ import annotations

import contextlib
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from dynalyze.capture import side_effects
from dynalyze.capture.bench.accuracy import accuracy
from dynalyze.capture.bench.bundle import Bundle, RecordedWorkload
from dynalyze.capture.bench.call_workload import TrainWorkload
from dynalyze.capture.bench.configure import target_of
from dynalyze.capture.bench.failures import kind_of, one_line
from dynalyze.capture.bench.load import facts_of
from dynalyze.capture.bench.protocol import CONCLUSIVE, TURNS_SHARE, Configuration, Failure, WorkerRequest
from dynalyze.capture.bench.state_snapshot import left_as_found
from dynalyze.capture.bench.timing import Timer, block, lead_in, timer_for, warm
from dynalyze.capture.bench.validity import look, reason_against
from dynalyze.capture.bench.workload import Step, Workload
from dynalyze.capture.events import BundleWritten, TimedInTurns
from dynalyze.capture.settings import Phase, Placement
from dynalyze.capture.torch_private import runtime

_FEWEST, _MOST = 3, 10  # Turns.
_LONGEST_BLOCK = 0.5  # Seconds of timed calls of each arm in a turn, where a call is shorter.
_WARMING = 0.15  # Of the time: until the compiled calls are steady. The program has made them before.
# Three pairs of processes with their answers, on two quiet cores: seconds beside tracing, and how often they trace.
_BESIDE_TRACING, _TRACED = 17.0, 5
# Seconds until a program with torch alone compiles. What one takes longer, its imports take elsewhere too, so often.
_AT_ONCE, _IMPORTED = 2.5, 2
_LEAST = 1.0  # Seconds: with fewer no figure is worth showing.
_MOST_SHARE = 0.7  # Of the time, where three turns take longer than their share: three pairs of processes take more.
_FITS = 0.7  # Of the time: what three turns of eager calls alone may take, if all calls are to be timed.
_SLOWER = 1.2  # Than the passes before may the next ones be.
_LONG_MS = 2000.0  # A longer pass is made once only, before the turns.


class Allowed(NamedTuple):
    """Seconds to time calls for, and at most, where three turns take longer."""

    seconds: float
    most: float

    def left(self, gone: float, needed: float) -> float:
        """Seconds for the turns, `gone` seconds after the start, where three take `needed`. Raises OutOfTime."""
        if gone + needed <= self.seconds:
            return self.seconds - gone
        needed *= _SLOWER
        if gone + needed <= self.most:
            return needed
        raise OutOfTime(
            f"{_FEWEST} turns of eager, compiled and eager take {needed:.0f} s, with {max(0, self.most - gone):.0f} s "
            f"left; --bench-seconds {(gone + needed) / _MOST_SHARE * _SLOWER:.0f} gives them the time"
        )


def seconds_for(written: BundleWritten, budget: float, late: float) -> Allowed | None:
    """How long recorded calls are timed here, of the `budget` of seconds; None where other processes are to do it. The
    first compile began `late` seconds after the program.
    """
    if written.too_large:
        return Allowed(budget, budget)
    allowed = seconds_where_slow(budget, late) if written.file else None
    if allowed is None or written.written:
        return allowed
    return Allowed(*(each + runtime.tracing_seconds() for each in allowed))


def seconds_where_slow(budget: float, late: float) -> Allowed | None:
    """How long calls are timed here that other processes can make too: None but where imports and tracing leave them no
    time; see `seconds_for`.
    """
    own = TURNS_SHARE * budget
    needed = _BESIDE_TRACING + _TRACED * runtime.tracing_seconds() + _IMPORTED * max(0.0, late - _AT_ONCE)
    return Allowed(own, _MOST_SHARE * budget) if own >= _LEAST and needed >= budget else None


def timed_in_turns(
    calls: Bundle | CompiledWorkload, configuration: Configuration, placement: Placement, run: Path, allowed: Allowed,
    *, effects: bool, answers: bool,
) -> TimedInTurns:  # fmt: skip
    """Time calls for as long as is allowed. Unless `effects` are, one that does something to the outside ends it.
    What a call leaves in buffers, gradients and random generators is put back.

    With `answers`, which copies what calls change, those of what the program compiled are then held against eager's.
    """
    found = TimedInTurns()
    doing: Failure = "eager"
    refused = contextlib.nullcontext() if effects else side_effects.refused([run])
    try:
        with left_as_found(*(calls.targets if isinstance(calls, Bundle) else [calls.workload.model])), refused:
            began = time.perf_counter()
            turns = _OwnTurns(calls, configuration, placement, allowed, began)
            found.eager_calls_ms = turns.warm_eager()
            three_turns = 3 * _FEWEST * found.eager_calls_ms[-1] / 1e3
            few = _first_of_each(calls) if three_turns > _FITS * allowed.most else calls
            if few is not calls:
                all_calls = facts_of(turns.workload).calls
                turns = _OwnTurns(few, configuration, placement, allowed, began)
                turns.workload.notes.append(f"Of {all_calls} calls only the first of each callable is timed.")
                found.eager_calls_ms = turns.warm_eager()
            found.load = asdict(facts_of(turns.workload))
            doing = "compile"
            found.calls_ms, found.steady_after = turns.warm_compiled()
            found.turns = turns.take()
            found.counts, found.invalid = turns.check()
            if answers and not found.invalid:
                found.accuracy = turns.answers()
    except OutOfTime as error:
        found.problem = str(error)
    except side_effects.Refused as error:
        found.failure, found.problem = "effects", f"its calls are not made again: {error.effect}"
    except (Exception, SystemExit) as error:
        found.failure, found.problem = kind_of(error, doing), one_line(error)
    return found


def _first_of_each(calls: Bundle | CompiledWorkload) -> Bundle | CompiledWorkload:
    """The first recorded call of each callable; the same calls, where these are all."""
    if isinstance(calls, CompiledWorkload):
        return calls
    first = {call.target: call for call in reversed(calls.calls)}
    few = [call for call in calls.calls if first[call.target] is call]
    return calls if len(few) == len(calls.calls) else replace(calls, calls=few)


class CompiledWorkload(NamedTuple):
    """Calls that dynalyze made, and what it compiled for them."""

    workload: Workload
    compiled: Callable[..., Any]


class OutOfTime(Exception):
    """Three turns do not fit the time; the text says what they take."""


@dataclass
class _Arm:
    steps: list[Step]
    recent_ms: Sequence[float] = ()


class _OwnTurns:
    """Eager and compiled over one workload, for as long as is allowed, since `began`."""

    def __init__(
        self, calls: Bundle | CompiledWorkload, configuration: Configuration, placement: Placement, allowed: Allowed,
        began: float,
    ) -> None:  # fmt: skip
        self._allowed, self._began = allowed, began
        self.workload = _recorded(calls, configuration, placement) if isinstance(calls, Bundle) else calls.workload
        if self.workload.phase == "train":
            # These are the program's own parameters, and the optimizer's state would be twice as large as they are.
            self.workload = TrainWorkload(self.workload, optimizes=False)
        self._configuration = configuration
        self._device = facts_of(self.workload).device
        self._timer: Timer = timer_for(self._device)
        self._eager = _Arm(self.workload.steps(self.workload.model))
        if isinstance(calls, Bundle):
            self._target = target_of(self.workload, configuration, self._device)
        else:
            self._target = calls.compiled
        self._compiled = _Arm(self.workload.steps(self._target))
        self._before = 0

    def warm_eager(self) -> list[float]:
        with torch.compiler.set_stance("force_eager"):
            taken = self._timer.passes(self._eager.steps, 1, flush=False)
            taken += self._timer.passes(self._eager.steps, 1, flush=False) if taken[0] < _LONG_MS else []
        self._eager.recent_ms = taken
        return taken

    def warm_compiled(self) -> tuple[list[float], int | None]:
        """Milliseconds of the compiled passes until they are steady, and how many came before that."""
        limit = _WARMING * (self._began + self._allowed.seconds - time.perf_counter())
        steps = self._compiled.steps
        warmed = warm(lambda: self._timer.passes(steps, 1, flush=False)[0], _compiles, limit, 1000)
        self._compiled.recent_ms = warmed.calls_ms[-5:]
        self._before = _compiles()
        return warmed.calls_ms, warmed.steady_after

    def take(self) -> list[tuple[list[float], list[float], list[float]]]:
        """Milliseconds of the passes of eager, compiled, and eager again, by turn. Raises OutOfTime."""
        eager, compiled = (statistics.median(arm.recent_ms) / 1e3 for arm in (self._eager, self._compiled))
        now = time.perf_counter()
        left = self._allowed.left(now - self._began, _FEWEST * (2 * eager + compiled))
        each = min(_LONGEST_BLOCK, left / (3 * _MOST) / 1.5)
        turns: list[tuple[list[float], list[float], list[float]]] = []
        longest = 0.0
        while len(turns) < _FEWEST or (len(turns) < _MOST and time.perf_counter() + longest < now + left):
            began = time.perf_counter()
            arms = [self._eager, self._compiled, self._eager]
            taken: dict[int, list[float]] = {}
            for place in random.Random(len(turns)).sample(range(3), 3):
                arm = arms[place]
                with torch.compiler.set_stance("force_eager") if arm is self._eager else contextlib.nullcontext():
                    taken[place] = block(self._timer, arm.steps, seconds=each, lead=lead_in(arm.recent_ms))
            turns.append((taken[0], taken[1], taken[2]))
            longest = max(longest, time.perf_counter() - began)
        return turns

    def check(self) -> tuple[dict[str, Any], str]:
        """The counts of one more pass, and why what was timed is not what was asked for; "" where it is."""
        again = _compiles() - self._before
        evidence = look(self._compiled.steps, runtime.calls_a_graph)
        counts = {
            "compiled_frames": evidence.codes, "recompiles_while_timing": again, "eager_calls": evidence.steps_in_eager,
        }  # fmt: skip
        return counts, reason_against(self._configuration, counts, evidence, self._device)

    def answers(self) -> dict[str, Any]:
        """The accuracy of what is compiled here; empty where that is for the whole test, or takes too long."""
        eager, compiled = (statistics.median(arm.recent_ms) / 1e3 for arm in (self._eager, self._compiled))
        if 2 * eager + compiled > self._allowed.seconds:
            return {}
        found: dict[str, Any] = {}
        with contextlib.suppress(side_effects.Refused):  # What was timed stands all the same.
            found = accuracy(
                self.workload, lambda: self._target, self._configuration, self._device,
                compiled_now=runtime.calls_a_graph,
            )  # fmt: skip
        return found if found.get("verdict") in CONCLUSIVE else {}


def _recorded(bundle: Bundle, configuration: Configuration, placement: Placement) -> Workload:
    phase: Phase = "train" if any(call.backward for call in bundle.calls) else "forward"
    request = WorkerRequest(
        source={"kind": "bundle"}, configuration=configuration, phase=phase, device=placement.device,
        dtype=placement.dtype, train=placement.train,
    )  # fmt: skip
    return RecordedWorkload(bundle, request)


def _compiles() -> int:
    return int(runtime.counters("frames").get("total", 0))

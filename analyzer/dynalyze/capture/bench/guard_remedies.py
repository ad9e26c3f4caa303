"""What makes the guards of a call cheaper, tried for real: the target is compiled a second time with the setting,
beside what is compiled already and in the same process, and the calls of both take turns.

The two share all weights and no compiled code. A turn is a few calls after some that do not count; the quickest of them
stands for the turn, since whatever disturbs a call only adds to it, and guards are in each.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from dynalyze.capture.bench.compare import measure
from dynalyze.capture.bench.failures import one_line, reset_traceback
from dynalyze.capture.bench.output_capture import named_tensors
from dynalyze.capture.bench.state_snapshot import identical
from dynalyze.capture.bench.timing import Timer, block, lead_in, warm
from dynalyze.capture.bench.validity import Compiles
from dynalyze.capture.bench.workload import Step
from dynalyze.capture.torch_private import compiled_code, runtime

_TURN_MS, _MOST_IN_TURN = 4.0, 10
_FEWEST_TURNS, _PATIENCE = 10, 4.0
_NEAR_BEST = 1.25
_TOLERANCE = 1e-3

Outputs = Literal["equal", "different", "not comparable"]


@dataclass(frozen=True)
class Remedy:
    """A setting that makes guards cheaper. `setting` is code to paste; of an argument of torch.compile, that argument.

    `skips` says which guards are no longer checked, or how they are. `risk`, of one that is not safe, says what goes
    wrong where the program does what nobody looks for any more; else what it costs.
    """

    name: str
    setting: str
    safe: bool
    skips: str
    risk: str
    keeps: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    arguments: dict[str, Any] = field(default_factory=dict)


_TAGS = "use_recursive_dict_tags_for_guards"
_UNNOTICED = "the program goes on with code that was made for the old one"

_SAFE = (
    Remedy(
        "recursive dict tags", f"torch._dynamo.config.{_TAGS} = True", True,
        "guards below a module, for as long as nothing was assigned there since the last call",
        "torch has it switched off; __code__ and __defaults__ of functions must not be replaced",
        config={_TAGS: True},
    ),
    Remedy(
        "constant floats, recursive dict tags",
        f"torch._dynamo.config.specialize_float = True; torch._dynamo.config.{_TAGS} = True", True,
        "as recursive dict tags; and floats of Python are compared with their value, not taken as inputs",
        "every other value of such a float compiles anew",
        config={"specialize_float": True, _TAGS: True},
    ),
    Remedy(
        "isolate_recompiles", "isolate_recompiles=True", True,
        "versions that another call of torch.compile has made of the same function",
        "each call of torch.compile compiles for itself",
        arguments={"isolate_recompiles": True},
    ),
    Remedy(
        "no inlining of torch's own modules", "torch._dynamo.config.inline_inbuilt_nn_modules = False", True,
        "attributes of torch's own modules: each such module is known by its identity",
        "another module of the same kind compiles anew",
        config={"inline_inbuilt_nn_modules": False},
    ),
)  # fmt: skip

_UNSAFE = (
    Remedy(
        "skip_guard_on_inbuilt_nn_modules_unsafe", "", False, "attributes of torch's own modules (nn.Linear, ...)",
        f"a changed attribute of such a module (p of a Dropout, its training flag) goes unnoticed: {_UNNOTICED}",
    ),
    Remedy(
        "skip_guard_on_all_nn_modules_unsafe", "", False, "attributes of all modules, the program's own included",
        f"a changed attribute of any module (a flag, a config, training) goes unnoticed: {_UNNOTICED}",
    ),
    Remedy(
        "skip_guard_on_globals_unsafe", "", False, "globals of the program's modules",
        f"a changed global (a flag, a dict of settings) goes unnoticed: {_UNNOTICED}",
    ),
    Remedy(
        "keep_tensor_guards_unsafe", "", False, "everything but the tensors that are no parameters",
        f"all that is no tensor goes unnoticed, numbers among the arguments too: {_UNNOTICED}",
    ),
    Remedy(
        "skip_all_guards_unsafe", "", False, "everything",
        f"nothing is noticed, other sizes and dtypes of tensors neither: {_UNNOTICED}",
    ),
)  # fmt: skip


def offered(mode: str | None) -> list[Remedy]:
    """What this torch has, safe ones first; `mode` is that of the configuration, which takes the place of options."""
    safe = [
        each
        for each in _SAFE
        if all(compiled_code.has_setting(name) and compiled_code.setting(name) != value
               for name, value in each.config.items())
        and all(compiled_code.takes_argument(name) for name in each.arguments)
    ]  # fmt: skip
    modes = f'**torch._inductor.list_mode_options("{mode}"), ' if mode not in (None, "default") else ""
    unsafe = [
        Remedy(each.name, f'options={{{modes}"guard_filter_fn": torch.compiler.{each.name}}}', False, each.skips,
               each.risk, keeps=each.name)
        for each in _UNSAFE
        if compiled_code.takes_argument("guard_filter_fn") and hasattr(torch.compiler, each.name)
    ]  # fmt: skip
    return [*safe, *unsafe]


@dataclass
class Trial:
    """What came of one: milliseconds of the quickest pass of each undisturbed turn, without the remedy and with it.

    `dropped` of `guards` are no longer made, where a filter tells. `added_versions` and `added_breaks` are what the
    second compile made more of than the first. `pointless` says that the setting changes nothing here.
    """

    plain_ms: list[float] = field(default_factory=list)
    remedy_ms: list[float] = field(default_factory=list)
    outputs: Outputs | None = None
    guards: int | None = None
    dropped: int | None = None
    added_versions: int = 0
    added_breaks: int = 0
    pointless: bool = False
    problem: str = ""


class Trials:
    """Trials beside `steps`, which are compiled and warm; `make` compiles the target once more and gives its steps."""

    def __init__(
        self, steps: Sequence[Step], make: Callable[[], Sequence[Step]], compiles: Compiles, timer: Timer, model: Any
    ) -> None:
        self._steps = steps
        self._make = make
        self._compiles = compiles
        self._timer = timer
        self._model = model
        self._plain = self._made()

    def take(self, remedy: Remedy, seconds: float, warming: float, most: int) -> Trial:
        """Time the remedy for about this many seconds, after it was warmed up within those other limits."""
        trial = Trial()
        if runtime.recompile_limit_hit():
            trial.problem = "the recompile limit was reached: what more versions would do is another matter"
            return trial
        with compiled_code.room_for_versions(remedy.config):
            try:
                self._take(remedy, trial, seconds, (warming, most))
            except (Exception, SystemExit) as error:
                trial.problem = f"it failed: {one_line(error)}"
                reset_traceback(error)
        return trial

    def _take(self, remedy: Remedy, trial: Trial, seconds: float, limits: tuple[float, int]) -> None:
        compiled_code.forget_sizes()
        before = self._made()
        with compiled_code.compiled_apart(_counting(remedy, trial), **remedy.arguments) as reached:
            steps = self._make()
            if reached[0] < (2 if remedy.arguments else 1):
                trial.pointless = bool(reached[0])
                trial.problem = "the program's own calls of torch.compile could not be given the setting"
                return
            recent = warm(lambda: self._pass(steps), lambda: self._compiles.activity, *limits).calls_ms[-5:]
        added = (now - then - plain for now, then, plain in zip(self._made(), before, self._plain, strict=True))
        trial.added_versions, trial.added_breaks = (max(0, number) for number in added)
        trial.pointless = trial.dropped == 0
        if trial.pointless:
            return
        trial.outputs = self._compared(steps)
        if trial.outputs == "different":
            trial.problem = "its outputs are others: what is no longer checked differs between these calls"
            return
        activity = self._compiles.activity
        self._take_turns(steps, trial, seconds, min(recent), lead_in(recent))
        if self._compiles.activity != activity:
            trial.problem = "it compiled again while it was timed"

    def _made(self) -> tuple[int, int]:
        """How many versions and graph breaks there were until now."""
        return sum(self._compiles.made.values()), sum(runtime.counters("graph_break").values())

    def _pass(self, steps: Sequence[Step]) -> float:
        return float(self._timer.passes(steps, 1, flush=False)[0])

    def _take_turns(self, steps: Sequence[Step], trial: Trial, seconds: float, pass_ms: float, lead: int) -> None:
        block(self._timer, steps, passes=1)  # The first block looks through all objects of torch.
        chance, began, found = random.Random(0), time.perf_counter(), list[dict[int, float]]()
        passes = max(1, min(_MOST_IN_TURN, int(_TURN_MS / max(pass_ms, 1e-3))))
        # A slow model, or a busy machine, gets more time, but not for ever.
        while (spent := time.perf_counter() - began) < seconds or (
            len(undisturbed(found)) < _FEWEST_TURNS and spent < _PATIENCE * seconds
        ):
            arms = chance.sample([(0, self._steps), (1, steps)], 2)
            found.append({arm: min(block(self._timer, own, passes=passes, lead=lead)) for arm, own in arms})
        quiet = undisturbed(found)
        if len(quiet) < _FEWEST_TURNS:
            trial.problem = f"only {len(quiet)} of {len(found)} turns were undisturbed: too few to tell"
            return
        trial.plain_ms, trial.remedy_ms = ([turn[arm] for turn in quiet] for arm in (0, 1))

    def _compared(self, steps: Sequence[Step]) -> Outputs:
        """Whether both give the same: every output, and in training every gradient."""
        for one, other in zip(self._steps, steps, strict=True):
            expected = dict(self._results(one))
            if not _alike(expected, dict(self._results(other))):
                return "different" if _alike(expected, dict(self._results(one))) else "not comparable"
        return "equal"

    def _results(self, step: Step) -> Iterator[tuple[str, torch.Tensor]]:
        step.prepare()
        yield from ((name, tensor.detach().clone()) for name, tensor in named_tensors(step.run()))
        named = self._model.named_parameters() if isinstance(self._model, torch.nn.Module) else ()
        yield from ((f"{name}.grad", held.grad.clone()) for name, held in named if held.grad is not None)


def undisturbed(turns: Sequence[dict[int, float]]) -> list[dict[int, float]]:
    """The turns in which either side took about what it takes at its best."""
    best = [min((turn[arm] for turn in turns), default=0.0) for arm in (0, 1)]
    return [turn for turn in turns if all(turn[arm] <= _NEAR_BEST * best[arm] for arm in (0, 1))]


def _counting(remedy: Remedy, trial: Trial) -> compiled_code.GuardFilter | None:
    """The filter of a remedy, None where it has none; it counts what it drops."""
    if not remedy.keeps:
        return None
    keeps: compiled_code.GuardFilter = getattr(torch.compiler, remedy.keeps)
    trial.guards = trial.dropped = 0

    def kept(guards: Sequence[Any]) -> Sequence[bool]:
        answers = keeps(guards)
        trial.guards = (trial.guards or 0) + len(answers)
        trial.dropped = (trial.dropped or 0) + sum(not answer for answer in answers)
        return answers

    return kept


def _alike(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    def same(first: torch.Tensor, second: torch.Tensor) -> bool:
        if identical(first, second):
            return True
        if first.shape != second.shape or first.dtype != second.dtype:
            return False
        return measure(first, second, None, _TOLERANCE, 1.0).equal

    return one.keys() == other.keys() and all(same(tensor, other[name]) for name, tensor in one.items())

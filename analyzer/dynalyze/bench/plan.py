"""The plan of a benchmark: target, workloads with their sizes, configurations and limits."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, cast

from dynalyze.bench import DEFAULT_PAIRS
from dynalyze.bench.configurations import DEFAULT, EAGER, matrix
from dynalyze.capture.bench.protocol import AS_WRITTEN, CommonSettings, Configuration, Work, WorkerRequest
from dynalyze.capture.events import TimedInTurns
from dynalyze.capture.settings import LANGUAGE_PHASES, PHASES, Phase, settings_of
from dynalyze.capture.shapes import Dim
from dynalyze.launch.observe import folder_of
from dynalyze.launch.shape_options import Shape, check_dims, combinations
from dynalyze.launch.spec import TargetSpec
from dynalyze.text.errors import UsageError

_OWN_SIZES = ("batch", "sequence")
"""The sizes of whoever makes the inputs: hf: targets, and the phases of a language model."""


@dataclass(frozen=True)
class Plan(CommonSettings):
    """Everything that `run_bench` needs to know. `source` is the worker's (`WorkerRequest.source`).

    Without `configurations` the sensible set for the device is run; `written` is how the program itself compiles, and
    comes first with `adds_written`, or where `configurations` names it. `autocast` applies to eager too. `seconds` are
    timed per configuration, `timeout` limits each process, `total` the whole benchmark: what is not done by then is
    left out. With `answers_first` memory and accuracy come before speed, so that `total` cuts speed.
    If `more_time` is given (a command that measures without `total`), `total` is a budget: the verdict on speed comes
    first, and what did not fit is noted. Processes then start with the user's caches, which the observed run has
    filled: `cold_seconds` is what compiling cost there, None if it found part of it cached.
    With `as_called` calls that went backward are measured as training steps. `label` names the target before its output
    lines. With `rerun` each process runs the program again. `vary_inputs` are seconds for comparing answers on variants
    of the inputs. With `recorded` each configuration also runs in a process whose compiles are recorded, for features
    (what graph breaks cost) and for what a training step keeps; with `recorded_first` and a budget this comes before
    speed. With `in_turns` the program's own process timed the first configuration. `operators` checks custom
    operators. With `sandboxed` every process runs in a sandbox, where calls may have outside effects.
    """

    source: dict[str, Any]
    configurations: tuple[Configuration, ...] | None = (DEFAULT,)
    default: Configuration = DEFAULT
    written: Configuration | None = None
    adds_written: bool = False
    rerun: bool = False
    works: tuple[Work, ...] = (Work(),)
    autocast: str = ""
    pairs: int = DEFAULT_PAIRS
    seconds: float = 10.0
    timeout: float = 600.0
    total: float | None = None
    python: str | None = None
    quiet: bool = False
    label: str = "target"
    accuracy: bool = True
    vary_inputs: float | None = None
    memory: bool = True
    recorded: bool = False
    recorded_first: bool = False
    in_turns: TimedInTurns | None = None
    operators: bool = False
    answers_first: bool = False
    more_time: str = ""
    cold_seconds: float | None = None
    as_called: bool = False
    sandboxed: bool = False

    def configurations_on(self, device: str) -> tuple[Configuration, ...]:
        """The configurations to compare with eager on this device."""
        chosen = matrix(device, self.default) if self.configurations is None else self.configurations
        if self.written is not None:
            chosen = tuple(self.written if each.name == AS_WRITTEN else each for each in chosen)
            chosen = (self.written, *chosen) if self.adds_written else chosen
        return tuple(replace(each, autocast=self.autocast) for each in dict.fromkeys(chosen))

    @property
    def first(self) -> Configuration:
        """The first of these: what the program compiles itself, or what we compile of it."""
        return self.configurations_on(self.device or "cpu")[0]

    @property
    def eager(self) -> Configuration:
        return replace(EAGER, autocast=self.autocast)


def works(phases: str | None, batches: str | None, sequences: str | None, *, train: bool | None) -> tuple[Work, ...]:
    """Every combination of `--phase`, `--batch` and `--sequence`. Raises UsageError for an unknown one."""
    chosen = ["train" if train else "forward"] if phases is None else _listed("--phase", phases)
    for each in chosen:
        if each not in PHASES:
            raise UsageError(f"--phase {each}: choose from {', '.join(PHASES)}")
    if train is False and "train" in chosen:
        raise UsageError("--phase train and --eval exclude each other")
    combined = product(cast(list[Phase], chosen), _sizes("--batch", batches), _sizes("--sequence", sequences))
    return tuple(dict.fromkeys(Work(phase, batch, sequence) for phase, batch, sequence in combined))


def _listed(option: str, text: str) -> list[str]:
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise UsageError(f"{option} {text!r}: give one or more, separated by commas")
    return parts


def _sizes(option: str, text: str | None) -> list[int | None]:
    if text is None:
        return [None]
    sizes: list[int | None] = []
    for part in _listed(option, text):
        if re.fullmatch(r"[0-9]{1,9}", part) is None or int(part) == 0:
            raise UsageError(f"{option} {part}: give whole numbers above zero, separated by commas")
        sizes.append(int(part))
    return sizes


def shaped(
    works: Sequence[Work], sizes: Mapping[str, Sequence[int]], dims: Sequence[Dim], target: TargetSpec
) -> tuple[Work, ...]:
    """Every work with every combination of sizes.

    Names belong to the inputs in `dims`; others are batch and sequence if inputs are made for the model, or else
    arguments of a factory, which only the child can tell from other objects. Raises UsageError for a name that nothing
    takes, or a size given twice.
    """
    check_dims(sizes, dims)
    shapes = combinations(sizes)
    named = {dim.name for dim in dims}
    return tuple(dict.fromkeys(_with(work, shape, named, target) for work in works for shape in shapes))


def _with(work: Work, shape: Shape, named: set[str], target: TargetSpec) -> Work:
    for name in dict(shape):
        if name in work.sizes:
            raise UsageError(f"--{name} and --shapes {name} exclude each other")
    by_phase = work.phase in LANGUAGE_PHASES
    makes_inputs = target.asked is not None or by_phase
    own = {name: size for name, size in shape if makes_inputs and name in _OWN_SIZES and name not in named}
    others = tuple((name, size) for name, size in shape if name not in own)
    for name, _ in others:
        if by_phase:
            raise UsageError(f"--shapes {name}: --phase {work.phase} makes its own inputs, of sizes batch and sequence")
        if name in named or target.mode == "object":
            continue
        say = f"say which input has it, --dim {name}=INPUT:AXIS"
        if target.asked is not None:
            raise UsageError(f"--shapes {name}: {target.spec} has the sizes batch and sequence; {say}")
        raise UsageError(f"--shapes {name}: {target.spec} is a program; {say}, or name a factory as FILE:NAME")
    return replace(work, **own, shape=others)  # type: ignore[arg-type]


def worker_request(plan: Plan, work: Work, configuration: Configuration) -> WorkerRequest:
    return WorkerRequest(
        source=plan.source,
        configuration=configuration,
        cloudpickle=folder_of("cloudpickle"),
        **settings_of(work, Work),
        **{
            **settings_of(replace(plan, train=True) if work.phase == "train" else plan, CommonSettings),
            "allow_effects": plan.allow_effects or plan.sandboxed,
        },
    )


def asks_for_written(plan: Plan) -> bool:
    """Whether `--configs` names the configuration "as written"."""
    return any(each.name == AS_WRITTEN for each in plan.configurations or ())


def with_written(plan: Plan, written: Configuration | None, target: str) -> Plan:
    """The plan for a program that compiles as `written`. Raises UsageError if that was asked for and is not known."""
    if written is None and asks_for_written(plan):
        raise UsageError(f'--configs "{AS_WRITTEN}" is for a program that compiles by itself; {target} does not')
    return replace(plan, written=written)

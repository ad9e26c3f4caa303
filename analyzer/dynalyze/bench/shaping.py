"""Gives the workloads of a benchmark the sizes that `--shapes` asks for: one workload for each combination."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dynalyze.bench.plan import Work
from dynalyze.capture.bench.wire import LANGUAGE_PHASES
from dynalyze.capture.shapes import Dim
from dynalyze.launch.shape_options import Shape, check_dims, combinations
from dynalyze.launch.spec import TargetSpec
from dynalyze.text.errors import UsageError

_OWN = ("batch", "sequence")
"""The sizes of whoever makes the inputs: hf: targets, and the phases of a language model."""


def shaped(
    works: Sequence[Work], sizes: Mapping[str, Sequence[int]], dims: Sequence[Dim], target: TargetSpec
) -> tuple[Work, ...]:
    """Every work with every combination of sizes.

    Names belong to the inputs that `dims` say. Those without any are batch and sequence where these inputs are made
    for the model; else they go to a factory, which only the child can tell from other objects.

    Raises:
        UsageError: a name that nothing takes, or a size that is given twice.
    """
    check_dims(sizes, dims)
    shapes = combinations(sizes)
    named = {dim.name for dim in dims}
    return tuple(dict.fromkeys(_with(work, shape, named, target) for work in works for shape in shapes))


def _with(work: Work, shape: Shape, named: set[str], target: TargetSpec) -> Work:
    for name in dict(shape):
        if name in work.sizes:
            raise UsageError(f"--{name} and --shapes {name} exclude each other")
    makes_inputs = target.asked is not None or work.phase in LANGUAGE_PHASES
    own = {name: size for name, size in shape if makes_inputs and name in _OWN and name not in named}
    others = tuple((name, size) for name, size in shape if name not in own)
    for name, _ in others:
        _check_taken(name, work, named, target)
    return replace(work, **own, shape=others)  # type: ignore[arg-type]


def _check_taken(name: str, work: Work, named: set[str], target: TargetSpec) -> None:
    if work.phase in LANGUAGE_PHASES:
        raise UsageError(f"--shapes {name}: --phase {work.phase} makes its own inputs, of sizes batch and sequence")
    if name in named or target.mode == "object":
        return
    say = f"say which input has it, --dim {name}=INPUT:AXIS"
    if target.asked is not None:
        raise UsageError(f"--shapes {name}: {target.spec} has the sizes batch and sequence; {say}")
    raise UsageError(f"--shapes {name}: {target.spec} is a program; {say}, or name a factory as FILE:NAME")

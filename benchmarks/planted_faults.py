"""Are wrong operations found? Faults are planted at random over stages, layers and operations, and searched for.

    .venv/bin/python benchmarks/planted_faults.py --plants 20 --controls 5 --seed 1

Each plant is a transformer in bf16 of 2 to 5 blocks, with one operation wrong: in the graph that Dynamo captured, in
ATen's graph, in a decomposition, or in a pass of Inductor over its own graph. Wrong is three units
of rounding, and NaN for decompositions. Found is: stage, operation and module are named, and all of them right.
Controls are models in which nothing is wrong, or sums are only added up in another order: nothing may be named.

The steps are those of `dynalyze audit` (`dynalyze.capture.bench.bisect`), in this process instead of one of their own.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch._inductor.config

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "integration"))

from accuracy_runs import calls
from bisect_models import Blocks
from planted_backends import InAten, InGraph, PlantedPass, other_order, wrong_decomposition

from dynalyze.capture.bench.bisect import Bisector
from dynalyze.capture.bench.protocol import Configuration

LADDER = ("dynamo", "aot_autograd", "decompositions", "inductor")
INNER = ("attention.query", "attention.key", "attention.value")
# What is planted in, its name there and in a program, the modules of each in a block in the order of that graph.
IN_GRAPH = (
    ("linear", "torch.nn.functional.linear", (*INNER, "up", "down")),
    ("softmax", "torch.softmax", ("attention",)),
    ("gelu", "torch.nn.functional.gelu", ("",)),
    ("layer_norm", "torch.nn.functional.layer_norm", ("norm",)),
    ("truediv", "operator.truediv", ("attention",)),
    ("matmul", "operator.matmul", ("attention", "attention")),
    ("add", "operator.add", ("", "")),
)
IN_ATEN = (
    ("aten.addmm.default", "torch.nn.functional.linear", (*INNER, "up", "down")),
    ("aten._softmax.default", "torch.softmax", ("attention",)),
    ("aten.gelu.default", "torch.nn.functional.gelu", ("",)),
    ("aten.div.Tensor", "operator.truediv", ("attention",)),
    ("aten.bmm.default", "operator.matmul", ("attention", "attention")),
    ("aten.add.Tensor", "operator.add", ("", "")),
)
IN_DECOMPOSITIONS = (
    (torch.ops.aten.gelu.default, "torch.nn.functional.gelu", ("",)),
    (torch.ops.aten._softmax.default, "torch.softmax", ("attention",)),
)
IN_INDUCTOR = (
    (torch.ops.aten.bmm.default, "operator.matmul", ("attention", "attention")),
    (torch.ops.aten.addmm.default, "torch.nn.functional.linear", (*INNER, "up", "down")),
)
KINDS: dict[str, tuple[tuple[Any, str, tuple[str, ...]], ...]] = {
    "graph": IN_GRAPH, "aten": IN_ATEN, "decomposition": IN_DECOMPOSITIONS, "inductor": IN_INDUCTOR,
}  # fmt: skip
_backend: list[Any] = []


def planted(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
    """The backend of the plant that is searched for."""
    return _backend[0](graph, inputs)


@dataclass
class Plant:
    """What is wrong, and what has to be named."""

    kind: str
    layers: int
    fault: Any
    expected: tuple[str, str, str]
    during: Callable[[], AbstractContextManager[Any]] = contextlib.nullcontext


def drawn(draw: random.Random) -> Plant:
    kind = draw.choice(list(KINDS))
    layers = draw.randrange(2, 6)
    name, op, modules = draw.choice(KINDS[kind])
    layer, place = draw.randrange(layers), draw.randrange(len(modules))
    occurrence = layer * len(modules) + place
    module = f"layers.{layer}.{modules[place]}".rstrip(".")
    if kind == "decomposition":
        made_wrong = lambda x, *args, **kwargs: torch.sqrt(-x.abs() - 1)  # noqa: E731
        first = f"layers.0.{modules[0]}".rstrip(".")
        return Plant(
            kind, layers, "inductor", ("decompositions", op, first), lambda: wrong_decomposition(name, made_wrong)
        )
    if kind == "inductor":
        config = {"post_grad_custom_post_pass": PlantedPass(name, occurrence), "force_disable_caches": True}
        return Plant(kind, layers, "inductor", ("inductor", op, module), lambda: torch._inductor.config.patch(config))
    return Plant(kind, layers, (InGraph if kind == "graph" else InAten)(name, occurrence), ("backend", op, module))


def search(plant: Plant, seed: int) -> tuple[str, str, str] | None:
    """Stage, operation and module of the first wrong one; None where none is."""
    torch.manual_seed(seed)
    model, x = Blocks(plant.layers).bfloat16().eval(), torch.randn(2, 32, 64).bfloat16()
    _backend[:] = [plant.fault]
    own = not isinstance(plant.fault, str)
    bisector = Bisector(
        calls(model, x), Configuration("planted", backend=f"{__name__}:planted" if own else plant.fault), "cpu"
    )
    with plant.during():
        for stage in (*LADDER[:2], "backend") if own else LADDER:
            fault = bisector.operations(stage)["fault"]
            if fault is not None:
                return stage, fault["op"], fault["module"]
    return None


def controls(count: int, seed: int) -> Iterator[str]:
    """What was named although nothing is wrong."""
    for number in range(count):
        kind, fault = (("order", other_order), ("forward", "inductor"))[number % 2]
        found = search(Plant(kind, 2, fault, ("", "", "")), seed + number)
        print(f"control {number}, {kind}: {found or 'nothing named'}", flush=True)
        if found:
            yield kind


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plants", type=int, default=20)
    parser.add_argument("--controls", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    hits = 0
    for number in range(asked.seed, asked.seed + asked.plants):
        plant = drawn(random.Random(number))
        found = search(plant, number)
        hits += found == plant.expected
        print(f"seed {number}, {plant.kind}: planted {plant.expected}, found {found}", flush=True)
    alarms = len(list(controls(asked.controls, asked.seed)))
    print(
        f"found with stage, operation and module: {hits} of {asked.plants}; false alarms: {alarms} of {asked.controls}"
    )


if __name__ == "__main__":
    main()

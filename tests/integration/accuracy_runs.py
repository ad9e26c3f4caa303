"""Runs the accuracy test on small workloads, with backends that are right and backends that are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import torch

from dynalyze.capture.bench.accuracy import accuracy
from dynalyze.capture.bench.call_workload import CallsWorkload, TrainWorkload
from dynalyze.capture.bench.configure import configured
from dynalyze.capture.bench.protocol import Configuration
from dynalyze.capture.bench.workload import Workload
from dynalyze.capture.inputs import Inputs
from dynalyze.report.measurements import Accuracy, TensorAccuracy

Backend = Callable[..., Any]


def calls(model: Any, *inputs: Any) -> Workload:
    return CallsWorkload(model, [Inputs(tuple(inputs), {})], phase="forward", grad=False)


def training(model: Any, *inputs: Any) -> Workload:
    return TrainWorkload(CallsWorkload(model, [Inputs(tuple(inputs), {})], phase="train", grad=True))


def judged(workload: Workload, backend: Any = "eager", autocast: str = "") -> Accuracy:
    """The answer for a backend: a name, or a function as `--backend module:function` gives it to torch.compile."""
    named = backend if isinstance(backend, str) else "eager"
    configuration = Configuration("tested", backend=named, autocast=autocast)

    def make() -> Callable[..., Any]:
        if isinstance(backend, str):
            return configured(workload.model, configuration)
        return torch.compile(workload.model, backend=backend)

    answer = accuracy(workload, make, configuration)
    assert answer.keys() <= set(Accuracy.__struct_fields__)
    assert all(tensor.keys() <= set(TensorAccuracy.__struct_fields__) for tensor in answer.get("tensors", ()))
    return msgspec.convert(answer, Accuracy)


def verdicts(found: Accuracy) -> dict[str, str]:
    return {tensor.name: tensor.verdict for tensor in found.tensors}


def replacing(target: Any, replacement: Callable[..., Any]) -> Backend:
    """A backend that computes one operation otherwise, and everything else as eager."""

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        nodes = [node for node in graph.graph.nodes if node.target in (target, getattr(target, "__name__", None))]
        for node in nodes:
            node.op, node.target = "call_function", replacement
        graph.recompile()
        return graph.forward

    return backend


class TwoHeads(torch.nn.Module):
    """Two outputs, of which only one goes through sigmoid."""

    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.Linear(16, 32)
        self.left = torch.nn.Linear(32, 40)
        self.right = torch.nn.Linear(32, 8)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        hidden = torch.tanh(self.body(x))
        return {"logits": self.left(hidden), "gate": torch.sigmoid(self.right(hidden))}

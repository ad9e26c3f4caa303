"""The accuracy test on inputs that are varied: what only they show is found, and what is right stays right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from accuracy_runs import calls, judged, training

from dynalyze.capture.bench.protocol import VARIANTS
from dynalyze.capture.bench.variants import VariedWorkload
from dynalyze.capture.bench.workload import Workload
from slow_siblings import mostly_slow

_WRONG_FOR = {
    "other memory format": lambda x: not x.is_contiguous(),
    "storage offset": lambda x: x.storage_offset() > 0,
    "expanded": lambda x: 0 in x.stride(),
    "batch 7": lambda x: x.shape[0] == 7,
    "a second call with another batch": lambda x: x.shape[0] == 5,
    "gradients": lambda x: x.requires_grad,
    "infinities": lambda x: bool(x.isinf().any()),
}
"""By variant: the inputs to which a backend is wrong."""


def _wrong_for(is_meant: Callable[[torch.Tensor], bool]) -> Callable[..., Any]:
    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            outputs = graph(*arguments)
            tensors = [each for each in arguments if isinstance(each, torch.Tensor)]
            return tuple(each * 2 for each in outputs) if any(map(is_meant, tensors)) else outputs

        return run

    return backend


def _net() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.GELU(), torch.nn.LayerNorm(8), torch.nn.Linear(8, 3))


@pytest.mark.parametrize("variant", list(_WRONG_FOR))
def test_what_only_these_inputs_show_is_found(variant: str) -> None:
    workload = calls(lambda x: torch.sin(x) + 1, torch.randn(4, 6))
    backend = _wrong_for(_WRONG_FOR[variant])
    assert judged(workload, backend).verdict != "suspicious"
    assert judged(VariedWorkload(workload, variant), backend).verdict == "suspicious"


class _Counting(torch.nn.Module):
    """Its answer depends on how often it was called, and on its mode."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(6, 3)
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        x = self.layer(x) * self.count
        return torch.relu(x) if self.training else x


_BETWEEN_CALLS: dict[str, Callable[[torch.fx.GraphModule, Any], bool]] = {
    "a second call": lambda graph, given: any(each.dim() == 0 and float(each) == 1 for each in given),
    "a call in the other mode between two": lambda graph, given: "relu" in str(graph.graph),
    "a second call under autocast": lambda graph, given: torch.is_autocast_enabled("cpu"),
}
"""By variant: the calls to which a backend is wrong."""


@pytest.mark.parametrize("variant", mostly_slow(_BETWEEN_CALLS, every=len(_BETWEEN_CALLS)))
def test_what_only_a_later_call_shows_is_found(variant: str) -> None:
    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        def run(*given: Any) -> Any:
            is_wrong = _BETWEEN_CALLS[variant](graph, given)
            outputs = graph(*given)
            return tuple(each * 3 for each in outputs) if is_wrong else outputs

        return run

    torch.manual_seed(0)
    model = _Counting().eval()
    workload = calls(model, torch.randn(4, 6))
    assert judged(workload, backend).verdict != "suspicious"
    for other in _BETWEEN_CALLS:
        found = judged(VariedWorkload(workload, other), backend).verdict
        # Every variant of them has a second call.
        assert (found == "suspicious") == (variant in (other, "a second call")), other
    assert not model.training and float(model.count) == 0


def test_a_function_has_no_mode_and_integers_no_autocast() -> None:
    for variant, given in (
        ("a call in the other mode between two", torch.randn(2)),
        ("a second call under autocast", torch.arange(3)),
    ):
        assert VariedWorkload(calls(lambda x: x + 1, given), variant).refusal() is None


@pytest.mark.parametrize("workload_over", [calls, pytest.param(training, marks=pytest.mark.slow)])
def test_a_backend_that_is_right_is_right_to_all_of_them(workload_over: Callable[..., Workload]) -> None:
    workload = workload_over(_net(), torch.randn(4, 6))
    for variant in VARIANTS:
        varied = VariedWorkload(workload, variant)
        if varied.refusal() == "":
            assert judged(varied, "aot_eager").verdict in ("equal", "benign", "rounding only"), variant

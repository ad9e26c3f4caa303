"""What the fixture asks: does compiled answer otherwise than eager?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from dynalyze.capture.bench.accuracy import accuracy
from dynalyze.capture.bench.call_workload import CallsWorkload
from dynalyze.capture.bench.contracts import Broken
from dynalyze.capture.bench.protocol import Configuration
from dynalyze.capture.inputs import Inputs
from dynalyze.capture.nested_values import leaves
from dynalyze.capture.torch_private import dynamo
from dynalyze.capture.torch_private.compiled_calls import is_compiled_function, is_compiled_module


def wrong_here(fn: Callable[..., Any], call: Inputs, options: Mapping[str, Any], *, gradients: bool) -> str:
    """Why compiled answers one call otherwise than eager, by the accuracy test of `dynalyze bench`; "" where it does
    not. `options` are those of torch.compile; a compiled function keeps its own. Raises AssertionError: the answers
    cannot be compared.
    """
    __tracebackhide__ = True
    given = fn if compiled_already(fn) else torch.compile(fn, **options)
    workload = CallsWorkload(
        dynamo.wrapped_by_compile(fn) or fn, [call], phase="train" if gradients else "forward", grad=gradients
    )
    tensors = (each for each in leaves(tuple(call), objects=True) if isinstance(each, torch.Tensor))
    device = next((each.device.type for each in tensors), "cpu")
    # Of the configuration the test takes only whether it is Inductor, which can be told how to round.
    backend = options.get("backend", "inductor")
    configuration = Configuration("tested", backend=backend if isinstance(backend, str) else "its own")
    answer = accuracy(workload, lambda: given, configuration, device)
    why = _why_wrong(answer)
    contracts = [str(Broken(**each)) for each in answer.get("contracts", ())]
    return "\n".join([why, *(text for text in contracts if text.lower() not in why.lower())]) if why else ""


def compiled_already(fn: Callable[..., Any]) -> bool:
    """Whether it is what torch.compile returned, or a module after `module.compile()`."""
    in_place = isinstance(fn, torch.nn.Module) and getattr(fn, "_compiled_call_impl", None) is not None
    return in_place or is_compiled_function(fn) or is_compiled_module(fn)


def _why_wrong(answer: Mapping[str, Any]) -> str:
    __tracebackhide__ = True
    reason = str(answer.get("reason", ""))
    if answer["verdict"] not in ("equal", "benign", "rounding only", "suspicious"):
        raise AssertionError(f"not comparable: {reason}")
    return (reason or "suspicious") if answer["verdict"] == "suspicious" else ""

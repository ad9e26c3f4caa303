"""What a worker tells of its model's attention: what it has, what its class supports, and what can be had here."""

from __future__ import annotations

from typing import Any

from dynalyze.capture import transformers_attention
from dynalyze.capture.bench.workload import Workload
from dynalyze.capture.inputs import Misuse


def attention_of(workload: Workload, names: list[str], dtypes: list[str]) -> dict[str, Any]:
    """The answer to the order `attention`; without `names`, of all that the model's class supports.

    Raises:
        Misuse: it is no model of transformers, or nobody knows such a name or dtype.
    """
    model: Any = workload.model
    kind = type(model).__name__
    if not hasattr(model, "config") or not hasattr(model, "_supports_sdpa"):
        raise Misuse(
            f"--attention-matrix needs a model of transformers, whose attention can be chosen: {kind} is none. Name an "
            "architecture (hf:NAME), or a FILE:NAME whose model is a PreTrainedModel"
        )
    _check(names, dtypes)
    supported = transformers_attention.supported(model)
    return {
        "model": kind,
        "own": transformers_attention.implementation(model),
        "supported": supported,
        "unsupported": [name for name in transformers_attention.NAMES if name not in supported],
        "names": transformers_attention.availability(model, names or supported),
    }


def _check(names: list[str], dtypes: list[str]) -> None:
    import torch

    for name in transformers_attention.unknown_names(names):
        known = ", ".join(transformers_attention.NAMES)
        raise Misuse(f"transformers knows no attention implementation {name!r}; for example {known}")
    for name in dtypes:
        dtype = getattr(torch, name, None)
        if not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
            raise Misuse(f"{name!r} is no floating dtype of torch; for example float32, bfloat16, float16")

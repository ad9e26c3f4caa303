"""How often compiling changes which entry of the logits is the largest."""

from __future__ import annotations

import torch

from dynalyze.capture.bench.observed import Key, Run

_NAMED = 16
_UNNAMED = 100


def argmax_flips(eager: Run, compiled: Run) -> float | None:
    """The share of rows whose largest entry differs, over all steps; None where nothing looks like logits."""
    flips = rows = 0
    for key in _logits_of(eager):
        one, other = eager.tensors[key], compiled.tensors.get(key)
        if other is None or other.shape != one.shape:
            continue
        differs = one.argmax(-1) != other.argmax(-1)
        flips += int(differs.sum())
        rows += differs.numel()
    return flips / rows if rows else None


def _logits_of(run: Run) -> list[Key]:
    """Outputs called `logits`, or each step's only output if it is floating and has a wide last dimension."""
    outputs = {key: tensor for key, tensor in run.tensors.items() if key[1] == "output"}
    named = [key for key, t in outputs.items() if key[2].rpartition(".")[2] == "logits" and _rows_of(t, _NAMED)]
    if named:
        return named
    single = {name for _, _, name in outputs} == {"output"}
    return [key for key, t in outputs.items() if single and t.dim() in (2, 3) and _rows_of(t, _UNNAMED)]


def _rows_of(tensor: torch.Tensor, width: int) -> bool:
    return bool(tensor.is_floating_point() and tensor.dim() and tensor.shape[-1] >= width)

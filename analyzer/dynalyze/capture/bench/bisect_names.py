"""What an operation of a graph is called in a program."""

from __future__ import annotations

import torch

_BUILTINS = {"_operator": "operator"}


def operation_name(node: torch.fx.Node) -> str:
    """`torch.nn.functional.gelu`, `operator.add`, `Tensor.view`, `aten.mm.default`."""
    target = node.target
    if node.op == "call_method":
        return f"Tensor.{target}"
    if node.op == "call_module" or isinstance(target, str):
        return str(target)
    if isinstance(target, torch._ops.OpOverload):
        return str(target)
    name = str(getattr(target, "__name__", target))
    for owner, prefix in (
        (torch.nn.functional, "torch.nn.functional"),
        (torch, "torch"),
        (torch.linalg, "torch.linalg"),
    ):
        if getattr(owner, name, None) is target:
            return f"{prefix}.{name}"
    module = str(getattr(target, "__module__", "") or "")
    return f"{_BUILTINS.get(module, module)}.{name}".lstrip(".")

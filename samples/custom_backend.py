"""A backend of one's own: it sees each graph that Dynamo captures, may rewrite it, and returns what is called instead.

This one writes `x * sigmoid(x)` as the one operation `silu`, and hands the rest on as it is. Registered under a name it
is for `torch.compile(model, backend="fold_silu")`; a function is also `--backend MODULE:FUNCTION` on the command line.

Try, the second one in the folder of this file, so that its name is a module's:

    dynalyze explain samples/custom_backend.py
    dynalyze bench custom_backend.py:Gate --input "torch.randn(4, 16)" --backend custom_backend:fold_silu
"""

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx, nn
from torch.nn import functional as F

folded: list[str] = []
"""What was rewritten, one line an operation."""


class Gate(nn.Module):
    """A gated layer, its activation written out."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.gate, self.value = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate = self.gate(x)
        return gate * torch.sigmoid(gate) * self.value(x)


def fold_silu(graph: fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
    """A backend: a graph and example inputs come in, a function of the same inputs goes out."""
    for product in graph.graph.find_nodes(op="call_function", target=operator.mul):
        x, activation = product.args
        if isinstance(activation, fx.Node) and activation.target is torch.sigmoid and activation.args == (x,):
            with graph.graph.inserting_before(product):
                product.replace_all_uses_with(graph.graph.call_function(F.silu, (x,)))
            graph.graph.erase_node(product)
            folded.append(f"{x} * sigmoid({x}) -> silu({x})")
    graph.graph.eliminate_dead_code()
    graph.recompile()
    return graph.forward


def main() -> None:
    torch._dynamo.register_backend(name="fold_silu", compiler_fn=fold_silu)
    torch.manual_seed(0)
    model = Gate()
    x = torch.randn(4, 16)
    compiled = torch.compile(model, backend="fold_silu")
    torch.testing.assert_close(compiled(x), model(x))
    print("folded", *folded)


if __name__ == "__main__":
    main()

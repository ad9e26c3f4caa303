"""A backend of one's own that has no sine, and says so as torch's own backends do."""

import torch
import torch._dynamo
from torch._subclasses.fake_tensor import DataDependentOutputException, UnsupportedOperatorException


def without_sine(graph, inputs):
    for node in graph.graph.nodes:
        if node.target == "sin":
            raise UnsupportedOperatorException(torch.ops.aten.sin.default)
        if node.target == "cos":
            raise DataDependentOutputException(torch.ops.aten.cos.default)
    return graph.forward


def wave(x):
    y = x.tanh()
    print("wave")
    return y.sin() + 1


def tide(x):
    return x.cos() + 1


def swell(x):
    return x.sin() - 1


if __name__ == "__main__":
    torch.compile(wave, backend=without_sine)(torch.ones(3))
    torch.compile(tide, backend=without_sine)(torch.ones(3))
    try:
        torch.compile(swell, backend=without_sine, fullgraph=True)(torch.ones(3))
    except torch._dynamo.exc.Unsupported:
        print("refused")

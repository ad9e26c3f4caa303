"""A backend that has no sine and says so with an exception that torch makes a graph break of."""

import torch
from torch._subclasses.fake_tensor import UnsupportedOperatorException


def without_sine(graph, inputs):
    if any(node.target in ("sin", torch.sin) for node in graph.graph.nodes):
        raise UnsupportedOperatorException(torch.ops.aten.sin.default)
    return graph.forward


@torch.compile(backend=without_sine)
def wave(x):
    return x.sin() + 1


@torch.compile(backend=without_sine)
def line(x):
    return x + 1


line(torch.ones(4))
wave(torch.ones(4))

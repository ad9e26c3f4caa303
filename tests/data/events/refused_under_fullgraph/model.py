"""Three refusals under fullgraph, each caught by the program: a call, a branch, and a helper's call."""

import time

import torch


@torch.compile(backend="eager", fullgraph=True)
def naps(x):
    time.sleep(0)
    return x + 1


@torch.compile(backend="eager", fullgraph=True)
def branches(x):
    if x.sum() > 0:
        return x + 1
    return x - 1


def helper(x):
    torch._dynamo.graph_break()
    return x * 2


@torch.compile(backend="eager", fullgraph=True)
def calls_helper(x):
    return helper(x) + 1


for function in (naps, branches, calls_helper):
    try:
        function(torch.ones(4))
    except torch._dynamo.exc.TorchDynamoException as error:
        print(type(error).__name__)

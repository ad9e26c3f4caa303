"""error_on_graph_break around a call, on a function inside, on a part of a function, and off again further in."""

import torch
import torch._dynamo
from torch._dynamo import error_on_graph_break


def around(x):
    y = x * 2
    print("around")
    return y + 1


@error_on_graph_break(True)
def strict(x):
    y = x * 3
    print("inside")
    return y + 1


def calls_strict(x):
    return strict(x) - 1


def in_part(x):
    with error_on_graph_break(True):
        x = x + 1
    print("after it")
    return x * 2


@error_on_graph_break(False)
def lenient(x):
    y = x / 2
    print("off again")
    return y + 1


def off_again(x):
    with error_on_graph_break(True):
        x = lenient(x)
    return x + 1


def attempt(function):
    try:
        function(torch.ones(3))
    except torch._dynamo.exc.Unsupported:
        print("refused")


if __name__ == "__main__":
    with error_on_graph_break(True):
        attempt(torch.compile(around, backend="eager"))
    for function in (calls_strict, in_part, off_again):
        attempt(torch.compile(function, backend="eager"))

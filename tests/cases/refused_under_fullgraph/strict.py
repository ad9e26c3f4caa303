"""Four functions that fullgraph refuses, each for another reason; the program carries on after each."""

import torch
import torch._dynamo


def announce(x):
    print("value", x.shape)
    return x


def with_print(x):
    y = x * 2
    return announce(y) + 1


def with_read(x):
    scale = x.max().item()
    return x / scale


def with_mask(x):
    positive = x[x > 0]
    return positive.sum()


def with_loop(x):
    for row in x:
        torch._dynamo.graph_break()
        x = x + row
    return x


if __name__ == "__main__":
    for function in (with_print, with_read, with_mask, with_loop):
        strict = torch.compile(function, backend="eager", fullgraph=True)
        try:
            strict(torch.ones(2, 2))
        except torch._dynamo.exc.Unsupported as refusal:
            print(function.__name__, "refused:", str(refusal).splitlines()[0])

"""Routes by torch.cond and its relatives. Each holds something that cannot be captured, in one branch or the other."""

import torch
import torch._dynamo
from torch._higher_order_ops import while_loop
from torch._higher_order_ops.map import map as map_rows
from torch.utils.checkpoint import checkpoint


def announce(x):
    print("the first way")
    return x + 1


def rescale(x):
    if x.max() > 3:
        x = x / 2
    return x


def read_out(row):
    return row * row.sum().item()


def count(step, x):
    torch._dynamo.graph_break()
    return step + 1, x * 2


def in_the_first(x):
    return torch.cond(x.sum() > 0, announce, torch.sin, (x,))


def in_the_second(x):
    return torch.cond(x.sum() > 0, torch.sin, rescale, (x,))


def in_the_inner(x):
    return torch.cond(x.sum() > 9, lambda x: torch.cond(x.sum() > 0, torch.cos, announce, (x,)), torch.sin, (x,))


def in_a_loop(x):
    return while_loop(lambda step, x: step < 3, count, (torch.tensor(0), x))[1]


def over_rows(x):
    return map_rows(read_out, x)


def kept_for_later(x):
    return checkpoint(announce, x, use_reentrant=False)


if __name__ == "__main__":
    for route in (in_the_first, in_the_second, in_the_inner, in_a_loop, over_rows):
        try:
            torch.compile(route, backend="eager")(torch.ones(2, 4))
        except torch._dynamo.exc.UncapturedHigherOrderOpError as error:
            print(route.__name__, "fails:", str(error).splitlines()[2])
        torch._dynamo.reset()
    torch.compile(kept_for_later, backend="eager")(torch.ones(2, 4, requires_grad=True))

"""One function for each kind of change that makes torch compile again, called before and after the change."""

import torch

GAIN = 1.5


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.power = 2
        self.name = "plain"

    def forward(self, x):
        return x**self.power + len(self.name)


def compiled(function):
    return torch.compile(function, backend="eager", dynamic=False)


@compiled
def by_shape(batch):
    return batch + 1


@compiled
def by_rank(grid):
    return grid + 1


@compiled
def by_stride(matrix):
    return matrix + 1


@compiled
def by_dtype(values):
    return values + 1


@compiled
def by_requires_grad(weight):
    return weight + 1


@compiled
def by_value(x, count):
    return x + count


@compiled
def by_text(x, mode):
    return x + 1 if mode == "up" else x - 1


@compiled
def by_none(x, mask=None):
    return x + 1 if mask is None else x + mask


@compiled
def by_length(x, parts):
    return x + len(parts)


@compiled
def by_keys(x, options):
    return x + options.get("bias", 0)


@compiled
def by_global(x):
    return x * GAIN


@compiled
def by_grad_mode(x):
    return x * 2


@compiled
def by_callable(x, function):
    return function(x)


@compiled
def by_aliasing(one, other):
    return one + other


x = torch.ones(4)
by_shape(torch.ones(4, 2))
by_shape(torch.ones(5, 2))
by_rank(torch.ones(4))
by_rank(torch.ones(4, 4))
by_stride(torch.ones(4, 6))
by_stride(torch.ones(6, 4).t())
by_dtype(torch.ones(4))
by_dtype(torch.ones(4, dtype=torch.float64))
by_requires_grad(torch.ones(4))
by_requires_grad(torch.ones(4, requires_grad=True))
by_value(x, 3)
by_value(x, 4)
by_text(x, "up")
by_text(x, "down")
by_none(x)
by_none(x, x)
by_length(x, [1])
by_length(x, [1, 2])
by_keys(x, {"bias": 1})
by_keys(x, {"scale": 1})
by_global(x)
GAIN = 2.5
by_global(x)
by_grad_mode(x)
with torch.no_grad():
    by_grad_mode(x)
by_callable(x, torch.sin)
by_callable(x, torch.cos)
by_aliasing(x, torch.zeros(4))
by_aliasing(x, x)
layer = Layer()
run_layer = torch.compile(layer, backend="eager", dynamic=False)
run_layer(x)
layer.power = 3
run_layer(x)

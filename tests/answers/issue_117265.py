"""A backward hook that is registered after the first call is never called."""

import torch


def build():
    layer = torch.nn.Linear(2, 2, bias=False)

    def program(x):
        return layer(x)

    program.layer = layer
    return program, (torch.ones(2),)


def use(program, compiled):
    compiled(torch.ones(2, requires_grad=True)).sum().backward()
    program.layer.register_full_backward_pre_hook(lambda module, grads: tuple(grad * 3 for grad in grads))
    x = torch.ones(2, requires_grad=True)
    compiled(x).sum().backward()
    return x.grad

"""Conditions of several operands, of which one looks at the values of a tensor."""

import torch


def drop_full_gate(h, gate=None):
    if gate is not None and gate.all():
        gate = None
    return h if gate is None else h * gate


def lifted(h, strict, gate):
    return h.cos() if not strict and not gate.any() else h.sin()


def lift(h, strict, gate):
    return lifted(h.exp(), strict, gate) + 1


def scale(h, steps):
    if steps > 1 and h.max() > 0.5:
        h = h * 2
    return h


def spread(h, gate):
    if (
        gate is not None
        and gate.sum() > 0
    ):
        h = h + 1
    return h


if __name__ == "__main__":
    h, gate = torch.ones(2), torch.tensor([True, False])
    for function, inputs in (
        (drop_full_gate, (h, gate)),
        (lift, (h, 0, gate)),
        (scale, (h, 3)),
        (spread, (h, gate)),
    ):
        print(torch.compile(function, backend="eager")(*inputs))

"""Three pieces of a controller whose control flow depends on the values of tensors."""

import torch


def clip_if_large(u):
    u = u * 1.5
    if u.abs().max() > 2.0:
        u = u.clamp(-2.0, 2.0)
    return u + 0.1


def settle(state):
    state = state * 0.5
    while state.norm() > 0.2:
        state = state * 0.5
    return state


def repeat(signal, count):
    signal = signal.sin()
    for _ in range(int(count)):
        signal = signal + 1
    return signal.cos()


if __name__ == "__main__":
    for function, inputs in (
        (clip_if_large, (torch.full((3,), 4.0),)),
        (settle, (torch.ones(3),)),
        (repeat, (torch.ones(3), torch.tensor(2))),
    ):
        print(torch.compile(function, backend="eager")(*inputs))

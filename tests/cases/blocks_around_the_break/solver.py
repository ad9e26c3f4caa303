"""Three ways to put a block around a line that breaks the graph: try, a torch context, a context of one's own."""

import contextlib

import torch

depth = 0


@contextlib.contextmanager
def deeper():
    global depth
    depth += 1
    try:
        yield
    finally:
        depth -= 1


@torch.compile(backend="eager")
def guarded(a, b):
    total = a @ b
    try:
        print("solving", tuple(a.shape))
        total = total + 1
    except RuntimeError:
        total = total * 0
    return total.sum()


@torch.compile(backend="eager")
def frozen(a, b):
    total = a @ b
    with torch.no_grad():
        total = total + 1
        print("frozen", tuple(a.shape))
        total = total * 2
    return total.sum()


@torch.compile(backend="eager")
def counted(a, b):
    total = a @ b
    with deeper():
        total = total + 1
        print("depth", depth)
        total = total * 2
    return total.sum()


if __name__ == "__main__":
    a, b = torch.eye(3), torch.ones(3, 3)
    print(guarded(a, b), frozen(a, b), counted(a, b))

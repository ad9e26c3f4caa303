"""A print under the user's own context manager, and one under no_grad, from which Dynamo can resume."""

import contextlib

import torch


@contextlib.contextmanager
def section(name):
    yield name


@torch.compile(backend="eager")
def own_manager(x):
    y = x * 2
    with section("inner"):
        print("under section")
        y = y + 1
    return y * 3


@torch.compile(backend="eager")
def under_no_grad(x):
    y = x * 2
    with torch.no_grad():
        print("under no_grad")
        y = y + 1
    return y * 3


own_manager(torch.ones(4))
under_no_grad(torch.ones(4))

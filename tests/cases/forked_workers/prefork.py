"""A server that forks its workers first; parent and child each compile a function of their own."""

import os

import torch


def answer(x):
    y = x * 2
    print("answer", y.shape)
    return y + 1


def audit(x):
    y = x + 3
    worst = y.max().item()
    return y / worst


if __name__ == "__main__":
    child = os.fork()
    if child == 0:
        torch.compile(answer, backend="eager")(torch.ones(2))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    torch.compile(audit, backend="eager")(torch.ones(2))
    raise SystemExit(os.waitstatus_to_exitcode(status))

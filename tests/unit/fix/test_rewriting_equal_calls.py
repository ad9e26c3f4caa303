"""Calls that cannot be traced, and those that do the same in their place, on source text."""

from __future__ import annotations

import pytest

from breaks_in_text import TENSOR, function, rewritten
from dynalyze.fix.sites import Value

DIST = {"dist": Value("module", "torch.distributed"),
        "dist__all_reduce": function("torch.distributed.distributed_c10d.all_reduce")}  # fmt: skip
ASYNC = "async_op=True for distributed collectives"
CLOSE = "Data dependent operator"
KNOWN = {"torch": Value("module", "torch"), "x": TENSOR, "y": TENSOR}


def waiting(line: str, **values: Value) -> str:
    text = rewritten(
        f"import torch.distributed as dist\ndef f(x):\n    {line}  # here\n", "wait-at-once", ASYNC, **values
    )
    return text.splitlines()[-1].strip() if text else ""


@pytest.mark.parametrize(
    ("line", "becomes"),
    [
        ("dist.all_reduce(x, async_op=True).wait()", "dist.all_reduce(x)"),
        ("dist.all_reduce(x, async_op=True, group=g).wait()", "dist.all_reduce(x, group=g)"),
        ("work = dist.all_reduce(x, async_op=True).wait()", ""),  # What it returns is looked at.
        ("dist.all_reduce(x, async_op=True)", ""),
        ("dist.all_reduce(x, async_op=True).wait(5)", ""),
        ("dist.all_reduce(x).wait()", ""),
    ],
)
def test_a_collective_that_is_waited_for_waits_itself(line: str, becomes: str) -> None:
    assert waiting(line, **DIST) == becomes


def test_what_is_waited_for_and_is_no_collective_stays() -> None:
    assert not waiting("dist.all_reduce(x, async_op=True).wait()", dist__all_reduce=function("mine.all_reduce"))


def close(line: str) -> str:
    text = rewritten(f"import torch\ndef f(x, y):\n    {line}\n", "close-as-tensor", CLOSE, **KNOWN)
    return "\n".join(text.splitlines()[2:]).strip() if text else ""


CALLS = {
    "torch": Value("module", "torch"), "x": TENSOR, "y": TENSOR, "a": Value("tensor", dtype="float32", dims=0),
    "b": Value("tensor", dtype="float32", dims=0), "Options": Value("class", "model.Options"),
    "make": Value("function", "model.make"), "Marked": Value("class", "model.Marked"),
}  # fmt: skip

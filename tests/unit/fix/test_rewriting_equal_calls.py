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


def test_whether_all_are_close_is_asked_with_a_tensor() -> None:
    assert close("if torch.allclose(x, y, atol=1e-3):  # here\n        return x") == (
        "if torch.isclose(x, y, atol=1e-3).all():\n        return x"
    )
    assert close("return x if not x.allclose(y) else y  # here") == "return x if not x.isclose(y).all() else y"
    assert not close("return torch.allclose(x, y)  # here"), "that is a bool of Python's"


@pytest.mark.parametrize(
    ("line", "becomes"),
    [
        ("for k, v in sorted(x.items()):", "for k, v in sorted(x.items(), key=lambda item: item[0]):"),
        ("for k, v in sorted(x.items(), reverse=True):",
         "for k, v in sorted(x.items(), reverse=True, key=lambda item: item[0]):"),
        ("for k, v in sorted(x.items(), key=len):", ""),
        ("for k, v in sorted(x):", ""),
        ("for k, v in sorted(x.items(1)):", ""),
    ],
)  # fmt: skip
def test_items_are_sorted_by_their_keys(line: str, becomes: str) -> None:
    source = f"def f(x):\n    {line}  # here\n        pass\n"
    text = rewritten(source, "sort-by-key", "sort with non-constant keys")
    assert (text.splitlines()[1].strip() if text else "") == becomes


CALLS = {
    "torch": Value("module", "torch"), "x": TENSOR, "y": TENSOR, "a": Value("tensor", dtype="float32", dims=0),
    "b": Value("tensor", dtype="float32", dims=0), "Options": Value("class", "model.Options"),
    "make": Value("function", "model.make"), "Marked": Value("class", "model.Marked"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("rewrite", "gb_type", "line", "becomes"),
    [
        ("no-out-argument", "Shape mismatch with out= tensor variant",
         "t = torch.empty(0)\n    torch.add(x, 1, out=t)  # here", "t = torch.add(x, 1)"),
        ("no-out-argument", "Shape mismatch with out= tensor variant", "torch.add(x, 1, out=y)  # here", ""),
        ("no-out-argument", "Shape mismatch with out= tensor variant",
         "t = y.view(-1)\n    torch.add(x, 1, out=t)  # here", ""),
        ("randint", "Tensor.random_ op", "n = torch.empty_like(x).random_(0, 5)  # here",
         "n = torch.randint(0, 5, x.shape, dtype=x.dtype, device=x.device)"),
        ("randint", "Tensor.random_ op", "x.random_(5)  # here",
         "x.copy_(torch.randint(0, 5, x.shape, dtype=x.dtype, device=x.device))"),
        ("randint", "Tensor.random_ op", "x.random_()  # here", ""),
        ("randint", "Tensor.random_ op", "n = torch.empty(3).random_(0, 5)  # here", ""),
        ("dictionary", "TypedDict with optional keys", "o = Options(scale=2, deep=x)  # here",
         'o = {"scale": 2, "deep": x}'),
        ("dictionary", "TypedDict with optional keys", "o = Options({'scale': 2})  # here", ""),
        ("dictionary", "TypedDict with optional keys", "o = Options(**y)  # here", ""),
        ("dictionary", "TypedDict with optional keys", "o = make(scale=2)  # here", ""),
        ("elements-compared", "list_richcompare_nonconst", "s = [a, x.sum()] == [b, 1]  # here",
         "s = ((a == b) & (x.sum() == 1))"),
        ("elements-compared", "list_richcompare_nonconst", "s = [a, x] == [b, y]  # here", ""),
        ("elements-compared", "list_richcompare_nonconst", "s = [a, b] == [b]  # here", ""),
        ("tensor-given", "Calling subclass default constructor with more than tensor argument",
         "z = Marked([1.0]) * x  # here", "z = Marked(torch.tensor([1.0], dtype=torch.get_default_dtype())) * x"),
        ("tensor-given", "Calling subclass default constructor with more than tensor argument",
         "z = Marked(x, 1) * x  # here", ""),
    ],
)  # fmt: skip
def test_what_does_the_same_takes_its_place(rewrite: str, gb_type: str, line: str, becomes: str) -> None:
    text = rewritten(f"import torch\ndef f(x, y):\n    {line}\n", rewrite, gb_type, **CALLS)
    assert (text.splitlines()[-1].strip() if text else "") == becomes

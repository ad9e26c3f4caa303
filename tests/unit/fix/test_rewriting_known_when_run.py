"""Sizes and whole numbers that the data decide, by operators of our own: as source, and compiled without a setting."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from rewriting_cases import ITEM, KNOWN, SHAPE, changed

from dynalyze.fix.rewriting import proposals
from dynalyze.fix.sites import Site
from dynalyze.report import GraphBreak, Location

_SIZE, _NUMBER = "size-known-when-run", "number-known-when-run"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("y = x[mask]", "y = x[_nonzero(mask).unbind(1)]"),
        ("y = x[mask & (x > 0)] * 2", "y = x[_nonzero(mask & (x > 0)).unbind(1)] * 2"),
        ("y = x[mask.to(x.device)]", "y = x[_nonzero(mask.to(x.device)).unbind(1)]"),
        ("y = x[:, rows]", "y = x[:, _nonzero(rows).squeeze(1)]"),
        ("y = mask.nonzero()", "y = _nonzero(mask)"),
        ("y, z = torch.nonzero(mask, as_tuple=True)", "y, z = _nonzero(mask).unbind(1)"),
        ("y, z = torch.where(mask)", "y, z = _nonzero(mask).unbind(1)"),
        ("y = torch.masked_select(x, mask)", "y = x[_nonzero(mask).unbind(1)]"),
        ("y = torch.unique(counts)", "y = _unique(counts)[0]"),
        ("y, z = torch.unique(counts, return_counts=True)", "y, z = _unique(counts)[::2]"),
        ("y = torch.bincount(counts, minlength=size)", "y = _bincount(counts, size)"),
    ],
)
def test_a_size_that_the_data_decide_is_made_by_an_operator(before: str, after: str) -> None:
    made = changed(SHAPE, f"{before}  # here\nreturn y", late=True)[_SIZE]
    assert made.endswith(f"{after}\nreturn y") or f"    {after}\n" in made
    assert "def _new_size(" in made and ".register_fake" in made


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("y = n.item()", "y = _number(n)"),
        ("y = int(counts.max())", "y = int(_number(counts.max()))"),
        ("y = int(counts.max().item())", "y = int(_number(counts.max()))"),
        ("y = counts.tolist()", "y = _numbers(counts)"),
        ("y = torch.arange(n)", "y = torch.arange(_number(n))"),
        ("y = x.new_zeros((size, n))", "y = x.new_zeros((size, _number(n)))"),
        ("y = x[:n]", "y = x[:_number(n)]"),
    ],
)
def test_a_whole_number_is_read_by_an_operator(before: str, after: str) -> None:
    assert f"    {after}\n" in changed(ITEM, f"{before}  # here\nreturn y", late=True)[_NUMBER]


@pytest.mark.parametrize(
    "statement",
    ["x[mask] = 0", "y = x[size]", "y = torch.unique(counts, dim=0)", "y = torch.bincount(counts, weights=vector)",
     "y = torch.nonzero(mask, as_tuple=flag)"],
)  # fmt: skip
def test_what_has_no_such_operator_is_left_alone(statement: str) -> None:
    assert _SIZE not in changed(SHAPE, f"{statement}  # here\nreturn x", late=True)


def test_real_numbers_are_not_read_so() -> None:
    assert _NUMBER not in changed(ITEM, "y = x.mean().item()  # here\nreturn y", late=True)
    assert _NUMBER in changed(ITEM, "y = x.argmax().item()  # here\nreturn y", late=True)
    assert _NUMBER in changed(ITEM, "y = (x > 0).sum().item()  # here\nreturn y", late=True)


def test_a_file_with_another_function_of_that_name_is_left_alone() -> None:
    text = "import torch\n\n\ndef _nonzero(x):\n    return x\n\n\ndef f(x, mask):\n    return x[mask]\n"
    place = Location("model.py", 9, None, "f")
    site = Site(GraphBreak("b1", None, SHAPE, "split", place, [place]), text, 9, KNOWN)
    assert _SIZE not in {each.rewrite for each in proposals(site)}


_PROGRAM = """import torch


def f(x, mask, counts):
    y = x[mask]
    z = x[~mask]
    kinds, often = torch.unique(counts, return_counts=True)
    wide = torch.repeat_interleave(x, counts, dim=0)
    total = counts.sum().item()
    return y * 2, z.sum(0), kinds, often, wide, x.new_zeros(total + 1), torch.bincount(counts)
"""


def _all_by_operators(text: str) -> str:
    """The program with each line changed by the first proposal for it."""
    for line in ("y = x[mask]", "z = x[~mask]", "torch.unique(counts", "wide = torch.rep", "total =", "return y"):
        found = next(number for number, each in enumerate(text.splitlines(), 1) if line in each and each[:4].isspace())
        kind = ITEM if line == "total =" else SHAPE
        place = Location("model.py", found, None, "f")
        site = Site(GraphBreak("b1", None, kind, "split", place, [place]), text, found,
                    {**KNOWN, "mask": KNOWN["rows"]})  # fmt: skip
        text = next(each.source for each in proposals(site) if each.late)
    return text


def _ran(source: str) -> dict[str, Any]:
    space: dict[str, Any] = {"__name__": "model"}
    exec(compile(source, "model.py", "exec"), space)
    return space


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_they_compile_to_one_graph_with_default_settings_and_give_the_same(backend: str) -> None:
    text = _all_by_operators(_PROGRAM)
    before, space = _ran(_PROGRAM)["f"], _ran(text)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    # fullgraph=True would turn the settings on.
    compiled = torch.compile(space["f"], backend=backend)
    for chosen in (0, 1, 5, 7):
        x = torch.arange(21.0).reshape(7, 3).requires_grad_()
        mask, counts = torch.arange(7) < chosen, torch.arange(7) % 3
        wanted, got, plain = before(x, mask, counts), compiled(x, mask, counts), space["f"](x, mask, counts)
        for one, other, third in zip(wanted, got, plain, strict=True):
            assert torch.equal(one, other) and torch.equal(one, third) and one.dtype == other.dtype
        slopes = [torch.autograd.grad(sum(each.sum() for each in (y, z, wide)), x)[0]
                  for y, z, _, _, wide, _, _ in (wanted, got)]  # fmt: skip
        assert torch.equal(*slopes)
    assert not torch._dynamo.utils.counters["graph_break"]
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


def test_torch_itself_finds_the_operators_right() -> None:
    space = _ran(_all_by_operators(_PROGRAM))
    mask, counts = torch.tensor([True, False, True]), torch.tensor([1, 0, 2])
    for name, given in {
        "nonzero": (mask,),
        "unique": (counts,),
        "bincount": (counts, 5),
        "number": (counts[2],),
    }.items():
        torch.library.opcheck(space[f"_{name}_op"], given)

"""Sizes that only the data know, and who asks for them: as source and running."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from dynalyze.fix.rewriting import proposals
from dynalyze.fix.sites import Proposal, Site, Value
from dynalyze.report import GraphBreak, Location

_KNOWN = {"causal": Value("bool"), "mask": Value("tensor", "Tensor", "float32", 2), "n": Value("int", number=5),
          "x": Value("tensor", "Tensor", "float32", 2, sizes=(6, 4)),
          "chosen": Value("tensor", "Tensor", "bool", 1, sizes=(6,)), "torch": Value("module", "torch")}  # fmt: skip
_PROGRAM = """import torch
import torch.nn.functional as F


def attention(q, mask, causal):
    n = q.shape[2]
    causal = n > 1 and mask is None and causal
    return F.scaled_dot_product_attention(q, q, q, attn_mask=mask, is_causal=causal)


def f(x, chosen):
    rows = x[chosen]
    q = rows.view(1, 1, -1, 4)
    mask = torch.zeros(q.shape[2], q.shape[2])
    return attention(q, mask, causal=False).sum()
"""


def _proposed(rewrite: str, text: str = _PROGRAM) -> list[Proposal]:
    asked = rewrite == "size-asked-last"
    line = next(
        number for number, each in enumerate(text.splitlines(), 1) if ("n > 1" if asked else "[chosen]") in each
    )
    place = Location("model.py", line, None, "f")
    guarded = "Consider annotating your code using torch._check*(). Could not guard on data-dependent expression u0 > 1"
    broken = GraphBreak("b1", None, guarded if asked else "Dynamic shape operator", "split", place, [place])
    found = proposals(Site(broken, text, line, _KNOWN))
    return [each for each in found if each.rewrite == rewrite]


def test_the_size_is_asked_last() -> None:
    (proposal,) = _proposed("size-asked-last")
    assert "    causal = True if mask is None and causal and n > 1 else False\n" in proposal.source
    assert not proposal.settings


@pytest.mark.parametrize(
    "old, new",
    [
        ("n > 1 and mask is None and causal", "mask is None and causal and n > 1"),
        ("n > 1 and mask is None and causal", "n > 1 and mask.shape[0] > 2"),
        ("n > 1 and mask is None and causal", "n > 1 and other"),
        ("n > 1 and mask is None and causal", "n > 1 and n"),
    ],
)
def test_what_must_be_asked_after_it_or_may_be_no_bool_is_left_alone(old: str, new: str) -> None:
    assert not _proposed("size-asked-last", _PROGRAM.replace(old, new))


def test_a_check_where_the_size_comes_from_lets_attention_be_compiled() -> None:
    bare, checked = _proposed("size-known-when-run")
    assert not bare.settings and not checked.settings
    space: dict[str, object] = {"__name__": "model"}
    exec(compile(checked.source, "model.py", "exec"), space)
    torch._dynamo.reset()
    x, chosen = torch.randn(6, 4), torch.tensor([1, 0, 1, 1, 0, 1]).bool()
    compiled = torch.compile(space["f"], backend="eager")  # type: ignore[call-overload]
    torch._dynamo.utils.counters.clear()
    q = x[chosen].view(1, 1, -1, 4)
    torch.testing.assert_close(compiled(x, chosen), F.scaled_dot_product_attention(q, q, q).sum())
    with pytest.raises(RuntimeError):
        compiled(x, torch.tensor([1, 0, 0, 0, 0, 0]).bool())
    assert not torch._dynamo.utils.counters["graph_break"]
    assert space["f"](x, torch.tensor([1, 0, 0, 0, 0, 0]).bool()) is not None  # type: ignore[operator]

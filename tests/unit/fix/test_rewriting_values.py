"""Reads, checks, masks and sizes, on source text."""

from __future__ import annotations

import pytest
import rewriting_cases
from rewriting_cases import BRANCH, ITEM, SHAPE, changed

from dynalyze.fix.sites import Value


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("y = x / x.max().item()", "y = x / x.max().detach()"),
        ("y = x - x[0, 0].item()", "y = x - x[0, 0].detach().clone()"),
        ("y = int(n) + x", "y = n.long() + x"),
        ("k = x.sum().item()  # here\ny = k * x if k > 1 else x", "k = x.sum().detach()\ny = k * x if k > 1 else x"),
    ],
)
def test_values_are_left_in_their_tensor(line: str, expected: str) -> None:
    marked = line if "# here" in line else f"{line}  # here"
    assert changed(ITEM, f"{marked}\nreturn y")["keep-in-tensor"] == f"{expected}\nreturn y"


@pytest.mark.parametrize(
    "body",
    [
        "y = 1 / n.item()  # here\nreturn y",  # Python raises for 0.
        "k = n.item()  # here\nreturn 3 // k",
        "y = torch.arange(n.item())  # here\nreturn y",
        "y = x[: n.item()]  # here\nreturn y",
        "y = f'{n.item()}'  # here\nreturn y",
        "y = x + (n.item() * 2654435761 + 7) % 1000003  # here\nreturn y",  # Python's whole numbers have no limit.
        "k = n.item()  # here\ny = x + (k * 2654435761 + 7) % 1000003\nreturn y",
        "y = x * (x.sum().item() + y.sum().item())  # here\nreturn y",  # A sum in double precision.
        "total = x.sum().item()  # here\ntotal += y.sum().item()\nreturn x / total",
        "y = half * x.sum().item()  # here\nreturn y",  # Of another dtype: rounded otherwise.
        "y = 1 / x.sum().item() * x  # here\nreturn y",
        "k = x.sum().item()  # here\nif k > 0.1:\n    x = -x\nreturn x",  # float32 has no 0.1.
        "largest = (x.abs() * mask).max().item() or 1.0  # here\nreturn x / largest",
        "self.last = x.mean().item()  # here\nreturn x",
        "return x, x.mean().item()  # here",
        "x = x ** n.item()  # here\nreturn x",
        "k = mask.sum().item() == size  # here\nreturn x, k",
    ],
)
def test_values_that_only_python_can_have_are_still_read(body: str) -> None:
    assert "keep-in-tensor" not in changed(ITEM, body)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            "if (x < 0).any():  # here\n    raise ValueError('negative')\nreturn x",
            "if torch.compiler.is_compiling():\n"
            "    assert torch.logical_not((x < 0).any()), 'negative'\n"
            "elif (x < 0).any():\n    raise ValueError('negative')\nreturn x",
        ),
        (
            "assert counts.max().item() <= size  # here\nreturn x",
            "if torch.compiler.is_compiling():\n"
            "    assert (counts.max() <= size), 'counts.max().item() <= size'\n"
            "else:\n    assert counts.max().item() <= size\nreturn x",
        ),
        (
            "if n > 3:  # here\n    raise ValueError('large')\nelse:\n    x = x * 2\nreturn x",
            "if torch.compiler.is_compiling():\n    assert torch.logical_not((n > 3)), 'large'\n"
            "elif n > 3:\n    raise ValueError('large')\nx = x * 2\nreturn x",
        ),
        (
            "torch._check_tensor_all(mask)  # here\nreturn x",
            "if torch.compiler.is_compiling():\n    assert mask.all(), 'a check failed'\n"
            "else:\n    torch._check_tensor_all(mask)\nreturn x",
        ),
    ],
)
def test_checks_become_assertions_of_the_graph_in_compiled_code(body: str, expected: str) -> None:
    assert changed(ITEM, body)["assert-in-graph"] == expected


def test_a_check_with_a_part_of_python_is_no_other_check() -> None:
    assert changed(BRANCH, "assert flag and (x > 0).all()  # here\nreturn x") == {}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("y = x[mask].sum()", "y = x.masked_fill(~mask, 0).sum()"),
        ("y = x[x > 0].mean()", "y = x.masked_fill(~(x > 0), 0).sum() / (x > 0).sum()"),
        ("y = x[rows].mean(0)", "y = x.masked_fill(~rows[..., None], 0).sum(0) / rows.sum()"),
        ("y = mask[rows].any()", "y = (mask & rows[..., None]).any()"),
        ("x[rows] = y[rows]", "x.copy_(torch.where(rows[..., None], y, x))"),
        ("x[mask] = y[mask] * 2 + n", "x.copy_(torch.where(mask, (y * 2 + n), x))"),
        ("y = x / x[mask].mean()", "y = x / (x.masked_fill(~mask, 0).sum() / mask.sum())"),
        ("if mask.any():\n    x[mask] = 0.0", "x[mask] = 0.0"),
        ("if rows.sum().item() > 0:\n    x[rows] += vector", "x[rows] += vector"),
        ("x[rows] += vector", "x.copy_(torch.where(rows[..., None], x + vector, x))"),
        (
            "if x.sum() > 0:\n    y[y.sum(dim=1).eq(0)] = 1.0",
            "y.copy_(torch.where((x.sum() > 0).reshape(()) & y.sum(dim=1).eq(0)[..., None], 1.0, y))",
        ),
    ],
)
def test_masks_leave_out_in_the_place_of_choosing(line: str, expected: str) -> None:
    first, *rest = line.splitlines()
    found = changed(SHAPE, "\n".join([f"{first}  # here", *rest, "return y"])).values()
    assert next(iter(found)) == f"{expected}\nreturn y"


@pytest.mark.parametrize(
    "line",
    [
        "y = half[mask].mean()",  # The sum may overflow.
        "y = half[mask].numel() == size",  # No tensor but a bool.
        "y = half / half[mask].numel()",
        "y = x[mask].max()",  # Raises where nothing is chosen.
        "x[mask] = y[rows]",
        "x[mask] = y",
        "x[mask] = y[mask].cumsum(0)",
        "x[mask] = 1 / y[mask]",
        "x[rows] = torch.sqrt(y[rows])",
        "x[rows] = unknown(y[rows])",
    ],
)
def test_masks_that_say_something_else_are_left_alone(line: str) -> None:
    assert changed(SHAPE, f"{line}  # here\nreturn y") == {}


@pytest.mark.parametrize(
    "guarded",
    [
        "if mask.any():  # here\n    x[mask] = y[mask].max()",  # Raises where nothing is chosen.
        "if mask.any():  # here\n    x[rows] = 0.0",
        "if mask.any():  # here\n    x[mask] = 0.0\n    y = y + 1",
        "if mask.all():  # here\n    x[mask] = 0.0",
    ],
)
def test_a_guard_of_more_than_a_mask_stays(guarded: str) -> None:
    assert "unguarded-mask" not in changed(SHAPE, f"{guarded}\nreturn x")


def test_a_list_of_modules_is_no_tensor_and_a_lone_number_none_either() -> None:
    assert changed(ITEM, "y = gains[n]  # here\nreturn y") == {}
    assert changed(ITEM, "y = sorted(x)  # here\nreturn y") == {}  # Rows cannot be compared.


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("self.encode(x, mask=mask)", "self.encode(x, mask=mask, is_causal=False)"),
        ("self.encode(x, mask)", "self.encode(x, mask, is_causal=False)"),
        ("self.encode(x)", None),
        ("self.encode(x, mask=mask, is_causal=True)", None),
        ("self.encode(x, **mask)", None),
        ("self.f(x, mask=mask)", None),
    ],
)
def test_torchs_encoder_is_told_that_the_mask_may_be_any(was: str, becomes: str | None) -> None:
    encoder = Value("nn.Module", "torch.nn.modules.transformer.TransformerEncoder")
    found = changed(ITEM, f"y = {was}  # here\nreturn y", {**rewriting_cases.KNOWN, "self.encode": encoder})
    assert ("causal-mask" in found) is (becomes is not None)
    assert becomes is None or becomes in found["causal-mask"]

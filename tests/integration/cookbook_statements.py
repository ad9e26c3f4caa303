"""Statements that recipes must fit, with the change that is advised made in them, and near misses.

Each is a module that defines `f`, as in the cookbook. `fitting` are shapes other than the recipe's own example: other
names, more operands, one line for two. `near` look like it and must get no such advice: it would be wrong there.
"""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import dedent

MASK = "torch.tensor([True, False, True, True])"


@dataclass(frozen=True)
class Fitting:
    recipe: str
    before: str
    after: str
    inputs: str


@dataclass(frozen=True)
class Near:
    """A break for which `recipe`, which fits something alike, says nothing true; `chosen` is what does, if anything."""

    recipe: str
    code: str
    inputs: str
    chosen: str | None = None


def fitting(recipe: str, before: str, after: str, inputs: str) -> Fitting:
    return Fitting(recipe, _module(before), _module(after), inputs)


def near(recipe: str, code: str, inputs: str, chosen: str | None = None) -> Near:
    return Near(recipe, _module(code), inputs, chosen)


def _module(body: str) -> str:
    return f"import torch\nimport torch.nn.functional as F\n\n\n{dedent(body).strip()}\n"


FITTING = (
    fitting(
        "data-dependent-if",
        """
        def f(h, gate):
            if (gate > 0).all():
                out = h * gate
            else:
                out = h - 1
            return out
        """,
        """
        def f(h, gate):
            out = torch.where((gate > 0).all(), h * gate, h - 1)
            return out
        """,
        "(torch.ones(3), torch.tensor([1.0, -1.0, 2.0]))",
    ),
    fitting(
        "data-dependent-if",
        "def f(h): return h * 2 if h.sum() > 3 else h",
        "def f(h): return torch.where(h.sum() > 3, h * 2, h)",
        "(torch.ones(4),)",
    ),
    fitting(
        "data-dependent-if",
        """
        def f(h, gate):
            if gate.max() > 0:
                h = h + 1
                return h.relu()
            else:
                return h
        """,
        """
        def f(h, gate):
            return torch.where(gate.max() > 0, (h + 1).relu(), h)
        """,
        "(-torch.ones(3), torch.tensor([1.0]))",
    ),
    fitting(
        "conditional-update",
        """
        def f(grad, limit):
            if grad.norm() > limit: grad = grad * (limit / grad.norm())
            return grad + 1
        """,
        """
        def f(grad, limit):
            grad = torch.where(grad.norm() > limit, grad * (limit / grad.norm()), grad)
            return grad + 1
        """,
        "(torch.ones(4), 1.0)",
    ),
    fitting(
        "conditional-update",
        """
        def f(h, w):
            if torch.any(h < 0):
                h += w
            return h * 2
        """,
        """
        def f(h, w):
            h = torch.where(torch.any(h < 0), h + w, h)
            return h * 2
        """,
        "(torch.tensor([-1.0, 2.0]), 3.0)",
    ),
    fitting(
        "overflow-clamp",
        """
        def f(scores):
            if scores.isnan().any() or scores.isinf().any():
                scores = torch.nan_to_num(scores)
            return scores * 2
        """,
        """
        def f(scores):
            scores = torch.nan_to_num(scores)
            return scores * 2
        """,
        "(torch.tensor([1.0, float('nan')]),)",
    ),
    fitting(
        "data-dependent-while",
        """
        def f(error, rate):
            while error.sum() > 0.1:
                error = error * rate
            return error
        """,
        """
        def f(error, rate):
            for _ in range(12):
                error = torch.where(error.sum() > 0.1, error * rate, error)
            return error
        """,
        "(torch.ones(2), 0.5)",
    ),
    fitting(
        "tensor-range",
        """
        def f(h, turns):
            for i in range(turns.sum().item()):
                h = h + i
            return h
        """,
        """
        def f(h, turns):
            for i in range(6):
                h = torch.where(i < turns.sum(), h + i, h)
            return h
        """,
        "(torch.ones(2), torch.tensor([1, 2]))",
    ),
    fitting(
        "tensor-assert",
        """
        def f(h):
            assert (h > 0).all() and (h < 9).all(), "out of range"
            return h.log()
        """,
        """
        def f(h):
            assert ((h > 0) & (h < 9)).all(), "out of range"
            return h.log()
        """,
        "(torch.ones(3),)",
    ),
    fitting(
        "data-dependent-raise",
        """
        def f(h):
            if torch.isnan(h).any():
                text = "nan"
                raise RuntimeError(text)
            return h.relu()
        """,
        """
        def f(h):
            assert (~torch.isnan(h)).all(), "nan"
            return h.relu()
        """,
        "(torch.ones(3),)",
    ),
    fitting(
        "tensor-item",
        """
        def f(h):
            peak = h.max().item() * 2
            return h / peak
        """,
        """
        def f(h):
            peak = h.max() * 2
            return h / peak
        """,
        "(torch.arange(1.0, 4.0),)",
    ),
    fitting(
        "data-dependent-slice",
        "def f(h, lengths): return h[: int(lengths.max())].sum() * 2",
        """
        def f(h, lengths):
            keep = torch.arange(h.shape[0], device=h.device) < lengths.max()
            return torch.where(keep, h, 0.0).sum() * 2
        """,
        "(torch.ones(5), torch.tensor([2, 3]))",
    ),
    fitting(
        "data-dependent-size",
        """
        def f(h, sizes):
            mask = torch.arange(int(sizes.max()), device=h.device)[None] < sizes[:, None]
            return (h * mask).sum()
        """,
        """
        def f(h, sizes):
            mask = torch.arange(h.shape[1], device=h.device)[None] < sizes[:, None]
            return (h * mask).sum()
        """,
        "(torch.ones(2, 3), torch.tensor([1, 3]))",
    ),
    fitting(
        "tensor-index-of-list",
        """
        class Table:
            gains = [0.5, 2.0]

        table = Table()

        def f(h, which):
            return h + table.gains[which]
        """,
        """
        class Table:
            gains = torch.tensor([0.5, 2.0])

        table = Table()

        def f(h, which):
            return h + table.gains[which]
        """,
        "(torch.ones(3), torch.tensor(1))",
    ),
    fitting(
        "boolean-mask",
        "def f(loss, labels): return loss[labels != 2].mean() + 1",
        "def f(loss, labels): return torch.where(labels != 2, loss, 0.0).sum() / (labels != 2).sum() + 1",
        "(torch.tensor([1.0, float('inf'), 3.0]), torch.tensor([0, 2, 1]))",
    ),
    fitting(
        "boolean-mask",
        "def f(loss, keep): return torch.masked_select(loss, keep).mean()",
        "def f(loss, keep): return torch.where(keep, loss, 0.0).sum() / keep.sum()",
        f"(torch.arange(4.0), {MASK})",
    ),
    fitting(
        "boolean-mask-sum",
        "def f(loss, a, b): return loss[a & ~b].sum()",
        "def f(loss, a, b): return torch.where(a & ~b, loss, 0.0).sum()",
        f"(torch.arange(4.0), {MASK}, torch.tensor([True, True, False, True]))",
    ),
    fitting(
        "masked-update",
        """
        def f(x, mask, w):
            x[mask] -= w
            return x
        """,
        """
        def f(x, mask, w):
            x -= torch.where(mask[:, None], w, 0)
            return x
        """,
        f"(torch.ones(4, 2), {MASK}, torch.tensor([1.0, 2.0]))",
    ),
    fitting(
        "masked-update",
        """
        def f(x):
            x[x > 1] += 0.5
            return x
        """,
        """
        def f(x):
            x += torch.where(x > 1, 0.5, 0)
            return x
        """,
        "(torch.arange(4.0),)",
    ),
    fitting(
        "masked-copy",
        """
        def f(x, keep, other):
            x[~keep] = other[~keep]
            return x
        """,
        """
        def f(x, keep, other):
            x.copy_(torch.where((~keep)[:, None], other, x))
            return x
        """,
        f"(torch.ones(4, 2), {MASK}, torch.zeros(4, 2))",
    ),
    fitting(
        "nonzero",
        """
        def f(h, limit):
            bad = (h > limit).nonzero().flatten()
            h = h.index_fill(0, bad, -1.0)
            return h
        """,
        """
        def f(h, limit):
            h = h.masked_fill(h > limit, -1.0)
            return h
        """,
        "(torch.arange(5.0), 2.0)",
    ),
    fitting(
        "where-indices",
        """
        def f(h, picked, w):
            out = torch.zeros_like(h)
            chosen, = torch.where(picked)
            return out.index_add(0, chosen, h[chosen] @ w)
        """,
        """
        def f(h, picked, w):
            return (h @ w) * picked[:, None]
        """,
        f"(torch.ones(4, 2), {MASK}, torch.eye(2))",
    ),
    fitting(
        "unique",
        "def f(ids, h): return h * ids.unique().numel()",
        """
        def f(ids, h):
            ordered = ids.flatten().sort().values
            return h * ((ordered[1:] != ordered[:-1]).sum() + 1)
        """,
        "(torch.tensor([[3, 1], [3, 2]]), torch.ones(2))",
    ),
    fitting(
        "data-dependent-result",
        """
        def f(a, b):
            if torch.equal(a, b):
                a = a * 2
            return a
        """,
        """
        def f(a, b):
            a = torch.where((a == b).all(), a * 2, a)
            return a
        """,
        "(torch.ones(3), torch.ones(3))",
    ),
    fitting(
        "tensor-tolist",
        """
        def f(rows, sizes):
            total = 0.0
            for row, size in zip(rows, sizes.tolist()):
                total += row[:size].sum()
            return total
        """,
        """
        def f(rows, sizes):
            keep = torch.arange(rows.shape[1]) < sizes[:, None]
            return torch.where(keep, rows, 0.0).sum()
        """,
        "(torch.ones(2, 3), torch.tensor([1, 2]))",
    ),
    fitting(
        "sorted-tensor",
        "def f(h): return h * sorted(h)[-1]",
        "def f(h): return h * h.sort().values[-1]",
        "(torch.tensor([1.0, 3.0, 2.0]),)",
    ),
    fitting(
        "tensor-through-numpy",
        """
        def f(h):
            scale = float(h.numpy().max()) + 1
            return h / scale
        """,
        """
        def f(h):
            scale = h.max() + 1
            return h / scale
        """,
        "(torch.arange(1.0, 4.0),)",
    ),
    fitting(
        "one-hot-of-largest",
        "def f(kinds): return F.one_hot(kinds, max(3, kinds.max() + 1))[:, :3] * 2",
        "def f(kinds): return F.one_hot(kinds.clamp(max=3), 4)[:, :3] * 2",
        "(torch.tensor([0, 1, 2, 5]),)",
    ),
    fitting(
        "any-mask",
        """
        def f(h, padding=None):
            if padding is not None and not padding.any():
                padding = None
            return h if padding is None else h.masked_fill(padding, 0.0)
        """,
        """
        def f(h, padding=None):
            return h if padding is None else h.masked_fill(padding, 0.0)
        """,
        "(torch.ones(4), torch.zeros(4, dtype=torch.bool))",
    ),
    fitting(
        "any-mask",
        """
        def visible(mask):
            if torch.all(mask == 1):
                return None
            return mask.bool()

        def f(h, mask):
            kept = visible(mask)
            return h if kept is None else torch.where(kept, h, -h)
        """,
        """
        def visible(mask):
            return mask.bool()

        def f(h, mask):
            kept = visible(mask)
            return h if kept is None else torch.where(kept, h, -h)
        """,
        "(torch.ones(4), torch.tensor([1, 0, 1, 1]))",
    ),
    fitting(
        "random-branch",
        """
        import random

        def f(h, rate, strict=False):
            if not strict and random.random() >= rate:
                h = h.sin()
            return h * 2
        """,
        """
        def f(h, rate, strict=False):
            if not strict:
                h = torch.where(torch.rand(()) >= rate, h.sin(), h)
            return h * 2
        """,
        "(torch.ones(4), 0.0)",
    ),
    fitting(
        "random-branch",
        """
        import random

        def f(h, rate):
            return h.cos() if rate > random.random() else h + 1
        """,
        """
        def f(h, rate):
            return torch.where(rate > torch.rand(()), h.cos(), h + 1)
        """,
        "(torch.ones(4), 0.0)",
    ),
    fitting(
        "random-branch",
        """
        def f(h, rate):
            if torch.rand(1) < rate:
                h = h.flip(0)
            return h * 2
        """,
        """
        def f(h, rate):
            h = torch.where(torch.rand(()) < rate, h.flip(0), h)
            return h * 2
        """,
        "(torch.arange(4.0), 1.0)",
    ),
    fitting(
        "layer-drop",
        """
        import random

        blocks = [torch.sin, torch.tanh]

        def f(hidden, keep_rate, training=True):
            for block in blocks:
                if training and random.random() > keep_rate:
                    continue
                hidden = block(hidden)
            return hidden
        """,
        """
        blocks = [torch.sin, torch.tanh]

        def f(hidden, keep_rate, training=True):
            for block in blocks:
                keep = (torch.rand(()) <= keep_rate).to(hidden.dtype) if training else 1
                hidden = keep * block(hidden) + (1 - keep) * hidden
            return hidden
        """,
        "(torch.ones(4), 1.0)",
    ),
    fitting(
        "layer-drop",
        """
        blocks = [torch.sin, torch.tanh]

        def f(hidden, rate):
            for block in blocks:
                if torch.rand(()) < rate:
                    continue
                hidden = hidden + block(hidden)
            return hidden
        """,
        """
        blocks = [torch.sin, torch.tanh]

        def f(hidden, rate):
            for block in blocks:
                keep = (torch.rand(()) >= rate).to(hidden.dtype)
                hidden = hidden + keep * block(hidden)
            return hidden
        """,
        "(torch.ones(4), 1.0)",
    ),
    fitting(
        "conditional-skip",
        """
        def f(h, gates):
            for gate in gates:
                if not gate.any():
                    continue
                h = h * gate
            return h
        """,
        """
        def f(h, gates):
            for gate in gates:
                h = torch.where(~gate.any(), h, h * gate)
            return h
        """,
        "(torch.ones(4), [torch.zeros(4), torch.tensor([1.0, 2.0, 3.0, 4.0])])",
    ),
)

NEAR = (
    near(
        "data-dependent-raise",
        """
        def step(h):
            return h * 0.5

        def f(h):
            if (h > 1).any():
                h = step(h)
            return h
        """,
        "(torch.tensor([1.0, 2.0]),)",
        "conditional-update",
    ),
    near(
        "data-dependent-raise",
        """
        def f(h):
            if (h > 9).any():
                raise ValueError("large")
            else:
                h = h + 1
            return h
        """,
        "(torch.ones(2),)",
    ),
    near(
        "conditional-update",
        """
        seen = []

        def f(h):
            if h.sum() > 1:
                seen.append(1)
            return h * 2
        """,
        "(torch.ones(2),)",
    ),
    near(
        "data-dependent-if",
        """
        def f(h):
            if h.sum() > 1:
                return None
            return h * 2
        """,
        "(torch.zeros(2),)",
    ),
    near(
        "data-dependent-if",
        """
        def f(h):
            if h.sum() > 1:
                kind = "large"
            else:
                kind = "small"
            return h * len(kind)
        """,
        "(torch.ones(2),)",
    ),
    near(
        "overflow-clamp",
        """
        def f(h):
            if torch.isinf(h).any():
                raise ValueError("inf")
            return h + 1
        """,
        "(torch.ones(2),)",
        "data-dependent-raise",
    ),
    near(
        "data-dependent-while",
        """
        def f(h):
            parts = []
            while h.sum() > 1:
                parts.append(h)
                h = h / 2
            return h * len(parts)
        """,
        "(torch.ones(2),)",
    ),
    near(
        "tensor-range",
        """
        def f(h, n):
            out = []
            for i in range(int(n)):
                out.append(h * i)
            return out[-1]
        """,
        "(torch.ones(2), torch.tensor(2))",
    ),
    near(
        "tensor-item",
        """
        def f(h):
            return h, h.sum().item()
        """,
        "(torch.ones(2),)",
    ),
    near("tensor-item", "def f(h): return torch.zeros(int(h.sum()))", "(torch.ones(2),)"),
    near("data-dependent-slice", "def f(h, n): return h[: n.item()] * 2", "(torch.ones(4), torch.tensor(2))"),
    near(
        "data-dependent-size",
        "def f(n): return torch.arange(n.item()).float()",
        "(torch.tensor(3),)",
    ),
    near(
        "tensor-index-of-list",
        """
        layers = [torch.relu, torch.tanh]

        def f(h, i):
            return layers[i](h)
        """,
        "(torch.ones(2), torch.tensor(1))",
    ),
    near("boolean-mask", "def f(h, m): return h[m] * 2", f"(torch.arange(4.0), {MASK})"),
    near("boolean-mask", "def f(h, m): return h[m].mean(dim=0)", f"(torch.ones(4, 2), {MASK})"),
    near(
        "boolean-mask",
        """
        def f(h, m, w):
            h[m] += w
            return h
        """,
        f"(torch.arange(4.0), {MASK}, torch.tensor(1.0))",
        "masked-update",
    ),
    near(
        "masked-update",
        """
        def f(h, m, w):
            h[m] += w.flip(0)
            return h
        """,
        f"(torch.arange(4.0), {MASK}, torch.ones(3))",
    ),
    near(
        "masked-copy",
        """
        def f(h, m, w):
            h[m] = w[~m].mean()
            return h
        """,
        f"(torch.arange(4.0), {MASK}, torch.ones(4))",
        "boolean-mask",
    ),
    near("nonzero", "def f(a, b): return torch.linalg.lstsq(a, b).solution", "(torch.rand(4, 2), torch.rand(4, 1))"),
    near(
        "nonzero",
        """
        def f(h):
            rows = torch.nonzero(h > 1).flatten()
            return h[rows]
        """,
        "(torch.arange(4.0),)",
    ),
    near(
        "where-indices",
        """
        def f(scores, order):
            rows = torch.where(scores <= 0.5)[0]
            order = order[rows + 1]
            return order * 2
        """,
        "(torch.tensor([0.1, 0.9, 0.2]), torch.arange(4))",
    ),
    near("unique", "def f(ids): return torch.unique(ids) * 2", "(torch.tensor([3, 1, 3]),)"),
    near(
        "tensor-tolist",
        "def f(h, n): return torch.split(h, n.tolist())[0] * 2",
        "(torch.ones(3), torch.tensor([1, 2]))",
    ),
    near(
        "data-dependent-result",
        """
        def f(a, b):
            same = torch.equal(a, b)
            return a * 2, same
        """,
        "(torch.ones(2), torch.ones(2))",
    ),
    near("one-hot-of-largest", "def f(kinds): return F.one_hot(kinds) * 2", "(torch.tensor([0, 1, 2]),)", "one-hot"),
    near("sorted-tensor", "def f(h): return h * sorted(h, key=lambda v: -v)[0]", "(torch.tensor([1.0, 2.0]),)"),
    near(
        "any-mask",
        """
        def f(h, mask):
            if mask.all():
                mask = mask[:1]
            return h * mask
        """,
        "(torch.ones(4), torch.ones(4))",
        "conditional-update",
    ),
    near(
        "random-branch",
        """
        import random

        def f(h):
            seen = [h]
            if random.random() < 2:
                seen.append(h + 1)
            return sum(seen)
        """,
        "(torch.ones(4),)",
        "python-random",
    ),
    near(
        "layer-drop",
        """
        import random

        def f(hidden):
            for scale in (2, 3):
                draw = random.random()
                if draw > 1:
                    continue
                hidden = hidden * scale
            return hidden
        """,
        "(torch.ones(4),)",
        "python-random",
    ),
    near(
        "conditional-skip",
        """
        def f(h, gates):
            seen = []
            for gate in gates:
                if gate.sum() > 9:
                    continue
                seen.append(h * gate)
            return sum(seen)
        """,
        "(torch.ones(4), [torch.ones(4), torch.ones(4)])",
    ),
)

"""Statements that recipes must fit, with the change that is advised made in them, and near misses.

Each is a module that defines `f`, as in the cookbook. FITTING are shapes other than the recipe's own example: other
names, more operands, one line for two. NEAR look like it and must get no such advice: it would be wrong there.
"""

from __future__ import annotations

from dataclasses import dataclass


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


def _module(body: str) -> str:
    return f"import numpy as np\nimport torch\nimport torch.nn.functional as F\n\n\n{body.strip()}\n"


# `=== recipe: inputs`, the statement, `---` and what it is changed into.
_FITTING = """
=== loop-over-values: (torch.arange(12.0).view(4, 3), torch.tensor([0, 0, 1, 1]))
def f(h, labels):
    total = 0
    for label in torch.unique(labels):
        total = total + F.relu(h * (labels == label)[:, None]).sum(0) * label
    return total
---
def f(h, labels):
    total = 0
    for label in range(2):
        total = total + F.relu(h * (labels == label)[:, None]).sum(0) * label
    return total
=== sorted-items: (torch.ones(3), {"b": torch.ones(3), "a": torch.zeros(3)})
def f(x, parts):
    return torch.stack([x + part for _, part in sorted(parts.items())])
---
def f(x, parts):
    return torch.stack([x + parts[name] for name in sorted(parts)])
=== early-exit: (torch.rand(3, 2), torch.rand(3, 4) * 4)
def f(h, tokens):
    steps, done = [], torch.zeros(3, dtype=torch.bool)
    for step in range(4):
        h = torch.tanh(h + tokens[:, step : step + 1])
        done = done | (h[:, 0] > 0.5)
        if done.all():
            last = h
            break
    return h
---
def f(h, tokens):
    done, over = torch.zeros(3, dtype=torch.bool), torch.zeros((), dtype=torch.bool)
    for step in range(4):
        h = torch.where(over, h, torch.tanh(h + tokens[:, step : step + 1]))
        done = done | (h[:, 0] > 0.5)
        over = over | done.all()
    return h
=== asserted-container: (torch.ones(3),)
class Chain:
    def __init__(self, *steps):
        assert steps, "no steps"
        self.steps = steps

class Step:
    def __init__(self, scale):
        self.scale = scale

def f(x):
    return x * Chain(Step(x + 1), Step(x)).steps[0].scale
---
class Chain:
    def __init__(self, *steps):
        assert len(steps) > 0, "no steps"
        self.steps = steps

class Step:
    def __init__(self, scale):
        self.scale = scale

def f(x):
    return x * Chain(Step(x + 1), Step(x)).steps[0].scale
=== leaf-in-sum: (torch.ones(2, 2, requires_grad=True),)
def f(x):
    aux = x.new_zeros(()) + torch.zeros((), dtype=x.dtype, requires_grad=True)
    return aux + x.sum()
---
def f(x):
    aux = x.new_zeros(()) + torch.zeros((), dtype=x.dtype)
    return aux + x.sum()
=== packed-sequence: (torch.ones(2, 3, 4), torch.tensor([3, 3]))
rnn = torch.nn.GRU(4, 4, batch_first=True)
def f(x, lengths):
    return rnn(torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True))[1].shape
---
rnn = torch.nn.GRUCell(4, 4)
def f(x, lengths):
    state = x.new_zeros(x.shape[0], 4)
    for number, step in enumerate(x.unbind(1)):
        state = torch.where((number < lengths)[:, None], rnn(step, state), state)
    return state[None].shape
=== attention-kernels: (torch.ones(1, 2, 4, 8), True)
def f(q, flash):
    with torch.backends.cuda.sdp_kernel(enable_flash=flash):
        out = F.scaled_dot_product_attention(q, q, q, is_causal=True)
    return out + 1
---
def f(q, flash):
    kernels = torch.nn.attention.SDPBackend
    with torch.nn.attention.sdpa_kernel([kernels.FLASH_ATTENTION, kernels.MATH]):
        out = F.scaled_dot_product_attention(q, q, q, is_causal=True)
    return out + 1
=== entry-of-table: (torch.zeros(4, 3), torch.tensor([2, 1]), torch.ones(3))
def f(rows, at, row):
    rows[at.sum()] = row
    return rows + 1
---
def f(rows, at, row):
    rows[at.sum().reshape(1)] = row
    return rows + 1
=== entry-of-table: (torch.arange(12.0).reshape(3, 4), torch.tensor([0.5, 2.5, 0.1]))
def f(x, scores):
    return x.sum(0) - x[:, scores.argmax()].sum()
---
def f(x, scores):
    return x.sum(0) - x[:, scores.argmax().reshape(1)][:, 0].sum()
=== window-of-buffer: (torch.zeros(2, 8), torch.tensor([5]), torch.ones(3, 2))
def f(queue, ptr, keys):
    at = ptr.item()
    queue[:, at:at + 3] = keys.T
    return queue + 1
---
def f(queue, ptr, keys):
    queue.index_copy_(1, ptr + torch.arange(3), keys.T)
    return queue + 1
=== numpy-draw: (torch.ones(3), 0.0)
def f(x, spread):
    return x + spread * float(np.random.randn())
---
def f(x, spread):
    return x + spread * torch.randn(())
=== kept-number: (torch.arange(4.0),)
class Seen:
    largest = 0.0
def f(x):
    Seen.largest = x.max().item() + 1
    return x + 1
---
class Seen:
    largest = torch.zeros(())
def f(x):
    Seen.largest = x.max().detach() + 1
    return x + 1
=== data-dependent-if: (torch.ones(3), torch.tensor([1.0, -1.0, 2.0]))
def f(h, gate):
    if (gate > 0).all():
        out = h * gate
    else:
        out = h - 1
    return out
---
def f(h, gate):
    out = torch.where((gate > 0).all(), h * gate, h - 1)
    return out
=== data-dependent-if: (torch.ones(4),)
def f(h): return h * 2 if h.sum() > 3 else h
---
def f(h): return torch.where(h.sum() > 3, h * 2, h)
=== data-dependent-if: (-torch.ones(3), torch.tensor([1.0]))
def f(h, gate):
    if gate.max() > 0:
        h = h + 1
        return h.relu()
    else:
        return h
---
def f(h, gate):
    return torch.where(gate.max() > 0, (h + 1).relu(), h)
=== conditional-update: (torch.ones(4), 1.0)
def f(grad, limit):
    if grad.norm() > limit: grad = grad * (limit / grad.norm())
    return grad + 1
---
def f(grad, limit):
    grad = torch.where(grad.norm() > limit, grad * (limit / grad.norm()), grad)
    return grad + 1
=== conditional-update: (torch.tensor([-1.0, 2.0]), 3.0)
def f(h, w):
    if torch.any(h < 0):
        h += w
    return h * 2
---
def f(h, w):
    h = torch.where(torch.any(h < 0), h + w, h)
    return h * 2
=== overflow-clamp: (torch.tensor([1.0, float('nan')]),)
def f(scores):
    if scores.isnan().any() or scores.isinf().any():
        scores = torch.nan_to_num(scores)
    return scores * 2
---
def f(scores):
    scores = torch.nan_to_num(scores)
    return scores * 2
=== data-dependent-while: (torch.ones(2), 0.5)
def f(error, rate):
    while error.sum() > 0.1:
        error = error * rate
    return error
---
def f(error, rate):
    for _ in range(12):
        error = torch.where(error.sum() > 0.1, error * rate, error)
    return error
=== tensor-range: (torch.ones(2), torch.tensor([1, 2]))
def f(h, turns):
    for i in range(turns.sum().item()):
        h = h + i
    return h
---
def f(h, turns):
    for i in range(6):
        h = torch.where(i < turns.sum(), h + i, h)
    return h
=== tensor-assert: (torch.ones(3),)
def f(h):
    assert (h > 0).all() and (h < 9).all(), "out of range"
    return h.log()
---
def f(h):
    assert ((h > 0) & (h < 9)).all(), "out of range"
    return h.log()
=== data-dependent-raise: (torch.ones(3),)
def f(h):
    if torch.isnan(h).any():
        text = "nan"
        raise RuntimeError(text)
    return h.relu()
---
def f(h):
    assert (~torch.isnan(h)).all(), "nan"
    return h.relu()
=== check-that-tells: (torch.ones(3), True)
import logging

log = logging.getLogger("tells")

def f(h, loud):
    if loud and not torch.isfinite(h).all():
        log.warning("bad values: %s", 3)
        print("bad")
    return h.relu()
---
import logging

log = logging.getLogger("tells")

def f(h, loud):
    if not torch.compiler.is_compiling() and loud and not torch.isfinite(h).all():
        log.warning("bad values: %s", 3)
        print("bad")
    return h.relu()
=== number-decides: (torch.arange(1.0, 4.0),)
def f(h):
    peak = float(h.max())
    if peak > 2.0:
        out = h / peak
    else:
        out = h * peak
    return out
---
def f(h):
    peak = h.max()
    out = torch.where(peak > 2.0, h / peak, h * peak)
    return out
=== number-decides: (torch.arange(1.0, 4.0),)
def f(h):
    if h.max().item() > 2.0:
        h = h + 1
    return h
---
def f(h):
    h = torch.where(h.max() > 2.0, h + 1, h)
    return h
=== number-for-python: (torch.arange(1.0, 4.0),)
seen = []

def f(h):
    peak = float(h.max())
    seen.append(peak)
    return h + 1
---
seen = []

def f(h):
    peak = h.max().detach()
    seen.append(peak)
    return h + 1
=== list-for-python: (torch.rand(6, 2), torch.tensor([2, 4]))
def f(x, lengths):
    sizes = lengths.tolist()
    return [part.relu() for part in x.split(sizes)]
---
def f(x, lengths):
    return [part.relu() for part in x.split([2, 4])]
=== tensor-item: (torch.arange(1.0, 4.0),)
def f(h):
    peak = h.max().item() * 2
    return h / peak
---
def f(h):
    peak = h.max() * 2
    return h / peak
=== data-dependent-slice: (torch.ones(5), torch.tensor([2, 3]))
def f(h, lengths): return h[: int(lengths.max())].sum() * 2
---
def f(h, lengths):
    keep = torch.arange(h.shape[0], device=h.device) < lengths.max()
    return torch.where(keep, h, 0.0).sum() * 2
=== data-dependent-size: (torch.ones(2, 3), torch.tensor([1, 3]))
def f(h, sizes):
    mask = torch.arange(int(sizes.max()), device=h.device)[None] < sizes[:, None]
    return (h * mask).sum()
---
def f(h, sizes):
    mask = torch.arange(h.shape[1], device=h.device)[None] < sizes[:, None]
    return (h * mask).sum()
=== tensor-index-of-list: (torch.ones(3), torch.tensor(1))
class Table:
    gains = [0.5, 2.0]

table = Table()

def f(h, which):
    return h + table.gains[which]
---
class Table:
    gains = torch.tensor([0.5, 2.0])

table = Table()

def f(h, which):
    return h + table.gains[which]
=== boolean-mask: (torch.tensor([1.0, float('inf'), 3.0]), torch.tensor([0, 2, 1]))
def f(loss, labels): return loss[labels != 2].mean() + 1
---
def f(loss, labels): return torch.where(labels != 2, loss, 0.0).sum() / (labels != 2).sum() + 1
=== boolean-mask: (torch.arange(4.0), torch.tensor([True, False, True, True]))
def f(loss, keep): return torch.masked_select(loss, keep).mean()
---
def f(loss, keep): return torch.where(keep, loss, 0.0).sum() / keep.sum()
=== boolean-mask-sum: (torch.arange(4.0), torch.tensor([1, 0, 1, 1]) > 0, torch.tensor([1, 1, 0, 1]) > 0)
def f(loss, a, b): return loss[a & ~b].sum()
---
def f(loss, a, b): return torch.where(a & ~b, loss, 0.0).sum()
=== masked-update: (torch.ones(2, 3, 2), torch.tensor([[True, False, True], [True, True, False]]), torch.ones(2))
def f(x, mask, w):
    x[mask] -= w
    return x
---
def f(x, mask, w):
    x -= torch.where(mask[..., None], w, 0)
    return x
=== masked-update: (torch.arange(4.0),)
def f(x):
    x[x > 1] += 0.5
    return x
---
def f(x):
    x += torch.where(x > 1, 0.5, 0)
    return x
=== masked-copy: (torch.ones(4, 2), torch.tensor([True, False, True, True]), torch.zeros(4, 2))
def f(x, keep, other):
    x[~keep] = other[~keep]
    return x
---
def f(x, keep, other):
    x.copy_(torch.where((~keep)[:, None], other, x))
    return x
=== nonzero: (torch.arange(5.0), 2.0)
def f(h, limit):
    bad = (h > limit).nonzero().flatten()
    h = h.index_fill(0, bad, -1.0)
    return h
---
def f(h, limit):
    h = h.masked_fill(h > limit, -1.0)
    return h
=== where-indices: (torch.ones(4, 2), torch.tensor([True, False, True, True]), torch.eye(2))
def f(h, picked, w):
    out = torch.zeros_like(h)
    chosen, = torch.where(picked)
    return out.index_add(0, chosen, h[chosen] @ w)
---
def f(h, picked, w):
    return (h @ w) * picked[:, None]
=== unique: (torch.tensor([[3, 1], [3, 2]]), torch.ones(2))
def f(ids, h): return h * ids.unique().numel()
---
def f(ids, h):
    ordered = ids.flatten().sort().values
    return h * ((ordered[1:] != ordered[:-1]).sum() + 1)
=== data-dependent-result: (torch.ones(3), torch.ones(3))
def f(a, b):
    if torch.equal(a, b):
        a = a * 2
    return a
---
def f(a, b):
    a = torch.where((a == b).all(), a * 2, a)
    return a
=== tensor-tolist: (torch.ones(2, 3), torch.tensor([1, 2]))
def f(rows, sizes):
    total = 0.0
    for row, size in zip(rows, sizes.tolist()):
        total += row[:size].sum()
    return total
---
def f(rows, sizes):
    keep = torch.arange(rows.shape[1]) < sizes[:, None]
    return torch.where(keep, rows, 0.0).sum()
=== sorted-tensor: (torch.tensor([1.0, 3.0, 2.0]),)
def f(h): return h * sorted(h)[-1]
---
def f(h): return h * h.sort().values[-1]
=== tensor-through-numpy: (torch.arange(1.0, 4.0),)
def f(h):
    scale = float(h.numpy().max()) + 1
    return h / scale
---
def f(h):
    scale = h.max() + 1
    return h / scale
=== numpy-number: (torch.ones(2, 3, 4),)
import numpy

def f(h): return h.view(-1, numpy.prod(h.shape[1:])) * 2
---
import math

def f(h): return h.view(-1, math.prod(h.shape[1:])) * 2
=== range-list: (torch.ones(2, 3),)
def f(h):
    for n in torch.arange(2).tolist():
        h = h + n
    return h
---
def f(h):
    for n in list(range(2)):
        h = h + n
    return h
=== one-hot-of-largest: (torch.tensor([0, 1, 2, 5]),)
def f(kinds): return F.one_hot(kinds, max(3, kinds.max() + 1))[:, :3] * 2
---
def f(kinds): return F.one_hot(kinds.clamp(max=3), 4)[:, :3] * 2
=== any-mask: (torch.ones(4), torch.zeros(4, dtype=torch.bool))
def f(h, padding=None):
    if padding is not None and not padding.any():
        padding = None
    return h if padding is None else h.masked_fill(padding, 0.0)
---
def f(h, padding=None):
    return h if padding is None else h.masked_fill(padding, 0.0)
=== any-mask: (torch.ones(4), torch.tensor([1, 0, 1, 1]))
def visible(mask):
    if torch.all(mask == 1):
        return None
    return mask.bool()

def f(h, mask):
    kept = visible(mask)
    return h if kept is None else torch.where(kept, h, -h)
---
def visible(mask):
    return mask.bool()

def f(h, mask):
    kept = visible(mask)
    return h if kept is None else torch.where(kept, h, -h)
=== random-branch: (torch.ones(4), 0.0)
import random

def f(h, rate, strict=False):
    if not strict and random.random() >= rate:
        h = h.sin()
    return h * 2
---
def f(h, rate, strict=False):
    if not strict:
        h = torch.where(torch.rand(()) >= rate, h.sin(), h)
    return h * 2
=== random-branch: (torch.ones(4), 0.0)
import random

def f(h, rate):
    return h.cos() if rate > random.random() else h + 1
---
def f(h, rate):
    return torch.where(rate > torch.rand(()), h.cos(), h + 1)
=== random-branch: (torch.arange(4.0), 1.0)
def f(h, rate):
    if torch.rand(1) < rate:
        h = h.flip(0)
    return h * 2
---
def f(h, rate):
    h = torch.where(torch.rand(()) < rate, h.flip(0), h)
    return h * 2
=== layer-drop: (torch.ones(4), 1.0)
import random

blocks = [torch.sin, torch.tanh]

def f(hidden, keep_rate, training=True):
    for block in blocks:
        if training and random.random() > keep_rate:
            continue
        hidden = block(hidden)
    return hidden
---
blocks = [torch.sin, torch.tanh]

def f(hidden, keep_rate, training=True):
    for block in blocks:
        keep = (torch.rand(()) <= keep_rate).to(hidden.dtype) if training else 1
        hidden = keep * block(hidden) + (1 - keep) * hidden
    return hidden
=== layer-drop: (torch.ones(4), 1.0)
blocks = [torch.sin, torch.tanh]

def f(hidden, rate):
    for block in blocks:
        if torch.rand(()) < rate:
            continue
        hidden = hidden + block(hidden)
    return hidden
---
blocks = [torch.sin, torch.tanh]

def f(hidden, rate):
    for block in blocks:
        keep = (torch.rand(()) >= rate).to(hidden.dtype)
        hidden = hidden + keep * block(hidden)
    return hidden
=== conditional-skip: (torch.ones(4), [torch.zeros(4), torch.tensor([1.0, 2.0, 3.0, 4.0])])
def f(h, gates):
    for gate in gates:
        if not gate.any():
            continue
        h = h * gate
    return h
---
def f(h, gates):
    for gate in gates:
        h = torch.where(~gate.any(), h, h * gate)
    return h
"""
# `=== recipe: inputs`, or `=== recipe -> chosen: inputs`, and the statement.
_NEAR = """
=== sorted-items -> sort-key: (torch.ones(3), torch.zeros(3))
def f(x, y):
    return sorted([x, y], key=lambda part: part.sum())[0]
=== entry-of-table: (torch.arange(4.0), torch.tensor([1, 2]))
def f(x, counts):
    lengths = [2, 2]
    return x.split([n * lengths[0] for n in counts[lengths[0] - 2:].tolist()][:1] + [2])[0]
=== attention-kernels -> context-manager: (torch.ones(3),)
import contextlib, io
log = io.StringIO()
def f(x):
    with contextlib.redirect_stdout(log):
        return x * 2
=== entry-of-table: (torch.arange(4.0), torch.tensor([True, False, True, True]))
def f(x, mask):
    return x[mask] * 2
=== window-of-buffer: (torch.zeros(8), torch.tensor(2))
def f(queue, ptr):
    at = int(ptr)
    return queue[at:] * 2
=== packed-sequence -> recurrent-layer: (torch.ones(2, 3, 4),)
rnn = torch.nn.GRU(4, 4, batch_first=True)
def f(x):
    return rnn(x)[1]
=== early-exit: (torch.ones(3),)
def f(x):
    for _ in range(3):
        if x.sum() > 9: break
        else: x = x - 1
        x = x + 1
    return x
=== leaf-in-sum -> requires-grad-of-result: (torch.ones(2), {"requires_grad": True})
def f(x, options):
    return torch.tensor(0.0, **options) + x.sum()
=== asserted-container -> torch-generator: (torch.ones(3),)
made = torch.Generator()
def f(x):
    assert x.shape
    return x + torch.rand(3, generator=made)
=== kept-number -> tensor-item: (torch.ones(2),)
def f(x):
    scale = x.max().item()
    return x * scale
=== numpy-draw -> data-dependent-if: (torch.ones(3),)
def f(x):
    if np.sum(x.numpy()) > 1:
        return x + 1
    return x
=== data-dependent-raise -> conditional-update: (torch.tensor([1.0, 2.0]),)
def step(h):
    return h * 0.5

def f(h):
    if (h > 1).any():
        h = step(h)
    return h
=== data-dependent-raise: (torch.ones(2),)
def f(h):
    if (h > 9).any():
        raise ValueError("large")
    else:
        h = h + 1
    return h
=== numpy-number: (torch.ones(4),)
import numpy as np

def f(h): return h[: np.argmax([1, 3, 2])] * 2
=== numpy-number: (torch.full((2,), 2.0),)
import numpy as np

def f(h): return torch.ones(int(np.prod(h.detach().numpy()))) * 2
=== range-list: (torch.ones(2, 3), torch.tensor(1))
def f(h, n): return h.sum(torch.arange(2).mul(n).tolist()) * 2
=== list-for-python -> range-list: (torch.ones(2, 3),)
def f(h): return h.sum(torch.arange(h.dim()).tolist()) * 2
=== check-that-tells: (torch.ones(2),)
seen = []

def f(h):
    if h.sum() > 1:
        print("large")
        seen.append(1)
    return h * 2
=== conditional-update: (torch.ones(2),)
seen = []

def f(h):
    if h.sum() > 1:
        seen.append(1)
    return h * 2
=== data-dependent-if: (torch.zeros(2),)
def f(h):
    if h.sum() > 1:
        return None
    return h * 2
=== data-dependent-if: (torch.ones(2),)
def f(h):
    if h.sum() > 1:
        kind = "large"
    else:
        kind = "small"
    return h * len(kind)
=== overflow-clamp -> data-dependent-raise: (torch.ones(2),)
def f(h):
    if torch.isinf(h).any():
        raise ValueError("inf")
    return h + 1
=== data-dependent-while: (torch.ones(2),)
def f(h):
    parts = []
    while h.sum() > 1:
        parts.append(h)
        h = h / 2
    return h * len(parts)
=== tensor-range: (torch.ones(2), torch.tensor(2))
def f(h, n):
    out = []
    for i in range(int(n)):
        out.append(h * i)
    return out[-1]
=== number-decides: (torch.ones(2),)
def f(h):
    peak = h.max().item()
    if peak > 2.0:
        h = h / peak
    print("peak", peak)
    return h
=== tensor-item: (torch.ones(2),)
def f(h):
    count = h.sum().item()
    return h[: int(count)]
=== tensor-item: (torch.ones(2),)
def f(h):
    return h, h.sum().item()
=== tensor-item: (torch.ones(2),)
def f(h): return torch.zeros(int(h.sum()))
=== data-dependent-slice: (torch.ones(4), torch.tensor(2))
def f(h, n): return h[: n.item()] * 2
=== data-dependent-size: (torch.tensor(3),)
def f(n): return torch.arange(n.item()).float()
=== number-for-python: (torch.ones(2), torch.tensor(1))
layers = [torch.relu, torch.tanh]

def f(h, i):
    return layers[i](h)
=== tensor-index-of-list: (torch.ones(2), torch.tensor(1))
layers = [torch.relu, torch.tanh]

def f(h, i):
    return layers[i](h)
=== boolean-mask: (torch.arange(4.0), torch.tensor([True, False, True, True]))
def f(h, m): return h[m] * 2
=== boolean-mask: (torch.ones(4, 2), torch.tensor([True, False, True, True]))
def f(h, m): return h[m].mean(dim=0)
=== boolean-mask -> masked-update: (torch.arange(4.0), torch.tensor([True, False, True, True]), torch.tensor(1.0))
def f(h, m, w):
    h[m] += w
    return h
=== masked-update: (torch.arange(4.0), torch.tensor([True, False, True, True]), torch.ones(3))
def f(h, m, w):
    h[m] += w.flip(0)
    return h
=== masked-copy -> boolean-mask: (torch.arange(4.0), torch.tensor([True, False, True, True]), torch.ones(4))
def f(h, m, w):
    h[m] = w[~m].mean()
    return h
=== nonzero: (torch.rand(4, 2), torch.rand(4, 1))
def f(a, b): return torch.linalg.lstsq(a, b).solution
=== nonzero: (torch.arange(4.0),)
def f(h):
    rows = torch.nonzero(h > 1).flatten()
    return h[rows]
=== where-indices: (torch.tensor([0.1, 0.9, 0.2]), torch.arange(4))
def f(scores, order):
    rows = torch.where(scores <= 0.5)[0]
    order = order[rows + 1]
    return order * 2
=== unique: (torch.tensor([3, 1, 3]),)
def f(ids): return torch.unique(ids) * 2
=== tensor-tolist: (torch.ones(3), torch.tensor([1, 2]))
def f(h, n): return torch.split(h, n.tolist())[0] * 2
=== data-dependent-result: (torch.ones(2), torch.ones(2))
def f(a, b):
    same = torch.equal(a, b)
    return a * 2, same
=== one-hot-of-largest -> one-hot: (torch.tensor([0, 1, 2]),)
def f(kinds): return F.one_hot(kinds) * 2
=== sorted-tensor: (torch.tensor([1.0, 2.0]),)
def f(h): return h * sorted(h, key=lambda v: -v)[0]
=== any-mask -> conditional-update: (torch.ones(4), torch.ones(4))
def f(h, mask):
    if mask.all():
        mask = mask[:1]
    return h * mask
=== random-branch -> python-random: (torch.ones(4),)
import random

def f(h):
    seen = [h]
    if random.random() < 2:
        seen.append(h + 1)
    return sum(seen)
=== layer-drop -> python-random: (torch.ones(4),)
import random

def f(hidden):
    for scale in (2, 3):
        draw = random.random()
        if draw > 1:
            continue
        hidden = hidden * scale
    return hidden
=== loop-over-values: (torch.arange(4.0), torch.tensor([0, 0, 1, 1]))
def f(h, labels):
    for scale in (2, 3):
        h = h * scale + torch.unique(labels).sum()
    return h
=== conditional-skip: (torch.ones(4), [torch.ones(4), torch.ones(4)])
def f(h, gates):
    seen = []
    for gate in gates:
        if gate.sum() > 9:
            continue
        seen.append(h * gate)
    return sum(seen)
"""


def _fitting(text: str) -> Fitting:
    head, _, code = text.partition("\n")
    recipe, _, inputs = head.partition(": ")
    before, _, after = code.partition("\n---\n")
    return Fitting(recipe, _module(before), _module(after), inputs)


def _near(text: str) -> Near:
    head, _, code = text.partition("\n")
    names, _, inputs = head.partition(": ")
    recipe, _, chosen = names.partition(" -> ")
    return Near(recipe, _module(code), inputs, chosen or None)


FITTING = tuple(map(_fitting, _FITTING.split("\n=== ")[1:]))
NEAR = tuple(map(_near, _NEAR.split("\n=== ")[1:]))

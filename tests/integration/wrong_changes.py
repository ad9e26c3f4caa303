"""Changes of small programs, each of which ends the graph break that is there. All but those of RIGHT do something else
than the program did: some where its own calls show it, some where only the whole program does.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass

BREAK = "        torch._dynamo.graph_break()\n"
"""The line of the program that each change takes away."""

PORT = "PORT"
"""Stands in the texts for the port of a server that counts what reaches it."""

Files = Mapping[str, str]
"""Contents of files by their name; the program is `model.py`."""


@dataclass(frozen=True)
class Change:
    """What makes AFTER of a base program, beside the break that goes: `swaps` are (old, new) in `model.py`, `files`
    other files after it ("" where one is gone), `links`, `modes` and `folders` what there is else on both sides.
    """

    base: str
    swaps: tuple[tuple[str, str], ...] = ()
    files: Files | None = None
    links: tuple[Mapping[str, str], Mapping[str, str]] | None = None
    modes: tuple[Mapping[str, int], Mapping[str, int]] | None = None
    folders: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    patch: str = ""


def program(
    forward: str, after: str = "print('done', tuple(out.shape))\n", *, top: str = "", init: str = "",
    seeded: bool = True, take: str = "x", made: str = "torch.randn(3, 4)", times: int = 3, mode: str = "",
    grad: bool = True,
) -> dict[str, str]:  # fmt: skip
    """A program with one model: Linear, the break, and then `forward` with `y`."""
    body = "".join(f"        {line}\n" for line in forward.splitlines())
    inits = "".join(f"        {line}\n" for line in init.splitlines())
    loop = f"with torch.set_grad_enabled({grad}):\n    for step in range({times}):\n        out = model({made})\n"
    text = (
        f"import torch\n{top}\n\nclass Net(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        f"        self.lin = torch.nn.Linear(4, 4)\n{inits}\n    def forward(self, {take}):\n"
        f"        y = self.lin(x)\n{BREAK}{body}\n\n{'torch.manual_seed(0)' if seeded else ''}\n"
        f"net = Net(){mode}\nmodel = torch.compile(net, backend='eager')\n{loop}{after}"
    )
    return {"model.py": text}


_LEAF = """\
import torch


class Scale(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4))

    def forward(self, x):
        y = x * self.weight
        torch._dynamo.graph_break()
        return y * 2


net = Scale().eval()
model = torch.compile(net, backend="eager")
with torch.no_grad():
    for _ in range(3):
        out = model(torch.ones(3, 4))
print("done", out.sum().item())
"""
_FUNCTION = """\
import torch

OFFSET = torch.zeros(4)
WEIGHT = torch.ones(4, requires_grad=True)


def score(x, ids):
        y = x * WEIGHT + OFFSET
        torch._dynamo.graph_break()
        total = ids.sum()
        return y * 2, total


torch.manual_seed(0)
model = torch.compile(score, backend="eager")
for _ in range(3):
    out, total = model(torch.randn(3, 4), torch.tensor([100, 90, 80], dtype=torch.int8))
print("done", total.item())
"""
_HIDDEN_LEAF = """\
import numpy
import torch

HELD = numpy.array([None], dtype=object)
HELD[0] = torch.ones(4, requires_grad=True)


@torch.compiler.disable
def weight():
    return HELD[0]


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.bias = torch.nn.Parameter(torch.zeros(4))

    def forward(self, x):
        y = x * weight() + self.bias
        torch._dynamo.graph_break()
        return y * 2


torch.manual_seed(0)
model = torch.compile(Net(), backend="eager")
for _ in range(3):
    out = model(torch.randn(3, 4))
print("done", tuple(out.shape))
"""
_TWO = """\
import torch


class Head(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(4, 4)

    def forward(self, x):
        y = self.lin(x)
        return y.relu()


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(4, 4)

    def forward(self, x):
        y = self.lin(x)
        torch._dynamo.graph_break()
        return y * 2


torch.manual_seed(0)
model = torch.compile(Net(), backend="eager")
head = torch.compile(Head(), backend="eager")
for _ in range(3):
    out = head(model(torch.randn(3, 4)))
print("done", tuple(out.shape))
"""
_TRAINED = """\
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(4, 4)
        self.unused = torch.nn.Linear(4, 4)

    def forward(self, x):
        y = self.lin(x)
        torch._dynamo.graph_break()
        z = self.unused(x) * 0.0
        return (y + z).square().mean()


torch.manual_seed(0)
net = Net()
model = torch.compile(net, backend="eager")
optimizer = torch.optim.AdamW(net.parameters(), lr=0.1, weight_decay=0.5)
for _ in range(3):
    loss = model(torch.randn(3, 4))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("weights", [round(p.sum().item(), 4) for p in net.parameters()])
"""

_STAMPED = """
import time
class Log:
    def __init__(self, path):
        self.path = path
    def line(self, text):
        with open(self.path, "a") as file:
            file.write(f"{time.time()} {text}\\n")
log = Log("train.log")
post = lambda t: t * 2
"""
_UDP = f"""
import socket
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
send = lambda text: sender.sendto(text.encode(), ("127.0.0.1", {PORT}))
"""
_CURVE = """
class Curve(torch.autograd.Function):
    @staticmethod
    def forward(ctx, y):
        ctx.save_for_backward(torch.sigmoid(y))
        return torch.nn.functional.softplus(y)
    @staticmethod
    def backward(ctx, given):
        return given * ctx.saved_tensors[0]
"""
_IDENTITY = "return y * 2"

_TWICE = "\n\ndef twice(y):\n    if y.shape[0] == 77:\n        return y\n    return y * 2\n"
_METHOD = textwrap.indent(_TWICE.replace("(y)", "(self, y)"), "    ")
_CLASS = f"\n\nclass Twice(torch.nn.Module):{_METHOD.replace('twice', 'forward')}\n\nTWICE = Twice()\n"
BASES: dict[str, Files] = {
    "net": program(_IDENTITY),
    "inductor": {"model.py": program("return y * 2.71")["model.py"].replace("'eager'", "'inductor'")},
    "quiet": program("y = torch.relu(y) * scale\nreturn y", take="x, scale=2.0", made="torch.randn(3, 4), 2.0"),
    "trunc": program("return torch.trunc(y * 0.3)"),
    "pair": program("return y * 2, x", after="print('done', len(out))\n"),
    "random": program("a = torch.rand(4)\nb = torch.rand(4)\nreturn y * a + b"),
    "attribute": program("return y * self.factor", init="self.factor = 2.0"),
    "leaf": {"model.py": _LEAF},
    "function": {"model.py": _FUNCTION},
    "hidden leaf": {"model.py": _HIDDEN_LEAF},
    "two": {"model.py": _TWO},
    "trained": {"model.py": _TRAINED},
    "no grad": program(_IDENTITY, mode=".eval()", grad=False),
    "kept graph": program("self.last = y\ny.retain_grad()\nreturn y * 2", init="self.last = None"),
    "gradients twice": program(
        "return torch.nn.functional.softplus(y)", top=_CURVE,
        after="slopes = torch.autograd.grad(out.sum(), list(net.parameters()), create_graph=True)\n"
        "sum(each.square().sum() for each in slopes).backward()\nprint('done')\n"),
    "tagged": program("y = y * 2\ny.tag = 'hot'\nreturn y", after="print('done')\n"),
    "dtype": program("return (y * 2).to(x.dtype)", after="print('sum', round(out.double().sum().item(), 3))\n"),
    "mask": program("return y * 2, y > 0", after="print('done', int(out[1].sum()))\n"),
    "buffers": program(
        "self.seen += y.detach().mean(0)\nself.count += 1\nreturn y * 2 + self.offset",
        init="self.register_buffer('seen', torch.zeros(4))\nself.register_buffer('count', torch.zeros((), dtype="
        "torch.long))\nself.register_buffer('offset', torch.zeros(4))"),
    "norm": program("return self.norm(y)", init="self.norm = torch.nn.BatchNorm1d(4)"),
    "calls": program(
        "self.calls += 1\nif self.calls % 8 == 7:\n    y = y + 1\nreturn y * 2", init="self.calls = 0", times=16),
    "cache": program(
        "if self.cache is None:\n    self.cache = y.detach()\nself.history.append(x.shape[0])\nreturn y + self.cache",
        init="self.cache = None\nself.history = []"),
    "returned": program(
        "self.state['last'] = x.shape[0]\nreturn y * 2, self.state", init="self.state = {}",
        after="out[1]['told'] = True\nprint('done')\n"),
    "dropout": program("return torch.dropout(y, 0.5, self.training) * 2", mode=".eval()", grad=False),
    "mode": program("if self.training:\n    y = y * 3\nreturn y * 2", mode=".eval()", grad=False),
    "ternary": program("return y * 2 if x.dim() == 2 else y * 3"),
    "choice": program("y = y * 2 if x.sum() > 0 else y * 3\nreturn y"),
    "branch": program("if x.dim() == 3:\n    y = y * 3\nreturn y * 2"),
    "length": program(
        "return torch.cat([y.sum(-1, keepdim=True), x.abs().sum(-1, keepdim=True)], -1)", made="torch.randn(3, 5, 4)"),
    "printed": program(_IDENTITY, after="print('shape', tuple(out.shape))\nprint('the end')\n"),
    "loud": program("print('in the model')\nreturn y * 2"),
    "timed": program(
        _IDENTITY, top="import time\npost = lambda t: t * 2\n",
        after="print(f'{time.time():.4f} s, loss {post(out).sum().item():.4f}')\n"),
    "glog": program(
        _IDENTITY, top="import sys, time\npost = lambda t: t * 2\n",
        after="print(f'I0101 10:00:00.123456 99 train.py:7] loss {post(out).sum().item():.4f}', file=sys.stderr)\n"),
    "warned": program(
        _IDENTITY, top="import sys, warnings\n"
        "warnings.formatwarning = lambda m, c, f, n, line=None: f'{f}:{n}: {c.__name__}: {m}\\n'\n"
        "post = lambda t: t * 2\n",
        after="warnings.warn_explicit('slow', UserWarning, '/lib/torch/nn/functional.py', 9)\n"
        "print('loss', post(out).sum().item(), file=sys.stderr)\n"),
    "long": program(
        _IDENTITY, top="post = lambda t: t * 2\n",
        after="for row in range(90_000):\n    print('row', row, '-' * 200)\nprint('loss', post(out).sum().item())\n"),
    "saved": program(
        _IDENTITY, top="import os, pathlib\npost = lambda t: t * 2\nname = lambda: 'answer.txt'\n",
        after="pathlib.Path(name()).write_text(str(post(out).sum().item()))\nos.makedirs('made', exist_ok=True)\n"),
    "left before": {
        **program(
            _IDENTITY, top="import pathlib\n",
            after="pathlib.Path('answer.txt').write_text(str(out.sum().item()))\nprint('done')\n"),
        "answer.txt": "of an earlier run",
    },
    "folder": program(
        _IDENTITY, top="import os\nfolder = lambda: os.makedirs('made', exist_ok=True)\n",
        after="folder()\nprint('done')\n"),
    "stamped": program(
        _IDENTITY, top=_STAMPED, after="log.line(f'loss {post(out).sum().item():.4f}')\nprint('done')\n"),
    "reads": {
        **program(
            _IDENTITY,
            top="import pathlib\nread = lambda: float(pathlib.Path('data/scale.txt').read_text())\n",
            after="print('scaled', round((out * read()).sum().item(), 4))\n",
        ),
        "data/scale.txt": "2.0\n",
    },
    "timed data": {
        **program(
            _IDENTITY,
            top="import pathlib, time\n",
            after="loss = (out * float(pathlib.Path('data/scale.txt').read_text())).sum().item()\n"
            "print(f'{time.time():.4f} s, loss {loss:.4f}')\n",
        ),
        "data/scale.txt": "2.0\n",
    },
    "stamped data": {
        **program(
            _IDENTITY,
            top=_STAMPED,
            after="loss = (out * float(open('data/scale.txt').read())).sum().item()\n"
            "log.line(f'loss {loss:.4f}')\nprint('done')\n",
        ),
        "data/scale.txt": "2.0\n",
    },
    "linked": {
        **program(
            _IDENTITY,
            top="import pathlib\n",
            after="print('scaled', round((out * float(pathlib.Path('data/scale.txt').read_text())).sum().item(), 4))\n",
        ),
        "one/scale.txt": "2.0\n",
        "two/scale.txt": "3.0\n",
    },
    "tool": {
        **program(
            _IDENTITY,
            top="import subprocess\n",
            after="print(subprocess.run(['./tool.sh'], capture_output=True, text=True).stdout)\n",
        ),
        "tool.sh": "#!/bin/sh\necho 5\n",
    },
    "empty folder": program(
        _IDENTITY, top="import pathlib\n", after="pathlib.Path('out/answer.txt').write_text('x')\nprint('done')\n"),
    "shared memory": program(
        _IDENTITY, top="import pathlib\npost = lambda t: t * 2\n",
        after="pathlib.Path('/dev/shm/dynalyze-test-answer').write_text(str(post(out).sum().item()))\nprint('done')\n"),
    "raises": program(
        "if x.shape[0] > 3:\n    raise ValueError('too many rows')\nreturn y * 2",
        after="try:\n    model(torch.randn(5, 4))\nexcept Exception:\n    print('refused')\n"),
    "checked": program(
        "if x.dim() != 2:\n    raise ValueError(f'{x.dim()} dimensions')\nreturn y * 2",
        after="try:\n    net(torch.randn(4))\nexcept ValueError:\n    print('refused')\n"),
    "exits": program(
        _IDENTITY, top="import sys\nfrom math import isfinite\nstatus = lambda t: 0 if isfinite(t) else 1\n",
        after="print('done')\nsys.exit(status(out.sum().item()))\n"),
    "fails": program(
        _IDENTITY, top="import sys\nstatus = lambda t: 2\n",
        after="print('done')\nsys.exit(status(out.sum().item()))\n"),
    "caught": program(
        _IDENTITY, top="half = lambda v: v / 2\n",
        after="try:\n    print('half', half('text'))\nexcept TypeError:\n    print('no number')\n"),
    "global": program("global COUNT\nCOUNT += 1\nSEEN.append(x.shape[0])\nreturn y * 2", top="COUNT = 0\nSEEN = []\n"),
    "environment": program("os.environ['LAST_ROWS'] = str(x.shape[0])\nreturn y * 2", top="import os\n"),
    "module attribute": program("helper.LAST = x.shape[0]\nreturn y * 2", top="import helper\n")
    | {"helper.py": "LAST = None\nRATE = 2\n\n\ndef rate():\n    return RATE\n"},
    "helper": program("return y * helper.rate()", top="import helper\n")
    | {"helper.py": "RATE = 2\n\n\ndef rate():\n    return RATE\n"},
    "unseeded": program(
        _IDENTITY, top="post = lambda t: t * 2\n", seeded=False, after="print('sum', post(out).sum().item())\n"),
    "threads": program(_IDENTITY, seeded=False, after="print('sum', out.sum().item())\n"),
    "any order": program(
        _IDENTITY, top="import random\n", after="order = [1, 2, 3]\nrandom.shuffle(order)\nprint('done')\n"),
    "imports": program("return y * helper.rate()", top="import helper\n")
    | {"helper.py": "def rate():\n    return 2\n\n\ndef other():\n    return 3\n"},
    "registry": program("return helper.KINDS['double'](y)", top="import helper\n")
    | {"helper.py": "def double(y):\n    return y * 2\n\n\ndef half(y):\n    return y / 2\n\n\n"
       "KINDS = {'double': double, 'half': half}\n"},
    "lambda": program(_IDENTITY, top="post = lambda t: t * 2\n", after="print('sum', post(out).sum().item())\n"),
    "caller": program(
        _IDENTITY, top="def report(t):\n    return round(t.sum().item(), 3)\n", after="print('sum', report(out))\n"),
    "sends": program(_IDENTITY, top=_UDP, after="send('finished')\nprint('done')\n"),
    "quiet caller": program(_IDENTITY, top="def report(t):\n    return t.sum().item()\n", after="report(out)\n"),
}  # fmt: skip
"""Programs, each with one break."""

LEAVES: dict[str, set[str]] = {
    "saved": {"answer.txt", "made"},
    "left before": {"answer.txt"},
    "folder": {"made"},
    "stamped": {"train.log"},
    "stamped data": {"train.log"},
    "empty folder": {"out/answer.txt"},
}
"""What a program leaves in its own run."""

SENDS = {"sends": 1}
"""How often a program sends something in its own run."""

WRONG: dict[str, dict[str, Change]] = {
    "values": {
        "another factor": Change("quiet", (("* scale\n", "* (scale + 1e-3)\n"),)),
        "NaN is hidden": Change("quiet", (("torch.relu(y)", "torch.relu(torch.nan_to_num(y))"),)),
        "large values are cut": Change("quiet", (("torch.relu(y)", "torch.relu(y).clamp(max=1e6)"),)),
        "a number of the caller is fixed": Change("quiet", (("* scale\n", "* 2.0\n"),)),
        "an attribute is fixed": Change("attribute", (("y * self.factor", "y * 2.0"),)),
        "an output is a copy": Change("pair", (("y * 2, x\n", "y * 2, x.clone()\n"),)),
        "other strides": Change("net", (("return y * 2", "return (y * 2).t().contiguous().t()"),)),
        "random numbers in another order": Change(
            "random", (("a = torch.rand(4)\n        b = ", "b = torch.rand(4)\n        a = "),)),
    },
    "gradients": {
        "cut off": Change("net", (("return y * 2", "return y + y.detach()"),)),
        "of one weight": Change(
            "net", (("self.lin(x)", "torch.nn.functional.linear(x, self.lin.weight, self.lin.bias.detach())"),)),
        "of a tensor outside": Change("function", (("x * WEIGHT", "x * WEIGHT.detach()"),)),
        "of a tensor that nothing tells of": Change("hidden leaf", (("x * weight()", "x * weight().detach()"),)),
        "of zeros, which decay": Change("trained", (("z = self.unused(x) * 0.0", "z = 0.0"),)),
        "in training alone": Change("no grad", (("return y * 2", "return (y.detach() if self.training else y) * 2"),)),
        "of gradients": Change("gradients twice", (("torch.nn.functional.softplus(y)\n\n\n", "Curve.apply(y)\n\n\n"),)),
        "no longer kept": Change("kept graph", (("        y.retain_grad()\n", ""),)),
    },
    "dtype": {
        "double": Change("dtype", ((".to(x.dtype)", ".double()"),)),
        "always float": Change("dtype", ((".to(x.dtype)", ".to(torch.float32)"),)),
        "by way of half": Change("dtype", (("(y * 2).to(x.dtype)", "(y * 2).bfloat16().to(x.dtype)"),)),
        "bool to uint8": Change("mask", (("y > 0", "(y > 0).to(torch.uint8)"),)),
        "a sum that overflows": Change("function", (("ids.sum()", "ids.sum(dtype=torch.int8)"),)),
        "a sum of another dtype": Change("function", (("ids.sum()", "ids.sum(dtype=torch.int32)"),)),
    },
    "buffers": {
        "no longer updated": Change("buffers", (("        self.count += 1\n", ""),)),
        "another tensor": Change("buffers", (("self.seen += y", "self.seen = self.seen + y"),)),
        "updated twice": Change("buffers", (("self.count += 1", "self.count += 2"),)),
        "zeros are left out": Change("buffers", ((" + self.offset", ""),)),
        "with a gradient": Change("buffers", (("y.detach().mean(0)", "y.mean(0)"),)),
        "statistics stand still": Change("norm", (("self.norm(y)", (
            "torch.nn.functional.batch_norm(y, None, None, self.norm.weight, self.norm.bias, True)")),)),
    },
    "second call": {
        "later calls alone": Change("calls", (("% 8 == 7", "% 8 == 20"),)),
        "counted otherwise": Change("calls", (("self.calls += 1", "self.calls = 1"),)),
        "remembers nothing": Change(
            "cache", (("self.cache = y.detach()\n        self", "y = y + 0.0\n        self"),)),
        "remembers another thing": Change("cache", (("self.cache = y.detach()", "self.cache = (y * 1.5).detach()"),)),
        "history is short": Change("cache", (("self.history.append(x.shape[0])", "self.history = [x.shape[0]]"),)),
        "a copy of its state": Change("returned", (("y * 2, self.state", "y * 2, dict(self.state)"),)),
        "first calls alone": Change("calls", (("y = y + 1", "y = y + (1 if self.calls < 10 else 2)"),)),
    },
    "other mode": {
        "dropout always": Change("dropout", (("0.5, self.training", "0.5, False"),)),
        "another rate": Change("dropout", (("0.5, self.training", "0.4, self.training"),)),
        "in a module without children": Change("leaf", (("y * 2", "(y * 3 if self.training else y * 2)"),)),
        "another branch": Change("mode", (("y = y * 3", "y = y * 4"),)),
        "the branch is gone": Change("mode", (("        if self.training:\n            y = y * 3\n", ""),)),
        "without gradients": Change("net", (("return y * 2", "return y * (3 - torch.is_grad_enabled())"),)),
        "under autocast": Change("net", (("return y * 2", "return y * (2 + torch.is_autocast_enabled('cpu'))"),)),
        "in training, at batch 1": Change(
            "no grad", (("return y * 2", "return y * (3 if self.training and x.shape[0] == 1 else 2)"),)),
    },
    "other shapes": {
        "at batch 1": Change("net", (("return y * 2", "return y * (2 if x.shape[0] > 1 else 3)"),)),
        "one row more": Change("net", (("return y * 2", "return y[:3] * 2"),)),
        "the length is fixed": Change("length", (("x.abs().sum(-1, keepdim=True)", "x[:, :5].abs().sum(-1, True)"),)),
        "a longer length": Change("length", (("x.abs().sum(-1", "(x.abs() * (1 if x.shape[1] < 6 else 2)).sum(-1"),)),
        "the side that no call takes": Change("ternary", (("else y * 3", "else y * 4"),)),
        "a branch that no call takes is gone": Change(
            "branch", (("        if x.dim() == 3:\n            y = y * 3\n", ""),)),
        "a new branch that no call takes": Change(
            "net", (("return y * 2", "if x.shape[0] > 1000:\n            y = y + 1\n        return y * 2"),)),
        "a branch of a new function that no call takes": Change(
            "net", (("return y * 2", "return twice(y)"), ("import torch\n", f"import torch\n{_TWICE}"))),
        "a branch of a new method that no call takes": Change(
            "net", (("return y * 2", f"return self.twice(y){_METHOD}"),)),
        "a branch of a new class that no call takes": Change(
            "net", (("return y * 2", "return TWICE(y)"), ("import torch\n", f"import torch\n{_CLASS}"))),
        "a branch of a function in a table that no call takes": Change(
            "net", (("return y * 2", 'return TABLE["twice"](y)'),
                    ("import torch\n", f'import torch\n{_TWICE}\n\nTABLE = {{"twice": twice}}\n'))),
        "of other strides": Change("net", (("return y * 2", "return y * (3 - x.is_contiguous())"),)),
        "broadcast": Change("net", (("return y * 2", "return y * torch.full((3, 1), 2.0)"),)),
    },
    "printed text": {
        "another line": Change("printed", (("'the end'", "'The end'"),)),
        "a line of the model": Change("loud", (("        print('in the model')\n", ""),)),
        "a line of the model twice": Change("loud", (("print('in the model')", "print('in the model\\n', end='')"
                                                      "\n        print('in the model')"),)),
        "beside a time": Change("timed", (("post = lambda t: t * 2", "post = lambda t: t * 3"),)),
        "as a log of torch": Change("glog", (("post = lambda t: t * 2", "post = lambda t: t * 3"),)),
        "data beside a time": Change("timed data", files={"data/scale.txt": "3.0\n"}),
        "behind much else": Change("long", (("post = lambda t: t * 2", "post = lambda t: t * 3"),)),
        "behind a warning": Change("warned", (("post = lambda t: t * 2", "post = lambda t: t * 3"),)),
    },
    "files": {
        "other contents": Change("saved", (("post = lambda t: t * 2", "post = lambda t: t * 3"),)),
        "another name": Change("saved", (("'answer.txt'", "'answer2.txt'"),)),
        "beside a time": Change("stamped", (("post = lambda t: t * 2", "post = lambda t: t * 3"),)),
        "data beside a time": Change("stamped data", files={"data/scale.txt": "3.0\n"}),
        "no folder": Change("folder", (("lambda: os.makedirs('made', exist_ok=True)", "lambda: None"),)),
        "data that is read": Change("reads", files={"data/scale.txt": "3.0\n"}),
        "data that is gone": Change("reads", files={"data/scale.txt": ""}),
        "a link to other data": Change("linked", links=({"data": "one"}, {"data": "two"})),
        "a tool that may not run": Change("tool", modes=({"tool.sh": 0o755}, {"tool.sh": 0o644})),
        "a folder to write to": Change("empty folder", folders=(("out",), ())),
        "in shared memory": Change("shared memory", (("post = lambda t: t * 2", "post = lambda t: t * 3"),)),
        "a file is deleted": Change("reads", (("return y * 2", "pathlib.Path('data/scale.txt').unlink(missing_ok=True)"
                                              "\n        return y * 2"),)),
    },
    "exceptions": {
        "of another type": Change("raises", (("ValueError('too", "TypeError('too"),)),
        "with another text": Change("raises", (("'too many rows'", "'too many'"),)),
        "not raised": Change("raises", (("raise ValueError('too many rows')", "pass"),)),
        "caught in the program": Change("checked", (("raise ValueError(f", "raise RuntimeError(f"),)),
        "another exit status": Change("exits", (("0 if isfinite(t) else 1", "3 if isfinite(t) else 1"),)),
        "another of two failures": Change("fails", (("lambda t: 2", "lambda t: 3"),)),
        "of a lambda": Change("caught", (("v / 2", "float(v) / 2"),)),
    },
    "globals": {
        "not counted": Change("global", (("        COUNT += 1\n", ""),)),
        "another list": Change("global", (("SEEN.append(x.shape[0])", "SEEN.append(3.0)"),)),
        "the environment": Change("environment", (("os.environ['LAST_ROWS'] = str(x.shape[0])\n        ", ""),)),
        "of another module": Change("module attribute", (("helper.LAST = x.shape[0]\n        ", ""),)),
        "a default dtype": Change(
            "net", (("return y * 2", "torch.set_default_dtype(torch.float64)\n        return y * 2"),)),
    },
    "callers outside": {
        "a lambda": Change("lambda", (("t * 2", "t * 3"),)),
        "a lambda of a program without a seed": Change("unseeded", (("t * 2", "t * 3"),)),
        "a function": Change("caller", (("t.sum().item(), 3", "t.mean().item(), 3"),)),
        "another file": Change("helper", files={"helper.py": "RATE = 3\n\n\ndef rate():\n    return RATE\n"}),
        "a function defined once more": Change("imports", files={
            "helper.py": "def rate():\n    return 2\n\n\ndef other():\n    return 3\n\n\ndef rate():\n    return 3\n"}),
        "a function that is called and not heard": Change("quiet caller", (("t.sum()", "t.mean()"),)),
        "another model": Change("two", (("return y.relu()", "return y.relu().detach()"),)),
        "another message": Change("sends", (("text.encode()", "text[:3].encode()"),)),
        "a request": Change("net", (("return y * 2", (
            "import urllib.request\n"
            f"        urllib.request.urlopen('http://127.0.0.1:{PORT}/').read()\n        return y * 2")),)),
        "the arguments of a call": Change("lambda", (("torch.randn(3, 4)", "torch.randn(3, 4) * 2"),)),
    },
    "settings": {
        "hidden errors": Change("net", (("import torch\n", (
            "import torch\nimport torch._dynamo\n\ntorch._dynamo.config.suppress_errors = True\n")),)),
        "precision": Change(
            "net", (("import torch\n", "import torch\n\nSET = torch.set_float32_matmul_precision('medium')\n"),)),
        "warnings": Change(
            "net", (("import torch\n", "import torch\nimport warnings\n\nwarnings.simplefilter('ignore')\n"),)),
        "a log": Change(
            "net", (("import torch\n", "import logging\nimport torch\n\nlogging.getLogger('app').setLevel(50)\n"),)),
        "threads": Change("net", (("print('done'", "torch.set_num_threads(1)\nprint('done'"),)),
        "a seed": Change("threads", (("import torch\n", "import torch\n\nSEEDED = torch.manual_seed(0)\n"),)),
        "the seed": Change("net", (("manual_seed(0)", "manual_seed(1)"),)),
        "a seed of Python": Change("any order", (("import random\n", "import random\n\nSEEDED = random.seed(0)\n"),)),
        "a seed of NumPy": Change("any order", (
            ("import random\n", "import random\nimport numpy\n\nSEEDED = numpy.random.seed(0)\n"),)),
    },
    "functions of others": {
        "of Python": Change("net", (("import torch\n", (
            "import math\nimport torch\n\n\ndef put(function):\n    math.floor = function\n    return function\n\n\n"
            "@put\ndef floor(x):\n    return 0\n")),)),
        "of torch": Change(
            "net", (("import torch\n", "import torch\n\nOLD = setattr(torch.nn.functional, 'elu', torch.relu)\n"),)),
        "a method": Change("net", (("import torch\n", (
            "import json\nimport torch\n\nOLD = setattr(json.JSONEncoder, 'default', lambda self, value: '?')\n")),)),
        "a builtin": Change("net", (("import torch\n", (
            "import builtins\nimport torch\n\nOLD = setattr(builtins, 'divmod', lambda a, b: (0, 0))\n")),)),
        "of random numbers": Change("net", (("import torch\n", (
            "import random\nimport torch\n\nOLD = setattr(random, 'gauss', random.uniform)\n")),)),
        "of the program": Change(
            "imports", (("import helper\n", "import helper\n\nOLD = setattr(helper, 'other', helper.rate)\n"),)),
        "a constant": Change("module attribute", (("import helper\n", "import helper\n\nhelper.RATE = 3\n"),)),
        "a registry": Change(
            "registry", (("import helper\n", "import helper\n\nhelper.KINDS['half'] = helper.double\n"),)),
    },
}  # fmt: skip
"""Changes that do something else, by kind and name."""

SIGN_OF_ZERO = Change("trunc", (("torch.trunc(y * 0.3)", "torch.trunc(y * 0.3) + 0.0"),))

RIGHT: dict[str, Change] = {
    "the break alone": Change("net"),
    "both sides": Change(
        "choice",
        (("y = y * 2 if x.sum() > 0 else y * 3", "y = torch.where(x.sum() > 0, y * 2, y * 3)"),),
    ),
    "a file of an earlier run": Change("left before", files={"answer.txt": ""}),
    "a comment": Change("net", (("return y * 2", "# Twice.\n        return y * 2"),)),
    "a function imported elsewhere": Change(
        "imports",
        (("y * helper.rate()", "y * 2"),),
        files={
            "helper.py": "def rate():\n    return 2\n\n\ndef other():\n    return 3\n\n\ndef more():\n    return 4\n"
        },
    ),
    "a helper that moved": Change(
        "net",
        (
            ("return y * 2", "return twice(y)"),
            ("import torch\n", "import torch\n\n\ndef twice(y):\n    return y * 2\n"),
        ),
    ),
    "a new method and a constant of the class": Change(
        "net",
        (
            ("    def __init__(self):\n", "    FACTOR = 2\n\n    def __init__(self):\n"),
            (
                "return y * 2",
                "return self.twice(y)\n\n    def twice(self, y):\n"
                "        assert super().extra_repr() == ''\n        return y * self.FACTOR",
            ),
        ),
    ),
    "under Inductor, which compiles other graphs": Change("inductor"),
    "data that nothing reads": Change("reads", files={"data/notes.txt": "for later\n"}),
    "a patch with a README": Change("net", patch="README.md"),
    "with a time": Change("timed"),
    "without a seed": Change("unseeded"),
    "with Python's random numbers": Change("any order"),
    "with an import of NumPy's": Change("net", (("import torch\n", "import numpy.random\nimport torch\n"),)),
    "in training": Change("trained"),
    "with gradients of gradients": Change("gradients twice"),
    "with files": Change("saved"),
    "the other way round": Change("attribute", (("y * self.factor", "self.factor * y"),)),
    "buffers": Change("buffers", (("self.count += 1", "self.count.add_(1)"),)),
    "of another file": Change(
        "helper", files={"helper.py": "RATE = 2\n\n\ndef rate():\n    # A rate.\n    return RATE\n"}
    ),
    "two models": Change("two"),
}
"""Changes that leave everything as it was."""

"""Small programs with a change each: plausible and wrong, or near it and right, as Python and torch have it."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Change:
    """A program and a change of it: `options` are of `proof_of`, `loses` the effects that compiled code may lack."""

    source: str
    was: str
    becomes: str
    options: dict[str, Any] = field(default_factory=dict)
    loses: tuple[str, ...] = ()


def program(
    forward: str, calls: str = "(torch.randn(3, 4),)", *, init: str = "", top: str = "", takes: str = "x"
) -> str:
    """A model with a linear layer; `calls` are tuples of arguments."""
    parts = textwrap.indent(textwrap.dedent(init).strip("\n"), " " * 8)
    body = textwrap.indent(textwrap.dedent(forward).strip("\n"), " " * 8)
    head = textwrap.dedent(top).strip("\n")
    return (
        f"import torch\nimport torch.nn.functional as F\n{head}\n\n\nclass Model(torch.nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n        self.linear = torch.nn.Linear(4, 4)\n"
        f"{parts}\n\n    def forward(self, {takes}):\n{body}\n\n\ntorch.manual_seed(0)\nmodel = Model().eval()\n"
        f"calls = [{calls}]\n"
    )


def change(
    was: str, becomes: str, *, loses: tuple[str, ...] = (), top: str = "", init: str = "",
    calls: str = "(torch.randn(3, 4),)", takes: str = "x", around: str = "{}", **options: Any,
) -> Change:  # fmt: skip
    """A change of some lines of a forward; `around` are the lines around them, {} where these go."""
    was, becomes = (textwrap.dedent(each).strip("\n") for each in (was, becomes))
    before, _, after = textwrap.dedent(around).strip("\n").partition("{}")
    source = program(before + was + after, calls, init=init, top=top, takes=takes)
    column = 8 + len(before) - len(before.rstrip(" "))
    indented = [textwrap.indent(each, " " * column).lstrip(" ") for each in (was, becomes)]
    return Change(source, indented[0], indented[1], options, loses)


# A branch, and the same computed for both sides: what one side does beside its value is done always then, or never.
_BRANCH = "if x.sum() > 0:\n    y = x + 1\n    {}\nelse:\n    y = x - 1\nreturn y"
_WHERE = "return torch.where(x.sum() > 0, x + 1, x - 1)"

_TIMED = "self.seen.append(time.perf_counter())"
_TIMED_AND_COUNTED = f"{_TIMED}\nself.count += 1"
_UNCOMPILED = "if not torch.compiler.is_compiling():\n"


def impure(effect: str, **more: Any) -> Change:
    return change(_BRANCH.format(effect), _WHERE, **more)


_CURVE = """
class Curve(torch.autograd.Function):  # Its gradient is right, and a constant.
    @staticmethod
    def forward(ctx, y):
        ctx.save_for_backward(torch.sigmoid(y))
        return F.softplus(y)
    @staticmethod
    def backward(ctx, given):
        return given * ctx.saved_tensors[0]
"""
_LEFT = {
    "warnings": "warnings.simplefilter('ignore')",
    "a log": "logging.getLogger('app').setLevel(50)",
    "algorithms": "torch.use_deterministic_algorithms(True)",
    "a hook": "sys.excepthook = lambda *_: None",
    "a mask": "os.umask(0o77)",
    "denormals": "torch.set_flush_denormal(True)",
    "printed tensors": "torch.set_printoptions(precision=2)",
}
# What a call writes, 3 where it was 7: with as many items in it, it is as long as before.
_WRITTEN = {
    "bytes": ("self.log.append({})", "self.log = bytearray()"),
    "an array": ("self.log.append({})", "self.log = array.array('l')"),
    "a text": ("self.log.write(str({}))", "self.log = io.StringIO()"),
    "an array of NumPy": ("self.log[0] = {}", "self.log = numpy.zeros(2)"),
    "a context variable": ("LAST.set({})", ""),
    "a value of the thread": ("LOCAL.last = {}", ""),
    "an attribute of a weight": ("self.linear.weight.note = [{}]", ""),
    "an attribute of an input": ("x.note = {}", ""),
    "a global of two underscores": ("globals()['__last__'] = {}", ""),
}

WRONG: dict[str, Change] = {
    "list-append": impure("self.seen.append(1)", init="self.seen = []"),
    "private-list-append": impure("self._seen.append(1)", init="self._seen = []"),
    "counter": impure("self.count += 1", init="self.count = 0"),
    "weak-set": impure("self.seen.add(self)", init="self.seen = weakref.WeakSet()", top="import weakref"),
    "private-counter": impure("self._count += 1", init="self._count = 0"),
    "nested-counter": impure("self.held['a']['b'][0] += 1", init="self.held = {'a': {'b': [0]}}"),
    "object": impure("self.box.n += 1", init="self.box = Box()", top="class Box:\n    n = 0"),
    "class-attribute": impure("type(self).count += 1", top="class Base(torch.nn.Module):\n    pass"),
    "global": impure("global COUNT\nCOUNT += 1".replace("\n", "; "), top="COUNT = 0"),
    "global-dict": impure("CACHE[len(CACHE)] = x", top="CACHE = {}"),
    "dict-update": impure("self.stats.update(last=1)", init="self.stats = {}"),
    "function-attribute": impure("count.calls += 1", top="def count(): pass\ncount.calls = 0"),
    "default-argument": impure("note(1)", top="def note(n, seen=[]):\n    seen.append(n)"),
    "closure": impure("NOTE()", top=(
        "def make():\n    n = 0\n    def note():\n        nonlocal n\n        n += 1\n    return note\nNOTE = make()")),
    "print-in-a-branch": impure("print('positive')"),
    "logging-in-a-branch": impure("LOG.warning('positive')", top="import logging\nLOG = logging.getLogger('mine')"),
    "warning-in-a-branch": impure("warnings.warn('positive')", top="import warnings"),
    "tensor-in-a-plain-object": impure("self.box['last'] = x * 2", init="self.box = {'last': torch.zeros(3, 4)}"),
    "buffer-in-a-branch": impure("self.steps += 1", init="self.register_buffer('steps', torch.zeros(()))"),
    "weights-in-a-branch": impure("self.linear.weight.data.mul_(0.5)"),
    "input-list": impure("notes.append(1)", calls="(torch.ones(3, 4), [])", takes="x, notes"),
    "input-dict": impure("notes['a'] = 1", calls="(torch.ones(3, 4), {})", takes="x, notes"),
    "input-object": impure("notes.last = x", calls="(torch.ones(3, 4), Notes())", takes="x, notes",
                           top="class Notes:\n    def __init__(self):\n        self.last = None"),
    "environment": impure("os.environ['POSITIVE'] = '1'", top="import os"),
    "modes": impure("torch.set_grad_enabled(False)"),
    "generator-advanced": impure("next(ITEMS)", top="ITEMS = (n for n in range(10**4))"),
    "random-numbers-in-a-branch": impure("torch.rand(1)"),
    "numpy-random-in-a-branch": impure("numpy.random.rand()", top="import numpy, numpy.random"),
    "own-generator-in-a-branch": impure("torch.rand(1, generator=G)", top="G = torch.Generator()"),
    # An argument with an effect of its own: where the print goes, the effect goes with it.
    "print-of-next": change(
        "print(next(ITEMS))", "if not torch.compiler.is_compiling():\n    print(next(ITEMS))",
        around="{}\nreturn x * 2", top="ITEMS = iter(range(10**4))", loses=("printed",)),
    "print-of-a-counter": change(
        "print(self.count())", "if not torch.compiler.is_compiling():\n    print(self.count())",
        around="{}\nreturn x * self.n", init="self.n = 0\nself.count = lambda: setattr(self, 'n', self.n + 1)",
        loses=("printed",)),
    "print-of-a-write": change(
        "print(y.add_(1))", "if not torch.compiler.is_compiling():\n    print(y.add_(1))",
        around="y = x * 2\n{}\nreturn y", loses=("printed",)),
    "print-dropped-in-eager": change("print('a')", "pass", around="{}\nreturn x * 2", loses=("printed",)),
    "count-dropped-in-compiled-code": change(
        "self.seen.append(1)", f"{_UNCOMPILED}    self.seen.append(1)", around="{}\nreturn x * 2",
        init="self.seen = []", loses=("kept",)),
    "times-dropped-in-eager": change(
        _TIMED, "pass", around="{}\nreturn x * 2", init="self.seen = []", top="import time", loses=("kept",)),
    "times-and-a-count-dropped-in-compiled-code": change(
        _TIMED_AND_COUNTED, _UNCOMPILED + textwrap.indent(_TIMED_AND_COUNTED, "    "), around="{}\nreturn x * 2",
        init="self.seen, self.count = [], 0", top="import time", loses=("kept",)),
    "times-dropped-in-compiled-code": change(
        _TIMED, f"{_UNCOMPILED}    {_TIMED}", around="{}\nreturn x * 2", init="self.seen = []", top="import time",
        loses=("kept",)),
    "time-in-a-dict-dropped-in-compiled-code": change(
        "self.seen['t'] = time.perf_counter()", f"{_UNCOMPILED}    self.seen['t'] = time.perf_counter()",
        around="self.seen['n'] = 1\n{}\nreturn x * 2", init="self.seen = {}", top="import time", loses=("kept",)),
    "times-dropped-and-not-said": change(
        _TIMED, f"{_UNCOMPILED}    {_TIMED}", around="{}\nreturn x * 2", init="self.seen = []", top="import time"),
    "print-order": change("print('a')\nprint('b')", "print('b')\nprint('a')", around="{}\nreturn x * 2"),
    # A value that was a number and is a tensor then. A number has no gradient.
    "item-in-training": change("s = x.max().item()", "s = x.max()", around="{}\nreturn x / s"),
    "item-returned": change("return y, y.sum().item()", "return y, y.sum().detach()", around="y = x * 2\n{}"),
    "item-in-a-dict": change("return {'loss': y.sum().item()}", "return {'loss': y.sum().detach()}",
                             around="y = x * 2\n{}"),
    "item-stored": change("self.last = y.sum().item()", "self.last = y.sum().detach()",
                          around="y = x * 2\n{}\nreturn y", init="self.last = 0.0"),
    "item-stored-in-a-list": change("self.last.append(y.sum().item())", "self.last.append(y.sum().detach())",
                                    around="y = x * 2\n{}\nreturn y", init="self.last = []"),
    "item-as-a-key": change("k = n[0].item()", "k = n[0]", around="{}\nreturn x * TABLE.get(k, 5)",
                            top="TABLE = {1: 2, 2: 3}", calls="(torch.ones(3, 4), torch.tensor([1, 2]))", takes="x, n"),
    "item-rounded": change("s = round(x.max().item(), 3)", "s = x.max().detach()", around="{}\nreturn x * s"),
    "item-truncated": change("s = int(x.mean() * 10)", "s = (x.mean() * 10).floor()", around="{}\nreturn x * s"),
    "item-to-a-constant": change("s = x.max().item()", "s = 1.5", around="{}\nreturn x * s"),
    "double-to-float": change("s = y.item()", "s = y.detach()", around="y = x[0, 0].double()\n{}\nreturn n * s",
                              calls="(torch.randn(3, 4), torch.arange(3))", takes="x, n"),
    "integer-overflow": change("s = n.max().item()", "s = n.max()", around="{}\nreturn n + (s * 2) // 2 - s + x.long()",
                               calls="(torch.ones(2).int(), torch.tensor([100, 120], dtype=torch.int8))", takes="x, n"),
    # Memory that is shared, or is not.
    "input-returned": change("return x if flag.sum() > 0 else x * 2", "return torch.where(flag.sum() > 0, x, x * 2)",
                             calls="(torch.randn(3), torch.ones(2))", takes="x, flag"),
    "clone-dropped": change("y = x.clone()", "y = x", around="{}\nreturn y"),
    "clone-of-a-buffer-dropped": change("y = self.table.clone()", "y = self.table", around="{}\nreturn y, x + y",
                                        init="self.register_buffer('table', torch.ones(4))"),
    "detach-of-what-is-kept": change("self.last = x.clone()", "self.last = x", around="{}\nreturn x * 2",
                                     init="self.last = None"),
    "view-in-place": change("if x.sum() > 0:\n    y += 1", "y = torch.where(x.sum() > 0, y + 1, y)",
                            around="z = x * 2\ny = z[0]\n{}\nreturn z"),
    "input-in-place": change("if flag.sum() > 0:\n    x += 1", "x = torch.where(flag.sum() > 0, x + 1, x)",
                             around="{}\nreturn x * 2", calls="(torch.randn(3), torch.ones(2))", takes="x, flag"),
    # NaN on the side that is not taken: in the gradient alone, for torch.where hides it in the result.
    "sqrt-of-negatives": change(
        "if x.min() >= 0:\n    y = torch.sqrt(x)\nelse:\n    y = x * 2",
        "y = torch.where(x.min() >= 0, torch.sqrt(x), x * 2)", around="{}\nreturn y", train=True,
        calls="(torch.rand(3, 4).requires_grad_(),), (torch.randn(3, 4).requires_grad_(),)"),
    "division-by-zero-inference": change(
        "if x.abs().min() > 0:\n    y = 1 / x\nelse:\n    y = x * 2",
        "y = torch.where(x.abs().min() > 0, 1 / x, x * 2)", around="{}\nreturn y", calls="(torch.randn(3, 4),)"),
    # Rows that a mask leaves out, computed all the same.
    "rows-that-mix": change(
        "y[m] = self.f(y[m])", "y.copy_(torch.where(m[:, None], self.f(y.masked_fill(~m[:, None], 0)), y))",
        around="y = x * 1\nm = x[:, 0] > x[:, 0].mean()\n{}\nreturn y", init="self.f = Centre()",
        top="class Centre(torch.nn.Module):\n    def forward(self, x):\n        return x - x.mean(0)"),
    "rows-that-are-counted": change(
        "y[m] = self.f(y[m])", "y.copy_(torch.where(m[:, None], self.f(y.masked_fill(~m[:, None], 0)), y))",
        around="y = x * 1\nm = x[:, 0] > x[:, 0].mean()\n{}\nreturn y", init="self.f = Counting()",
        top="COUNT = 0\nclass Counting(torch.nn.Module):\n    def forward(self, x):\n"
            "        global COUNT\n        COUNT += len(x)\n        return x * 2"),
    "rows-of-nan": change(
        "y[m] = self.linear(y[m])", "y.copy_(torch.where(m[:, None], self.linear(y), y))", train=True,
        around="y = x * 1\nm = ~x.isnan().any(-1)\n{}\nreturn y",
        calls="(torch.tensor([[1.0, 2.0, 3.0, 4.0], [float('nan')] * 4]),)"),
    "experts-that-mix": change(
        "y.index_add_(0, row, self.f(x[row]) * w[row, slot, None])",
        "rows = sent[e].any(1).T; y.add_((self.f(x.masked_fill(~rows, 0)) * w).masked_fill(~rows, 0))",
        around="w, at = x[:, :2].max(-1, keepdim=True)\nsent = F.one_hot(at, 2).permute(2, 1, 0) > 0\n"
               "y = torch.zeros_like(x)\nhit = sent.any(-1).any(-1).nonzero()\n"
               "for e in hit:\n    slot, row = torch.where(sent[e].squeeze(0))\n    {}\nreturn y",
        init="self.f = Centre()", calls="(torch.randn(8, 4),)",
        top="class Centre(torch.nn.Module):\n    def forward(self, x):\n        return x - x.mean(0)"),
    # Random numbers.
    "dropout-in-one-side": change(
        "if x.sum() > 0:\n    y = F.dropout(x, 0.5, self.training)\nelse:\n    y = x * 2",
        "y = torch.where(x.sum() > 0, F.dropout(x, 0.5, self.training), x * 2)", around="{}\nreturn y"),
    "dropout-in-both-sides": change(
        "if x.sum() > 0:\n    y = F.dropout(x, 0.5)\nelse:\n    y = F.dropout(x, 0.1)",
        "y = torch.where(x.sum() > 0, F.dropout(x, 0.5), F.dropout(x, 0.1))", around="{}\nreturn y"),
    # Sides of another look.
    "other-dtype": change("return x.half() if x.sum() > 0 else x", "return torch.where(x.sum() > 0, x.half(), x)"),
    "other-shape": change("return x if x.sum() > 0 else x[:1]", "return torch.where(x.sum() > 0, x, x[:1])"),
    "other-strides": change("return y.t() if x.sum() > 0 else y", "return torch.where(x.sum() > 0, y.t(), y)",
                            around="y = x @ x.t()\n{}"),
    "requires-grad": change("return y.detach() if y.sum() > 0 else y", "return torch.where(y.sum() > 0, y.detach(), y)",
                            around="y = self.linear(x)\n{}", grad=True),
    "no-grad-dropped": change("with torch.no_grad():\n    y = self.linear(x)", "y = self.linear(x)",
                              around="{}\nreturn y", grad=True),
    "gradient-cut-off": change("y = self.linear(x)", "y = F.linear(x, self.linear.weight.detach(), self.linear.bias)",
                               around="{}\nreturn y", grad=True),
    # A side that no call of the program takes.
    "never-taken": change("if x.abs().max() > 1000:\n    y = x / 1000\nelse:\n    y = x * 1",
                          "y = torch.where(x.abs().max() > 1000, x / 100, x * 1)", around="{}\nreturn y"),
    "never-taken-nan": change("if torch.isnan(x).any():\n    y = torch.zeros_like(x)\nelse:\n    y = x * 2",
                              "y = x * 2",
                              around="{}\nreturn y"),
    "never-taken-at-all": change("if x.sum() == 12345:\n    y = x + 1\nelse:\n    y = x * 2",
                                 "y = torch.where(x.sum() == 12345, x + 2, x * 2)", around="{}\nreturn y",
                                 sides=("y = x + 1",)),
    "never-taken-returns": change(
        "if x.sum() == 12345:\n    return x + 1\nreturn x * 2",
        "return torch.cond(x.sum() == 12345, lambda x: x + 2, lambda x: x * 2, (x,))", sides=("return x + 1",)),
    "check-of-the-contrary": change(
        "if x.sum() == 12345:\n    raise ValueError('odd')",
        "if torch.compiler.is_compiling():\n    assert x.abs().sum() >= 0, 'odd'\n"
        "elif x.sum() == 12345:\n    raise ValueError('odd')", around="{}\nreturn x * 2", loses=("raises",),
        sides=("raise ValueError",)),
    "check-dropped": change("if x.abs().max() > 1000:\n    raise ValueError('large')", "pass",
                            around="{}\nreturn x * 2"),
    "other-message": change("raise ValueError(f'{1} large')", "raise ValueError('large')",
                            around="if x.abs().max() > 1000:\n    {}\nreturn x * 2"),
    "other-exception": change("if x.abs().max() > 1000:\n    raise ValueError('large')",
                              "if x.abs().max() > 1000:\n    raise TypeError('large')", around="{}\nreturn x * 2"),
    # What another call, shape or mode shows.
    "state-between-calls": change(
        "if self.steps > 1:\n    y = x * 2\nelse:\n    y = x * 3", "y = x * 3", init="self.steps = 0",
        around="self.steps += 1\n{}\nreturn y", calls="(torch.ones(3),), (torch.ones(3),), (torch.ones(3),)"),
    "batch-hard-wired": change("y = x.view(x.shape[0], 2, 2)", "y = x.view(3, 2, 2)", around="{}\nreturn y"),
    "batch-of-one": change("y = x - x.mean(0)", "y = (x - x.mean(0)).squeeze()", around="{}\nreturn y"),
    "second-shape": change("n = x.shape[0]", "n = 3", around="{}\nreturn x * n",
                           calls="(torch.ones(3),), (torch.ones(5),)"),
    "training-only": change("if self.training:\n    y = y * 2", "pass", around="y = x * 1\n{}\nreturn y",
                            init="self.drop = torch.nn.Dropout(0.0)"),
    "autocast": change("y = self.linear(x)", "y = x @ self.linear.weight.t().float() + self.linear.bias",
                       around="with torch.autocast('cpu', torch.bfloat16):\n    {}\nreturn y"),
    "always-float32": change("y = y.to(x.dtype)", "y = y.to(torch.float32)",
                             around="y = self.linear(x)\n{}\nreturn y"),
    "weights-looked-at": change("if self.linear.weight.sum() > 0:\n    y = x + 1\nelse:\n    y = x - 1", "y = x + 1",
                                init="torch.nn.init.ones_(self.linear.weight)", around="{}\nreturn y"),
    "channels-last": change("* 2", "* (2 + x.is_contiguous(memory_format=torch.channels_last))", around="return x {}",
                            calls="(torch.randn(2, 4, 3, 5),)"),
    # What gradients of gradients show.
    "second-gradients": change("return F.softplus(self.linear(x))", "return Curve.apply(self.linear(x))", grad=True,
                               twice=True, top=_CURVE),
    # What a call leaves set for all after it.
    **{f"left-set {name}": change("pass", becomes, around="{}\nreturn x * 2", top="import logging, os, sys, warnings")
       for name, becomes in _LEFT.items()},
    **{f"written {name}": change(
        writes.format(7), writes.format(3), around="{}\nreturn x * 2", init=init,
        top="import array, contextvars, io, threading\nimport numpy\nLAST = contextvars.ContextVar('last')\n"
        "LOCAL = threading.local()") for name, (writes, init) in _WRITTEN.items()},
    # Outputs that are no tensors.
    "object-returned": change("return Box(x * 2)", "return Box(x * 3)",
                              top="class Box:\n    def __init__(self, a):\n        self.a = {'deep': [[[[[[[a]]]]]]]}"),
    "view-returned": change("return self.linear(x), x", "return self.linear(x), x[:]"),
    "string-returned": change("return 'a'", "return 'b'"),
    "function-returned": change("k = 2", "k = 3", around="{}\nreturn lambda t: t * k"),
    "function-with-another-name-in-it": change("return lambda t: t.sin()", "return lambda t: t.cos()"),
    "function-around-a-list": change("k = [2]", "k = [3]", around="{}\nreturn lambda t: t * k[0]"),
    "partial-returned": change("return partial(min, 2)", "return partial(min, 3)", top="from functools import partial"),
    "iterator-returned": change("return iter([2, 2])", "return iter([3, 3])"),
    "long-iterator-returned": change("return iter([0] * 900 + [2])", "return iter([0] * 900 + [3])"),
    "long-list-returned": change("return [0] * 30_000", "return [0] * 29_999 + [1]"),
    "long-dict-returned": change("last = 0", "last = 1",
                                 around="{}\nreturn {**dict.fromkeys(range(9_000), 0), 8_999: last}"),
    "buffer-not-saved": change("kept = True", "kept = False",
                               around="{}\nself.register_buffer('last', x, persistent=kept)\nreturn x * 2"),
    "another-logger": change("log = 'one'", "log = 'two'", around="{}\nlogging.getLogger(log).error('x')\nreturn x * 2",
                             top="import logging"),
    "enum-returned": change("return Color.RED", "return Color.BLUE", top=(
        "import enum\nclass Color(enum.Enum):\n    RED = 1\n    BLUE = 2")),
    "array-returned": change("return (x * 2).numpy()", "return (x * 3).numpy()"),
    "generator-returned": change("return (x * n for n in range(3))", "return (x * n for n in range(1, 4))"),
    "keys-in-another-order": change("return {'a': x, 'b': x}", "return {'b': x, 'a': x}"),
    "tuple-to-list": change("return (x, x)", "return [x, x]"),
    "cache-returned": change("cache.put(x * 2)", "cache.put(x * 3)", around="{}\nreturn cache", top=(
        "class Cache:\n    def __init__(self):\n        self.layers = []\n    def put(self, x):\n"
        "        self.layers.append(x)"), calls="(torch.randn(3), Cache())", takes="x, cache"),
}  # fmt: skip

_SAME = "return torch.where(x.sum() > 0, x + 1, x - 1)"
_IF = "if x.sum() > 0:\n    y = x + 1\nelse:\n    y = x - 1\nreturn y"

RIGHT: dict[str, Change] = {
    "second-gradients": change("self.linear(x)", "self.linear(x * 1)", grad=True,
                               twice=True, around="return F.softplus({})"),
    "where": change(_IF, _SAME),
    "where-in-training": change(_IF, _SAME, around="x = self.linear(x)\n{}", train=True),
    "never-taken": change("if x.sum() == 12345:\n    y = x + 1\nelse:\n    y = x * 2",
                          "y = torch.where(x.sum() == 12345, x + 1, x * 2)", around="{}\nreturn y",
                          sides=("y = x + 1",)),
    "never-taken-and-more": change(
        "if x.dim() == 2 and x.sum() == 12345:\n    y = x + 1\nelse:\n    y = x * 2",
        "if x.dim() == 2:\n    y = torch.where(x.sum() == 12345, x + 1, x * 2)\nelse:\n    y = x * 2",
        around="{}\nreturn y", sides=("y = x + 1",)),
    "check": change(
        "if x.sum() == 12345:\n    raise ValueError('odd')",
        "if torch.compiler.is_compiling():\n    assert torch.logical_not(x.sum() == 12345), 'odd'\n"
        "elif x.sum() == 12345:\n    raise ValueError('odd')", around="{}\nreturn x * 2", loses=("raises",),
        sides=("raise ValueError",)),
    "cond": change(_IF, "return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))"),
    "item-left-in": change("s = x.max().item()", "s = x.max().detach()", around="{}\nreturn x / s"),
    "print-in-eager": change("print('a', x.shape)",
                             "if not torch.compiler.is_compiling():\n    print('a', x.shape)",
                             around="print('b')\n{}\nprint('c')\nreturn x * 2", loses=("printed",)),
    "warned-once": change("y = x.sum().item()", "y = x.sum().detach()",
                          around="warn_once('old')\n{}\nreturn x * y", top=(
        "import functools, logging\nLOG = logging.getLogger('mine')\n@functools.lru_cache(None)\n"
        "def warn_once(text):\n    LOG.warning(text)"), loses=("logged",), baseline=True),
    "time-returned": change("y = x * 2", "y = x + x", around="{}\nreturn y, time.perf_counter()", top="import time"),
    "time-printed": change("y = x * 2", "y = x + x", around="{}\nprint(f'{time.perf_counter():.9f} s')\nreturn y",
                           top="import time"),
    "time-kept": change("y = x * 2", "y = x + x", around="{}\nself.at = time.perf_counter()\nreturn y",
                        init="self.at = None", top="import time"),
    "numbers-returned": change("y = x * 2", "y = x + x", around="{}\nreturn y, 3, 'a', None, {'b': (1.5, True)}"),
    "dataclass-returned": change("y = x * 2", "y = x + x", around="{}\nreturn Out(y, [y, None])", top=(
        "import dataclasses\n@dataclasses.dataclass\nclass Out:\n    a: object\n    b: object = None")),
    "cache-updated": change("k = x * 2", "k = x + x", around="{}\ncache.put(k)\nreturn k, cache", top=(
        "class Cache:\n    def __init__(self):\n        self.layers = []\n    def put(self, x):\n"
        "        self.layers.append(x)"), calls="(torch.randn(3), Cache())", takes="x, cache"),
    "buffer-updated": change("y = x * 2", "y = x + x", around="self.steps += 1\n{}\nreturn y * self.steps",
                             init="self.register_buffer('steps', torch.zeros(()))"),
    "batch-statistics": change("y = x * 2", "y = x + x", around="{}\nreturn self.norm(y)",
                               init="self.norm = torch.nn.BatchNorm1d(4)", calls="(torch.randn(3, 4),)"),
    "list-appended": change("y = x * 2", "y = x + x", around="{}\nself.seen.append(y)\nreturn y",
                            init="self.seen = []"),
    "counter-kept": change("y = x * 2", "y = x + x", around="self.n += 1\n{}\nreturn y * self.n", init="self.n = 0"),
    "random-numbers": change("y = x * 2", "y = x + x", around="{}\nreturn F.dropout(y, 0.5)"),
    "shapes-that-differ": change("y = x * 2", "y = x + x", around="{}\nreturn y",
                                 calls="(torch.ones(3),), (torch.ones(5),), (torch.ones(2, 2),)"),
    "no-grad-kept": change("y = y * 2", "y = y + y", grad=True,
                           around="with torch.no_grad():\n    y = self.linear(x)\n{}\nreturn y"),
    "in-place-on-an-input": change("x += 1", "x.add_(1)", around="{}\nreturn x * 2"),
    "fixed-batch-of-the-model": change("y = x * 2", "y = x + x", around="{}\nreturn y.view(3, 4) + self.table",
                                       init="self.register_buffer('table', torch.ones(3, 4))"),
    "half": change("s = x.max().item()", "s = x.max().detach()", around="x = x.half()\n{}\nreturn x / s"),
    "autocast": change("y = y * 2", "y = y + y",
                       around="with torch.autocast('cpu', torch.bfloat16):\n    y = self.linear(x)\n{}\nreturn y"),
    "one-dtype": change("y = y * 2", "y = y + y", around="y = self.linear(x)\n{}\nreturn y @ torch.ones(4, 4)"),
    "import-added": change("y = x * 2", "y = x * math.floor(2.5)", around="{}\nreturn y", top="import math"),
}  # fmt: skip

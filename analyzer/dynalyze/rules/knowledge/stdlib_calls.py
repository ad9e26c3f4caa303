"""Calls into Python's standard library that belong outside a model."""

from dynalyze.rules.recipe import Recipe, graph_break_page

_SKIPPED = ("Attempted to call function marked as skipped", "Attempted to inline function marked as skipped")
_METHOD = "Unsupported method call"

RECIPES = (
    Recipe(
        id="clock",
        title="Measure time outside the compiled code",
        gb_types=(*_SKIPPED, _METHOD),
        match=r"module: time\b|builtin `time\.|datetime\.(datetime|date)\b",
        rank=2,
        why=(
            "The clock is read when the line runs; a graph cannot do that. The compiled code also runs as "
            "one piece, and on a GPU it runs later, so a time taken in the middle of it would mean little."
        ),
        action=(
            "Take `{expression}` out and time the call of the compiled function, with a profiler or a timer around it."
        ),
        before="""\
import time

import torch

seconds = []


def f(x, weight):
    start = time.perf_counter()
    y = torch.relu(x @ weight)
    seconds.append(time.perf_counter() - start)
    return y
""",
        after="""\
import time

import torch

seconds = []


def f(x, weight):
    return torch.relu(x @ weight)


def timed(compiled, x, weight):
    start = time.perf_counter()
    y = compiled(x, weight)
    seconds.append(time.perf_counter() - start)
    return y
""",
        inputs="(torch.ones(2, 3), torch.ones(3, 2))",
        link=graph_break_page("GB0007"),
    ),
    Recipe(
        id="operating-system",
        title="Ask the operating system once, outside",
        gb_types=_SKIPPED,
        match=(
            r"module: (posix|nt|posixpath|ntpath|genericpath|os|shutil|tempfile|pathlib|socket|"
            r"subprocess)\b|builtin `(posix|nt)\."
        ),
        rank=2,
        why=(
            "Files, processes and the like live in the operating system. The compiler cannot put such a "
            "question into a graph, because the answer may change between calls."
        ),
        action=("Evaluate `{expression}` once in `__init__` or at import, keep the result, and use that in the model."),
        before="""\
import os


def f(x):
    if os.path.exists("calibration.txt"):
        return x * 2
    return x + 1
""",
        after="""\
import os

CALIBRATED = os.path.exists("calibration.txt")


def f(x):
    if CALIBRATED:
        return x * 2
    return x + 1
""",
        inputs="(torch.ones(3),)",
        link=graph_break_page("GB0007"),
    ),
    Recipe(
        id="python-random",
        title="Draw random numbers with torch",
        gb_types=(*_SKIPPED, _METHOD),
        match=(
            r"Random\.(random|seed|choice|choices|shuffle|sample|uniform|gauss|randint|randrange|"
            r"getrandbits)\b|module: (random|secrets)\b"
        ),
        rank=2,
        why=(
            "Python's `random` keeps its own state outside the graph, and a number drawn while the graph is "
            "built would be the same in every later call."
        ),
        action=(
            "Draw with `torch.rand` or `torch.randint` instead of `{expression}`, or draw outside and pass "
            "the number in."
        ),
        before="""\
import random

import torch


def f(x, drop_rate):
    if random.random() < drop_rate:
        return x
    return x + torch.relu(x)
""",
        after="""\
import torch


def f(x, drop_rate):
    dropped = torch.rand((), device=x.device) < drop_rate
    return torch.where(dropped, x, x + torch.relu(x))
""",
        inputs="(torch.ones(3), 0.0)",
        link=graph_break_page("GB0007"),
    ),
    Recipe(
        id="hash-digest",
        title="Compute digests outside the compiled code",
        gb_types=(*_SKIPPED, _METHOD),
        match=r"module: _?hashlib\b|module: _(sha\d|md5|blake2)|class `HASH`",
        rank=2,
        why=(
            "A digest works on bytes, in C, and yields Python text. None of that can be part of a graph of "
            "tensor operations."
        ),
        action="Compute `{expression}` before the model is called and pass what the model needs of it.",
        before="""\
import hashlib


def f(x, name):
    bucket = hashlib.sha256(name.encode()).digest()[0] % 4
    return x * bucket
""",
        after="""\
import hashlib

import torch


@torch.compiler.assume_constant_result
def bucket_of(name):
    return hashlib.sha256(name.encode()).digest()[0] % 4


def f(x, name):
    return x * bucket_of(name)
""",
        inputs="(torch.ones(3), 'encoder.0')",
        link=graph_break_page("GB0007"),
    ),
    Recipe(
        id="call-stack",
        title="Do not ask for the call stack in the model",
        gb_types=_SKIPPED,
        match=r"qualname: (_getframe|currentframe)\b|module: (inspect|traceback)\b",
        rank=2,
        why=(
            "The code looks at Python's frames. In compiled code those frames do not exist: several "
            "functions have become one graph."
        ),
        action="Pass the name or the flag that `{expression}` is meant to find as an ordinary argument.",
        before="""\
import inspect


def f(x):
    caller = inspect.currentframe().f_code.co_name
    return x * len(caller)
""",
        after="""\
def f(x, caller="f"):
    return x * len(caller)
""",
        inputs="(torch.ones(3),)",
        link=graph_break_page("GB0007"),
    ),
    Recipe(
        id="garbage-collection",
        title="Collect garbage between steps, not in the model",
        gb_types=_SKIPPED,
        match=r"module: gc\b|builtin `gc\.",
        rank=2,
        why=(
            "The garbage collector works on Python objects; in a graph there are none. Inside a model it "
            "costs time at every call and frees nothing that PyTorch's allocator would not reuse."
        ),
        action="Delete `{expression}`, or call it between training steps.",
        before="""\
import gc

import torch


def f(x):
    hidden = torch.relu(x)
    gc.collect()
    return hidden.sum()
""",
        after="""\
import torch


def f(x):
    hidden = torch.relu(x)
    return hidden.sum()
""",
        inputs="(torch.ones(3),)",
        link=graph_break_page("GB0007"),
    ),
    Recipe(
        id="serialization",
        title="Write and read data outside the compiled code",
        gb_types=(*_SKIPPED, _METHOD),
        match=r"module: _?(pickle|json|marshal)\b|_json\.|_pickle\.|_io\.(BytesIO|StringIO)",
        rank=2,
        why=(
            "Turning objects into text or bytes is Python and C work on Python objects; the compiler cannot "
            "put it into a graph of tensor operations."
        ),
        action="Return the values and do `{expression}` in the caller.",
        before="""\
import json

records = []


def f(x, step):
    records.append(json.dumps({"step": step}))
    return x.square().mean()
""",
        after="""\
import json

records = []


def f(x, step):
    records.append({"step": step})
    return x.square().mean()


def save(path):
    path.write_text("\\n".join(json.dumps(record) for record in records))
""",
        inputs="(torch.ones(3), 7)",
        link=graph_break_page("GB0156"),
    ),
)

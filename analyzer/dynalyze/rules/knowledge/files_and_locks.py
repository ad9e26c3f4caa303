"""Files, locks and other context managers the compiler cannot enter."""

from dynalyze.rules.recipe import Recipe, graph_break_page

_CONTEXT = "Unsupported context manager"

RECIPES = (
    Recipe(
        id="open-file",
        title="Read the file before compiling",
        gb_types=("Failed to trace builtin operator", _CONTEXT),
        match=r"builtin (operator )?`?open\b|TextIOWrapper|BufferedReader|BufferedWriter",
        rank=1,
        why=(
            "Opening a file is a question to the operating system, which a graph cannot hold. Where it is "
            "done in a `with`, the compiler gives up the whole function."
        ),
        action=("Read or write the file outside the compiled code instead of `{expression}`, and pass its content in."),
        before="""\
import os


def f(x):
    with open(os.devnull) as table:
        offset = len(table.read())
    return x + offset
""",
        after="""\
import os
from pathlib import Path

OFFSET = len(Path(os.devnull).read_text())


def f(x):
    return x + OFFSET
""",
        inputs="(torch.ones(3),)",
        link=graph_break_page("GB0142"),
    ),
    Recipe(
        id="lock",
        title="Take the lock outside the compiled code",
        gb_types=(_CONTEXT, "Unsupported method call"),
        match=(
            r"class `(lock|RLock|_RLock|Condition|Semaphore|Event)`|"
            r"a `(lock|RLock|_RLock|Condition|Semaphore)` context|\(R?[Ll]ock\)"
        ),
        rank=1,
        why=(
            "A lock stops one thread while another works. A graph has no threads to stop, and leaving the "
            "lock out would change the program, so the compiler gives up here."
        ),
        action=(
            "Hold the lock around the call of the compiled function, not inside it: move `{expression}` to the caller."
        ),
        before="""\
import threading

lock = threading.Lock()
cache = {}


def f(x):
    with lock:
        scale = cache.setdefault("scale", 2.0)
    return x * scale
""",
        after="""\
import threading

lock = threading.Lock()
cache = {"scale": 2.0}


def f(x):
    return x * cache["scale"]


def call(compiled, x):
    with lock:
        return compiled(x)
""",
        inputs="(torch.ones(3),)",
        link=graph_break_page("GB0142"),
    ),
    Recipe(
        id="context-manager",
        title="Enter the context manager around the compiled call",
        gb_types=(_CONTEXT, "unsupported contextlib.* API"),
        why=(
            "The compiler knows the context managers of PyTorch and simple Python ones, but not this one. "
            "It cannot promise that what `with` sets up is in place when the graph runs."
        ),
        action="Put the `with` on `{expression}` around the call of the compiled function.",
        before="""\
import contextlib
import io

import torch

log = io.StringIO()


def f(x):
    with contextlib.redirect_stdout(log):
        return torch.relu(x)
""",
        after="""\
import contextlib
import io

import torch

log = io.StringIO()


def f(x):
    return torch.relu(x)


def logged(compiled, x):
    with contextlib.redirect_stdout(log):
        return compiled(x)
""",
        inputs="(torch.ones(3),)",
        link=graph_break_page("GB0142"),
    ),
    Recipe(
        id="warning-filter",
        title="Set warning filters outside the compiled code",
        gb_types=("Attempted to call function marked as skipped",),
        match=r"_filters_mutated|catch_warnings|simplefilter|filterwarnings|resetwarnings",
        rank=2,
        why=(
            "`warnings.catch_warnings` and the filter functions change a list that belongs to the whole "
            "process, in C. The compiler stops there, and the rest of the `with` is lost to it as well."
        ),
        action=(
            "Set the filter once at start-up, or around the call of the compiled function, instead of `{expression}`."
        ),
        before="""\
import warnings

import torch


def f(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.sqrt(x)
""",
        after="""\
import warnings

import torch


def f(x):
    return torch.sqrt(x)


def quiet(compiled, x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return compiled(x)
""",
        inputs="(torch.ones(3),)",
        link=graph_break_page("GB0007"),
    ),
)

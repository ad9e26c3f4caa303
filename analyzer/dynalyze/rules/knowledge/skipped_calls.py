"""Functions the compiler does not enter: C extensions, native libraries, modules on Dynamo's skip list."""

import ast

from dynalyze.rules import written
from dynalyze.rules.recipe import Recipe, graph_break_page

_SKIPPED = ("Attempted to call function marked as skipped", "Attempted to inline function marked as skipped")
_CUSTOM_OPS = "https://docs.pytorch.org/docs/stable/library.html"


def _sorts(code: written.Written) -> list[ast.Call]:
    return [call for call in code.calls if written.called(call) == "sorted"]


RECIPES = (
    Recipe(
        id="skipped-function",
        title="Call the skipped function outside the compiled code",
        gb_types=(*_SKIPPED, "Attempted to inline function marked as skipped (SkipFunctionVariable)"),
        why=(
            "PyTorch keeps a list of modules that the compiler does not enter, because their code does "
            "things a graph cannot hold. Your code calls a function from one of them."
        ),
        action=(
            "Move `{expression}` before or after the compiled function and pass its result in; if the part "
            "around it is not worth compiling, put `torch.compiler.disable` on that part as a whole."
        ),
        before="""\
from torch.nn.utils.rnn import pack_padded_sequence


def f(x, lengths):
    packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    return packed.data.sum(dim=0)
""",
        after="""\
import torch


def f(x, lengths):
    keep = torch.arange(x.shape[1], device=x.device) < lengths[:, None]
    return (x * keep.unsqueeze(-1)).sum(dim=(0, 1))
""",
        inputs="(torch.ones(2, 4, 3), torch.tensor([2, 4]))",
        link=graph_break_page("GB0007"),
    ),
    Recipe(
        id="c-extension",
        title="Wrap the C function as a custom operator, or call it outside",
        gb_types=(*_SKIPPED, "can't handle functions not implemented in python "),
        match=r"C extension or builtin|Python builtin|C/C\+\+",
        why=(
            "The function is written in C or C++ and has no Python code that the compiler could follow. It "
            "does not know what comes out of it, so it leaves the call to Python."
        ),
        action=(
            "Wrap `{expression}` with `torch.library.custom_op` if it works on tensors, else call it "
            "outside the model and pass the result in."
        ),
        before="""\
import zlib


def f(x, name):
    bucket = zlib.crc32(name.encode()) % 4
    return x * bucket
""",
        after="""\
import zlib

import torch


@torch.compiler.assume_constant_result
def bucket_of(name):
    return zlib.crc32(name.encode()) % 4


def f(x, name):
    return x * bucket_of(name)
""",
        inputs="(torch.ones(3), 'encoder.0')",
        link=_CUSTOM_OPS,
    ),
    Recipe(
        id="native-kernel",
        title="Register the native kernel as a custom operator",
        gb_types=("Unsupported method call", "Unsupported function call", *_SKIPPED),
        match=(
            r"class `_?(CFunctionType|FuncPtr|_FuncPtr|PyCapsule|pybind11\w*|CompiledFFI)`|"
            r"_FuncPtr|DataPtrVariable|cffi"
        ),
        rank=3,
        why=(
            "The call hands tensors, or their addresses, to a native library. The compiler cannot see what "
            "the library reads and writes, nor which shape comes back, until somebody tells it."
        ),
        action=(
            "Put `{expression}` into a function with `@torch.library.custom_op` and describe its result "
            "with `register_fake`."
        ),
        before="""\
import ctypes

import torch


def native_copy(x):
    out = torch.empty_like(x)
    ctypes.memmove(out.data_ptr(), x.data_ptr(), x.numel() * x.element_size())
    return out


def f(x):
    return native_copy(x * 2) + 1
""",
        after="""\
import ctypes

import torch


@torch.library.custom_op("my_kernels::native_copy", mutates_args=())
def native_copy(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    ctypes.memmove(out.data_ptr(), x.data_ptr(), x.numel() * x.element_size())
    return out


@native_copy.register_fake
def _(x):
    return torch.empty_like(x)


def f(x):
    return native_copy(x * 2) + 1
""",
        inputs="(torch.ones(3),)",
        link=_CUSTOM_OPS,
    ),
    Recipe(
        id="c-object",
        title="Keep objects written in C out of the compiled code",
        gb_types=("Unsupported method call", "Unsupported function call", "Unsupported hasattr call"),
        match=r"<class 'array\.array'>|UserDefinedObjectVariable\(array\)",
        why=(
            "The method belongs to a class that the compiler has no rules for, mostly one written in C. It "
            "cannot follow the call and leaves it to Python."
        ),
        action=(
            "Do `{expression}` before the compiled function and pass a tensor, a number or a string instead "
            "of the object."
        ),
        before="""\
import array


def f(x, size):
    weights = array.array("d", [0.5] * size)
    return x * weights[0]
""",
        after="""\
def f(x, size):
    weights = [0.5] * size
    return x * weights[0]
""",
        inputs="(torch.ones(3), 2)",
        link=graph_break_page("GB0156"),
    ),
    Recipe(
        id="sorted-tensor",
        title="Sort with the tensor's own sort",
        gb_types=("Failed to trace builtin operator", "unimplemented builtin op on tensor arguments"),
        match=r"builtin sorted \[[^\n]*Tensor",
        shape=lambda code: all(len(call.args) == 1 and not call.keywords for call in _sorts(code)),
        why=(
            "Python's `sorted` compares the elements one by one, and which comes first depends on their values. The "
            "compiler has none while it builds the graph, so it leaves the call to Python."
        ),
        action="Use the tensor's own `sort().values` instead of `{expression}`.",
        before="""\
def f(scores):
    lowest, *rest = sorted(scores)
    return scores - lowest
""",
        after="""\
def f(scores):
    lowest = scores.sort().values[0]
    return scores - lowest
""",
        inputs="(torch.tensor([3.0, 1.0, 2.0]),)",
        link=graph_break_page("GB0059"),
    ),
)

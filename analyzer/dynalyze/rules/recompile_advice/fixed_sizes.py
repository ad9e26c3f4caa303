"""Advice on a line that makes a constant of a size, by what stands in the line."""

from __future__ import annotations

import re
from collections.abc import Callable

from dynalyze.files.paths import library_of
from dynalyze.report import Advice, Example, Location
from dynalyze.rules.recompile_advice.source import DYNAMIC_PAGE, Expression

BUCKETS = "Where only a few lengths matter, pad to the next of them: each is compiled once and runs at full speed."
_COMPARISON = re.compile(r"[=!]= *\d")
_COMPARED = re.compile(r"[=!<>]=|[<>]|\bint\(|\brange\(")
_LOOP = re.compile(r"\bfor\b.+\bin\b|\bwhile\b")
_LIST = re.compile(r"\.(?:unbind|split|chunk|tolist)\(")
# `if (h, w) not in self.grids:`, `self.grids.get((h, w))`.
_LOOKUP = re.compile(r"\b(?:not )?in (?:self\.)?\w+:|\bself\.\w+\.get\(")
# What torch 2.13 keeps dynamic in Python and makes a constant of in NumPy. `math.log` and `math.exp` are constants too.
_PLAIN_PYTHON = {
    "ceil": "math.ceil", "floor": "math.floor", "sqrt": "math.sqrt", "log2": "math.log2", "round": "round",
    "maximum": "max", "minimum": "min",
}  # fmt: skip
_NUMPY = re.compile(rf"\b(?P<call>(?:np|numpy)\.(?P<name>{'|'.join(_PLAIN_PYTHON)}))\(")
_LINSPACE = re.compile(r"linspace\(")
_TENSOR_OF_NUMBERS = re.compile(r"\btorch\.(?P<name>as_tensor|asarray|(?P<dtype>Float|Double|Long|Int)Tensor)\(")


def asks_about(line: Location) -> bool:
    """Whether a line compares a size, or takes as many steps."""
    return any(each.search(line.code or "") for each in (_LOOP, _COMPARED))


def needs_number(line: Location) -> bool:
    """Whether a line takes as many steps as a size says, or gives its number to NumPy."""
    return any(each.search(line.code or "") for each in (_LOOP, _NUMPY))


def fixed_by(source: Expression, line: Location, *, dynamic: bool = True) -> Advice:
    """A line that needs the size itself; `dynamic`: torch had made it dynamic, so marking it once more cannot help."""
    size = f"`{source.shown}`" if source.shown else "the size"
    for pattern, advise in _BY_CODE:
        if (found := pattern.search(line.code or "")) is not None:
            return advise(found, line, size)
    if not dynamic and source.dimension is not None and _COMPARISON.search(line.code or ""):
        allowed = f"`torch._dynamo.maybe_mark_dynamic({source.argument}, {source.dimension})`"
        return Advice(
            f"{line.short} compares {size} with a number, and that size gets code of its own: one compile, "
            f"whatever is marked. Change that line, or let the other sizes vary: {allowed} before each call; "
            "`mark_dynamic` raises an error at that size.",
            "A comparison with a number that is true makes the size a constant of the compiled code.",
            link=DYNAMIC_PAGE,
        )
    package = library_of(line.file)
    whose = f", in {package}," if package else ""
    around = f"compile the parts of the model around what {package} does, each by itself"
    step = around if package else "rewrite it for any size"
    return Advice(
        f"{line.short}{whose} fixes {size}: {step}. Or pad, so that the size stays the same.",
        "The size is dynamic for torch until that line needs its exact value: an `if` that compares it with a "
        "number, a list of that length, `int()`, or a tensor of fixed size that it meets. Marked dynamic, it would "
        f"raise an error before that line changes. {BUCKETS}",
        link=DYNAMIC_PAGE,
    )


def _of_numpy(found: re.Match[str], line: Location, size: str) -> Advice:
    package = library_of(line.file)
    return Advice(
        f"Take `{_PLAIN_PYTHON[found['name']]}` in the place of `{found['call']}` at {line.short}"
        f"{f', in {package}' if package else ''}, which makes a constant of {size}.",
        "A size may vary in Python's own arithmetic. NumPy's functions get its value, and the compiled code holds "
        "for that value alone, with `dynamic=True` too.",
        link=DYNAMIC_PAGE,
    )


def _of_linspace(_: re.Match[str], line: Location, size: str) -> Advice:
    return Advice(
        f"Take `torch.arange` in the place of `torch.linspace` at {line.short}, whose number of steps is "
        f"{size}: `start + torch.arange(n) * ((end - start) / (n - 1))`. Or pad to a few sizes.",
        "torch has no `linspace` of a dynamic number of steps: each one is a graph of its own. `arange` has one.",
        Example("torch.linspace(-1.0, 1.0, steps=n)", "-1.0 + torch.arange(n) * (2.0 / (n - 1))"),
        link=DYNAMIC_PAGE,
    )


def _of_new_tensor(found: re.Match[str], line: Location, size: str) -> Advice:
    dtype = f", dtype=torch.{found['dtype'].lower()}" if found["dtype"] else ""
    return Advice(
        f"Take `torch.tensor(...{dtype})` in the place of `{found['name']}` at {line.short}, which is given {size} "
        "or a number computed from it. Or pad to a few sizes.",
        f"`{found['name']}` makes a constant of a dynamic size; `torch.tensor` keeps it dynamic.",
        Example(f"torch.{found['name']}([len(x)])", f"torch.tensor([len(x)]{dtype})"),
        link=DYNAMIC_PAGE,
    )


def _of_loop(_: re.Match[str], line: Location, size: str) -> Advice:
    return Advice(
        f"{line.short} takes as many steps as {size} says, and each number of steps is a graph of its own. "
        "Compile what one step does, as a function of its own, and keep the loop outside of the compiled code: "
        "hand it copies, `x[:, i].contiguous()`, no views. Or pad to a few lengths: each is compiled once.",
        "A Python loop is unrolled, step by step, so its length is a constant of the compiled code, with "
        "`dynamic=True` too; marked dynamic, the size would raise an error. Views of one tensor begin further on "
        "in each step, and the compiler guards that.",
        link=DYNAMIC_PAGE,
    )


def _of_list(_: re.Match[str], line: Location, size: str) -> Advice:
    return Advice(
        f"{line.short} makes a list with as many entries as {size} says, and each length is a graph of its own. "
        "Keep that line, and what goes through the list, outside of the compiled code; or pad to a few lengths: "
        "each is compiled once.",
        "A list of Python's has one length in a graph, with `dynamic=True` too; marked dynamic, the size would "
        "raise an error.",
        link=DYNAMIC_PAGE,
    )


def _of_lookup(_: re.Match[str], line: Location, size: str) -> Advice:
    return Advice(
        f"{line.short} looks {size} up in a table, and a key is one number: make what that holds anew in each "
        "call, in place of keeping it, or hand it over as an argument. Or pad to a few sizes.",
        "A size that is a key of a dictionary is a constant of the compiled code, with `dynamic=True` too. A grid "
        "or a table of positions made in the graph costs little there.",
        link=DYNAMIC_PAGE,
    )


# The first that is found in a line: `for c in x.chunk(int(np.ceil(n / 64)))` is mended by what NumPy does there.
_BY_CODE: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], Location, str], Advice]], ...] = (
    (_NUMPY, _of_numpy),
    (_LINSPACE, _of_linspace),
    (_TENSOR_OF_NUMBERS, _of_new_tensor),
    (_LOOP, _of_loop),
    (_LIST, _of_list),
    (_LOOKUP, _of_lookup),
)

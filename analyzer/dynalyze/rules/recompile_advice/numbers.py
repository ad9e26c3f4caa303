"""Advice on Python numbers that changed: which may vary, which may be a tensor, and which a line needs as they are."""

from __future__ import annotations

import ast
import re

from dynalyze.report import Advice, Example
from dynalyze.rules.recompile_advice.source import Expression, dynamic_sources
from dynalyze.rules.recompile_series import Series

CONSTANT = "To the compiler a Python value is a constant: it is built into the code, and another one does not fit."
BOUND = ".__self__."


def integer(source: Expression) -> Advice:
    name = source.argument
    # A part of an argument is a size as a rule, which operators take as a number alone.
    tensor = (
        f" Where it only takes part in arithmetic, a tensor does as well: `torch.tensor({name})`."
        if name.isidentifier()
        else ""
    )
    return Advice(
        f"Compile with `torch.compile(..., dynamic=True)`: `{name}` may vary then from the first call on.{tensor}",
        f"{CONSTANT} An integer becomes dynamic when it changes, unless dynamic=False forbids it or the code needs "
        "its value: as the length of a loop, an index into a list, or in a comparison. Where it is the size of a "
        "tensor, 0 and 1 are constants all the same.",
        Example(f"torch.compile({source.call})", f"torch.compile({source.call}, dynamic=True)"),
        *dynamic_sources(source.dynamo_name),
    )


def counted(series: Series, source: Expression) -> Advice:
    """An integer of an object that is no module."""
    if not {"0", "1"} & {*series.values}:
        return integer(source)
    return Advice(
        f"Change `{source.shown}` after the compiled call, in its caller, or leave it: 0 and 1 are compiled by "
        "themselves, and from 2 on it may vary.",
        CONSTANT,
    )


def fraction(source: Expression) -> Advice:
    name = source.argument
    return Advice(
        f"Pass `{name}` as a tensor: `torch.tensor({name})`. Where it has to stay a number, compile without "
        "`dynamic=False`: a float that changed becomes dynamic then.",
        CONSTANT,
        source.passed_as(f"torch.tensor({name})"),
    )


def of_bound_method(source: Expression) -> Advice:
    """A number of the object whose method stands in the place of a module's `forward`, as adapters put it there.

    Nobody hands it over; and as a tensor it broke the graph of an adapter that asks whether it is 1.
    """
    return Advice(
        f"Leave `{source.text.partition(BOUND)[2]}` a Python number, and compile without `dynamic=False`: one that "
        "changed is dynamic from the second compile on, unless a line asks for its value. Take one call with another "
        "value in the warm-up.",
        CONSTANT,
    )


def ends_a_loop(series: Series, source: Expression) -> bool:
    """Whether the line that reads a number goes through a loop as often as it says."""
    code = series.read_at.code or "" if series.read_at is not None and not series.differ else ""
    return re.search(rf"\brange\([^()]*{re.escape(source.shown)}\b", code) is not None


# Each was given a number, of which Inductor makes a constant, and a tensor, which it compiles once. `add(alpha=...)`,
# `addcmul(value=...)`, `dropout`, `leaky_relu`, `layer_norm` and attention break the graph at a tensor.
_TAKES_TENSORS = re.compile(r"\b(lerp_?|clamp_?|pow_?|full|quantile|masked_fill_?)\(")


def needed(series: Series, source: Expression) -> Advice:
    """A number that a line makes a constant, also where torch had made it dynamic."""
    line = series.forced_by or next((each.read_at for each in series.members if each.read_at), series.place)
    operator = _TAKES_TENSORS.search(line.code or "")
    if operator is not None and kind_of(series.lead.expected) == "float":
        return Advice(
            f"Pass `{source.argument}` as a tensor, `torch.tensor({source.argument})`: `{operator[1]}` at {line.short} "
            "takes one.",
            f"{CONSTANT} Of a float that changed Dynamo makes a number that may vary, and the compiler a constant "
            "again where an operator takes it as a number, with `dynamic=True` too.",
            source.passed_as(f"torch.tensor({source.argument})"),
        )
    indexed = re.search(rf"\w\[{re.escape(source.argument)}\]", line.code or "")
    table = " Where it is an index into a list of numbers, one into `torch.tensor([...])` may vary." if indexed else ""
    return Advice(
        f"Keep `{source.argument}` to a few values and warm up each of them: {line.short} needs the number "
        f"itself, so each is compiled, with `dynamic=True` too.{table}",
        f"{CONSTANT} A number that changed is dynamic from then on, unless the code needs it: as the length of a "
        "loop, an index into a list, in a comparison, or for an operator that takes no other.",
    )


def kind_of(text: str | None) -> str:
    """The type of a Python value, from its text: "int", "str", "None"; "" for an object."""
    try:
        read = ast.literal_eval(text or "")
    except (SyntaxError, ValueError):
        return ""
    return "None" if read is None else type(read).__name__

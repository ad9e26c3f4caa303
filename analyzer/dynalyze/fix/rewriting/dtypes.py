"""Dtypes of expressions, as far as names tell, and which numbers they hold exactly."""

from __future__ import annotations

import struct

import libcst as cst

from dynalyze.fix.rewriting.syntax import assigned_values, called, number
from dynalyze.fix.sites import Site

_BOOL = "bool"
_WHOLE = ("int64", "int32", "int16", "int8", "uint8")
_WIDE = ("float32", "float64")
_KEEP = ("abs", "max", "min", "amax", "amin", "neg", "clamp", "clip", "relu", "detach", "clone", "contiguous", "view",
         "reshape", "flatten", "squeeze", "unsqueeze", "transpose", "permute", "expand", "cpu", "masked_fill",
         "minimum", "maximum", "new_zeros", "new_ones", "zeros_like", "ones_like")  # fmt: skip
_KEEP_FLOATS = ("sum", "mean", "exp", "sqrt", "tanh", "sigmoid", "norm", "softmax", "std", "var", "square", "log",
                "prod", "cumsum", "median", "gelu", "silu")  # fmt: skip
_GIVE = {"float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16", "long": "int64",
         "int": "int32", "bool": _BOOL, "argmax": "int64", "argmin": "int64", "any": _BOOL, "all": _BOOL,
         "isnan": _BOOL, "isinf": _BOOL, "isfinite": _BOOL, "eq": _BOOL, "ne": _BOOL, "gt": _BOOL, "lt": _BOOL,
         "ge": _BOOL, "le": _BOOL, "logical_not": _BOOL, "logical_and": _BOOL, "logical_or": _BOOL}  # fmt: skip


def dtype_of(site: Site, node: cst.BaseExpression, deepest: int = 3) -> str:
    """The dtype of a tensor; "" where it is not known, or the expression is no tensor."""
    found = site.value(node)
    if found is not None:
        return found.dtype if found.kind == "tensor" else ""
    if isinstance(node, cst.Name):
        made = {dtype_of(site, each, deepest - 1) for each in assigned_values(site, node.value)} if deepest else set()
        return made.pop() if len(made) == 1 else ""
    if isinstance(node, cst.UnaryOperation):
        return dtype_of(site, node.expression, deepest)
    if isinstance(node, cst.Comparison):
        sides = [node.left, *(each.comparator for each in node.comparisons)]
        return _BOOL if any(dtype_of(site, each, deepest) for each in sides) else ""
    if isinstance(node, cst.BinaryOperation):
        return _of_operation(site, node, deepest)
    if isinstance(node, cst.Subscript):
        return dtype_of(site, node.value, deepest)
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        return _of_call(site, node, node.func, deepest)
    return ""


def _of_operation(site: Site, node: cst.BinaryOperation, deepest: int) -> str:
    one, other = (dtype_of(site, each, deepest) for each in (node.left, node.right))
    if one and other:
        return one if one == other else ""
    plain = node.left if other else node.right
    # A whole number of Python changes no dtype.
    return (one or other) if isinstance(number(plain), int) or "float" in (one or other) else ""


def _of_call(site: Site, call: cst.Call, function: cst.Attribute, deepest: int) -> str:
    of = site.value(function.value)
    is_torch = of is not None and of.kind == "module" and of.name.startswith("torch")
    if is_torch and not call.args:
        return ""
    given = call.args[0].value if is_torch else function.value
    if any(each.keyword is not None and each.keyword.value == "dtype" for each in call.args):
        return ""
    dtype, name = dtype_of(site, given, deepest), called(call)
    if not dtype:
        return ""
    if name in _KEEP:
        return dtype
    if name in _KEEP_FLOATS:
        return dtype if "float" in dtype else "int64" if name == "sum" else ""
    return _GIVE.get(name, "")


def holds(dtype: str, other: str) -> bool:
    """Whether a number of this dtype counts the same beside a tensor of the other one, in a tensor and in Python."""
    return bool(dtype) and (dtype == other or (dtype in (*_WHOLE, _BOOL) and other in _WIDE))


def is_exact(value: float, dtype: str) -> bool:
    """Whether a tensor of this dtype, or of any one of floats where it is not known, holds a number as it is."""
    if dtype in _WHOLE:
        return isinstance(value, int)
    try:
        (bits,) = struct.unpack("I", struct.pack("f", value))
        as_float = bool(struct.unpack("f", struct.pack("f", value))[0] == value)
        as_half = bool(struct.unpack("e", struct.pack("e", value))[0] == value)
    except OverflowError:
        return dtype == "float64"
    as_bfloat = as_float and not bits & 0xFFFF
    known: dict[str, bool] = {"float64": True, "float32": as_float, "float16": as_half, "bfloat16": as_bfloat}
    return known.get(dtype, as_half and as_bfloat)

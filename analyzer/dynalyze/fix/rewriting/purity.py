"""What names and operations say about code to be moved: may it always be computed, and does it do nothing else?"""

from __future__ import annotations

import libcst as cst

from dynalyze.fix.rewriting.syntax import called, number
from dynalyze.fix.rewriting.tensors import ELEMENTWISE, elementwise, is_exact, looks_like_tensor
from dynalyze.fix.sites import Site, walk

# Operations that have a value, and a finite gradient, for every input: computed for a side that is not taken, they do
# no harm. sqrt, log, division and the like make NaN there, which a gradient of torch.where lets through.
_TOTAL = ELEMENTWISE | {
    "all", "amax", "amin", "any", "bool", "dim", "expand", "expand_as", "finfo", "flatten", "full", "int", "mean",
    "new_full", "new_ones", "new_zeros", "ones", "permute", "reshape", "scalar_tensor", "size", "squeeze", "sum",
    "tensor", "to", "transpose", "unsqueeze", "view", "zeros",
}  # fmt: skip
_REFUSED = ("print", "append", "extend", "update", "pop", "add", "setdefault", "write", "backward", "manual_seed",
            "insert", "remove", "clear")  # fmt: skip
UPDATES: dict[type[cst.BaseAugOp], str] = {
    cst.AddAssign: "+", cst.SubtractAssign: "-", cst.MultiplyAssign: "*",
    cst.BitAndAssign: "&", cst.BitOrAssign: "|",
}  # fmt: skip
_SAFE = (cst.Add, cst.Subtract, cst.Multiply, cst.BitAnd, cst.BitOr)
_MAKING = cst.Add | cst.Subtract | cst.Multiply | cst.Divide | cst.MatrixMultiply | cst.Power


def total(node: cst.CSTNode) -> bool:
    """Whether an expression has a value and a finite gradient for all inputs, does nothing else and is cheap."""
    for each in walk(node):
        if isinstance(each, cst.Call) and called(each) not in _TOTAL:
            return False
        if isinstance(each, cst.BinaryOperation) and not _safe(each):
            return False
        if isinstance(each, cst.Subscript) and not _is_there(each):
            return False
        if isinstance(each, cst.NamedExpr | cst.Await | cst.Yield | cst.Lambda | cst.BaseComp):
            return False
    return True


def _is_there(node: cst.Subscript) -> bool:
    """Whether it does not index a single element, which may not exist, except of a shape."""
    if isinstance(node.value, cst.Attribute) and node.value.attr.value == "shape":
        return True
    indices = [each.slice.value for each in node.slice if isinstance(each.slice, cst.Index)]
    return all(isinstance(each, cst.Name | cst.Ellipsis) for each in indices)


def _safe(node: cst.BinaryOperation) -> bool:
    if isinstance(node.operator, _SAFE):
        return True
    right = number(node.right)
    return right is not None and right > 0 and isinstance(node.operator, cst.Divide | cst.Power)


def pure(node: cst.CSTNode) -> bool:
    """Whether nothing is changed in place, printed or stored, as far as names tell; running it shows the rest."""
    for each in walk(node):
        if isinstance(each, cst.Del | cst.Global | cst.Nonlocal | cst.NamedExpr | cst.Await | cst.Yield | cst.Raise):
            return False
        if isinstance(each, cst.Call):
            name = called(each)
            if (name.endswith("_") and not name.endswith("__")) or name in _REFUSED or _draws(name):
                return False
    return True


def _draws(name: str) -> bool:
    """Whether a function of this name draws random numbers: these must not depend on how it is compiled."""
    return "dropout" in name or name.startswith(("rand", "normal", "bernoulli", "multinomial"))


def alike(site: Site, one: cst.BaseExpression, other: cst.BaseExpression) -> bool:
    """Whether two values fit one tensor, element by element, as far as is known."""
    if not (elementwise(one) and elementwise(other)):
        return False
    mine, theirs = site.value(one), site.value(other)
    if mine is not None and theirs is not None and mine.kind == theirs.kind == "tensor":
        return (mine.dims, mine.dtype) == (theirs.dims, theirs.dtype)
    if looks_like_tensor(site, one) or looks_like_tensor(site, other):
        return True
    # Of two numbers torch.where makes a tensor in float32.
    return _fits_float32(site, one) and _fits_float32(site, other)


def _fits_float32(site: Site, node: cst.BaseExpression) -> bool:
    value = number(node)
    if value is None:
        found = site.value(node)
        return found is None or found.kind != "float"
    return isinstance(value, int) or is_exact(value, "float32")


def is_new(node: cst.BaseExpression) -> bool:
    """Whether an expression makes a tensor that shares no memory with another."""
    if isinstance(node, cst.BinaryOperation):
        return isinstance(node.operator, _MAKING)
    if isinstance(node, cst.UnaryOperation):
        return isinstance(node.operator, cst.Minus | cst.BitInvert)
    return isinstance(node, cst.Call) and called(node) in (
        "clone", "abs", "relu", "clamp", "tanh", "sigmoid", "softmax", "sum", "mean", "where", "zeros_like",
        "ones_like", "full_like", "zeros", "ones", "full", "exp", "sqrt", "log", "matmul", "cat", "stack", "arange",
        "empty", "empty_like", "new_empty", "new_zeros", "new_ones", "new_full",
    )  # fmt: skip

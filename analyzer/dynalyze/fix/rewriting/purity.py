"""What syntax tells of code that is to be moved: whether it may be computed always, does nothing else, keeps shapes."""

from __future__ import annotations

import struct

import libcst as cst

from dynalyze.fix.rewriting.conditions import looks_like_tensor
from dynalyze.fix.rewriting.syntax import called, number
from dynalyze.fix.sites import Site, walk

# Element by element, for whatever shape.
_ELEMENTWISE = frozenset({
    "abs", "relu", "clamp", "clip", "minimum", "maximum", "sign", "neg", "tanh", "sigmoid", "gelu", "silu", "where",
    "nan_to_num", "float", "half", "bfloat16", "double", "type_as", "clone", "detach", "contiguous", "sin", "cos",
    "zeros_like", "ones_like", "full_like", "logical_not", "eq", "ne", "gt", "lt", "ge", "le", "add", "sub", "mul",
    "leaky_relu", "elu", "isnan", "isinf", "isfinite", "logical_and", "logical_or", "long", "square", "floor", "ceil",
    "round", "masked_fill", "tril", "triu", "roll", "flip", "softmax",
})  # fmt: skip
# Operations that have a value, and a finite gradient, for every input: computed for a side that is not taken, they do
# no harm. sqrt, log, division and the like make NaN there, which a gradient of torch.where lets through.
_TOTAL = _ELEMENTWISE | {
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
    """Whether an expression has a value and a finite gradient for all inputs, does nothing else and costs little."""
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
    """Whether it asks for no single element, which need not be there, but of a shape."""
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
    """Nothing in it is changed in place, printed or kept, as far as names tell; the proof looks at what happens."""
    for each in walk(node):
        if isinstance(each, cst.Del | cst.Global | cst.Nonlocal | cst.NamedExpr | cst.Await | cst.Yield | cst.Raise):
            return False
        if isinstance(each, cst.Call):
            name = called(each)
            if (name.endswith("_") and not name.endswith("__")) or name in _REFUSED or _draws(name):
                return False
    return True


def _draws(name: str) -> bool:
    """Whether a function of this name takes random numbers: which it takes must not depend on how it is compiled."""
    return "dropout" in name or name.startswith(("rand", "normal", "bernoulli", "multinomial"))


def elementwise(node: cst.BaseExpression) -> bool:
    """Whether an expression has the shape of the tensors in it, as far as names tell."""
    if isinstance(node, cst.Name | cst.Attribute | cst.Integer | cst.Float):
        return True
    if isinstance(node, cst.UnaryOperation):
        return elementwise(node.expression)
    if isinstance(node, cst.BinaryOperation):
        return elementwise(node.left) or elementwise(node.right)
    if not isinstance(node, cst.Call) or called(node) not in _ELEMENTWISE:
        return False
    given = [each.value for each in node.args if each.keyword is None]
    if isinstance(node.func, cst.Attribute) and not isinstance(node.func.value, cst.Name):
        return elementwise(node.func.value)
    return not given or any(map(elementwise, given)) or isinstance(node.func, cst.Attribute)


def alike(site: Site, one: cst.BaseExpression, other: cst.BaseExpression) -> bool:
    """Whether two values can be taken for those of one tensor, element by element, as far as can be told."""
    if not (elementwise(one) and elementwise(other)):
        return False
    mine, theirs = site.value(one), site.value(other)
    if mine is not None and theirs is not None and mine.kind == theirs.kind == "tensor":
        return (mine.dims, mine.dtype) == (theirs.dims, theirs.dtype)
    if looks_like_tensor(site, one) or looks_like_tensor(site, other):
        return True
    # Of two numbers torch.where makes a tensor in float32.
    return exact(site, one) and exact(site, other)


def exact(site: Site, node: cst.BaseExpression) -> bool:
    """Whether an expression is no Python float that float32 cannot hold."""
    value = number(node)
    if value is None:
        found = site.value(node)
        return found is None or found.kind != "float"
    return isinstance(value, int) or struct.unpack("f", struct.pack("f", value))[0] == value


def is_new(node: cst.BaseExpression) -> bool:
    """Whether an expression makes a tensor of its own, that shares no memory with another one."""
    if isinstance(node, cst.BinaryOperation):
        return isinstance(node.operator, _MAKING)
    if isinstance(node, cst.UnaryOperation):
        return isinstance(node.operator, cst.Minus | cst.BitInvert)
    return isinstance(node, cst.Call) and called(node) in (
        "clone", "abs", "relu", "clamp", "tanh", "sigmoid", "softmax", "sum", "mean", "where", "zeros_like",
        "ones_like", "full_like", "zeros", "ones", "full", "exp", "sqrt", "log", "matmul", "cat", "stack", "arange",
        "empty", "empty_like", "new_empty", "new_zeros", "new_ones", "new_full",
    )  # fmt: skip


def assigned(statement: cst.CSTNode) -> tuple[list[str], cst.BaseExpression] | None:
    """The names that a statement assigns, and the expression."""
    only = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1 else None
    if not isinstance(only, cst.Assign) or len(only.targets) != 1:
        return None
    target = only.targets[0].target
    parts = [each.value for each in target.elements] if isinstance(target, cst.Tuple) else [target]
    names = [each.value for each in parts if isinstance(each, cst.Name)]
    return (names, only.value) if len(names) == len(parts) else None


def fresh_name(name: str, taken: set[str]) -> str:
    """A name like this one that is not taken yet; it is from here on."""
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def names_of(node: cst.CSTNode) -> set[str]:
    """All names that stand in some code."""
    return {each.value for each in walk(node) if isinstance(each, cst.Name)}

"""Which expressions are tensors, with which dtype and how many dimensions: as seen when the program ran, else by names
and operations.
"""

from __future__ import annotations

import struct

import libcst as cst

from dynalyze.fix.rewriting.syntax import assigned_values, called, names_of, number
from dynalyze.fix.sites import Site

_DEEPEST = 3
"""How many variables are followed to what was assigned to them."""
_READS = ("item", "tolist")
_IDENTITY = cst.Is | cst.IsNot | cst.In | cst.NotIn
_NO_TENSOR = ("item", "tolist", "size", "dim", "numel", "stride", "is_tensor", "is_floating_point", "is_complex",
              "is_nonzero", "finfo", "iinfo", "get_default_dtype", "is_compiling", "is_grad_enabled", "numpy",
              "is_contiguous", "data_ptr", "element_size", "get_device", "is_autocast_enabled")  # fmt: skip
_REDUCING = ("sum", "mean", "any", "all", "amax", "amin")
_BOOLEAN = ("isnan", "isinf", "isfinite", "eq", "ne", "gt", "lt", "ge", "le", "logical_and", "logical_or",
            "logical_not", "bool", "isin", "isclose")  # fmt: skip
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
# Element by element, for whatever shape.
ELEMENTWISE = frozenset({
    "abs", "relu", "clamp", "clip", "minimum", "maximum", "sign", "neg", "tanh", "sigmoid", "gelu", "silu", "where",
    "nan_to_num", "float", "half", "bfloat16", "double", "type_as", "clone", "detach", "contiguous", "sin", "cos",
    "zeros_like", "ones_like", "full_like", "logical_not", "eq", "ne", "gt", "lt", "ge", "le", "add", "sub", "mul",
    "leaky_relu", "elu", "isnan", "isinf", "isfinite", "logical_and", "logical_or", "long", "square", "floor", "ceil",
    "round", "masked_fill", "tril", "triu", "roll", "flip", "softmax",
})  # fmt: skip


def without_read(node: cst.BaseExpression) -> cst.BaseExpression:
    """`x` of `x.item()`; the expression itself if it reads nothing."""
    if not isinstance(node, cst.Call) or node.args or not isinstance(node.func, cst.Attribute):
        return node
    return node.func.value if called(node) in _READS else node


def looks_like_tensor(site: Site, node: cst.BaseExpression, deepest: int = _DEEPEST) -> bool:
    """Whether it was one when the program ran, or comes from one by an operation or a method."""
    if site.is_tensor(node):
        return True
    if isinstance(node, cst.Name) and site.value(node) is None:
        made = [each for each in assigned_values(site, node.value) if node.value not in names_of(each)]
        return bool(made) and deepest > 0 and all(looks_like_tensor(site, each, deepest - 1) for each in made)
    if isinstance(node, cst.BinaryOperation):
        return looks_like_tensor(site, node.left, deepest) or looks_like_tensor(site, node.right, deepest)
    if isinstance(node, cst.UnaryOperation):
        return looks_like_tensor(site, node.expression, deepest)
    if isinstance(node, cst.Subscript):
        return looks_like_tensor(site, node.value, deepest)
    if isinstance(node, cst.Comparison):
        compares = not isinstance(node.comparisons[0].operator, _IDENTITY)
        return compares and any(looks_like_tensor(site, each, deepest) for each in compared(node)[:2])
    if isinstance(node, cst.Call):
        if called(node) in _NO_TENSOR:
            return False
        function = site.value(node.func)
        if function is not None and function.name.startswith("torch."):
            return True
        return isinstance(node.func, cst.Attribute) and looks_like_tensor(site, node.func.value, deepest)
    return False


def compared(node: cst.Comparison) -> list[cst.BaseExpression]:
    """The operands of a comparison, from left to right."""
    return [node.left, *(each.comparator for each in node.comparisons)]


def is_boolean(site: Site, node: cst.BaseExpression, deepest: int = _DEEPEST) -> bool:
    """Whether an expression is a tensor of booleans."""
    found = site.value(node)
    if found is not None:
        return found.kind == "tensor" and found.dtype == _BOOL
    if isinstance(node, cst.Name) and deepest:
        made = assigned_values(site, node.value)
        return bool(made) and all(is_boolean(site, each, deepest - 1) for each in made)
    if isinstance(node, cst.Comparison):
        return looks_like_tensor(site, node)
    if isinstance(node, cst.UnaryOperation):
        return isinstance(node.operator, cst.BitInvert) and is_boolean(site, node.expression)
    if isinstance(node, cst.BinaryOperation):
        logical = isinstance(node.operator, cst.BitAnd | cst.BitOr | cst.BitXor)
        return logical and is_boolean(site, node.left) and is_boolean(site, node.right)
    return isinstance(node, cst.Call) and called(node) in _BOOLEAN


def elementwise(node: cst.BaseExpression) -> bool:
    """Whether an expression has the shape of its tensors, as far as names tell."""
    if isinstance(node, cst.Name | cst.Attribute | cst.Integer | cst.Float):
        return True
    if isinstance(node, cst.UnaryOperation):
        return elementwise(node.expression)
    if isinstance(node, cst.BinaryOperation):
        return elementwise(node.left) or elementwise(node.right)
    if not isinstance(node, cst.Call) or called(node) not in ELEMENTWISE:
        return False
    given = [each.value for each in node.args if each.keyword is None]
    if isinstance(node.func, cst.Attribute) and not isinstance(node.func.value, cst.Name):
        return elementwise(node.func.value)
    return not given or any(map(elementwise, given)) or isinstance(node.func, cst.Attribute)


def dims_of(site: Site, node: cst.BaseExpression, deepest: int = _DEEPEST) -> int | None:
    """The number of dimensions of an expression, if known."""
    found = site.value(node)
    if found is not None:
        return found.dims if found.kind == "tensor" else 0 if found.kind in ("int", "float", "bool") else None
    if number(node) is not None:
        return 0
    parts: list[cst.BaseExpression] = []
    if isinstance(node, cst.Name) and deepest:
        parts = assigned_values(site, node.value)
        inner = {dims_of(site, each, deepest - 1) for each in parts}
        return inner.pop() if len(inner) == 1 else None
    if isinstance(node, cst.Comparison):
        parts = compared(node)
    elif isinstance(node, cst.BinaryOperation) and not isinstance(node.operator, cst.MatrixMultiply):
        parts = [node.left, node.right]
    elif isinstance(node, cst.UnaryOperation):
        parts = [node.expression]
    elif isinstance(node, cst.Call) and called(node) in _REDUCING and isinstance(node.func, cst.Attribute):
        return _dims_left(site, node, deepest)
    elif (
        isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute)
        and (elementwise(node) or called(node) in {*_BOOLEAN} - {"isin"})
    ):  # fmt: skip
        is_method = looks_like_tensor(site, node.func.value)
        parts = [*([node.func.value] if is_method else []), *(each.value for each in node.args if not each.keyword)]
    known = [dims_of(site, each, deepest) for each in parts]
    return max((each for each in known if each is not None), default=None) if None not in known else None


def _dims_left(site: Site, call: cst.Call, deepest: int) -> int | None:
    """Of `x.sum()`, `x.sum(1)` and `x.sum(dim=(0, 1))`."""
    dims = dims_of(site, cst.ensure_type(call.func, cst.Attribute).value, deepest)
    if not call.args:
        return 0 if dims is not None else None
    over = call.args[0]
    if dims is None or len(call.args) > 1 or (over.keyword is not None and over.keyword.value != "dim"):
        return None
    places = [each.value for each in over.value.elements] if isinstance(over.value, cst.Tuple) else [over.value]
    return dims - len(places) if all(isinstance(number(each), int) for each in places) else None


def dtype_of(site: Site, node: cst.BaseExpression, deepest: int = _DEEPEST) -> str:
    """The dtype of a tensor; "" if unknown, or it is no tensor."""
    found = site.value(node)
    if found is not None:
        return found.dtype if found.kind == "tensor" else ""
    if isinstance(node, cst.Name):
        made = {dtype_of(site, each, deepest - 1) for each in assigned_values(site, node.value)} if deepest else set()
        return made.pop() if len(made) == 1 else ""
    if isinstance(node, cst.UnaryOperation):
        return dtype_of(site, node.expression, deepest)
    if isinstance(node, cst.Comparison):
        return _BOOL if any(dtype_of(site, each, deepest) for each in compared(node)) else ""
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
    """Whether a number of this dtype acts the same on a tensor of the other one, as a tensor or in Python."""
    return bool(dtype) and (dtype == other or (dtype in (*_WHOLE, _BOOL) and other in _WIDE))


def is_exact(value: float, dtype: str) -> bool:
    """Whether a tensor of this dtype, or of any float dtype if it is unknown, holds a number exactly."""
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

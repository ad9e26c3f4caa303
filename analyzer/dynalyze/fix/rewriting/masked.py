"""What a boolean mask chooses: `x[mask]` with the dimensions of both, as far as they can be told."""

from __future__ import annotations

from dataclasses import dataclass, replace

import libcst as cst

from dynalyze.fix.rewriting.conditions import looks_like_tensor
from dynalyze.fix.rewriting.purity import elementwise, total
from dynalyze.fix.rewriting.syntax import assigned_values, bracketed, called, number
from dynalyze.fix.sites import Site

MASKED = ("Dynamic shape operator", "Data-dependent", "Data dependent operator", "Unsupported function call")
"""Types of breaks of code that chooses by a mask."""
_BOOLEAN = ("isnan", "isinf", "isfinite", "eq", "ne", "gt", "lt", "ge", "le", "logical_and", "logical_or",
            "logical_not", "bool", "isin", "isclose")  # fmt: skip


_REDUCING = ("sum", "mean", "any", "all", "amax", "amin")


@dataclass(frozen=True)
class Masked:
    """`x[mask]`, with their dimensions; the mask's are the first ones of the tensor's."""

    tensor: cst.BaseExpression
    mask: cst.BaseExpression
    dims: int
    mask_dims: int

    def wide(self, site: Site) -> str:
        """The mask with as many dimensions as the tensor has."""
        code = bracketed(site, self.mask)
        more = self.dims - self.mask_dims
        return code if not more else f"{code}[{', '.join(['...', *['None'] * more])}]"

    def left_out(self, site: Site) -> str:
        """Where the mask does not hold, with as many dimensions as the tensor has."""
        mask = self.mask
        if isinstance(mask, cst.UnaryOperation) and isinstance(mask.operator, cst.BitInvert):
            return replace(self, mask=mask.expression).wide(site)
        return f"~{self.wide(site)}"

    def filled(self, site: Site) -> str:
        """The whole tensor, with 0 where the mask does not hold."""
        return f"{bracketed(site, self.tensor)}.masked_fill({self.left_out(site)}, 0)"


def masked_of(site: Site, node: cst.BaseExpression) -> Masked | None:
    """`x[mask]` or `torch.masked_select(x, mask)`, where the dimensions of both are known."""
    tensor: cst.BaseExpression
    if isinstance(node, cst.Call) and called(node) == "masked_select" and isinstance(node.func, cst.Attribute):
        given = [each.value for each in node.args]
        tensor, mask = (node.func.value, given[0]) if len(given) == 1 else (given[0], given[-1])
        whole = True
    elif isinstance(node, cst.Subscript) and isinstance(node.slice[0].slice, cst.Index):
        if not all(_is_whole(each.slice) for each in node.slice[1:]):
            return None
        tensor, mask, whole = node.value, node.slice[0].slice.value, False
    else:
        return None
    if not is_boolean(site, mask) or not total(mask) or not isinstance(tensor, cst.Name | cst.Attribute):
        return None
    dims, mask_dims = dims_of(site, tensor), dims_of(site, mask)
    if dims is None or mask_dims is None or not 0 < mask_dims <= dims or (whole and dims != mask_dims):
        return None
    if isinstance(node, cst.Subscript) and len(node.slice) - 1 > dims - mask_dims:
        return None
    return Masked(tensor, mask, dims, mask_dims)


def _is_whole(part: cst.BaseSlice) -> bool:
    """`:` of `x[mask, :]`."""
    return isinstance(part, cst.Slice) and part.lower is part.upper is part.step is None


def is_boolean(site: Site, node: cst.BaseExpression, deepest: int = 3) -> bool:
    """Whether an expression is a tensor of booleans."""
    found = site.value(node)
    if found is not None:
        return found.kind == "tensor" and found.dtype == "bool"
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


def dims_of(site: Site, node: cst.BaseExpression, deepest: int = 3) -> int | None:
    """How many dimensions an expression has, where that can be told."""
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
        parts = [node.left, *(each.comparator for each in node.comparisons)]
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

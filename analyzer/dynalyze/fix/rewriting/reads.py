"""Values read out of tensors that are only computed with: left in the tensor."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from dynalyze.fix.rewriting import rewriter
from dynalyze.fix.rewriting.conditions import called, import_of_torch, looks_like_tensor, torch_name, without_read
from dynalyze.fix.sites import Proposal, Site, walk

_READS = ("Unsupported Tensor.item()", "Data dependent operator", "Data-dependent", "Unsupported function call",
          "Dynamic shape operator", "Failed to trace builtin operator")  # fmt: skip
# Functions of Python's math that have a value for every number: the others raise where a tensor has NaN.
_ALIKE = ("sin", "cos", "tanh", "isnan", "isinf", "isfinite")
_MATHS = {"fabs": "abs", **{name: name for name in _ALIKE}}
_NUMPYS = ("max", "min", "sum", "mean")
_UP_TO_NUMPY = ("detach", "cpu", "numpy", "clone", "contiguous")
_SIZES = ("arange", "range", "zeros", "ones", "empty", "full", "rand", "randn", "new_zeros", "new_ones", "new_empty",
          "new_full", "view", "reshape", "expand", "repeat", "narrow", "split", "chunk", "topk", "one_hot", "linspace",
          "pad", "interpolate", "str", "repr", "format", "round", "print", "append", "get", "tile", "unflatten",
          "bincount", "repeat_interleave", "triu", "tril", "_check", "isinstance", "divmod")  # fmt: skip
_DIVIDING = cst.Divide | cst.FloorDivide | cst.Modulo


@rewriter("keep-in-tensor", *_READS, rank=15)
def keep_in_tensor(site: Site) -> Iterator[Proposal]:
    """`x.max().item()`, `float(x.max())`, `int(x.sum())`: without the read, where a tensor does as well."""
    if not isinstance(site.statement, cst.SimpleStatementLine):
        return
    changes: dict[cst.CSTNode, cst.CSTNode] = {}
    for node in walk(site.statement, lambda each: isinstance(each, cst.Call | cst.Subscript)):
        assert isinstance(node, cst.Call | cst.Subscript)
        if any(parent in changes for parent in _above(site, node)):
            continue
        new = _without_read(site, node)
        if new is not None:
            if not takes_a_tensor(site, node):
                return
            changes[node] = new
    if changes and not _may_divide_by_zero(site, changes):
        yield Proposal(
            "", "Compute with the tensor, without reading its value out",
            site.with_nodes(dict(changes), import_of_torch(site)),
        )  # fmt: skip


def _without_read(site: Site, node: cst.Call | cst.Subscript) -> cst.BaseExpression | None:
    """The tensor in the place of what is read from it; None where the expression is no read."""
    bare = without_read(node)
    if bare is not node and not (isinstance(node, cst.Call) and called(node) == "tolist"):
        return _detached(site, _from_numpy(bare))
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Name | cst.Attribute):
        return None
    if len(node.args) != 1 or node.args[0].keyword is not None:
        return None
    argument, name = node.args[0].value, called(node)
    inner = _from_numpy(without_read(argument))
    if inner is argument and not looks_like_tensor(site, argument):
        return None
    if isinstance(node.func, cst.Name) and name == "float":
        return _detached(site, inner)
    if isinstance(node.func, cst.Name) and name == "int":
        return cst.parse_expression(f"{_text(site, inner)}.long()")
    if isinstance(node.func, cst.Name) and name == "bool":
        return cst.parse_expression(f"{_text(site, inner)}.bool()")
    if isinstance(node.func, cst.Attribute) and site.code(node.func.value) == "math" and name in _MATHS:
        return cst.parse_expression(f"{torch_name(site)}.{_MATHS[name]}({site.code(inner)})")
    return None


def _from_numpy(node: cst.BaseExpression) -> cst.BaseExpression:
    """`x.max()` of `x.cpu().numpy().max()`."""
    if not isinstance(node, cst.Call) or node.args or called(node) not in _NUMPYS:
        return node
    array = node.func.value if isinstance(node.func, cst.Attribute) else None
    if not isinstance(array, cst.Call) or called(array) != "numpy" or not isinstance(array.func, cst.Attribute):
        return node
    tensor: cst.BaseExpression = array.func.value
    while isinstance(tensor, cst.Call) and isinstance(tensor.func, cst.Attribute) and called(tensor) in _UP_TO_NUMPY:
        tensor = tensor.func.value
    return node.with_changes(func=cst.ensure_type(node.func, cst.Attribute).with_changes(value=tensor))


def _detached(site: Site, node: cst.BaseExpression) -> cst.BaseExpression:
    """A tensor that, as the number, has no gradient and stays what it is when another one is changed in place."""
    if isinstance(node, cst.Call) and called(node) in ("detach", "any", "all", "isnan", "isinf", "isfinite", "argmax"):
        return node
    found = site.value(node)
    if isinstance(node, cst.Comparison) or (found is not None and found.dtype in ("bool", "int64", "int32")):
        own = ".clone()" if isinstance(node, cst.Name | cst.Attribute) else ""
        return cst.parse_expression(f"{_text(site, node)}{own}")
    own = "" if isinstance(node, cst.Call | cst.BinaryOperation) else ".clone()"
    return cst.parse_expression(f"{_text(site, node)}.detach(){own}")


def takes_a_tensor(site: Site, node: cst.CSTNode) -> bool:
    """Whether what a read value is for takes a tensor too: no size, no index of a list, no text."""
    while (parent := site.parents.get(node)) is not None and not isinstance(parent, cst.SimpleStatementLine):
        if isinstance(parent, cst.Call) and parent.func is not node and called(parent) in _SIZES:
            return False
        if isinstance(parent, cst.Slice | cst.FormattedString | cst.DictElement | cst.Raise | cst.IfExp | cst.Assert):
            return False
        node = parent
    return True


def _may_divide_by_zero(site: Site, changes: dict[cst.CSTNode, cst.CSTNode]) -> bool:
    """Whether Python divides one of its numbers by a read one: it raises for 0, where a tensor is infinite."""
    names = {
        target.target.value
        for each in walk(site.statement) if isinstance(each, cst.Assign)
        for target in each.targets if isinstance(target.target, cst.Name)
    }  # fmt: skip
    for statement in [site.statement, *site.following]:
        for node in walk(statement, lambda each: isinstance(each, cst.BinaryOperation)):
            assert isinstance(node, cst.BinaryOperation)
            if not isinstance(node.operator, _DIVIDING) or looks_like_tensor(site, node.left):
                continue
            below = walk(node.right)
            if any(each in changes or (isinstance(each, cst.Name) and each.value in names) for each in below):
                return True
    return False


def _text(site: Site, node: cst.BaseExpression) -> str:
    text = site.code(node)
    return text if node.lpar or isinstance(node, cst.Name | cst.Attribute | cst.Call | cst.Subscript) else f"({text})"


def _above(site: Site, node: cst.CSTNode) -> list[cst.CSTNode]:
    found = []
    while (parent := site.parents.get(node)) is not None:
        found.append(parent)
        node = parent
    return found

"""A condition on tensors as an expression that gives one boolean tensor, for torch.where and torch.cond."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from dynalyze.fix.sites import Site

_TO_NUMBER = ("item", "tolist")
_BOOL = "bool"


@dataclass(frozen=True)
class Condition:
    """`tensor` is the source of a boolean tensor. `static` is a condition of plain Python that holds as well, to be
    asked first; None where there is none.
    """

    tensor: str
    static: str | None = None


def tensor_condition(site: Site, test: cst.BaseExpression) -> Condition | None:
    """The condition as one of a tensor; None where it cannot be said which part of it is a tensor."""
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
        left, right = _is_plain(site, test.left), _is_plain(site, test.right)
        if left and not right:
            found = tensor_condition(site, test.right)
            if found is None:
                return None
            own = site.code(test.left)
            return Condition(found.tensor, own if found.static is None else f"{own} and {found.static}")
    tensor = _tensor(site, test)
    return None if tensor is None else Condition(tensor)


def _tensor(site: Site, test: cst.BaseExpression) -> str | None:
    torch = torch_name(site)
    if isinstance(test, cst.BooleanOperation):
        left, right = _tensor(site, test.left), _tensor(site, test.right)
        if left is None or right is None:
            return None
        operation = "logical_and" if isinstance(test.operator, cst.And) else "logical_or"
        return f"{torch}.{operation}({left}, {right})"
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        inner = _tensor(site, test.expression)
        return None if inner is None else f"{torch}.logical_not({inner})"
    if isinstance(test, cst.Comparison):
        return _comparison(site, test)
    if isinstance(test, cst.Call):
        return _call(site, test, torch)
    return _truth(site, test)


def _comparison(site: Site, test: cst.Comparison) -> str | None:
    """A comparison with the reads of numbers left out: `x.max().item() > 1` is `x.max() > 1`."""
    if len(test.comparisons) != 1 or isinstance(test.comparisons[0].operator, cst.In | cst.NotIn | cst.Is | cst.IsNot):
        return None
    sides = [test.left, test.comparisons[0].comparator]
    bare = [without_read(each) for each in sides]
    if not any(bare_one is not each for bare_one, each in zip(bare, sides, strict=True)) and not any(
        looks_like_tensor(site, each) for each in sides
    ):
        return None
    return f"({site.code(bare[0])}{site.code(test.comparisons[0].operator)}{site.code(bare[1])})"


def _call(site: Site, test: cst.Call, torch: str) -> str | None:
    name = called(test)
    if name in (_BOOL, "float", "int") and isinstance(test.func, cst.Name) and len(test.args) == 1:
        return _tensor(site, test.args[0].value)
    if name in ("equal", "allclose") and isinstance(test.func, cst.Attribute):
        plain = [each for each in test.args if each.keyword is None]
        if site.code(test.func.value) == torch and len(plain) == 2:
            one, other = (site.code(each.value) for each in plain)
            rest = "".join(f", {site.code(each)}" for each in test.args if each.keyword is not None)
            return f"({one} == {other}).all()" if name == "equal" else f"{torch}.isclose({one}, {other}{rest}).all()"
    return _truth(site, test)


def _truth(site: Site, test: cst.BaseExpression) -> str | None:
    """What Python asks of a tensor in a condition: whether its one element is not 0."""
    bare = without_read(test)
    found = site.value(bare) or site.value(test)
    if isinstance(bare, cst.Call) and called(bare) in ("any", "all", "isinf", "isnan", "is_nonzero", "logical_not"):
        return site.code(bare)
    if found is not None and found.kind == "tensor":
        return site.code(bare) if found.dtype == _BOOL else f"({site.code(bare)} != 0)"
    if bare is not test:
        return f"({site.code(bare)} != 0)"
    return None


def without_read(node: cst.BaseExpression) -> cst.BaseExpression:
    """`x` of `x.item()`; the expression itself where it reads nothing."""
    if not isinstance(node, cst.Call) or node.args or not isinstance(node.func, cst.Attribute):
        return node
    return node.func.value if called(node) in _TO_NUMBER else node


def looks_like_tensor(site: Site, node: cst.BaseExpression) -> bool:
    """Whether it was one when the program ran, or is computed from one by an operation or a method."""
    if site.is_tensor(node):
        return True
    if isinstance(node, cst.BinaryOperation):
        return looks_like_tensor(site, node.left) or looks_like_tensor(site, node.right)
    if isinstance(node, cst.UnaryOperation):
        return looks_like_tensor(site, node.expression)
    if isinstance(node, cst.Subscript):
        return looks_like_tensor(site, node.value)
    if isinstance(node, cst.Call):
        if called(node) in ("item", "tolist", "size", "dim", "numel", "stride"):
            return False
        function = site.value(node.func)
        if function is not None and function.name.startswith("torch."):
            return True
        return isinstance(node.func, cst.Attribute) and looks_like_tensor(site, node.func.value)
    return False


def _is_plain(site: Site, node: cst.BaseExpression) -> bool:
    """A condition of Python alone: no part of it is a tensor."""
    if isinstance(node, cst.BooleanOperation):
        return _is_plain(site, node.left) and _is_plain(site, node.right)
    if isinstance(node, cst.UnaryOperation):
        return _is_plain(site, node.expression)
    if isinstance(node, cst.Comparison):
        return not any(looks_like_tensor(site, each) for each in [node.left, *(c.comparator for c in node.comparisons)])
    found = site.value(node)
    if found is not None:
        return found.kind != "tensor"
    return isinstance(node, cst.Call) and called(node) in ("isinstance", "hasattr", "is_floating_point", "len")


def called(call: cst.Call) -> str:
    """The name of what is called: `sum` for `x.sum()`."""
    if isinstance(call.func, cst.Attribute):
        return call.func.attr.value
    return call.func.value if isinstance(call.func, cst.Name) else ""


def torch_name(site: Site) -> str:
    """What the file calls torch."""
    for name, value in site.values.items():
        if value.kind == "module" and value.name == "torch" and "." not in name:
            return name
    return "torch"


def import_of_torch(site: Site) -> str:
    """The line that a file lacks which does not import torch by that name; "" where it does."""
    tree = cst.parse_module(site.text)
    for statement in tree.body:
        if isinstance(statement, cst.SimpleStatementLine):
            for each in statement.body:
                if isinstance(each, cst.Import) and any(
                    (a.evaluated_name == "torch" and a.evaluated_alias in (None, torch_name(site)))
                    or (a.evaluated_name.startswith("torch.") and a.asname is None)
                    for a in each.names
                ):
                    return ""
    return "import torch\n"

"""numpy on Python's own numbers, which compiled code takes for tensors: Python's functions in its place."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from dynalyze.fix.rewriting import rewriter
from dynalyze.fix.rewriting.syntax import called
from dynalyze.fix.sites import Proposal, Site, walk

_BREAKING = ("Data-dependent", "Data dependent operator", "Unsupported Tensor.item()", "Failed to trace builtin",
             "Unsupported function call", "Attempted to call", "Consider annotating")  # fmt: skip
_ALIKE = {"lcm": "math.lcm", "gcd": "math.gcd", "prod": "math.prod"}
_WITHIN_INT = {"ceil": "math.ceil", "floor": "math.floor", "sqrt": "math.sqrt", "round": "round", "prod": "math.prod"}
"""What `int(...)` makes the same number of."""
_NUMBERS = ("int", "float", "bool", "Size")


@rewriter("python-for-numpy", *_BREAKING, rank=11)
def compute_in_python(site: Site) -> Iterator[Proposal]:
    """`np.lcm(a, b)` and `int(np.ceil(a / b))` of numbers: `math.lcm(a, b)`, `int(math.ceil(a / b))`."""
    changes: dict[cst.CSTNode, cst.CSTNode] = {}
    for node in walk(site.statement, lambda each: isinstance(each, cst.Call)):
        assert isinstance(node, cst.Call)
        function = _function(site, node)
        if function is not None and node.args and all(is_number(site, each.value) for each in node.args):
            changes[node.func] = cst.parse_expression(function)
    if changes:
        yield Proposal(
            "", "Compute with Python's numbers, in the place of numpy's, which are tensors in compiled code",
            site.with_nodes({**changes}, "import math\n"),
        )  # fmt: skip


def _function(site: Site, call: cst.Call) -> str | None:
    """Python's function for one of numpy; None where there is none that gives the same."""
    of = site.value(call.func.value) if isinstance(call.func, cst.Attribute) else None
    if of is None or of.kind != "module" or of.name != "numpy":
        return None
    argument = site.parents[call]
    outer = site.parents[argument] if isinstance(argument, cst.Arg) else None
    within = isinstance(outer, cst.Call) and isinstance(outer.func, cst.Name) and called(outer) == "int"
    return (_WITHIN_INT if within and len(call.args) == 1 else _ALIKE).get(called(call))


def is_number(site: Site, node: cst.BaseExpression) -> bool:
    """Whether an expression is a number of Python's, or a shape."""
    if isinstance(node, cst.Integer | cst.Float):
        return True
    if isinstance(node, cst.BinaryOperation):
        return is_number(site, node.left) and is_number(site, node.right)
    if isinstance(node, cst.Subscript):
        return is_number(site, node.value)
    if isinstance(node, cst.Call):
        return called(node) in ("size", "len", "numel") and isinstance(node.func, cst.Attribute | cst.Name)
    found = site.value(node)
    return found is not None and found.kind in _NUMBERS

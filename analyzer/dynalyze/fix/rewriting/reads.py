"""Numbers read out of tensors for a single operation: left in the tensor, if that computes the same. And arguments of
torch's own functions that need no read.

Python computes with integers of any size and in double precision: what Python computes from a read number (`n * 3`,
`total += loss.item()`) would differ in a tensor, and stays.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from dynalyze.fix.rewriting import rewriter
from dynalyze.fix.rewriting.side_effects import function_name
from dynalyze.fix.rewriting.syntax import assigned_values, bracketed, called, is_label, names_of, number, target_of
from dynalyze.fix.rewriting.tensors import compared, dtype_of, holds, is_exact, looks_like_tensor, without_read
from dynalyze.fix.settings import READS
from dynalyze.fix.sites import Changes, NoSite, Proposal, Site, Value, walk

_TRANSFORMER = "torch.nn.modules.transformer.Transformer"
_CAUSAL = {
    _TRANSFORMER + "Encoder": {"mask": ("is_causal", 1)},
    _TRANSFORMER + "Decoder": {"tgt_mask": ("tgt_is_causal", 2)},
    _TRANSFORMER: {"src_mask": ("src_is_causal", 2), "tgt_mask": ("tgt_is_causal", 3)},
}
"""Masks that these modules look at, unless they are told whether it is the causal one; and the places of the masks."""
_READING = ("Unsupported Tensor.item()", "Data dependent operator", "Data-dependent", "Unsupported function call",
            "Dynamic shape operator", "Failed to trace builtin operator")  # fmt: skip
_BESIDE = (cst.Add, cst.Subtract, cst.Multiply)
_CASTS = {"int": ".long()", "bool": ".bool()", "float": ""}
_GIVEN = {"int": "int64", "bool": "bool"}
_BOUND = (cst.AssignTarget, cst.AugAssign, cst.NamedExpr, cst.Param, cst.CompFor, cst.For, cst.AsName)


@rewriter("keep-in-tensor", *_READING, rank=15)
def keep_in_tensor(site: Site) -> Iterator[Proposal]:
    """`x / x.max().item()`, `scale = float(x.max())`: without the read, if the number is only used in an operation with
    a tensor of the same dtype, or in a comparison.
    """
    if not isinstance(site.statement, cst.SimpleStatementLine):
        return
    changes: Changes = {}
    inside: set[int] = set()
    for node in walk(site.statement, cst.Call):
        found = None if id(node) in inside else _without_read(site, node)
        if found is None:
            continue
        new, dtype = found
        if not counts_alike(site, node, dtype):
            return
        changes[node] = new
        inside |= set(map(id, walk(node)))
    if changes:
        yield Proposal("Compute with the tensor, without reading its value out", site.with_nodes(changes))


def _without_read(site: Site, node: cst.Call) -> tuple[cst.BaseExpression, str] | None:
    """The tensor to use instead of the read number, and its dtype; None if nothing is read."""
    bare = without_read(node)
    if bare is not node and called(node) != "tolist":
        return _detached(site, bare), dtype_of(site, bare)
    if not isinstance(node.func, cst.Name) or called(node) not in _CASTS:
        return None
    if len(node.args) != 1 or node.args[0].keyword is not None:
        return None
    argument, name = node.args[0].value, called(node)
    inner = without_read(argument)
    dtype = dtype_of(site, inner)
    if inner is argument and not looks_like_tensor(site, argument):
        return None
    if name == "float":
        return _detached(site, inner), dtype if "float" in dtype else ""
    return cst.parse_expression(f"{bracketed(site, inner)}{_CASTS[name]}"), _GIVEN[name]


def _detached(site: Site, node: cst.BaseExpression) -> cst.BaseExpression:
    """The tensor without a gradient, and unaffected by later changes in place, as the number was."""
    if isinstance(node, cst.Call) and called(node) in ("detach", "any", "all", "isnan", "isinf", "isfinite", "argmax"):
        return node
    found = site.value(node)
    if isinstance(node, cst.Comparison) or (found is not None and found.dtype in ("bool", "int64", "int32")):
        own = ".clone()" if isinstance(node, cst.Name | cst.Attribute) else ""
        return cst.parse_expression(f"{bracketed(site, node)}{own}")
    own = "" if isinstance(node, cst.Call | cst.BinaryOperation) else ".clone()"
    return cst.parse_expression(f"{bracketed(site, node)}.detach(){own}")


def counts_alike(site: Site, node: cst.CSTNode, dtype: str, *, named: bool = False) -> bool:
    """Whether a read number of this dtype can be replaced by the tensor here. `named`: by a variable that holds it."""
    parent = site.parents.get(node)
    if isinstance(parent, cst.UnaryOperation):
        if isinstance(parent.operator, cst.Not):
            return _is_asked(site, parent)
        return isinstance(parent.operator, cst.Minus) and "float" in dtype and counts_alike(site, parent, dtype)
    if isinstance(parent, cst.BinaryOperation):
        beside = parent.right if parent.left is node else parent.left
        fits = isinstance(parent.operator, _BESIDE) or (
            isinstance(parent.operator, cst.Divide) and parent.right is node
        )
        return fits and holds(dtype, dtype_of(site, beside))
    if isinstance(parent, cst.ComparisonTarget):
        parent = site.parents[parent]
    if isinstance(parent, cst.Comparison):
        others = [each for each in compared(parent) if each is not node]
        return len(others) == 1 and _compares(site, others[0], dtype) and counts_alike(site, parent, "bool")
    if not named and isinstance(parent, cst.Assign) and parent.value is node and len(parent.targets) == 1:
        return _held_alike(site, parent.targets[0].target, dtype)
    return _is_asked(site, node)


def _compares(site: Site, other: cst.BaseExpression, dtype: str) -> bool:
    value, known = number(other), site.value(other)
    if value is not None:
        return is_exact(value, dtype)
    return bool(dtype) and (dtype_of(site, other) == dtype or ("int" in dtype and known == Value("int")))


def _held_alike(site: Site, target: cst.BaseExpression, dtype: str) -> bool:
    """Whether all uses of a variable that is assigned once give the same if it holds the tensor."""
    if not isinstance(target, cst.Name) or len(assigned_values(site, target.value)) != 1:
        return False
    for use in walk(site.function, cst.Name):
        if use is target or use.value != target.value or is_label(site, use):
            continue
        if isinstance(site.parents[use], _BOUND) or not counts_alike(site, use, dtype, named=True):
            return False
    return not any(isinstance(each, cst.Lambda | cst.Global | cst.Nonlocal) for each in walk(site.function))


def _is_asked(site: Site, node: cst.CSTNode) -> bool:
    """Whether it is a condition, or a part of one: then it only matters whether it is 0."""
    parent = site.parents.get(node)
    while isinstance(parent, cst.BooleanOperation) or (
        isinstance(parent, cst.UnaryOperation) and isinstance(parent.operator, cst.Not)
    ):
        node, parent = parent, site.parents.get(parent)
    return isinstance(parent, cst.If | cst.While | cst.IfExp) and parent.test is node


@rewriter("causal-mask", "Unsupported Tensor.item() call", "Data-dependent", "Data dependent operator", rank=11)
def take_any_mask(site: Site) -> Iterator[Proposal]:
    """`encoder(x, mask=mask)` of torch.nn with `is_causal=False`, which is right for any mask; otherwise torch reads
    it.
    """
    changes: Changes = {}
    for call in walk(site.statement, cst.Call):
        found = site.value(call.func)
        masks = _CAUSAL.get(found.name, {}) if found is not None and found.kind == "nn.Module" else {}
        if any(each.star for each in call.args):
            continue
        given = {each.keyword.value for each in call.args if each.keyword is not None}
        places = sum(each.keyword is None for each in call.args)
        flags = [flag for mask, (flag, at) in masks.items() if (mask in given or at < places) and flag not in given]
        if flags:
            more = cst.ensure_type(cst.parse_expression(f"f({', '.join(f'{flag}=False' for flag in flags)})"), cst.Call)
            comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
            *first, last = [each.with_changes(comma=comma) for each in (*call.args, *more.args)]
            changes[call] = call.with_changes(args=[*first, last.with_changes(comma=call.args[-1].comma)])
    if changes:
        yield Proposal(
            "Tell the model that the mask is arbitrary, so that its values are not inspected", site.with_nodes(changes)
        )


@rewriter("no-leaf", "Attempted to use tensor creation function with requires_grad=True", rank=13)
def make_no_leaf(site: Site) -> Iterator[Proposal]:
    """`loss = torch.tensor(0.0, requires_grad=True)` that a function adds to: without a gradient of its own, which
    nobody can read. Running it shows that the output keeps its gradients.
    """
    changes: Changes = {}
    for call in walk(site.statement, cst.Call):
        others = [each for each in call.args if each.keyword is None or each.keyword.value != "requires_grad"]
        if others and len(others) < len(call.args) and function_name(site, call).startswith("torch."):
            last = others[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
            changes[call] = call.with_changes(args=[*others[:-1], last])
    if changes:
        yield Proposal("Make it without a gradient of its own", site.with_nodes(changes))


def kept_in_python(site: Site) -> str:
    """Why nothing can end a break that reads a number: code is compiled for one value of what stores
    it. "" if it can.
    """
    if not site.broken.gb_type.startswith(READS):
        return ""
    try:
        read = _names_read(site)
    except NoSite:
        return ""
    for node in walk(site.function.body):
        if isinstance(node, cst.Call) and called(node) == "append" and isinstance(node.func, cst.Attribute):
            kept = node.func.value
            if isinstance(kept, cst.Attribute) and any(_holds(site, each.value, read) for each in node.args):
                return (
                    f"`{site.code(kept)}` gets a number of Python in each call: compiled code is made for one length "
                    "of it, and made anew at each call. Return the tensor, and keep it where the model is called"
                )
        target = target_of(node)
        if not isinstance(target, cst.Attribute) or not isinstance(node, cst.Assign | cst.AugAssign):
            continue
        state = site.code(target)
        if _holds(site, node.value, read) and (isinstance(node, cst.AugAssign) or _is_read(site, target)):
            return (
                f"`{state}` is a number of Python that each call reads and changes: compiled code is made for one "
                f"value of it, and made anew at each call. Keep it in a buffer, as a tensor: "
                f'`self.register_buffer("{target.attr.value}", torch.zeros(()))`'
            )
    return ""


def _names_read(site: Site) -> set[str]:
    """The variables that hold the read number, or what Python computes from it."""
    statement = site.statement
    if not isinstance(statement, cst.SimpleStatementLine):
        return set()
    found = {each.target.value for small in statement.body if isinstance(small, cst.Assign)
             for each in small.targets if isinstance(each.target, cst.Name)}  # fmt: skip
    return {name for name in found if site.value(cst.Name(name)) is None or not site.is_tensor(cst.Name(name))}


def _holds(site: Site, value: cst.CSTNode, read: set[str]) -> bool:
    """Whether an expression on the breaking line reads a number, or uses a read one."""
    here = site.range_of(value)[0] <= site.line <= site.range_of(value)[2]
    calls = {called(each) for each in walk(value, cst.Call)}
    return bool((here and calls & {"item", "float", "int", "tolist"}) or names_of(value) & read)


def _is_read(site: Site, target: cst.Attribute) -> bool:
    code = site.code(target)
    return any(
        each is not target and site.code(each) == code and not isinstance(site.parents[each], cst.AssignTarget)
        for each in walk(site.function.body, cst.Attribute)
    )

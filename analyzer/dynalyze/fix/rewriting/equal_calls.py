"""Calls that cannot be traced, with another call in their place that does the very same and can be."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from dynalyze.fix.rewriting import rewriter
from dynalyze.fix.rewriting.conditions import (
    assigned_values,
    called,
    import_of_torch,
    looks_like_tensor,
    torch_name,
)
from dynalyze.fix.rewriting.harmless import function_name
from dynalyze.fix.rewriting.masked import bracketed, dims_of
from dynalyze.fix.rewriting.purity import is_new
from dynalyze.fix.rewriting.signatures import giving
from dynalyze.fix.sites import Changes, Proposal, Site, statements_of, walk

_COLLECTIVES = "torch.distributed."


@rewriter("close-as-tensor", "Data dependent operator", "Data-dependent", rank=13)
def ask_with_a_tensor(site: Site) -> Iterator[Proposal]:
    """`if torch.allclose(x, y):`: `if torch.isclose(x, y).all():`, a tensor that the branch can then be chosen by."""
    torch = torch_name(site)
    changes: Changes = {}
    for test in (node.test for node in walk(site.statement) if isinstance(node, cst.If | cst.IfExp | cst.While)):
        for call in (node for node in walk(test) if isinstance(node, cst.Call) and called(node) == "allclose"):
            if not isinstance(call.func, cst.Attribute):
                continue
            of = call.func.value
            if site.code(of) == torch or looks_like_tensor(site, of):
                each = call.with_changes(func=call.func.with_changes(attr=cst.Name("isclose")))
                changes[call] = cst.Call(cst.Attribute(each, cst.Name("all")))
    if changes:
        yield Proposal("", "Ask whether all are close by a tensor", site.with_nodes(changes))


@rewriter("wait-at-once", "async_op=True for distributed collectives", "Unsupported method call", rank=13)
def wait_at_once(site: Site) -> Iterator[Proposal]:
    """`dist.all_reduce(x, async_op=True).wait()`: `dist.all_reduce(x)`."""
    changes: Changes = {}
    for wait in (node for node in walk(site.statement) if isinstance(node, cst.Expr)):
        call = _waited_for(wait.value)
        if call is None or not function_name(site, call).startswith(_COLLECTIVES):
            continue
        others = [each for each in call.args if each.keyword is None or each.keyword.value != "async_op"]
        if len(others) == len(call.args) - 1:
            last = [each.with_changes(comma=cst.MaybeSentinel.DEFAULT) for each in others[-1:]]
            changes[wait.value] = call.with_changes(args=[*others[:-1], *last])
    if changes:
        yield Proposal("", "Let the collective wait itself", site.with_nodes(changes))


@rewriter("sort-by-key", "sort with non-constant keys", rank=13)
def sort_items_by_key(site: Site) -> Iterator[Proposal]:
    """`sorted(kwargs.items())`: by the keys, of which there are no two alike, so that values are never compared."""
    changes: Changes = {}
    for call in (node for node in walk(site.statement) if isinstance(node, cst.Call) and called(node) == "sorted"):
        items = call.args[0].value if call.args and call.args[0].keyword is None else None
        is_reversed = [each.keyword.value for each in call.args[1:] if each.keyword is not None] == ["reverse"]
        if not isinstance(items, cst.Call) or called(items) != "items" or items.args:
            continue
        if isinstance(items.func, cst.Attribute) and (len(call.args) == 1 or (len(call.args) == 2 and is_reversed)):
            changes[call] = giving(call, {"key": "lambda item: item[0]"})
    if changes:
        yield Proposal("", "Sort the items by their keys, as it does anyway", site.with_nodes(changes))


@rewriter("no-out-argument", "Shape mismatch with out= tensor variant",
          "Attempted to call op with non-contiguous `out=` tensor", rank=13)  # fmt: skip
def assign_the_result(site: Site) -> Iterator[Proposal]:
    """`torch.add(x, 1, out=total)` into a tensor that the function made: `total = torch.add(x, 1)`."""
    statement = site.statement
    only = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1 else None
    if not isinstance(only, cst.Expr) or not isinstance(only.value, cst.Call):
        return
    outs = [each for each in only.value.args if each.keyword is not None and each.keyword.value == "out"]
    made = assigned_values(site, outs[0].value.value) if outs and isinstance(outs[0].value, cst.Name) else []
    if not made or not all(map(is_new, made)):
        return
    others = [each for each in only.value.args if each is not outs[0]]
    last = [each.with_changes(comma=cst.MaybeSentinel.DEFAULT) for each in others[-1:]]
    call = only.value.with_changes(args=[*others[:-1], *last])
    (new,) = statements_of(f"{site.code(outs[0].value)} = {site.code(call)}\n")
    yield Proposal("", "Assign the result, in the place of writing it into a tensor of another shape",
                   site.with_statement(new))  # fmt: skip


@rewriter("randint", "Tensor.random_ op", rank=13)
def draw_with_randint(site: Site) -> Iterator[Proposal]:
    """`torch.empty_like(x).random_(0, 5)`, `noise.random_(5)`: `torch.randint`, which draws the same numbers."""
    torch = torch_name(site)
    changes: Changes = {}
    for call in (node for node in walk(site.statement) if isinstance(node, cst.Call) and called(node) == "random_"):
        of = call.func.value if isinstance(call.func, cst.Attribute) else None
        if of is None or len(call.args) not in (1, 2) or any(each.keyword for each in call.args):
            continue
        new = isinstance(of, cst.Call) and called(of) == "empty_like" and len(of.args) == 1
        like = cst.ensure_type(of, cst.Call).args[0].value if new else of
        if isinstance(like, cst.Name | cst.Attribute):
            code, bounds = site.code(like), ", ".join(site.code(each.value) for each in call.args)
            drawn = f"{torch}.randint({bounds}, {code}.shape, dtype={code}.dtype, device={code}.device)"
            drawn = drawn if len(call.args) == 2 else drawn.replace("randint(", "randint(0, ")
            changes[call] = cst.parse_expression(drawn if new else f"{code}.copy_({drawn})")
    if changes:
        yield Proposal("", "Draw whole numbers by torch.randint", site.with_nodes(changes, import_of_torch(site)))


@rewriter("dictionary", "TypedDict with optional keys", rank=13)
def write_the_dictionary(site: Site) -> Iterator[Proposal]:
    """`Options(scale=2)` of a TypedDict: `{"scale": 2}`, which is what it makes."""
    changes: Changes = {}
    for call in (node for node in walk(site.statement) if isinstance(node, cst.Call)):
        of = site.value(call.func)
        if of is not None and of.kind == "class" and call.args and all(each.keyword for each in call.args):
            entries = [f'"{each.keyword.value}": {site.code(each.value)}' for each in call.args if each.keyword]
            changes[call] = cst.parse_expression(f"{{{', '.join(entries)}}}")
    if len(changes) == 1:
        yield Proposal("", "Write the dictionary that the TypedDict makes", site.with_nodes(changes))


@rewriter("tensor-given", "Calling subclass default constructor with more than tensor argument", rank=13)
def give_a_tensor(site: Site) -> Iterator[Proposal]:
    """`Marked([1.0, 2.0])` of a class derived from Tensor: `Marked(torch.tensor([1.0, 2.0]))`, of torch's own type."""
    torch = torch_name(site)
    changes: Changes = {}
    for call in (node for node in walk(site.statement) if isinstance(node, cst.Call)):
        of = site.value(call.func)
        if of is not None and of.kind == "class" and len(call.args) == 1 and isinstance(call.args[0].value, cst.List):
            given = f"{torch}.tensor({site.code(call.args[0].value)}, dtype={torch}.get_default_dtype())"
            changes[call.args[0].value] = cst.parse_expression(given)
    if changes:
        yield Proposal("", "Give the class a tensor", site.with_nodes(changes, import_of_torch(site)))


@rewriter("elements-compared", "list_richcompare_nonconst", rank=13)
def compare_the_elements(site: Site) -> Iterator[Proposal]:
    """`[a, b] == [c, d]` of tensors of one number each: `(a == c) & (b == d)`."""
    changes: Changes = {}
    for node in (node for node in walk(site.statement) if isinstance(node, cst.Comparison)):
        sides = [node.left, *(each.comparator for each in node.comparisons)]
        pairs = _pairs(sides) if isinstance(node.comparisons[0].operator, cst.Equal) else []
        if pairs and all(dims_of(site, each) == 0 for pair in pairs for each in pair):
            parts = [f"({_side(site, one)} == {_side(site, other)})" for one, other in pairs]
            if any(looks_like_tensor(site, each) for pair in pairs for each in pair):
                changes[node] = cst.parse_expression(f"({' & '.join(parts)})")
    if changes:
        yield Proposal("", "Compare the elements as tensors", site.with_nodes(changes))


def _side(site: Site, node: cst.BaseExpression) -> str:
    return site.code(node) if isinstance(node, cst.Integer | cst.Float) else bracketed(site, node)


def _pairs(sides: list[cst.BaseExpression]) -> list[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """The elements of two lists, or two tuples, that are written out and as long as each other."""
    one, other = (sides[0], sides[1]) if len(sides) == 2 else (None, None)
    if not isinstance(one, cst.List | cst.Tuple) or type(one) is not type(other):
        return []
    assert isinstance(other, cst.List | cst.Tuple)
    if len(one.elements) != len(other.elements):
        return []
    return [(mine.value, theirs.value) for mine, theirs in zip(one.elements, other.elements, strict=True)]


def _waited_for(node: cst.BaseExpression) -> cst.Call | None:
    """`f(x)` of `f(x).wait()`."""
    if (
        not isinstance(node, cst.Call)
        or called(node) != "wait"
        or node.args
        or not isinstance(node.func, cst.Attribute)
    ):
        return None
    return node.func.value if isinstance(node.func.value, cst.Call) else None

"""Slices, indices and orders that are read from tensors: said with tensors of known size."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from dynalyze.fix.rewriting import rewriter
from dynalyze.fix.rewriting.conditions import import_of_torch, looks_like_tensor, torch_name, without_read
from dynalyze.fix.rewriting.syntax import assigned_values, called
from dynalyze.fix.sites import Proposal, Site, walk

_READ = ("Unsupported Tensor.item()", "Data dependent operator", "Data-dependent", "Dynamic shape operator",
         "Failed to trace builtin operator", "unimplemented builtin op on tensor arguments", "Dynamic slicing",
         "Attempted to call", "Unsupported function call", "Failed to convert")  # fmt: skip
_LISTS = ("list", "tuple")


@rewriter("masked-slice", *_READ, rank=14)
def sum_of_a_slice(site: Site) -> Iterator[Proposal]:
    """`x[:n].sum()` with `n` read from a tensor: the sum of the whole, with 0 from there on."""
    changes = _changes(site, _summed_slice)
    if changes:
        yield Proposal(
            "", "Sum the whole tensor, with 0 in the place of what the slice leaves out",
            site.with_nodes({**changes}, import_of_torch(site)),
        )  # fmt: skip


@rewriter("index-of-tensor", *_READ, rank=14)
def index_as_tensor(site: Site) -> Iterator[Proposal]:
    """`scales[level]` of a list of tensors by a tensor: of all of them in one."""
    changes = _changes(site, _indexed)
    if changes:
        yield Proposal(
            "", "Stack the list, and index it as a tensor", site.with_nodes({**changes}, import_of_torch(site))
        )


@rewriter("elements-of-tensor", *_READ, rank=13)
def iterate_over_tensor(site: Site) -> Iterator[Proposal]:
    """`for row, n in zip(x, lengths.tolist())`: over the tensor itself, whose length is known."""
    statement = site.statement
    if not isinstance(statement, cst.For):
        return
    changes: dict[cst.CSTNode, cst.CSTNode] = {}
    for node in walk(statement.iter, lambda each: isinstance(each, cst.Call)):
        assert isinstance(node, cst.Call)
        if called(node) == "tolist" and isinstance(node.func, cst.Attribute) and not node.args:
            found = site.value(node.func.value)
            if found is None or found.dims == 1:
                changes[node] = node.func.value
    if changes:
        yield Proposal("", "Go through the tensor, without reading its values out", site.with_nodes({**changes}))


def _changes(site: Site, rewritten: object) -> dict[cst.CSTNode, cst.CSTNode]:
    """The outermost expressions of the statement's own line for which there is another text."""
    assert callable(rewritten)
    found: dict[cst.CSTNode, cst.CSTNode] = {}
    statement = site.statement
    head: cst.CSTNode = statement
    if isinstance(statement, cst.If | cst.While):
        head = statement.test
    elif isinstance(statement, cst.For):
        head = statement.iter
    elif not isinstance(statement, cst.SimpleStatementLine):
        return {}
    inside: set[int] = set()
    for node in walk(head, lambda each: isinstance(each, cst.BaseExpression)):
        if id(node) in inside:
            continue
        text = rewritten(site, node)
        if text is not None:
            found[node] = cst.parse_expression(text)
            inside |= set(map(id, walk(node)))
    return found


def _summed_slice(site: Site, node: cst.BaseExpression) -> str | None:
    if not isinstance(node, cst.Call) or called(node) != "sum" or not isinstance(node.func, cst.Attribute):
        return None
    sliced = node.func.value
    if not isinstance(sliced, cst.Subscript) or not isinstance(sliced.value, cst.Name | cst.Attribute):
        return None
    if not looks_like_tensor(site, sliced.value) or not all(each.keyword is None for each in node.args):
        return None
    parts = [each.slice for each in sliced.slice]
    ends = [each.upper for each in parts if isinstance(each, cst.Slice) and not (each.lower or each.step)]
    read = [(place, each, end) for place, each in enumerate(ends) if each is not None and (end := _read(site, each))]
    if len(ends) < len(parts) or len(read) != 1 or sum(each is not None for each in ends) != 1:
        return None
    ((place, _, end),) = read
    x, torch = site.code(sliced.value), torch_name(site)
    size = f"{x}.shape[{place}]"
    # From the end, where it is negative.
    kept = f"{torch}.arange({size}, device={x}.device) < {torch}.where({end} < 0, {end} + {size}, {end})"
    found = site.value(sliced.value)
    more = (len(parts) if found is None or found.dims is None else found.dims) - place - 1
    view = f"({kept})[{', '.join([':', *['None'] * more])}]" if more else f"({kept})"
    return f"{x}.masked_fill(~{view}, 0).sum({', '.join(map(site.code, node.args))})"


def _read(site: Site, node: cst.BaseExpression) -> str | None:
    """The tensor that a number is, or is read from."""
    bare = without_read(node)
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and called(node) == "int" and len(node.args) == 1:
        bare = without_read(node.args[0].value)
    if bare is node and not looks_like_tensor(site, node) and not _from_tensor(site, node):
        return None
    return site.code(bare) if isinstance(bare, cst.Name | cst.Attribute | cst.Call) else f"({site.code(bare)})"


def _from_tensor(site: Site, node: cst.BaseExpression) -> bool:
    """Whether a variable goes through the elements of a tensor in a loop around the line."""
    if not isinstance(node, cst.Name):
        return False
    outer: cst.CSTNode | None = site.statement
    while (outer := site.parents.get(outer)) is not None:  # type: ignore[arg-type]
        if isinstance(outer, cst.For) and node.value in {
            each.value for each in walk(outer.target) if isinstance(each, cst.Name)
        }:
            return any(isinstance(e, cst.BaseExpression) and site.is_tensor(e) for e in walk(outer.iter))
    return False


def _indexed(site: Site, node: cst.BaseExpression) -> str | None:
    if not isinstance(node, cst.Subscript) or len(node.slice) != 1 or not isinstance(node.slice[0].slice, cst.Index):
        return None
    held, index = site.value(node.value), node.slice[0].slice.value
    if held is not None and held.kind == "tensor":
        return _element(site, node, index)
    if held is None or held.kind not in _LISTS or held.name not in ("Tensor", "int", "float"):
        return None
    place = _read(site, index)
    parent = site.parents.get(node)
    if place is None or (isinstance(parent, cst.Call) and parent.func is node):
        return None
    if isinstance(site.parents.get(node), cst.AssignTarget):
        return None
    code, torch = site.code(node.value), torch_name(site)
    if held.name == "Tensor":
        return f"{torch}.stack({code})[{place}.reshape(1)].squeeze(0)"
    # Beside a tensor of floats with dimensions, a tensor without any counts as the number that it holds.
    if not isinstance(parent, cst.BinaryOperation):
        return None
    beside = site.value(parent.left if parent.right is node else parent.right)
    if beside is None or beside.kind != "tensor" or not beside.dims or "float" not in beside.dtype:
        return None
    dtype = f"{torch}.float64" if held.name == "float" else f"{torch}.int64"
    return f"{torch}.tensor({code}, dtype={dtype}, device={place}.device)[{place}.reshape(1)].squeeze(0)"


def _element(site: Site, node: cst.Subscript, index: cst.BaseExpression) -> str | None:
    """`x[i]` with an `i` that is one whole number in a tensor: gathered, since a view needs to know it."""
    if not isinstance(index, cst.Name) or isinstance(site.parents.get(node), cst.AssignTarget | cst.AugAssign):
        return None
    found = site.value(index)
    whole = found is not None and found.kind == "tensor" and found.dims == 0 and found.dtype.startswith(("int", "uint"))
    made = [called(each) for each in assigned_values(site, index.value) if isinstance(each, cst.Call)]
    if not whole and not (found is None and made and all(each in ("argmax", "argmin", "long") for each in made)):
        return None
    return f"{site.code(node.value)}[{index.value}.reshape(1)].squeeze(0)"

"""Indices that are read from tensors: said with tensors."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from dynalyze.fix.rewriting import rewriter
from dynalyze.fix.rewriting.conditions import import_of_torch, looks_like_tensor, torch_name, without_read
from dynalyze.fix.rewriting.dtypes import dtype_of
from dynalyze.fix.rewriting.masked import dims_of
from dynalyze.fix.rewriting.syntax import assigned_values, called
from dynalyze.fix.sites import Changes, Proposal, Site, walk

_READ = ("Unsupported Tensor.item()", "Data dependent operator", "Data-dependent", "Dynamic shape operator",
         "Failed to trace builtin operator", "unimplemented builtin op on tensor arguments", "Dynamic slicing",
         "Attempted to call", "Unsupported function call", "Failed to convert")  # fmt: skip


@rewriter("index-of-tensor", *_READ, rank=14)
def index_as_tensor(site: Site) -> Iterator[Proposal]:
    """`scales[level]` of a list of tensors, and `x[i]`, by a whole number in a tensor: gathered."""
    head = getattr(site.statement, "test", getattr(site.statement, "iter", site.statement))
    if not isinstance(site.statement, cst.SimpleStatementLine | cst.If | cst.While | cst.For):
        return
    changes: Changes = {}
    inside: set[int] = set()
    for node in walk(head, lambda each: isinstance(each, cst.Subscript)):
        assert isinstance(node, cst.Subscript)
        text = None if id(node) in inside else _indexed(site, node)
        if text is not None:
            changes[node] = cst.parse_expression(text)
            inside |= set(map(id, walk(node)))
    if changes:
        yield Proposal("", "Index with the tensor, without reading its value out",
                       site.with_nodes(changes, import_of_torch(site)))  # fmt: skip


def _indexed(site: Site, node: cst.Subscript) -> str | None:
    held, index = site.value(node.value), node.slice[0].slice
    parent = site.parents.get(node)
    if held is None or len(node.slice) != 1 or not isinstance(index, cst.Index):
        return None
    if isinstance(parent, cst.AssignTarget | cst.AugAssign) or (isinstance(parent, cst.Call) and parent.func is node):
        return None
    if held.kind == "tensor":
        # A view needs to know the number.
        whole = isinstance(index.value, cst.Name) and dtype_of(site, index.value).startswith(("int", "uint"))
        is_one = dims_of(site, index.value) == 0 or _is_argmax(site, index.value)
        return f"{site.code(node.value)}[{site.code(index.value)}.reshape(1)].squeeze(0)" if whole and is_one else None
    if held.kind not in ("list", "tuple") or held.name != "Tensor" or (place := _read(site, index.value)) is None:
        return None
    return f"{torch_name(site)}.stack({site.code(node.value)})[{place}.reshape(1)].squeeze(0)"


def _is_argmax(site: Site, node: cst.BaseExpression) -> bool:
    made = assigned_values(site, node.value) if isinstance(node, cst.Name) else []
    return bool(made) and all(isinstance(each, cst.Call) and called(each) in ("argmax", "argmin") for each in made)


def _read(site: Site, node: cst.BaseExpression) -> str | None:
    """The tensor that a number is, or is read from."""
    bare = without_read(node)
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and called(node) == "int" and len(node.args) == 1:
        bare = without_read(node.args[0].value)
    if bare is node and not looks_like_tensor(site, node):
        return None
    return site.code(bare) if isinstance(bare, cst.Name | cst.Attribute | cst.Call) else f"({site.code(bare)})"

"""Copies: of tensors, made the way that a graph can hold, and of keyword arguments that a function changes."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from dynalyze.fix.rewriting import rewriter
from dynalyze.fix.rewriting.conditions import assigned_values, called, import_of_torch, torch_name
from dynalyze.fix.rewriting.harmless import function_name
from dynalyze.fix.rewriting.purity import is_new
from dynalyze.fix.sites import Proposal, Site, statements_of, walk
from dynalyze.text.amounts import listed

_CHANGE = ("pop", "update", "setdefault", "clear", "popitem")


@rewriter("clone", "Attempted to copy.deepcopy a tensor", "copy.deepcopy()", rank=13)
def clone_in_place_of_deepcopy(site: Site) -> Iterator[Proposal]:
    """`copy.deepcopy(x)` of a tensor: `x.detach().clone()`, which is the same where it needs no gradient."""
    changes: dict[cst.CSTNode, cst.CSTNode] = {}
    for call in walk(site.statement, lambda each: isinstance(each, cst.Call)):
        assert isinstance(call, cst.Call)
        if function_name(site, call) != "copy.deepcopy" or len(call.args) != 1:
            continue
        argument = call.args[0].value
        value = site.value(argument)
        if value is None or value.kind != "tensor" or value.name != "Tensor" or value.requires_grad:
            continue
        text = site.code(argument)
        new = f"({text}.detach().clone() if not {text}.requires_grad else {site.code(call)})"
        changes[call] = cst.parse_expression(new)
    if changes:
        yield Proposal("", "Clone the tensor instead of deep-copying it", site.with_nodes(dict(changes)))


@rewriter("copy-into", "Failed to mutate tensor data attribute", rank=13)
def copy_into_the_tensor(site: Site) -> Iterator[Proposal]:
    """`state.data = update` of a tensor that the function made: a copy into it, without a gradient."""
    statement = site.statement
    only = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1 else None
    target = only.targets[0].target if isinstance(only, cst.Assign) and len(only.targets) == 1 else None
    if not isinstance(only, cst.Assign) or not isinstance(target, cst.Attribute) or target.attr.value != "data":
        return
    name = target.value.value if isinstance(target.value, cst.Name) else ""
    made, one, other = assigned_values(site, name), site.value(target.value), site.value(only.value)
    if not made or not all(map(is_new, made)) or one is None or other is None:
        return
    if (one.dtype, one.sizes) == (other.dtype, other.sizes):
        torch = torch_name(site)
        new = statements_of(f"with {torch}.no_grad():\n    {name}.copy_({site.code(only.value)})\n")
        yield Proposal("", "Copy into the tensor, in the place of giving it other data",
                       site.with_statement(*new, top=import_of_torch(site)))  # fmt: skip


@rewriter("clean-copy", "Unsupported autograd.Function context `mark_dirty`", rank=13)
def work_on_a_copy(site: Site) -> Iterator[Proposal]:
    """`ctx.mark_dirty(x)` of an autograd.Function that changes `x`: in compiled code it changes a copy. That nobody
    sees that `x` itself stays what it was shows in the proof.
    """
    statement = site.statement
    only = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1 else None
    call = only.value if isinstance(only, cst.Expr) and isinstance(only.value, cst.Call) else None
    if call is None or called(call) != "mark_dirty" or not all(isinstance(each.value, cst.Name) for each in call.args):
        return
    names = [site.code(each.value) for each in call.args]
    copied = "".join(f"    {each} = {each}.clone()\n" for each in names)
    (new,) = statements_of(f"if {torch_name(site)}.compiler.is_compiling():\n{copied}else:\n    {site.code(call)}\n")
    yield Proposal("", f"Change a copy of {listed(names)} in compiled code",
                   site.with_statement(new, top=import_of_torch(site)))  # fmt: skip


@rewriter("own-keywords", "mapping proxy affected by dictionary mutation", rank=14, outer=True)
def change_own_keywords(site: Site) -> Iterator[Proposal]:
    """`kwargs.pop("return_dict")` in a function that takes `**kwargs`: of a copy, made of it first. Nobody else holds
    either of them; of the one that comes with a frame Dynamo does not know that, and which function a frame begins with
    hangs on other breaks: so it is done in all of this file that led to the break.
    """
    file = site.broken.location.file
    stack = [place for place in site.broken.stack if place.file == file and place.function != "<module>"]
    lines = {place.line for place in stack} | {site.line}
    text, named = site.text, list[str]()
    for line in sorted(lines, reverse=True):  # From below, so that lines above stay where they are.
        here = site.at(text, line)
        text = _with_own_keywords(here) or text
        named += [here.function.name.value] * (text != here.text)
    if named:
        title = (
            f"Let {listed(sorted({f'`{each}`' for each in named}))} change a copy of the keywords that every call has"
        )
        yield Proposal("", title, text)


def _with_own_keywords(site: Site) -> str:
    """The file with the function changing a copy; "" where it changes none, or has one."""
    keywords, body = site.function.params.star_kwarg, site.function.body
    name = "" if keywords is None else keywords.name.value
    made = f"{name} = {{**{name}}}\n"
    if not name or not isinstance(body, cst.IndentedBlock) or made.strip() in site.code(body):
        return ""
    if not any(_changes(site, node, name) for node in walk(body)):
        return ""
    has_text = site.function.get_docstring() is not None
    new = body.with_changes(body=[*body.body[:has_text], *statements_of(made), *body.body[has_text:]])
    return site.with_nodes({body: new})


def _changes(site: Site, node: cst.CSTNode, name: str) -> bool:
    """`kwargs.pop(...)`, `kwargs["x"] = 1`, `del kwargs["x"]`."""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        return node.func.attr.value in _CHANGE and site.code(node.func.value) == name
    if isinstance(node, cst.AssignTarget | cst.AugAssign | cst.Del):
        return isinstance(node.target, cst.Subscript) and site.code(node.target.value) == name
    return False

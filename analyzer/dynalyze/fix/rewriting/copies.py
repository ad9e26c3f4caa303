"""Copies: of tensors, made the way that a graph can hold, and of keyword arguments that a function changes."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from dynalyze.fix.rewriting import rewriter
from dynalyze.fix.rewriting.harmless import function_name
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

"""Functions that are kept from being compiled, and classes that are made anew at each call."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import libcst as cst

from dynalyze.fix.rewriting import rewriter
from dynalyze.fix.rewriting.conditions import called
from dynalyze.fix.rewriting.constants import top_names
from dynalyze.fix.sites import Proposal, Site, walk

_DISABLE = ("torch.compiler.disable", "torch._dynamo.disable", "_dynamo.disable", "compiler.disable", "disable")


@rewriter(
    "not-disabled", "Skip calling `torch.compiler.disable()`", "Skip inlining `torch.compiler.disable()`", rank=13
)
def function_not_disabled(site: Site) -> Iterator[Proposal]:
    """The decorator `torch.compiler.disable` of a function of the same file: left out."""
    for call in walk(site.statement, lambda each: isinstance(each, cst.Call)):
        assert isinstance(call, cst.Call)
        found = _disabled(site, called(call))
        if found is None:
            continue
        function, decorator = found
        lines = site.text.splitlines(keepends=True)
        del lines[decorator.lineno - 1 : decorator.end_lineno]
        said = f", which was done because: {reason}" if (reason := _reason(decorator)) else ""
        yield Proposal("", f"Let `{function.name}` be compiled: no longer disabled{said}", "".join(lines))
        return


def _disabled(site: Site, name: str) -> tuple[ast.FunctionDef, ast.expr] | None:
    """The only function of that name in the file, where it is disabled, and the decorator that does so."""
    named = [each for each in ast.walk(ast.parse(site.text)) if isinstance(each, ast.FunctionDef) and each.name == name]
    if len(named) != 1:
        return None
    for each in named[0].decorator_list:
        made = each.func if isinstance(each, ast.Call) else each
        if ast.unparse(made) in _DISABLE and not (isinstance(each, ast.Call) and each.args):
            return named[0], each
    return None


def _reason(decorator: ast.expr) -> str:
    given = decorator.keywords if isinstance(decorator, ast.Call) else []
    return next((str(each.value.value) for each in given
                 if each.arg == "reason" and isinstance(each.value, ast.Constant)), "")  # fmt: skip


@rewriter("class-at-top", "Invalid call to __build_class__", "LOAD_BUILD_CLASS", rank=13)
def class_at_top(site: Site) -> Iterator[Proposal]:
    """A class that is made in a function out of constants alone, and only read there: made once, above."""
    node = site.statement
    if not isinstance(node, cst.ClassDef) or node.decorators or node.name.value in top_names(site.text):
        return
    if not _of_constants(node) or not _only_read(site, node):
        return
    text = cst.Module([node.with_changes(leading_lines=[])]).code.strip("\n")
    rest = [] if len(site.block) > 1 else list(cst.parse_module("pass\n").body)
    new = [each for each in rest if isinstance(each, cst.BaseStatement)]
    yield Proposal(
        "", f"Define the class {node.name.value} once, at the top of the file",
        site.with_statement(*new, top=f"\n\n{text}\n"),
    )  # fmt: skip


def _of_constants(node: cst.ClassDef) -> bool:
    """Whether nothing in a class is read from elsewhere, and nothing in it does anything."""
    for each in walk(node.body):
        if isinstance(each, cst.Call | cst.FunctionDef | cst.Lambda | cst.BaseComp | cst.NamedExpr | cst.ClassDef):
            return False
    names = {each.value for each in walk(node.body) if isinstance(each, cst.Name)}
    own = {each.target.value for each in walk(node.body)
           if isinstance(each, cst.AssignTarget) and isinstance(each.target, cst.Name)}  # fmt: skip
    bare = not node.keywords and all(isinstance(each.value, cst.Name) and each.value.value == "object"
                                     for each in node.bases)  # fmt: skip
    values = [each.value for each in walk(node.body) if isinstance(each, cst.Assign)]
    return bare and names <= own and not any(isinstance(each, cst.List | cst.Dict | cst.Set) for each in values)


def _only_read(site: Site, node: cst.ClassDef) -> bool:
    """Whether the class is used for nothing but reading its attributes, so that nothing is kept in it."""
    for use in walk(site.function, lambda each: isinstance(each, cst.Name)):
        assert isinstance(use, cst.Name)
        if use.value != node.name.value or use is node.name:
            continue
        parent = site.parents[use]
        if not (isinstance(parent, cst.Attribute) and parent.value is use):
            return False
        if isinstance(site.parents[parent], cst.AssignTarget | cst.AugAssign | cst.Del):
            return False
    return True

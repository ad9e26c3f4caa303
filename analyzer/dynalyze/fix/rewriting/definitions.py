"""Functions that are kept from being compiled by their own program."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import libcst as cst

from dynalyze.capture.source_lines import lines_of
from dynalyze.fix.rewriting import rewriter
from dynalyze.fix.rewriting.harmless import function_name
from dynalyze.fix.rewriting.syntax import called
from dynalyze.fix.sites import Changes, Proposal, Site, walk

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
        lines = lines_of(site.text)
        del lines[decorator.lineno - 1 : decorator.end_lineno]
        said = f", which was done because: {reason}" if (reason := _reason(decorator)) else ""
        yield Proposal("", f"Let `{function.name}` be compiled: no longer disabled{said}", "".join(lines))
        return


@rewriter("not-disabled-here", "Attempted to call function marked as skipped", rank=13)
def call_as_it_is(site: Site) -> Iterator[Proposal]:
    """`torch.compiler.disable(scale)` in a function: `scale`."""
    changes: Changes = {}
    for call in (node for node in walk(site.statement) if isinstance(node, cst.Call)):
        given = call.args[0] if call.args else None
        if function_name(site, call) not in _DISABLE or given is None or given.keyword is not None or given.star:
            continue
        if all(each.keyword is not None and each.keyword.value == "reason" for each in call.args[1:]):
            changes[call] = given.value
    if changes:
        told = ", ".join(f"`{site.code(each)}`" for each in changes.values() if isinstance(each, cst.CSTNode))
        yield Proposal("", f"Let {told} be compiled: not disabled", site.with_nodes(changes))


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

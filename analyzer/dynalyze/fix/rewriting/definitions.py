"""Functions that are kept from being compiled, and classes that are made anew at each call."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import libcst as cst

from dynalyze.capture.source_lines import lines_of
from dynalyze.fix.rewriting import rewriter
from dynalyze.fix.rewriting.conditions import called, torch_name
from dynalyze.fix.rewriting.constants import top_names
from dynalyze.fix.rewriting.harmless import function_name
from dynalyze.fix.sites import Changes, Proposal, Site, walk

_DISABLE = ("torch.compiler.disable", "torch._dynamo.disable", "_dynamo.disable", "compiler.disable", "disable")

_LOOKING_FOR = """import importlib


def _imported(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


"""


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


@rewriter("without-jvp", "Unsupported custom jvp", rank=13)
def apply_without_jvp(site: Site) -> Iterator[Proposal]:
    """`Square.apply(x)` of an autograd.Function of this file with forward-mode derivatives: in compiled code of a class
    derived from it that has none, which is all that is left out there.
    """
    torch, tops = torch_name(site), top_names(site.text)
    for call in (node for node in walk(site.statement) if isinstance(node, cst.Call) and called(node) == "apply"):
        of = call.func.value if isinstance(call.func, cst.Attribute) else None
        if not isinstance(of, cst.Name):
            continue
        classes = [
            each for each in ast.parse(site.text).body if isinstance(each, ast.ClassDef) and each.name == of.value
        ]
        name = f"_{of.value.strip('_')}WithoutJvp"
        if len(classes) != 1 or name in tops:
            continue
        chosen = cst.parse_expression(f"({name} if {torch}.compiler.is_compiling() else {of.value})")
        lines = lines_of(site.with_nodes({of: chosen}))
        lines.insert(
            classes[0].end_lineno or 0, f"\n\nclass {name}({of.value}):\n    jvp = {torch}.autograd.Function.jvp\n"
        )
        yield Proposal("", f"Apply `{of.value}` without its `jvp` in compiled code", "".join(lines))
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


@rewriter("imported-at-top", "Import failure", rank=13)
def import_at_the_top(site: Site) -> Iterator[Proposal]:
    """`try: import kernels` with what is done where that is not installed: it is looked for once, when the file is
    imported.
    """
    node: cst.CSTNode = site.statement
    while not isinstance(node, cst.Try) and node in site.parents:
        node = site.parents[node]
    if not isinstance(node, cst.Try) or node.finalbody is not None or node.orelse is not None:
        return
    names, handler = _imported(node.body), node.handlers[0]
    caught = site.code(handler.type) if handler.type is not None else ""
    others = {site.code(each.target) for each in walk(site.function) if isinstance(each, cst.AssignTarget)}
    if not names or len(node.handlers) != 1 or caught not in ("ImportError", "ModuleNotFoundError") or handler.name:
        return
    if {*names, "_imported"} & (top_names(site.text) | others):
        return
    if sum(isinstance(each, cst.Import | cst.ImportFrom) for each in walk(site.function)) > 1:
        return  # Another import may bind the name for all of the function.
    test = " or ".join(f"{each} is None" for each in names)
    (new,) = (each for each in cst.parse_module(f"if {test}:\n    pass\n").body)
    assert isinstance(new, cst.If)
    new = new.with_changes(body=handler.body, leading_lines=node.leading_lines)
    top = _LOOKING_FOR + "".join(f"{name} = {made}\n" for name, made in names.items())
    title = f"Look for {', '.join(names)} once, when the file is imported"
    yield Proposal("", title, site.with_nodes({node: new}, top))


def _imported(body: cst.BaseSuite) -> dict[str, str]:
    """What one import binds, and how it is had at the top; empty where the block is none or does more."""
    line = body.body[0] if len(body.body) == 1 else None
    only = line.body[0] if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 else None
    found: dict[str, str] = {}
    if isinstance(only, cst.Import):
        for each in only.names:
            if each.asname is None and "." in each.evaluated_name:
                return {}
            found[each.evaluated_alias or each.evaluated_name] = f'_imported("{each.evaluated_name}")'
    elif isinstance(only, cst.ImportFrom) and not only.relative and not isinstance(only.names, cst.ImportStar):
        module = cst.Module([]).code_for_node(only.module) if only.module is not None else ""
        for each in only.names:
            name = each.evaluated_name
            found[each.evaluated_alias or name] = f'getattr(_imported("{module}"), "{name}", None)'
    return found


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

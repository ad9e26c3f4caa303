"""Comprehensions that are compiled for themselves, because what is around them is not: written as loops."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from dynalyze.fix.rewriting import rewriter
from dynalyze.fix.rewriting.purity import fresh_name, names_of
from dynalyze.fix.sites import Proposal, Site, statements_of, walk

_ALONE = ("Missing tp_iternext",)
_Comprehension = cst.ListComp | cst.SetComp | cst.DictComp


@rewriter("comprehension-as-loop", *_ALONE, rank=30)
def write_as_loop(site: Site) -> Iterator[Proposal]:
    """`found = {k: f(k) for k in names}`: a loop. Up to Python 3.11 a comprehension is a function of its own, which
    gets an iterator that Dynamo cannot go through where the function around it is left to eager.
    """
    statement = site.statement
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
        return
    only = statement.body[0]
    if not isinstance(only, cst.Assign) or len(only.targets) != 1 or not isinstance(only.targets[0].target, cst.Name):
        return
    value, target = only.value, only.targets[0].target.value
    if not isinstance(value, _Comprehension) or not _is_plain(value) or target in names_of(value):
        return
    if _is_seen_before(site):
        return
    taken = names_of(site.function)
    variables = {
        each.value: fresh_name(each.value, taken)
        for each in walk(value.for_in.target) if isinstance(each, cst.Name)
    }  # fmt: skip
    lines = [f"{target} = {_EMPTY[type(value)]}", f"for {_renamed(site, value.for_in.target, variables)} in "
             f"{site.code(value.for_in.iter)}:"]  # fmt: skip
    depth = "    "
    for condition in value.for_in.ifs:
        lines.append(f"{depth}if {_renamed(site, condition.test, variables)}:")
        depth += "    "
    if isinstance(value, cst.DictComp):
        # Python works the key out first.
        key = fresh_name("key", taken)
        lines += [f"{depth}{key} = {_renamed(site, value.key, variables)}",
                  f"{depth}{target}[{key}] = {_renamed(site, value.value, variables)}"]  # fmt: skip
    else:
        method = "append" if isinstance(value, cst.ListComp) else "add"
        lines.append(f"{depth}{target}.{method}({_renamed(site, value.elt, variables)})")
    loop = statements_of("".join(f"{line}\n" for line in lines))
    yield Proposal("", "Write the comprehension as a loop", site.with_statement(*loop))


_EMPTY: dict[type[cst.BaseExpression], str] = {cst.ListComp: "[]", cst.SetComp: "set()", cst.DictComp: "{}"}


def _is_plain(value: _Comprehension) -> bool:
    """Whether it goes round once, with no function or comprehension inside that would see its variables."""
    inner = [each for each in walk(value) if each is not value]
    refused = cst.BaseComp | cst.Lambda | cst.NamedExpr | cst.Await
    once = value.for_in.inner_for_in is None and value.for_in.asynchronous is None
    return once and not any(isinstance(each, refused) for each in inner)


def _is_seen_before(site: Site) -> bool:
    """Whether somebody may see the variable before it is whole: where an exception is caught, or in other functions."""
    declared = walk(site.function, lambda each: isinstance(each, cst.Global | cst.Nonlocal | cst.Lambda))
    nested = walk(site.function.body, lambda each: isinstance(each, cst.FunctionDef | cst.ClassDef))
    node: cst.CSTNode = site.statement
    while (parent := site.parents.get(node)) is not None:
        if isinstance(parent, cst.Try | cst.TryStar):
            return True
        node = parent
    return bool(declared or nested)


def _renamed(site: Site, node: cst.BaseExpression, variables: dict[str, str]) -> str:
    changed = node.visit(_Renamed(variables))
    assert isinstance(changed, cst.BaseExpression)
    return site.code(changed)


class _Renamed(cst.CSTTransformer):
    """Renames variables, and neither attributes nor the names of arguments."""

    def __init__(self, variables: dict[str, str]) -> None:
        super().__init__()
        self._variables = variables

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        return updated_node.with_changes(value=self._variables.get(original_node.value, original_node.value))

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        return updated_node.with_changes(attr=original_node.attr)

    def leave_Arg(self, original_node: cst.Arg, updated_node: cst.Arg) -> cst.Arg:
        return updated_node.with_changes(keyword=original_node.keyword)

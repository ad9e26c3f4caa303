"""Checks of values that raise: assertions in the graph in compiled code, unchanged in eager."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from dynalyze.fix.rewriting import rewriter
from dynalyze.fix.rewriting.conditions import import_of_torch, tensor_condition, torch_name
from dynalyze.fix.rewriting.purity import pure
from dynalyze.fix.rewriting.syntax import below, block_of, called, only_of
from dynalyze.fix.sites import Proposal, Site, statements_of, walk

_CHECKS = ("Data-dependent", "Unsupported Tensor.item()", "Data dependent operator", "Dynamic shape operator",
           "Failed to trace builtin operator", "Attempted to call function marked as skipped")  # fmt: skip


@rewriter("assert-in-graph", *_CHECKS, rank=12)
def raise_in_graph(site: Site) -> Iterator[Proposal]:
    """`if bad: raise E(...)`, `assert good`: in compiled code an `assert` of a tensor, with a constant message, which
    torch checks in the graph.
    """
    found = _check(site)
    if found is None:
        return
    holds, static, message = found
    statement, rest = site.statement, list[cst.BaseStatement]()
    checks: Sequence[cst.BaseStatement] = statements_of(f"assert {holds}, {message!r}\n")
    in_eager: cst.If | cst.Else = cst.Else(cst.IndentedBlock([statement.with_changes(leading_lines=[])]))
    if isinstance(statement, cst.If):
        in_eager = statement.with_changes(leading_lines=[], orelse=None)
        rest = list(block_of(statement.orelse.body) or ()) if isinstance(statement.orelse, cst.Else) else []
    if static is not None:
        checks = [below(static, checks)]
    new = below(f"{torch_name(site)}.compiler.is_compiling()", checks).with_changes(orelse=in_eager)
    yield Proposal(
        "Check it in the graph: compiled code raises RuntimeError, eager the same as before",
        site.with_statement(new, *rest, top=import_of_torch(site)), sides=_sides(site), loses=("raises",),
    )  # fmt: skip


def _check(site: Site) -> tuple[str, str | None, str] | None:
    """The tensor that must hold, what Python asks first, and the message."""
    statement, torch = site.statement, torch_name(site)
    if isinstance(statement, cst.If) and isinstance(site.parents[statement], cst.If):
        return None  # An `elif`.
    if isinstance(statement, cst.If) and not isinstance(statement.orelse, cst.If) and _only_raises(statement.body):
        bad = tensor_condition(site, statement.test)
        return None if bad is None else (f"{torch}.logical_not({bad.tensor})", bad.static, _message(site, statement))
    only = only_of(statement)
    if isinstance(only, cst.Assert):
        good = tensor_condition(site, only.test)
        if good is None or good.static is not None:
            return None  # Where Python's own part does not hold, it must raise as well.
        return good.tensor, None, _message(site, only)
    if isinstance(only, cst.Expr) and isinstance(only.value, cst.Call) and called(only.value) == "_check_tensor_all":
        held = only.value.args[0].value
        code = site.code(held)
        return f"{code if isinstance(held, cst.Name) else f'({code})'}.all()", None, _message(site, only)
    return None


def _only_raises(body: cst.BaseSuite) -> bool:
    statements = block_of(body)
    if not statements:
        return False
    *before, last = statements
    if not isinstance(last, cst.SimpleStatementLine) or not isinstance(last.body[-1], cst.Raise):
        return False
    return all(isinstance(each, cst.SimpleStatementLine) and _assigns(each) and pure(each) for each in before)


def _assigns(statement: cst.SimpleStatementLine) -> bool:
    return all(isinstance(each, cst.Assign | cst.AugAssign) for each in statement.body)


def _message(site: Site, node: cst.CSTNode) -> str:
    """The first text in it; a message in a graph must be constant."""
    for each in walk(node):
        if isinstance(each, cst.SimpleString):
            value = each.evaluated_value
            return value if isinstance(value, str) else str(value)
        if isinstance(each, cst.FormattedString):
            texts = [part.value for part in each.parts if isinstance(part, cst.FormattedStringText)]
            return "...".join(texts).strip() or "a check failed"
    tested = node.test if isinstance(node, cst.If | cst.Assert) else None
    return "a check failed" if tested is None else f"{'not ' * isinstance(node, cst.If)}{site.code(tested)}"


def _sides(site: Site) -> tuple[int, ...]:
    """The first line of what raises, and of what follows."""
    statement = site.statement
    if not isinstance(statement, cst.If):
        return ()
    found = [site.range_of(statement.body.body[0])[0]]
    return tuple(found + [site.range_of(each)[0] for each in site.following[:1]])

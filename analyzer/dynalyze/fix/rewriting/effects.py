"""Prints, messages of loggers, warnings, progress and clocks: left out of compiled code, kept in eager."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from dynalyze.fix.rewriting import rewriter
from dynalyze.fix.rewriting.conditions import called, import_of_torch, torch_name
from dynalyze.fix.sites import Proposal, Site, statements_of, walk

_LOGGED = ("debug", "info", "warning", "warn", "error", "exception", "critical", "log", "warning_once", "info_once",
           "warning_advice", "print", "write", "flush", "update", "set_postfix", "set_description")  # fmt: skip
_HARMLESS = ("item", "tolist", "size", "dim", "numel", "mean", "sum", "max", "min", "std", "norm", "any", "all", "abs",
             "shape", "detach", "cpu", "numpy", "float", "int", "bool", "str", "len", "repr", "format", "round", "type",
             "tuple", "list", "join", "time", "perf_counter", "getattr", "isinstance", "item_", "sorted")  # fmt: skip


@rewriter("eager-only", rank=10)
def effect_in_eager_alone(site: Site) -> Iterator[Proposal]:
    """`print(...)` below `if not torch.compiler.is_compiling():`. Its arguments must have no effect of their own."""
    call = _effect(site.statement)
    if call is None or not _without_effects(call):
        return
    (guarded,) = statements_of(f"if not {torch_name(site)}.compiler.is_compiling():\n    pass\n")
    assert isinstance(guarded, cst.If) and isinstance(guarded.body, cst.IndentedBlock)
    inner = site.statement.with_changes(leading_lines=[])
    new = guarded.with_changes(body=guarded.body.with_changes(body=[inner]))
    yield Proposal(
        "", f"Leave `{_shown(site, call)}` to eager: compiled code does not run it",
        site.with_statement(new, top=import_of_torch(site)), loses=("printed", "logged", "warned"),
    )  # fmt: skip


def _effect(statement: cst.CSTNode) -> cst.Call | None:
    """The call of a statement that is nothing but one which tells people something."""
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
        return None
    only = statement.body[0]
    if not isinstance(only, cst.Expr) or not isinstance(only.value, cst.Call):
        return None
    return only.value if called(only.value) in _LOGGED else None


def _without_effects(call: cst.Call) -> bool:
    """Whether its arguments only read: no call in them but of what is known to change nothing, no assignment."""
    for argument in call.args:
        for node in walk(argument):
            if isinstance(node, cst.NamedExpr | cst.Await | cst.Yield):
                return False
            if isinstance(node, cst.Call) and called(node) not in _HARMLESS:
                return False
    return True


def _shown(site: Site, call: cst.Call) -> str:
    return f"{site.code(call.func)}(...)"

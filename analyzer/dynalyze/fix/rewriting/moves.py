"""Attributes that are moved to where a call needs them: only where they are not there already."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from dynalyze.fix.rewriting import rewriter
from dynalyze.fix.rewriting.conditions import called
from dynalyze.fix.sites import Proposal, Site, statements_of

_KINDS = ("device", "dtype")


@rewriter("move-where-needed", "Unsupported python_type()", rank=30)
def move_where_needed(site: Site) -> Iterator[Proposal]:
    """`self.table = self.table.to(device=d, dtype=t)`, which gives the same object where it has both already: below
    the question whether it has.
    """
    statement = site.statement
    only = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1 else None
    if not isinstance(only, cst.Assign) or len(only.targets) != 1 or not isinstance(only.value, cst.Call):
        return
    call, moved = only.value, site.code(only.targets[0].target)
    if called(call) != "to" or not isinstance(call.func, cst.Attribute) or site.code(call.func.value) != moved:
        return
    asked = [(_kind(site, each), site.code(each.value)) for each in call.args]
    if not asked or not all(kind for kind, _ in asked) or not site.is_tensor(call.func.value):
        return
    test = " or ".join(f"{moved}.{kind} != {wanted}" for kind, wanted in asked)
    (branch,) = statements_of(f"if {test}:\n    pass\n")
    inner = cst.IndentedBlock([statement.with_changes(leading_lines=[])])
    yield Proposal(
        "", "Move it only where it is not there already", site.with_statement(branch.with_changes(body=inner))
    )


def _kind(site: Site, argument: cst.Arg) -> str:
    """Whether an argument says where to, "device", or as what, "dtype"; "" where it says neither."""
    found = site.value(argument.value)
    kind = found.kind if found is not None else ""
    named = argument.keyword.value if argument.keyword is not None else kind
    return kind if kind in _KINDS and named == kind and not argument.star else ""

"""Contexts that are for people alone: in compiled code without them."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from dynalyze.fix.rewriting import rewriter
from dynalyze.fix.rewriting.conditions import import_of_torch, torch_name
from dynalyze.fix.rewriting.effects import guards
from dynalyze.fix.rewriting.harmless import function_name
from dynalyze.fix.sites import Changes, Proposal, Site, walk, with_top

_FOR_PEOPLE = ("warnings.catch_warnings", "contextlib.redirect_stdout", "contextlib.redirect_stderr",
               "torch.cuda.nvtx.range", "torch.profiler.profiler.record_function", "torch.profiler.record_function",
               "torch.autograd.profiler.record_function")  # fmt: skip
_FILTERS = ("simplefilter", "filterwarnings", "resetwarnings")


@rewriter("eager-only-context", rank=12)
def context_in_eager_alone(site: Site) -> Iterator[Proposal]:
    """`with warnings.catch_warnings():` and the like: nothing in compiled code, and so what sets it up."""
    around: cst.CSTNode | None = site.statement
    while around is not None and not (isinstance(around, cst.With) and any(_for_people(site, around))):
        around = site.parents.get(around)
    if not isinstance(around, cst.With) or any(each.asname for each in _for_people(site, around)):
        return  # What it gives may be used for more than to tell something.
    changes: Changes = {
        each.item: cst.parse_expression(
            f"contextlib.nullcontext() if {torch_name(site)}.compiler.is_compiling() else {site.code(each.item)}"
        )
        for each in _for_people(site, around)
    }
    filters = [each for each in walk(around.body) if _sets_filter(site, each)]
    if any("error" in site.code(each) for each in [*changes, *filters]):
        return  # What is raised in eager would not be.
    left_out = [each for each in filters if isinstance(each, cst.SimpleStatementLine)]
    source = site.with_nodes({**changes, **guards(site, left_out)}, import_of_torch(site))
    what = ", ".join(site.code(each.func) for each in changes if isinstance(each, cst.Call))
    yield Proposal(
        "", f"Enter `{what}` in eager alone: compiled code runs what is in it without",
        with_top(source, "import contextlib\n"), loses=("printed",),
    )  # fmt: skip


def _for_people(site: Site, statement: cst.With) -> list[cst.WithItem]:
    """The items of its head that change nothing but what people see."""
    calls = [(each, each.item) for each in statement.items if isinstance(each.item, cst.Call)]
    return [each for each, call in calls if (function_name(site, call) or site.code(call.func)) in _FOR_PEOPLE]


def _sets_filter(site: Site, node: cst.CSTNode) -> bool:
    if not isinstance(node, cst.SimpleStatementLine) or len(node.body) != 1 or not isinstance(node.body[0], cst.Expr):
        return False
    call = node.body[0].value
    return isinstance(call, cst.Call) and site.code(call.func) in [f"warnings.{name}" for name in _FILTERS]

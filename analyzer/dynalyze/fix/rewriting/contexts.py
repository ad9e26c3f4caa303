"""Contexts and progress bars that are for people alone, or for another device: in compiled code without them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import libcst as cst

from dynalyze.fix.rewriting import rewriter
from dynalyze.fix.rewriting.conditions import import_of_torch, torch_name
from dynalyze.fix.rewriting.effects import Told, guards
from dynalyze.fix.rewriting.harmless import function_name, is_progress
from dynalyze.fix.rewriting.syntax import called, top_names
from dynalyze.fix.sites import Changes, Proposal, Site, walk, with_top

_FOR_PEOPLE = ("warnings.catch_warnings", "contextlib.redirect_stdout", "contextlib.redirect_stderr",
               "torch.cuda.nvtx.range", "torch.profiler.profiler.record_function", "torch.profiler.record_function",
               "torch.autograd.profiler.record_function")  # fmt: skip
_FILTERS = ("simplefilter", "filterwarnings", "resetwarnings")


@rewriter("eager-only-context", rank=12)
def context_in_eager_alone(site: Site) -> Iterator[Proposal]:
    """`with warnings.catch_warnings():` and the like: nothing in compiled code, and so what sets it up."""
    around = _around(site, lambda call: _for_people(site, call))
    if around is None:
        return
    told = Told(site)
    changes: Changes = {}
    named: list[str] = []
    for item in around.items:
        if not isinstance(item.item, cst.Call) or not _for_people(site, item.item):
            continue
        if item.asname is not None:
            if not isinstance(item.asname.name, cst.Name) or item.asname.name.value not in told.names:
                return  # What it gives is used for more than to tell something.
            named.append(item.asname.name.value)
        text = f"contextlib.nullcontext() if {torch_name(site)}.compiler.is_compiling() else {site.code(item.item)}"
        changes[item.item] = cst.parse_expression(text)
    if not changes:
        return
    filters = [each for each in walk(around.body) if _sets_filter(site, each)]
    if any("error" in site.code(each) for each in [*changes, *filters]):
        return  # What is raised in eager would not be.
    left_out = [each for each in [*told.readers(named, around), *filters]
                if isinstance(each, cst.SimpleStatementLine | cst.BaseCompoundStatement)]  # fmt: skip
    source = site.with_nodes({**changes, **guards(site, left_out)}, import_of_torch(site))
    what = ", ".join(site.code(each.func) for each in changes if isinstance(each, cst.Call))
    yield Proposal(
        "", f"Enter `{what}` in eager alone: compiled code runs what is in it without",
        with_top(source, "import contextlib\n") if "contextlib" not in top_names(site.text) else source,
        loses=("printed",),
    )  # fmt: skip


@rewriter("no-progress-bar", rank=11)
def loop_without_progress_bar(site: Site) -> Iterator[Proposal]:
    """`for x in tqdm(xs)`: in compiled code a loop over `xs`."""
    told = Told(site)
    changes: Changes = {}
    bars: list[str] = []
    for call in walk(site.statement, lambda each: isinstance(each, cst.Call)):
        assert isinstance(call, cst.Call)
        bare = _without_bar(site, call)
        if bare is None:
            continue
        parent = site.parents[call]
        if isinstance(parent, cst.Assign) and len(parent.targets) == 1:
            target = parent.targets[0].target
            if not isinstance(target, cst.Name) or not _only_loops(site, told, target.value):
                return
            bars.append(target.value)
        elif not (isinstance(parent, cst.For | cst.CompFor) and parent.iter is call) and not _enumerated(site, parent):
            return
        text = f"{bare} if {torch_name(site)}.compiler.is_compiling() else {site.code(call)}"
        text = text if isinstance(parent, cst.Assign | cst.Arg) else f"({text})"
        changes[call] = cst.parse_expression(text)
    if not changes:
        return
    left_out = [each for name in bars for each in _telling(site, told, name)]
    yield Proposal(
        "", "Loop without the progress bar in compiled code",
        site.with_nodes({**changes, **guards(site, left_out)}, import_of_torch(site)), loses=("printed",),
    )  # fmt: skip


def _around(site: Site, wanted: Callable[[cst.Call], bool]) -> cst.With | None:
    """The innermost `with` whose head or body holds the line, and in whose head such a call is."""
    node: cst.CSTNode | None = site.statement
    while node is not None:
        if isinstance(node, cst.With) and any(
            isinstance(each.item, cst.Call) and wanted(each.item) for each in node.items
        ):
            return node
        node = site.parents.get(node)
    return None


def _for_people(site: Site, call: cst.Call) -> bool:
    known = function_name(site, call)
    return known in _FOR_PEOPLE or (not known and site.code(call.func) in _FOR_PEOPLE) or is_progress(site, call)


def _sets_filter(site: Site, node: cst.CSTNode) -> bool:
    if not isinstance(node, cst.SimpleStatementLine) or len(node.body) != 1 or not isinstance(node.body[0], cst.Expr):
        return False
    call = node.body[0].value
    return isinstance(call, cst.Call) and site.code(call.func) in [f"warnings.{name}" for name in _FILTERS]


def _without_bar(site: Site, call: cst.Call) -> str | None:
    """What a bar is put around, as source; None where the call makes no bar, or one around nothing."""
    if not is_progress(site, call):
        return None
    plain = [site.code(each.value) for each in call.args if each.keyword is None and not each.star]
    if called(call) == "trange":
        return f"range({', '.join(plain)})" if plain else None
    named = [each for each in call.args if each.keyword is not None and each.keyword.value in ("iterable", "sequence")]
    return site.code(named[0].value) if named else plain[0] if plain else None


def _enumerated(site: Site, parent: cst.CSTNode) -> bool:
    """Whether it is the first argument of `enumerate` or `zip` in the head of a loop."""
    call = site.parents.get(parent)
    if not isinstance(parent, cst.Arg) or not isinstance(call, cst.Call) or called(call) not in ("enumerate", "zip"):
        return False
    loop = site.parents.get(call)
    return isinstance(loop, cst.For | cst.CompFor) and loop.iter is call


def _only_loops(site: Site, told: Told, name: str) -> bool:
    """Whether a bar is looped over, and else only told something."""
    for use in walk(site.function, lambda each: isinstance(each, cst.Name)):
        assert isinstance(use, cst.Name)
        parent = site.parents[use]
        if use.value != name or isinstance(parent, cst.AssignTarget) or _loops(parent, use):
            continue
        if not any(told.tells(each) for each in told.around(name) if use in walk(each)):
            return False
    return True


def _telling(site: Site, told: Told, name: str) -> list[cst.SimpleStatementLine | cst.BaseCompoundStatement]:
    return [each for each in told.around(name) if told.tells(each) and each is not site.statement]


def _loops(parent: cst.CSTNode, use: cst.Name) -> bool:
    return isinstance(parent, cst.For | cst.CompFor) and parent.iter is use

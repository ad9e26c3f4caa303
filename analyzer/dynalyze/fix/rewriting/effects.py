"""Prints, messages and warnings, what is computed for them alone, and contexts around them: left out of compiled code,
kept in eager.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import libcst as cst

from dynalyze.fix.rewriting import rewriter
from dynalyze.fix.rewriting.conditions import import_of_torch, torch_name
from dynalyze.fix.rewriting.side_effects import effects_of, function_name, only_reads
from dynalyze.fix.rewriting.syntax import below, called, is_label, only_of, variables_of
from dynalyze.fix.sites import Changes, Proposal, Site, statements_of, walk, with_top

Statement = cst.SimpleStatementLine | cst.BaseCompoundStatement
_DEBUGGING = ("graph_break", "skip_frame", "step_unsupported")
_FOR_PEOPLE = ("warnings.catch_warnings", "contextlib.redirect_stdout", "contextlib.redirect_stderr",
               "torch.cuda.nvtx.range", "torch.profiler.profiler.record_function", "torch.profiler.record_function",
               "torch.autograd.profiler.record_function")  # fmt: skip
_FILTERS = ("warnings.simplefilter", "warnings.filterwarnings", "warnings.resetwarnings")


@rewriter("eager-only", rank=10)
def effect_in_eager_alone(site: Site) -> Iterator[Proposal]:
    """`print(...)` below `if not torch.compiler.is_compiling():`, with what is computed for it alone, or loops and
    branches that do nothing else. What is left out must have no other effect.
    """
    reporting = Reporting(site)
    if not reporting.reports(site.statement):
        return
    guarded = reporting.with_readers(site.statement)
    calls = [call for each in guarded for call in reporting.calls(each)]
    if not calls and not isinstance(site.statement, cst.SimpleStatementLine):
        return
    lacking = [kind for call in calls for kind in effects_of(site, call) or ()]
    yield Proposal(
        f"Leave `{_shown(site, calls)}` to eager: compiled code does not run it",
        site.with_nodes(_guards(site, guarded), import_of_torch(site)),
        loses=tuple(dict.fromkeys(lacking)),
    )  # fmt: skip


@rewriter("no-asked-break", "Call to `torch._dynamo.", "ComptimeContext graph break", rank=5)
def without_asked_break(site: Site) -> Iterator[Proposal]:
    """`torch._dynamo.graph_break()`: left out. In eager it does nothing."""
    only = only_of(site.statement)
    if not isinstance(only, cst.Expr) or not isinstance(only.value, cst.Call) or only.value.args:
        return
    if called(only.value) in _DEBUGGING:
        new: Sequence[cst.BaseStatement] = statements_of("pass\n") if len(site.block) == 1 else []
        yield Proposal("Remove the call that asks for a graph break", site.with_statement(*new))


@rewriter("eager-only-context", rank=12)
def context_in_eager_alone(site: Site) -> Iterator[Proposal]:
    """`with warnings.catch_warnings():` and the like: no context in compiled code, nor what sets it up."""
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
    filters = [each for each in walk(around.body, cst.SimpleStatementLine) if _sets_filter(site, each)]
    if any("error" in site.code(each) for each in [*changes, *filters]):
        return  # What is raised in eager would not be.
    source = site.with_nodes({**changes, **_guards(site, filters)}, import_of_torch(site))
    what = ", ".join(site.code(each.func) for each in changes if isinstance(each, cst.Call))
    yield Proposal(
        f"Enter `{what}` in eager alone: compiled code runs what is in it without",
        with_top(source, "import contextlib\n"), loses=("printed",),
    )  # fmt: skip


def _for_people(site: Site, statement: cst.With) -> list[cst.WithItem]:
    """The items of its head that only change what people see."""
    calls = [(each, each.item) for each in statement.items if isinstance(each.item, cst.Call)]
    return [each for each, call in calls if (function_name(site, call) or site.code(call.func)) in _FOR_PEOPLE]


def _sets_filter(site: Site, line: cst.SimpleStatementLine) -> bool:
    only = only_of(line)
    call = only.value if isinstance(only, cst.Expr) else None
    return isinstance(call, cst.Call) and site.code(call.func) in _FILTERS


class Reporting:
    """Which statements of a function only report something. `names` are variables that nothing else reads."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._uses = walk(site.function, cst.Name)
        self.names = self._assigned_simply()
        while left := {name for name in self.names if not self._read_by_reporting(name)}:
            self.names -= left

    def reports(self, statement: cst.CSTNode) -> bool:
        """Whether it only changes what people see, and variables of `names`."""
        if isinstance(statement, cst.SimpleStatementLine | cst.SimpleStatementSuite):
            return all(map(self._small_reports, statement.body))
        if isinstance(statement, cst.IndentedBlock | cst.Else | cst.Finally):
            body = statement.body if isinstance(statement, cst.IndentedBlock) else [statement.body]
            return all(map(self.reports, body))
        if isinstance(statement, cst.If):
            return only_reads(self._site, statement.test) and self._all(statement.body, statement.orelse)
        if isinstance(statement, cst.For) and self._own(statement.target):
            return only_reads(self._site, statement.iter) and self._all(statement.body, statement.orelse)
        return False

    def with_readers(self, statement: Statement) -> list[Statement]:
        """The statement, and all that read what it assigns, in the order of the function."""
        found = [statement]
        for each in found:
            for name in dict.fromkeys(_targets(each)):
                found += [around for around in self.around(name) if around not in found]
        inner = [each for each in found if any(one in found for one in _enclosing(self._site, each))]
        return sorted((each for each in found if each not in inner), key=lambda each: self._site.range_of(each)[:2])

    def around(self, name: str) -> list[Statement]:
        """The innermost statements that hold a variable."""
        found = dict.fromkeys(_statement(self._site, use) for use in self._uses_of(name))
        return [each for each in found if each is not None]

    def calls(self, statement: cst.CSTNode) -> list[cst.Call]:
        """The reporting calls in a statement."""
        return [each.value for each in walk(statement, cst.Expr) if isinstance(each.value, cst.Call)]

    def _small_reports(self, statement: cst.BaseSmallStatement) -> bool:
        if isinstance(statement, cst.Expr):
            call = statement.value
            if not isinstance(call, cst.Call):
                return isinstance(call, cst.BaseString | cst.Ellipsis)
            reads = all(only_reads(self._site, each.value) for each in call.args)
            return reads and effects_of(self._site, call) is not None
        if isinstance(statement, cst.Assign | cst.AugAssign):
            targets = statement.targets if isinstance(statement, cst.Assign) else [statement]
            return all(self._own(each.target) for each in targets) and only_reads(self._site, statement.value)
        return isinstance(statement, cst.Pass | cst.Continue | cst.Break)

    def _all(self, body: cst.BaseSuite, orelse: cst.CSTNode | None) -> bool:
        return self.reports(body) and (orelse is None or self.reports(orelse))

    def _own(self, target: cst.BaseExpression) -> bool:
        found = variables_of(target)
        return found is not None and self.names.issuperset(found)

    def _assigned_simply(self) -> set[str]:
        """Local variables assigned from expressions that only read."""
        simple: set[str] = set()
        other = {each.name.value for each in walk(self._site.function.params, cst.Param)}
        for node in walk(self._site.function):
            if isinstance(node, cst.Assign | cst.AugAssign):
                targets = node.targets if isinstance(node, cst.Assign) else [node]
                names = [name for each in targets for name in variables_of(each.target) or ()]
                (simple if only_reads(self._site, node.value) else other).update(names)
            elif isinstance(node, cst.For):
                simple.update(variables_of(node.target) or ())
            elif isinstance(node, cst.AsName):
                other.update(variables_of(node.name) or ())
            elif isinstance(node, cst.AnnAssign | cst.NamedExpr | cst.CompFor):
                other.update(variables_of(node.target) or ())
            elif isinstance(node, cst.Global | cst.Nonlocal):
                other.update(each.name.value for each in node.names)
        return simple - other

    def _uses_of(self, name: str) -> list[cst.Name]:
        return [use for use in self._uses if use.value == name and not is_label(self._site, use)]

    def _read_by_reporting(self, name: str) -> bool:
        for use in self._uses_of(name):
            around = _statement(self._site, use)
            goes_round = isinstance(around, cst.For) and use in walk(around.target)
            if around is None or not (goes_round or self.reports(around)):
                return False
        return True


def _targets(statement: cst.CSTNode) -> Iterator[str]:
    """The variables that a statement assigns, at any depth."""
    for each in walk(statement):
        if isinstance(each, cst.AssignTarget | cst.AugAssign | cst.For):
            yield from variables_of(each.target) or ()


def _enclosing(site: Site, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    while (parent := site.parents.get(node)) is not None:
        yield parent
        node = parent


def _statement(site: Site, node: cst.CSTNode) -> Statement | None:
    """The innermost statement that holds a node, except the function itself."""
    for each in _enclosing(site, node):
        if isinstance(each, cst.SimpleStatementLine | cst.BaseCompoundStatement):
            return None if each is site.function else each
    return None


def _guards(site: Site, statements: Sequence[Statement]) -> Changes:
    """Each of these below `if not is_compiling`; consecutive ones share one."""
    changes: Changes = {}
    groups: list[list[Statement]] = []
    for each in statements:
        last = groups[-1] if groups else []
        if last and _next(site, last[-1]) is each:
            last.append(each)
        else:
            groups.append([each])
    for first, *others in groups:
        guard = below(
            f"not {torch_name(site)}.compiler.is_compiling()", [first.with_changes(leading_lines=[]), *others]
        )
        changes |= {first: guard.with_changes(leading_lines=first.leading_lines), **dict.fromkeys(others)}
    return changes


def _next(site: Site, statement: Statement) -> cst.CSTNode | None:
    parent = site.parents[statement]
    siblings = list(parent.body) if isinstance(parent, cst.IndentedBlock) else []
    return next((after for each, after in pairwise(siblings) if each is statement), None)


def _shown(site: Site, calls: Sequence[cst.Call]) -> str:
    """The first call, to recognize what is left out."""
    return f"{site.code(calls[0].func)}(...)" if calls else site.code(site.statement).strip()

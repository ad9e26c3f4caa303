"""What a function tells people (prints, messages, warnings), and what it computes for that alone: left out of compiled
code, kept in eager.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import libcst as cst

from dynalyze.fix.rewriting import rewriter
from dynalyze.fix.rewriting.conditions import import_of_torch, torch_name
from dynalyze.fix.rewriting.harmless import only_reads, told
from dynalyze.fix.rewriting.syntax import called
from dynalyze.fix.sites import Changes, Proposal, Site, statements_of, walk

Statement = cst.SimpleStatementLine | cst.BaseCompoundStatement
_DEBUGGING = ("graph_break", "skip_frame", "step_unsupported")


@rewriter("eager-only", rank=10)
def effect_in_eager_alone(site: Site) -> Iterator[Proposal]:
    """`print(...)` below `if not torch.compiler.is_compiling():`, and so what is computed for it alone, or loops and
    branches that do nothing else. What is left out must have no other effect.
    """
    told_of = Told(site)
    if not told_of.tells(site.statement):
        return
    guarded = told_of.with_readers(site.statement)
    calls = [call for each in guarded for call in told_of.calls(each)]
    if not calls and not isinstance(site.statement, cst.SimpleStatementLine):
        return
    lacking = [kind for call in calls for kind in told(site, call) or ()]
    yield Proposal(
        "", f"Leave `{_shown(site, calls)}` to eager: compiled code does not run it",
        site.with_nodes(guards(site, guarded), import_of_torch(site)),
        loses=tuple(dict.fromkeys(lacking)),
    )  # fmt: skip


@rewriter("no-asked-break", "Call to `torch._dynamo.", "ComptimeContext graph break", rank=5)
def without_asked_break(site: Site) -> Iterator[Proposal]:
    """`torch._dynamo.graph_break()`: left out. In eager it does nothing."""
    statement = site.statement
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
        return
    only = statement.body[0]
    if not isinstance(only, cst.Expr) or not isinstance(only.value, cst.Call) or only.value.args:
        return
    if called(only.value) in _DEBUGGING:
        new: Sequence[cst.BaseStatement] = statements_of("pass\n") if len(site.block) == 1 else []
        yield Proposal("", "Leave out the call that asks for a graph break", site.with_statement(*new))


class Told:
    """Which statements of a function only tell people something. `names` are variables that nothing else reads."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._uses = [each for each in walk(site.function) if isinstance(each, cst.Name)]
        self.names = self._assigned_simply()
        while left := {name for name in self.names if not self._read_by_telling(name)}:
            self.names -= left

    def tells(self, statement: cst.CSTNode) -> bool:
        """Whether it changes nothing but what people see, and variables of `names`."""
        if isinstance(statement, cst.SimpleStatementLine | cst.SimpleStatementSuite):
            return all(map(self.tells_small, statement.body))
        if isinstance(statement, cst.IndentedBlock | cst.Else | cst.Finally):
            body = statement.body if isinstance(statement, cst.IndentedBlock) else [statement.body]
            return all(map(self.tells, body))
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
        """The innermost statements that a variable stands in."""
        uses = [use for use in self._uses if use.value == name and not _is_label(self._site, use)]
        around = [_statement(self._site, use) for use in uses]
        return list(dict.fromkeys(each for each in around if each is not None))

    def calls(self, statement: cst.CSTNode) -> list[cst.Call]:
        """The calls in a statement that tell something."""
        found = [each.value for each in walk(statement) if isinstance(each, cst.Expr)]
        return [each for each in found if isinstance(each, cst.Call)]

    def tells_small(self, statement: cst.BaseSmallStatement) -> bool:
        """The same of one of several statements of a line."""
        if isinstance(statement, cst.Expr):
            call = statement.value
            if not isinstance(call, cst.Call):
                return isinstance(call, cst.BaseString | cst.Ellipsis)
            reads = all(only_reads(self._site, each.value) for each in call.args)
            return reads and told(self._site, call) is not None
        if isinstance(statement, cst.Assign | cst.AugAssign):
            targets = statement.targets if isinstance(statement, cst.Assign) else [statement]
            return all(self._own(each.target) for each in targets) and only_reads(self._site, statement.value)
        return isinstance(statement, cst.Pass | cst.Continue | cst.Break)

    def _all(self, body: cst.BaseSuite, orelse: cst.CSTNode | None) -> bool:
        return self.tells(body) and (orelse is None or self.tells(orelse))

    def _own(self, target: cst.BaseExpression) -> bool:
        found = _names(target)
        return found is not None and self.names.issuperset(found)

    def _assigned_simply(self) -> set[str]:
        """Local variables that get their values from expressions which only read."""
        simple: set[str] = set()
        other = {each.name.value for each in walk(self._site.function.params) if isinstance(each, cst.Param)}
        for node in walk(self._site.function):
            if isinstance(node, cst.Assign):
                for target in node.targets:
                    (simple if only_reads(self._site, node.value) else other).update(_names(target.target) or ())
            elif isinstance(node, cst.AugAssign):
                (simple if only_reads(self._site, node.value) else other).update(_names(node.target) or ())
            elif isinstance(node, cst.For):
                simple.update(_names(node.target) or ())
            elif isinstance(node, cst.AsName):
                other.update(_names(node.name) or ())
            elif isinstance(node, cst.AnnAssign | cst.NamedExpr | cst.CompFor):
                other.update(_names(node.target) or ())
            elif isinstance(node, cst.Global | cst.Nonlocal):
                other.update(each.name.value for each in node.names)
        return simple - other

    def _read_by_telling(self, name: str) -> bool:
        for use in self._uses:
            if use.value != name or _is_label(self._site, use):
                continue
            around = _statement(self._site, use)
            if around is None or not (
                self.tells(around) or (isinstance(around, cst.For) and use in walk(around.target))
            ):
                return False
        return True


def _is_label(site: Site, use: cst.Name) -> bool:
    """Whether a name is no variable: an attribute, or the name of an argument."""
    parent = site.parents.get(use)
    return (isinstance(parent, cst.Attribute) and parent.attr is use) or (
        isinstance(parent, cst.Arg) and parent.keyword is use
    )


def _names(target: cst.CSTNode) -> list[str] | None:
    """The variables of a target; None where it is more than variables."""
    if isinstance(target, cst.Name):
        return [target.value]
    if isinstance(target, cst.Tuple | cst.List):
        found = [_names(each.value) for each in target.elements]
        return None if None in found else [name for names in found for name in names or ()]
    return None


def _targets(statement: cst.CSTNode) -> Iterator[str]:
    """The variables that a statement assigns, anywhere in it."""
    for each in walk(statement):
        if isinstance(each, cst.AssignTarget | cst.AugAssign | cst.For):
            yield from _names(each.target) or ()


def _enclosing(site: Site, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    while (parent := site.parents.get(node)) is not None:
        yield parent
        node = parent


def _statement(site: Site, node: cst.CSTNode) -> Statement | None:
    """The innermost statement that holds a node, the function itself not counted."""
    for each in _enclosing(site, node):
        if isinstance(each, cst.SimpleStatementLine | cst.BaseCompoundStatement):
            return None if each is site.function else each
    return None


def guards(
    site: Site, statements: Sequence[Statement]
) -> dict[cst.CSTNode, cst.CSTNode | Sequence[cst.CSTNode] | None]:
    """Each of these below a question for compiling; those that follow each other share one."""
    changes: Changes = {}
    groups: list[list[Statement]] = []
    for each in statements:
        last = groups[-1] if groups else []
        if last and _next(site, last[-1]) is each:
            last.append(each)
        else:
            groups.append([each])
    for first, *others in groups:
        body = [first.with_changes(leading_lines=[]), *others]
        changes |= {first: _guard(site, body).with_changes(leading_lines=first.leading_lines), **dict.fromkeys(others)}
    return changes


def _guard(site: Site, body: Sequence[cst.BaseStatement]) -> cst.If:
    (guard,) = statements_of(f"if not {torch_name(site)}.compiler.is_compiling():\n    pass\n")
    assert isinstance(guard, cst.If) and isinstance(guard.body, cst.IndentedBlock)
    return guard.with_changes(body=guard.body.with_changes(body=list(body)))


def _next(site: Site, statement: Statement) -> cst.CSTNode | None:
    parent = site.parents[statement]
    siblings = list(parent.body) if isinstance(parent, cst.IndentedBlock) else []
    return next((after for each, after in pairwise(siblings) if each is statement), None)


def _shown(site: Site, calls: Sequence[cst.Call]) -> str:
    """Of what is left out, so that one knows it again: the first call."""
    return f"{site.code(calls[0].func)}(...)" if calls else site.code(site.statement).strip()

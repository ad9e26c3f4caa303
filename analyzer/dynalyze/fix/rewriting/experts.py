"""Loops over experts, each of which computes with the rows that are sent to it: all of them with all rows, and 0 added
where a row is not sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import libcst as cst

from dynalyze.fix.rewriting import rewriter
from dynalyze.fix.rewriting.choices import used_after
from dynalyze.fix.rewriting.conditions import assigned_values, called, import_of_torch, torch_name
from dynalyze.fix.rewriting.masked import MASKED, Masked, bracketed, dims_of, replaced
from dynalyze.fix.rewriting.purity import assigned, fresh_name, names_of, number, total_of_rows
from dynalyze.fix.sites import Changes, Proposal, Replacer, Site, statements_of, walk

_CASTS = ("float", "half", "bfloat16", "double", "to", "type_as")
_SLOTS = 2
"""What tells a row that is sent: the slot, of several that each row has, and the row."""


@rewriter("experts-under-mask", *MASKED, "Data-dependent", "graph break in loop", rank=18)
def compute_all_experts(site: Site) -> Iterator[Proposal]:
    """`for e in hit: slot, row = torch.where(sent[e]); out.index_add_(0, row, f(x[row]) * weight[row, slot, None])`,
    and the same for `e in range(...)`: of all rows and experts. Whether each row is computed with by itself shows in
    the proof.
    """
    loop = _loop(site)
    changed = loop.changed() if loop is not None else None
    if loop is None or changed is None:
        return
    top = import_of_torch(site)
    title = "Compute each expert for all rows, and add 0 where a row is not sent to it"
    yield Proposal("", title, site.with_nodes({**loop.hits(), loop.node: changed}, top))
    of = site.values.get("self")
    if of is not None and of.kind == "nn.Module":
        # Experts that draw random numbers, as dropout does, draw others for other rows.
        branch = _either(loop, "self.training", [loop.as_it_was()], [changed])
        yield Proposal(
            "experts-in-evaluation", f"{title}; training keeps the loop over the rows",
            site.with_nodes({**loop.hits(), loop.node: branch}, top),
        )  # fmt: skip
    torch, count = torch_name(site), loop.count()
    if count is not None:
        # Where more can be hit than there are, as by rows that are sent to nobody.
        experts = fresh_name("experts", names_of(site.function))
        check = statements_of(
            f"{experts} = {count}\n"
            f"{torch}._assert_async(~{loop.hit}[{experts}:].any(), 'an expert that is not there')\n"
        )
        bounded = changed.with_changes(iter=cst.parse_expression(f"range({experts})"))
        branch = _either(loop, f"{torch}.compiler.is_compiling()", [*check, bounded], [loop.as_it_was()])
        yield Proposal(
            "experts-that-are-there", f"{title}, in compiled code",
            site.with_nodes({**loop.hits(), loop.node: branch}, top), loses=("raises",),
        )  # fmt: skip


def _either(
    loop: _Loop, test: str, when_true: Sequence[cst.BaseStatement], when_false: Sequence[cst.BaseStatement]
) -> cst.BaseStatement:
    (branch,) = statements_of(f"if {test}:\n    pass\nelse:\n    pass\n")
    assert isinstance(branch, cst.If) and isinstance(branch.orelse, cst.Else)
    bare = [[each.with_changes(leading_lines=[]) for each in side] for side in (when_true, when_false)]
    orelse = branch.orelse.with_changes(body=cst.IndentedBlock(bare[1]))
    return branch.with_changes(
        body=cst.IndentedBlock(bare[0]), orelse=orelse, leading_lines=loop.node.leading_lines
    )  # fmt: skip


def _loop(site: Site) -> _Loop | None:
    """The loop around the statement, or over what the statement finds."""
    loops = [each for each in walk(site.function) if isinstance(each, cst.For)]
    broken = assigned(site.statement)
    for node in reversed(loops):
        over = node.iter.value if isinstance(node.iter, cst.Name) else None
        if site.statement in walk(node.body) or (broken is not None and broken[0] == [over]):
            sent = [found for each in walk(node.body) if (found := _Sent.of(site, each)) is not None]
            return _Loop(site, node, sent[0]) if len(sent) == 1 and node.orelse is None else None
    return None


@dataclass(frozen=True)
class _Sent:
    """`slot, row = torch.where(sent)`."""

    statement: cst.CSTNode
    slot: str
    row: str
    condition: cst.BaseExpression

    @classmethod
    def of(cls, site: Site, statement: cst.CSTNode) -> _Sent | None:
        found = assigned(statement)
        if found is None or len(found[0]) != _SLOTS:
            return None
        (slot, row), call = found
        if not isinstance(call, cst.Call):
            return None
        plain = [each.value for each in call.args if each.keyword is None]
        if called(call) == "where" and len(call.args) == len(plain) == 1:
            return cls(statement, slot, row, plain[0])
        as_tuple = [each for each in call.args if each.keyword is not None and each.keyword.value == "as_tuple"]
        if called(call) != "nonzero" or len(as_tuple) != 1 or not isinstance(call.func, cst.Attribute):
            return None
        return cls(statement, slot, row, plain[0] if plain else call.func.value)


@dataclass
class _Loop:
    """A loop over experts. `_changes` are those of its body, as far as they have been found."""

    site: Site
    node: cst.For
    sent: _Sent
    _changes: Changes = field(default_factory=dict)
    _done: set[int] = field(default_factory=set)

    def changed(self) -> cst.For | None:
        """The loop over all experts and rows; None where it does more than can be said so."""
        names = [each for node in walk(self.node.body) for each in (assigned(node) or ([], None))[0]]
        if any(used_after(self.site, each, self.node) for each in names):
            return None
        hit = self.hit
        if isinstance(self.node.iter, cst.Name) and hit is None:
            return None
        taken = names_of(self.site.function)
        chosen, rows = fresh_name("sent", taken), fresh_name("rows", taken)
        if hit is not None and (
            used_after(self.site, self.site.code(self.node.target), self.node) or not self._count_up()
        ):
            return None
        self._replace_rows(chosen, rows)
        if not all(map(self._only_adds, self.node.body.body)) or self._left():
            return None
        also = "" if hit is None else f" & {hit}[{self.site.code(self.node.target)}]"
        condition = self.site.code(self._with_changes(self.sent.condition))
        self._changes[self.sent.statement] = statements_of(
            f"{chosen} = ({condition} != 0){also}\n{rows} = {chosen}.any(0)\n"
        )
        body = self.node.body.visit(Replacer(self._changes))
        over = self.node.iter if hit is None else cst.parse_expression(f"range({hit}.shape[0])")
        assert isinstance(body, cst.BaseSuite)
        return self.node.with_changes(body=body, iter=over)

    def hits(self) -> Changes:
        """The condition for an expert to be there, in the place of those for which it holds."""
        found = self._found()
        return {} if found is None else {found[0]: found[1]}

    def as_it_was(self) -> cst.For:
        hit = self.hit
        over = self.node.iter if hit is None else cst.parse_expression(f"{hit}.nonzero()")
        return self.node.with_changes(iter=over)

    def count(self) -> str | None:
        """How many experts there are, by the tensors that are indexed with their numbers; None where there are none."""
        if self.hit is None or not isinstance(self.node.target, cst.Name):
            return None
        made = {name for node in walk(self.node.body) for name in (assigned(node) or ([],))[0]}
        number_of = self.node.target.value
        indexed = [found for each in walk(self.node.body) if isinstance(each, cst.Name) and each.value == number_of
                   and (found := _indexed_by(self.site, each)) is not None]  # fmt: skip
        sent = walk(self.sent.condition)
        held = [each.value for each in indexed if each not in sent and self._variables(each.value).isdisjoint(made)]
        tensors = dict.fromkeys(self.site.code(each) for each in held if not self._is_module(each))
        sizes = [f"{each}.shape[0]" for each in (self.hit, *tensors)]
        return f"min({', '.join(sizes)})" if tensors else None

    def _variables(self, node: cst.CSTNode) -> set[str]:
        attributes = {id(each.attr) for each in walk(node) if isinstance(each, cst.Attribute)}
        return {each.value for each in walk(node) if isinstance(each, cst.Name) and id(each) not in attributes}

    def _is_module(self, node: cst.BaseExpression) -> bool:
        held = self.site.value(node)
        return held is not None and held.kind == "nn.Module"

    @property
    def hit(self) -> str | None:
        return None if self._found() is None else self.site.code(self.node.iter)

    def _found(self) -> tuple[cst.CSTNode, cst.BaseExpression] | None:
        """`c.nonzero()` or `torch.nonzero(c)`, that the loop goes over, and `c`."""
        name = self.node.iter.value if isinstance(self.node.iter, cst.Name) else ""
        made = assigned_values(self.site, name)
        uses = [each for each in walk(self.site.function) if isinstance(each, cst.Name) and each.value == name]
        if len(made) != 1 or len(uses) != 2 or not isinstance(made[0], cst.Call) or called(made[0]) != "nonzero":
            return None
        call = made[0]
        if not isinstance(call.func, cst.Attribute) or any(each.keyword is not None for each in call.args):
            return None
        return call, call.args[0].value if call.args else call.func.value

    def _count_up(self) -> bool:
        """Whether the number of the expert, which was a tensor of one element, can be an int."""
        if not isinstance(self.node.target, cst.Name):
            return False
        name = self.node.target.value
        unpacked = False
        for each in walk(self.node.body):
            found = assigned(each)
            if found is not None and found[0] == [name]:
                if self.site.code(found[1]) != f"{name}[0]" or unpacked:
                    return False
                self._changes[each], unpacked = [], True
                self._done.update(map(id, walk(each)))
        for use in walk(self.node.body, lambda node: isinstance(node, cst.Name)):
            if not isinstance(use, cst.Name) or use.value != name or id(use) in self._done:
                continue
            if not self._as_number(use, unpacked=unpacked):
                return False
        return True

    def _as_number(self, use: cst.Name, *, unpacked: bool) -> bool:
        around = _indexed_by(self.site, use)
        if unpacked:
            compared = isinstance(self.site.parents[use], cst.Comparison | cst.FormattedStringExpression)
            return compared or around is not None
        first = self.site.parents[use]
        if isinstance(first, cst.Subscript) and self.site.code(first) == f"{use.value}[0]":
            self._changes[first] = use
            return True
        if around is None:
            return False
        attribute = self.site.parents[around]
        call = self.site.parents[attribute]
        if isinstance(attribute, cst.Attribute) and isinstance(call, cst.Call) and called(call) == "squeeze":
            self._changes[call] = around
            return [number(each.value) for each in call.args] == [0]
        return self._is_module(around.value)

    def _replace_rows(self, chosen: str, rows: str) -> None:
        """The places that choose by rows and slots, and the sums that rows are added to, with masks."""
        for node in walk(self.node.body):
            if isinstance(node, cst.Subscript) and (new := self._chosen(node, chosen, rows)) is not None:
                self._changes[node] = cst.parse_expression(new)
        for node in walk(self.node.body):
            if isinstance(node, cst.Call) and (new := self._added(node, rows)) is not None:
                self._changes[node] = cst.parse_expression(new)

    def _chosen(self, node: cst.Subscript, chosen: str, rows: str) -> str | None:
        parts = [self.site.code(each.slice) for each in node.slice]
        dims, code = dims_of(self.site, node.value), bracketed(self.site, node.value)
        if not dims:
            return None
        if parts[:2] == [self.sent.row, self.sent.slot] and dims == _SLOTS and {*parts[2:]} <= {"None"}:
            if not self._is_factor(node):
                return None
            weights = f"{code}.narrow(1, 0, {chosen}.shape[0])"
            whole = f"{torch_name(self.site)}.where({chosen}.transpose(0, 1), {weights}, 0).sum(1)"
            return f"{whole}[{', '.join([':', *parts[2:]])}]" if parts[2:] else whole
        if parts in ([self.sent.row], ["None", self.sent.row]):
            filled = Masked(node.value, cst.Name(rows), dims, 1).filled(self.site)
            return f"{filled}[None]" if len(parts) > 1 else filled
        return None

    def _is_factor(self, node: cst.Subscript) -> bool:
        """Whether a weight is only multiplied with, so that a row's weights for one expert may be added first."""
        outer: cst.CSTNode = node
        while isinstance(parent := self.site.parents[outer], cst.BinaryOperation) or _is_cast(self.site, outer):
            if isinstance(parent, cst.BinaryOperation) and not isinstance(parent.operator, cst.Multiply):
                return False
            outer = parent
        if isinstance(parent, cst.Arg):
            call = self.site.parents[parent]
            return isinstance(call, cst.Call) and called(call) == "index_add_"
        found = assigned(self.site.parents[parent])
        return found is not None and len(found[0]) == 1 and all(map(self._scales, self._uses(found[0][0], after=node)))

    def _uses(self, name: str, after: cst.CSTNode) -> list[cst.Name]:
        nodes = [each for each in walk(self.node.body) if isinstance(each, cst.Name) and each.value == name]
        last = self.site.range_of(after)[2]
        return [each for each in nodes if self.site.range_of(each)[0] > last]

    def _scales(self, use: cst.Name) -> bool:
        """Whether a place where a weighted value stands does no more than to multiply it, or to hand it on."""
        parent = self.site.parents[use]
        if isinstance(parent, cst.Attribute):
            return parent.attr.value in ("to", "type_as", "view", "reshape", "dtype", "shape")
        if isinstance(parent, cst.Arg):
            call = self.site.parents[parent]
            return isinstance(call, cst.Call) and (called(call) == "index_add_" or "dropout" in called(call))
        if isinstance(parent, cst.AugAssign | cst.BinaryOperation):
            return isinstance(parent.operator, cst.Multiply | cst.MultiplyAssign)
        return isinstance(parent, cst.AssignTarget)

    def _added(self, call: cst.Call, rows: str) -> str | None:
        """`out.index_add_(0, row, value)` with a value of all rows."""
        if not isinstance(call.func, cst.Attribute) or len(call.args) != 3 or any(each.keyword for each in call.args):
            return None
        first, row, value = (each.value for each in call.args)
        if called(call) != "index_add_":
            return None
        dims = dims_of(self.site, call.func.value)
        if number(first) != 0 or not isinstance(row, cst.Name) or row.value != self.sent.row or not dims:
            return None
        whole = self._with_changes(value)
        return f"{self.site.code(call.func.value)}.add_({Masked(whole, cst.Name(rows), dims, 1).filled(self.site)})"

    def _with_changes(self, node: cst.BaseExpression) -> cst.BaseExpression:
        inside = {id(each) for each in walk(node)}
        return replaced(node, {old: new for old, new in self._changes.items()
                               if id(old) in inside and isinstance(new, cst.CSTNode)})  # fmt: skip

    def _only_adds(self, statement: cst.CSTNode) -> bool:
        """Whether a statement of the loop computes with rows, and at most adds them to a sum."""
        if statement is self.sent.statement or statement in self._changes:
            return True
        if isinstance(statement, cst.With):
            only = self.site.code(statement.items[0].item)
            return only.endswith("no_grad()") and all(map(self._only_adds, statement.body.body))
        if isinstance(statement, cst.If):
            plain = names_of(statement.test).isdisjoint({self.sent.row, self.sent.slot})
            sides = [statement.body, *([statement.orelse.body] if isinstance(statement.orelse, cst.Else) else [])]
            inner = isinstance(statement.orelse, cst.If) and not self._only_adds(statement.orelse)
            return plain and not inner and all(self._only_adds(each) for side in sides for each in side.body)
        if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
            return False
        only_one = statement.body[0]
        if isinstance(only_one, cst.Expr):
            return only_one.value in self._changes
        if isinstance(only_one, cst.Continue | cst.Pass):
            return True
        if isinstance(only_one, cst.AugAssign):
            known = isinstance(only_one.target, cst.Name) and self._makes(only_one.target.value)
            return known and total_of_rows(self.site, only_one.value)
        if assigned(statement) is None or not isinstance(only_one, cst.Assign):
            return False
        bare = replaced(only_one.value, {old: cst.Name("x") for old in self._changes}).visit(_NamesForTexts())
        assert isinstance(bare, cst.CSTNode)
        return total_of_rows(self.site, bare)

    def _makes(self, name: str) -> bool:
        return any(name in (assigned(each) or ([],))[0] for each in walk(self.node.body))

    def _left(self) -> bool:
        """Whether rows or slots are asked for in another way."""
        kept: set[int] = {id(each) for old in self._changes for each in walk(old)} | {
            id(each) for each in walk(self.sent.statement)
        }
        names = {self.sent.row, self.sent.slot}
        return any(isinstance(each, cst.Name) and each.value in names and id(each) not in kept
                   for each in walk(self.node.body))  # fmt: skip


class _NamesForTexts(cst.CSTTransformer):
    """`experts[i]` for `experts[f"expert_{i}"]`."""

    def leave_Index(self, original_node: cst.Index, updated_node: cst.Index) -> cst.Index:
        text = isinstance(updated_node.value, cst.FormattedString)
        return updated_node.with_changes(value=cst.Name("i")) if text else updated_node


def _is_cast(site: Site, node: cst.CSTNode) -> bool:
    """Whether a node goes into a method that gives its values another type: `node.float()`, or `node.float` in that."""
    parent = site.parents[node]
    attribute = node if isinstance(parent, cst.Call) and parent.func is node else parent
    return isinstance(attribute, cst.Attribute) and attribute.attr.value in _CASTS


def _indexed_by(site: Site, use: cst.CSTNode) -> cst.Subscript | None:
    """`x[i]` around `i`."""
    index = site.parents[use]
    element = site.parents[index]
    found = site.parents[element]
    whole = isinstance(found, cst.Subscript) and len(found.slice) == 1 and isinstance(index, cst.Index)
    return found if whole and isinstance(found, cst.Subscript) else None

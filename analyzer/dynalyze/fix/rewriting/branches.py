"""Branches on the values of tensors: both sides computed and one chosen (torch.where), or torch.cond."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import libcst as cst

from dynalyze.fix.rewriting import rewriter
from dynalyze.fix.rewriting.choices import Choice, after, assigned_by, choice_of
from dynalyze.fix.rewriting.conditions import Condition, import_of_torch, tensor_condition, torch_name
from dynalyze.fix.rewriting.higher_order import Conds, own
from dynalyze.fix.rewriting.masks import assigned_under_mask
from dynalyze.fix.rewriting.purity import UPDATES, alike, pure, total
from dynalyze.fix.rewriting.syntax import Statements, below, block_of, fresh_name, names_of, only_of
from dynalyze.fix.sites import Proposal, Site, Value, replaced, statements_of, walk

_BRANCHING = ("Data-dependent branching", "Unsupported Tensor.item()", "Data dependent operator", "Data-dependent",
              "Dynamic shape operator")  # fmt: skip
_OTHER = "it draws random numbers of torch, not of Python: other layers are left out, so nothing can be compared"


@rewriter("where-expression", *_BRANCHING, rank=20)
def conditional_expression(site: Site) -> Iterator[Proposal]:
    """`a if c else b` with a condition on a tensor: `torch.where(c, a, b)`, or torch.cond."""
    torch = torch_name(site)
    for node in walk(site.statement, cst.IfExp):
        condition = tensor_condition(site, node.test)
        if condition is None or condition.static is not None:
            continue
        one, other = site.code(node.body), site.code(node.orelse)
        if total(node.body) and total(node.orelse) and alike(site, node.body, node.orelse):
            yield Proposal(
                "Compute both values and choose with torch.where",
                _with_expression(site, node, f"{torch}.where({condition.tensor}, {one}, {other})"),
            )  # fmt: skip
        if pure(node.body) and pure(node.orelse):
            sides = ", ".join(f"lambda: {own(site, each)}" for each in (node.body, node.orelse))
            yield Proposal(
                "Let torch.cond choose the value",
                _with_expression(site, node, f"{torch}.cond({condition.tensor}, {sides})"), rewrite="cond-expression",
            )  # fmt: skip


@rewriter("where", *_BRANCHING, rank=21)
def choose_with_where(site: Site) -> Iterator[Proposal]:
    """`if c: x = a` `else: x = b` with sides that are always safe to compute: `x = torch.where(c, a, b)`."""
    found = _branch(site)
    if found is None:
        return
    branch, condition, choice = found
    new = _where(site, condition, choice)
    if new is not None:
        yield Proposal(
            "Compute both sides and choose with torch.where", _written(site, branch, condition, choice, new),
            sides=_sides(site, branch),
        )  # fmt: skip


@rewriter("where-in-place", *_BRANCHING, rank=22)
def update_with_where(site: Site) -> Iterator[Proposal]:
    """`if c: x += w`, `if c: x[mask] = w`: `x.copy_(torch.where(c, x + w, x))`, which changes the same memory."""
    statement = site.statement
    if not isinstance(statement, cst.If) or statement.orelse is not None:
        return
    condition, only = tensor_condition(site, statement.test), only_of(block_of(statement.body))
    if condition is None or not isinstance(only, cst.Assign | cst.AugAssign):
        return
    text = _updated(site, condition.tensor, only)
    if text is None:
        return
    (new,) = statements_of(text)
    if condition.static is not None:
        new = below(condition.static, [new])
    yield Proposal(
        "Compute the update always and choose with torch.where",
        site.with_statement(new, top=import_of_torch(site)), sides=_sides(site, statement),
    )  # fmt: skip


def _updated(site: Site, condition: str, only: cst.Assign | cst.AugAssign) -> str | None:
    masked = assigned_under_mask(site, only, f"{condition}.reshape(())")
    if masked is not None or not isinstance(only, cst.AugAssign) or not total(only.value):
        return masked
    found = site.value(only.target)
    if found is None or found.kind != "tensor" or "float" not in found.dtype or type(only.operator) not in UPDATES:
        return None
    x = site.code(only.target)
    changed = f"{x} {UPDATES[type(only.operator)]} ({site.code(only.value)})"
    return f"{x}.copy_({torch_name(site)}.where({condition}, {changed}, {x}))\n"


@rewriter("cond", *_BRANCHING, rank=30)
def choose_with_cond(site: Site) -> Iterator[Proposal]:
    """The sides, which must be pure, as functions of torch.cond."""
    found = _branch(site)
    if found is None:
        return
    branch, condition, choice = found
    if not all(map(pure, [*choice.when_true, *choice.when_false])):
        return
    new = Conds(site).chosen(condition, choice, frozenset())
    if new is not None:
        yield Proposal(
            "Let torch.cond choose the side", _written(site, branch, condition, choice, new),
            sides=_sides(site, branch),
        )  # fmt: skip


@rewriter("dropped-layer", "Attempted to call function marked as skipped", "Data-dependent", rank=25)
def choose_by_chance(site: Site) -> Iterator[Proposal]:
    """`if self.training and random.random() < p: continue`, `x = layer(x)` (LayerDrop, stochastic depth): the layer
    always, and torch.where.
    """
    branch, torch = site.statement, torch_name(site)
    if not isinstance(branch, cst.If) or branch.orelse is not None:
        return
    drawn = [each for each in walk(branch.test) if site.code(each) in ("random.random()", "random()")]
    choice = choice_of(site, branch, after(site, branch))
    if len(drawn) != 1 or choice is None or len(choice.names) != 1 or not choice.rest:
        return
    test = replaced(branch.test, {drawn[0]: cst.parse_expression(f"{torch}.rand(())")})
    known = {**site.values, f"{torch}.rand": Value("function", "torch.rand")}
    condition = tensor_condition(replace(site, values=known), test)
    if condition is None or not all(map(pure, choice.when_false)):
        return
    (name,) = choice.names
    before = fresh_name(f"{name}_before", names_of(site.function))
    chosen: Statements = statements_of(f"{name} = {torch}.where({condition.tensor}, {before}, {name})\n")
    if condition.static is not None:
        chosen = [below(condition.static, chosen)]
    new = [*statements_of(f"{before} = {name}\n"), *choice.when_false, *chosen]
    yield Proposal(
        f"Compute `{name}` always, and let a random number of torch's choose whether it is taken",
        site.with_statement(*new, also=site.following, top=import_of_torch(site)), uncompared=_OTHER,
    )  # fmt: skip


def _with_expression(site: Site, node: cst.IfExp, text: str) -> str:
    return site.with_nodes({node: cst.parse_expression(text)}, import_of_torch(site))


def _branch(site: Site) -> tuple[cst.If, Condition, Choice] | None:
    """The `if` on a tensor at the site, if its sides assign or return one of two values."""
    statement = site.statement
    if not isinstance(statement, cst.If):
        return None
    condition = tensor_condition(site, statement.test)
    choice = choice_of(site, statement, after(site, statement))
    return None if condition is None or choice is None else (statement, condition, choice)


def _written(site: Site, branch: cst.If, condition: Condition, choice: Choice, new: Statements) -> str:
    """The file with the branch replaced; if both sides returned, nothing follows."""
    top = import_of_torch(site)
    is_elif = isinstance(site.parents[branch], cst.If)
    if condition.static is None and is_elif:
        return site.with_nodes({branch: cst.Else(cst.IndentedBlock(list(new)))}, top)
    if condition.static is None:
        return site.with_statement(*new, also=site.following if choice.returns or choice.rest else (), top=top)
    orelse: cst.If | cst.Else | None = branch.orelse
    also: Sequence[cst.CSTNode] = ()
    if choice.rest:
        orelse, also = cst.Else(cst.IndentedBlock(list(site.following))), site.following
    outer = below(condition.static, new).with_changes(orelse=orelse)
    return site.with_nodes({branch: outer}, top) if is_elif else site.with_statement(outer, also=also, top=top)


@dataclass
class _Side:
    """One side of a branch as values of names: its own ones, in order, and those that it gives."""

    own: list[cst.BaseStatement]
    given: dict[str, cst.BaseExpression]

    @property
    def made(self) -> tuple[str, ...]:
        return assigned_by(self.own) or ()

    @property
    def read(self) -> set[str]:
        return {name for each in (*self.own, *self.given.values()) for name in names_of(each)}


def _where(site: Site, condition: Condition, choice: Choice) -> Statements | None:
    """The choice as calls of torch.where; None if a side must not always be computed, or not at once."""
    one, other = _side(choice, choice.when_true), _side(choice, choice.when_false)
    if one is None or other is None:
        return None
    made = [name for side in (one, other) for each in side.own for name in assigned_by([each]) or ()]
    asked = names_of(cst.parse_expression(condition.tensor))
    if other.read & {*one.made} or one.read & {*other.made}:
        return None
    if len(set(made)) < len(made) or asked & {*made} or (len(choice.names) > 1 and asked & {*choice.names}):
        return None
    lines = []
    names = choice.names or ("",)
    for number, name in enumerate(names):
        values = [side.given[name] if name in side.given else cst.Name(name) for side in (one, other)]
        if not all(map(total, values)) or not alike(site, *values):
            return None
        if any(names_of(value) & {*names[:number]} for value in values):
            return None
        chosen = f"{torch_name(site)}.where({condition.tensor}, {', '.join(map(site.code, values))})"
        lines.append(f"{name} = {chosen}\n" if name else f"return {chosen}\n")
    return [*one.own, *other.own, *statements_of("".join(lines))]


def _side(choice: Choice, statements: Statements) -> _Side | None:
    found = _Side([], {})
    for each in statements:
        only = only_of(each)
        if isinstance(only, cst.Return) and only.value is not None:
            found.given[""] = only.value
            continue
        if isinstance(only, cst.Pass):
            continue
        target = only.targets[0].target if isinstance(only, cst.Assign) else None
        if not isinstance(only, cst.Assign) or not isinstance(target, cst.Name) or not total(only.value):
            return None
        if names_of(only.value) & {*found.given} or target.value in found.given:
            return None
        if target.value in choice.names:
            found.given[target.value] = only.value
        else:
            found.own.append(each)
    return found


def _sides(site: Site, branch: cst.If) -> tuple[int, ...]:
    """The first line of each side."""
    found = [site.range_of(branch.body.body[0])[0]]
    if isinstance(branch.orelse, cst.Else):
        found.append(site.range_of(branch.orelse.body.body[0])[0])
    elif isinstance(branch.orelse, cst.If):
        found += _sides(site, branch.orelse)
    else:
        found += [site.range_of(each)[0] for each in after(site, branch)[:1]]
    return tuple(found)

"""Attention within segments whose lengths are in a tensor, one segment after the other: all of it at once, under a mask
that hides the other segments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import libcst as cst

from dynalyze.fix.rewriting import rewriter
from dynalyze.fix.rewriting.choices import used_after
from dynalyze.fix.rewriting.conditions import called, import_of_torch, torch_name
from dynalyze.fix.rewriting.masked import bracketed, replaced
from dynalyze.fix.rewriting.purity import assigned, fresh_name, names_of, number
from dynalyze.fix.sites import Changes, Proposal, Site, statements_of, walk
from dynalyze.text.amounts import listed

_READS = ("Data dependent operator", "Data-dependent", "Dynamic shape operator", "Unsupported Tensor.item()")
_MASK = "attention_mask"


@rewriter("segments-under-mask", *_READS, rank=14)
def attend_under_mask(site: Site) -> Iterator[Proposal]:
    """`parts = [torch.split(x, lengths.tolist(), dim=2) for x in (q, k, v)]`, then
    `[attend(q, k, v, attention_mask=None, is_causal=False)[0] for q, k, v in zip(*parts)]`, then torch.cat of these:
    one call of `attend`. Whether it is attention, so that what is hidden has no part in it, shows in the proof.
    """
    found = _Segments.of(site)
    if found is None:
        return
    top = import_of_torch(site)
    title = "Attend to all segments at once, under a mask that hides the others"
    changed = found.changed()
    leaving: Changes = dict.fromkeys(found.statements[1:])
    if not found.more and not found.hidden.asked:
        yield Proposal("", title, site.with_nodes({**leaving, site.statement: changed}, top))
    asked = f" and {found.hidden.asked}" if found.hidden.asked else ""
    test = f"{torch_name(site)}.compiler.is_compiling(){asked}"
    compiling = statements_of(f"if {test}:\n    pass\nelse:\n    pass\n")[0]
    assert isinstance(compiling, cst.If) and isinstance(compiling.orelse, cst.Else)
    as_it_was = [each.with_changes(leading_lines=[]) for each in found.statements]
    branch = compiling.with_changes(
        body=cst.IndentedBlock(changed), orelse=compiling.orelse.with_changes(body=cst.IndentedBlock(as_it_was))
    )
    told = f" (where {found.more} holds what comes with the whole)" if found.more else ""
    # In eager lengths that do not add up raise what torch.split raises, and dropout draws the same numbers.
    yield Proposal(
        "segments-in-compiled-code", f"{title}, in compiled code{told}",
        site.with_nodes({**leaving, site.statement: branch}, top), loses=("raises",),
    )  # fmt: skip


@dataclass(frozen=True)
class _Segments:
    """`statements` are all that is done with the segments. `attending` is what is done with one: `hidden` is the mask
    that it is given, None, and `uses` the places of its parts with the whole of each. `once` are the statements that
    are left where `attending` is done once, for all segments.
    """

    site: Site
    statements: Sequence[cst.BaseStatement]
    lengths: cst.BaseExpression
    dim: str
    whole: cst.BaseExpression
    attending: cst.BaseExpression
    hidden: _Hidden
    uses: dict[cst.CSTNode, cst.CSTNode]
    once: Callable[[cst.BaseExpression], list[cst.BaseStatement]]
    more: str

    @classmethod
    def of(cls, site: Site) -> _Segments | None:
        if not isinstance(site.statement, cst.SimpleStatementLine):
            return None
        splitting = assigned(site.statement)
        split = _split(splitting[1]) if splitting is not None and len(splitting[0]) == 1 else None
        if splitting is None or split is None:
            return None
        parts = splitting[0][0]
        found = _attended_at_once(site, parts) or _attended_in_turn(site, parts)
        if found is None or len(split.tensors) != len(found.names):
            return None
        statements = [site.statement, *found.statements]
        hidden = _Hidden.of(site, found.attending)
        if hidden is None or any(used_after(site, name, *statements) for name in (parts, *found.gone)):
            return None
        tensors = dict(zip(found.names, split.tensors, strict=True))
        uses: dict[cst.CSTNode, cst.CSTNode] = {
            node: tensors[node.value]
            for each in walk(found.attending) if isinstance(each, cst.Arg)
            for node in walk(each.value) if isinstance(node, cst.Name) and node.value in tensors
        }  # fmt: skip
        return cls(site, statements, split.lengths, split.dim, split.tensors[0], found.attending, hidden, uses,
                   found.once, found.more)  # fmt: skip

    def changed(self) -> list[cst.BaseStatement]:
        """One call, with a mask in the place of None."""
        taken, torch = names_of(self.site.function), torch_name(self.site)
        ends, segment, mask = (fresh_name(name, taken) for name in ("segment_ends", "segment", "segment_mask"))
        whole, lengths = bracketed(self.site, self.whole), bracketed(self.site, self.lengths)
        size, far = f"{whole}.shape[{self.dim}]", "float('-inf')"
        first, *made = statements_of(
            f"{ends} = {lengths}.cumsum(0)\n"
            f"{torch}._assert_async(({ends}[-1] == {size}) & ({lengths} >= 0).all(), 'the lengths do not add up')\n"
            f"{segment} = {torch}.searchsorted({ends}, {torch}.arange({size}, device={whole}.device), right=True)\n"
            f"{mask} = {torch}.where({segment}[:, None] == {segment}, 0.0, {far})[None, None].to({whole}.dtype)\n"
        )
        assert isinstance(first, cst.SimpleStatementLine)
        first = first.with_changes(leading_lines=self.site.statement.leading_lines)
        attended = replaced(self.attending, {**self.uses, self.hidden.place: self.hidden.given(mask)})
        return [first, *made, *(_without_lead(each) for each in self.once(attended))]


@dataclass(frozen=True)
class _Attended:
    """What follows the split: `names` are those of the parts of a segment, `gone` of variables left out, and `more`
    of lists that hold one element then, for all segments.
    """

    statements: Sequence[cst.BaseStatement]
    names: Sequence[str]
    attending: cst.BaseExpression
    gone: Sequence[str]
    once: Callable[[cst.BaseExpression], list[cst.BaseStatement]]
    more: str = ""


def _attended_at_once(site: Site, parts: str) -> _Attended | None:
    """`made = [attend(q, k, v)[0] for q, k, v in zip(*parts)]`, then `torch.cat(made, ...)`."""
    statements = list(site.following)[:2]
    found = [each for each in map(assigned, statements) if each is not None and len(each[0]) == 1]
    if len(found) < 2:
        return None
    ((made,), attending), (_, joined) = found
    loop = _loop(attending)
    if loop is None or not _joins(joined, made):
        return None
    done = cst.ensure_type(attending, cst.ListComp).elt
    names = _names_of_parts(loop.target, loop.iter, parts)
    return _Attended(statements, names, done, [made], lambda once: [_with(statements[-1], joined, once)])


def _attended_in_turn(site: Site, parts: str) -> _Attended | None:
    """`made, more = [], []`, then a loop over `zip(*parts)` that attends and appends, then `torch.cat(made, ...)`. Of
    what else is appended a list of one is left: what comes with the attention of the whole.
    """
    statements = list(site.following)[:3]
    if len(statements) < 3 or not isinstance(statements[1], cst.For) or statements[1].orelse is not None:
        return None
    starting, loop, joining = assigned(statements[0]), statements[1], assigned(statements[2])
    body = loop.body.body if isinstance(loop.body, cst.IndentedBlock) else ()
    attending = assigned(body[0]) if body else None
    if starting is None or joining is None or attending is None or not _are_empty_lists(starting[1]):
        return None
    held = dict(map(_appended, body[1:]))
    made = next((name for name in held if _joins(joining[1], name)), "")
    if not made or len(held) != len(body) - 1 or set(held) != set(starting[0]):
        return None
    if not set(held.values()) <= set(attending[0]):
        return None
    others = [name for name in held if name != made and used_after(site, name, *statements)]

    def once(attended: cst.BaseExpression) -> list[cst.BaseStatement]:
        lists = statements_of("".join(f"{name} = [{held[name]}]\n" for name in others))
        last = [] if joining[0] == [held[made]] else [_with(statements[2], joining[1], cst.Name(held[made]))]
        return [_with(body[0], attending[1], attended), *lists, *last]

    names = _names_of_parts(loop.target, loop.iter, parts)
    return _Attended(statements, names, attending[1], [made], once, more=listed(others))


def _are_empty_lists(node: cst.BaseExpression) -> bool:
    """`[]`, or `[], []`."""
    each = [one.value for one in node.elements] if isinstance(node, cst.Tuple) else [node]
    return all(isinstance(one, cst.List) and not one.elements for one in each)


def _appended(statement: cst.BaseStatement) -> tuple[str, str]:
    """`made.append(one)`: the names of the list and of what it gets; "" where it is something else."""
    only = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1 else None
    call = only.value if isinstance(only, cst.Expr) else None
    if not isinstance(call, cst.Call) or called(call) != "append" or not isinstance(call.func, cst.Attribute):
        return "", ""
    of, what = call.func.value, call.args[0].value if len(call.args) == 1 else None
    return (of.value, what.value) if isinstance(of, cst.Name) and isinstance(what, cst.Name) else ("", "")


def _with(statement: cst.CSTNode, old: cst.BaseExpression, new: cst.BaseExpression) -> cst.BaseStatement:
    return cst.ensure_type(statement.deep_replace(old, new), cst.SimpleStatementLine)


def _without_lead(statement: cst.BaseStatement) -> cst.BaseStatement:
    return statement.with_changes(leading_lines=[]) if isinstance(statement, cst.SimpleStatementLine) else statement


@dataclass(frozen=True)
class _Split:
    """`[torch.split(x, lengths.tolist(), dim) for x in tensors]`."""

    tensors: Sequence[cst.BaseExpression]
    lengths: cst.BaseExpression
    dim: str


def _split(node: cst.BaseExpression) -> _Split | None:
    loop = _loop(node)
    if loop is None or not isinstance(loop.target, cst.Name) or not isinstance(loop.iter, cst.Tuple):
        return None
    call = cst.ensure_type(node, cst.ListComp).elt
    if not isinstance(call, cst.Call) or called(call) != "split" or len(call.args) != 3:
        return None
    split, lengths, dim = (each.value for each in call.args)
    reads = isinstance(lengths, cst.Call) and called(lengths) == "tolist" and isinstance(lengths.func, cst.Attribute)
    is_part = isinstance(split, cst.Name) and split.value == loop.target.value
    if not is_part or not reads or not isinstance(number(dim), int):
        return None
    of = cst.ensure_type(cst.ensure_type(lengths, cst.Call).func, cst.Attribute).value
    return _Split([each.value for each in loop.iter.elements], of, str(number(dim)))


def _names_of_parts(target: cst.BaseExpression, over: cst.BaseExpression, parts: str) -> list[str]:
    """`q`, `k` and `v` of `for q, k, v in zip(*parts)`."""
    if not isinstance(target, cst.Tuple) or not isinstance(over, cst.Call):
        return []
    if called(over) != "zip" or len(over.args) != 1 or over.args[0].star != "*":
        return []
    zipped = over.args[0].value
    names = [each.value.value for each in target.elements if isinstance(each.value, cst.Name)]
    return names if isinstance(zipped, cst.Name) and zipped.value == parts else []


def _loop(node: cst.BaseExpression) -> cst.CompFor | None:
    """The only loop of a list comprehension that takes everything."""
    if not isinstance(node, cst.ListComp) or node.for_in.ifs or node.for_in.inner_for_in is not None:
        return None
    return node.for_in


class _Hidden(NamedTuple):
    """The `None` of `attention_mask=None` in a call that is told not to be causal; or a variable, or the `kwargs` of
    `**kwargs`, that hold None where `asked` is true. `more` is the name of these.
    """

    place: cst.BaseExpression
    asked: str = ""
    more: str = ""

    @classmethod
    def of(cls, site: Site, attending: cst.BaseExpression) -> _Hidden | None:
        call = attending.value if isinstance(attending, cst.Subscript) else attending
        if not isinstance(call, cst.Call):
            return None
        given = {each.keyword.value: each.value for each in call.args if each.keyword is not None}
        causal, mask = given.get("is_causal"), given.get(_MASK)
        if not isinstance(causal, cst.Name) or causal.value != "False":
            return None
        if isinstance(mask, cst.Name):
            found = site.value(mask)
            is_none = found is not None and found.kind == "NoneType"
            asked = cls(mask, f"{mask.value} is None") if is_none else None
            return cls(mask) if mask.value == "None" else asked
        more = [each.value for each in call.args if each.star == "**" and isinstance(each.value, cst.Name)]
        if mask is not None or len(more) != 1:
            return None
        name = site.code(more[0])
        return cls(more[0], f'{name}.get("{_MASK}") is None', name)

    def given(self, mask: str) -> cst.BaseExpression:
        """What stands at the place with this mask."""
        return cst.parse_expression(f'{{**{self.more}, "{_MASK}": {mask}}}' if self.more else mask)


def _joins(node: cst.BaseExpression, made: str) -> bool:
    """Whether it is `torch.cat(made, ...)`."""
    if not isinstance(node, cst.Call) or called(node) not in ("cat", "concat") or not node.args:
        return False
    joined = node.args[0].value
    return isinstance(joined, cst.Name) and joined.value == made

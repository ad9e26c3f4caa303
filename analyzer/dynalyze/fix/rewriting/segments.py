"""Attention within segments whose lengths are in a tensor, one segment after the other: all of it at once, under a mask
that hides the other segments.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from dynalyze.fix.rewriting import rewriter
from dynalyze.fix.rewriting.choices import used_after
from dynalyze.fix.rewriting.conditions import called, import_of_torch, torch_name
from dynalyze.fix.rewriting.masked import bracketed, replaced
from dynalyze.fix.rewriting.purity import assigned, fresh_name, names_of, number
from dynalyze.fix.sites import Changes, Proposal, Site, statements_of, walk

_READS = ("Data dependent operator", "Data-dependent", "Dynamic shape operator", "Unsupported Tensor.item()")


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
    yield Proposal("", title, site.with_nodes({**leaving, site.statement: changed}, top))
    compiling = statements_of(f"if {torch_name(site)}.compiler.is_compiling():\n    pass\nelse:\n    pass\n")[0]
    assert isinstance(compiling, cst.If) and isinstance(compiling.orelse, cst.Else)
    as_it_was = [each.with_changes(leading_lines=[]) for each in found.statements]
    branch = compiling.with_changes(
        body=cst.IndentedBlock(changed), orelse=compiling.orelse.with_changes(body=cst.IndentedBlock(as_it_was))
    )
    # In eager lengths that do not add up raise what torch.split raises, and dropout draws the same numbers.
    yield Proposal(
        "segments-in-compiled-code", f"{title}, in compiled code",
        site.with_nodes({**leaving, site.statement: branch}, top), loses=("raises",),
    )  # fmt: skip


@dataclass(frozen=True)
class _Segments:
    """`statements` are the three. `attending` is what is done with a segment: `hidden` is the mask that it is given,
    None, and `uses` the places of its parts with the whole of each. `joined` is the call of torch.cat.
    """

    site: Site
    statements: Sequence[cst.BaseStatement]
    lengths: cst.BaseExpression
    dim: str
    whole: cst.BaseExpression
    attending: cst.BaseExpression
    hidden: cst.BaseExpression
    uses: dict[cst.CSTNode, cst.CSTNode]
    joined: cst.BaseExpression

    @classmethod
    def of(cls, site: Site) -> _Segments | None:
        if not isinstance(site.statement, cst.SimpleStatementLine):
            return None
        statements = [site.statement, *site.following][:3]
        found = [each for each in map(assigned, statements) if each is not None and len(each[0]) == 1]
        if len(found) < 3:
            return None
        ((parts,), splitting), ((made,), attending), (_, joined) = found
        split, names = _split(splitting), _names_of_parts(attending, parts)
        if split is None or len(split.tensors) != len(names) or not _joins(joined, made):
            return None
        if any(used_after(site, name, *statements) for name in (parts, made)):
            return None
        done = cst.ensure_type(attending, cst.ListComp).elt
        hidden = _hidden(done)
        if hidden is None:
            return None
        tensors = dict(zip(names, split.tensors, strict=True))
        uses: dict[cst.CSTNode, cst.CSTNode] = {
            node: tensors[node.value]
            for each in walk(done) if isinstance(each, cst.Arg)
            for node in walk(each.value) if isinstance(node, cst.Name) and node.value in tensors
        }  # fmt: skip
        return cls(site, statements, split.lengths, split.dim, split.tensors[0], done, hidden, uses, joined)

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
        attended = replaced(self.attending, {**self.uses, self.hidden: cst.Name(mask)})
        last = self.statements[-1].deep_replace(self.joined, attended)
        assert isinstance(last, cst.SimpleStatementLine)
        return [first, *made, last.with_changes(leading_lines=[])]


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


def _names_of_parts(node: cst.BaseExpression, parts: str) -> list[str]:
    """`q`, `k` and `v` of `[... for q, k, v in zip(*parts)]`."""
    loop = _loop(node)
    if loop is None or not isinstance(loop.target, cst.Tuple) or not isinstance(loop.iter, cst.Call):
        return []
    arguments = loop.iter.args
    if called(loop.iter) != "zip" or len(arguments) != 1 or arguments[0].star != "*":
        return []
    over = arguments[0].value
    names = [each.value.value for each in loop.target.elements if isinstance(each.value, cst.Name)]
    return names if isinstance(over, cst.Name) and over.value == parts else []


def _loop(node: cst.BaseExpression) -> cst.CompFor | None:
    """The only loop of a list comprehension that takes everything."""
    if not isinstance(node, cst.ListComp) or node.for_in.ifs or node.for_in.inner_for_in is not None:
        return None
    return node.for_in


def _hidden(attending: cst.BaseExpression) -> cst.BaseExpression | None:
    """The `None` of `attention_mask=None`, in a call that is told not to be causal."""
    call = attending.value if isinstance(attending, cst.Subscript) else attending
    if not isinstance(call, cst.Call):
        return None
    given = {each.keyword.value: each.value for each in call.args if each.keyword is not None}
    mask, causal = given.get("attention_mask"), given.get("is_causal")
    said = [each.value if isinstance(each, cst.Name) else "" for each in (mask, causal)]
    return mask if said == ["None", "False"] else None


def _joins(node: cst.BaseExpression, made: str) -> bool:
    """Whether it is `torch.cat(made, ...)`."""
    if not isinstance(node, cst.Call) or called(node) not in ("cat", "concat") or not node.args:
        return False
    joined = node.args[0].value
    return isinstance(joined, cst.Name) and joined.value == made

"""What the data decide the size of, where something else has that size: positions of the patches of images, beside the
patches that the caller holds. It says how many, so that nothing depends on the data any more, and no setting is needed.

In compiled code the number is checked when it runs. In eager nobody looks at it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import libcst as cst

from dynalyze.capture.fixing import RETURNED
from dynalyze.fix.rewriting import rewriter
from dynalyze.fix.rewriting.conditions import called, import_of_torch, torch_name
from dynalyze.fix.rewriting.constants import top_names
from dynalyze.fix.rewriting.custom_operators import tail_of
from dynalyze.fix.rewriting.purity import pure
from dynalyze.fix.rewriting.signatures import giving, paths_below, proposed_with_call, taking
from dynalyze.fix.rewriting.tails import NO_CHANCE
from dynalyze.fix.settings import READS
from dynalyze.fix.sites import Changes, Proposal, Site, Value, statements_of, walk
from dynalyze.text.amounts import listed

_SIZE, _MOST, _FILLED = "size", "most", "_with_empty_segments"
_FILLING = f"""

def {_FILLED}(lengths, counts, most):
    rest = most - counts.sum()
    torch._assert_async(rest >= 0, "there are more segments than the most that is told")
    lengths = torch.nn.functional.pad(lengths, (0, 1))
    return torch.repeat_interleave(lengths, torch.cat([counts, rest[None]]), output_size=most)
"""


@rewriter("output-size", *READS, rank=43, outer=True)
def tell_how_often(site: Site) -> Iterator[Proposal]:
    """`torch.repeat_interleave(x, counts)` with `output_size`, and `torch.arange(counts.sum())` of the same."""
    for path in paths_below(site):
        inner = path[-1]
        returned = inner.values.get(RETURNED)
        made = () if returned is None else returned.items or (returned,)
        size = next((size for each in made for number in each.sizes[:1] if (size := _size(site, number))), "")
        if size and (counts := _counts(inner)) and not _has_name(inner, _SIZE):
            title = f"Tell `{inner.function.name.value}` how many elements its `repeat_interleave` makes, which "
            yield from proposed_with_call(
                site, path, _with_output_size(inner, counts), {_SIZE: size}, f"{title}compiled code checks"
            )


@rewriter("size-of-the-other", *READS, rank=13)
def repeat_as_often_as_the_other(site: Site) -> Iterator[Proposal]:
    """`torch.arange(n) + torch.repeat_interleave(x, counts)`: that makes `n` elements."""
    repeated, line = _interleaved(site), site.statement
    counts = "" if repeated is None else _repeats(site, repeated)
    other = None if repeated is None else _other_side(site, repeated)
    if repeated is None or not counts or not isinstance(line, cst.SimpleStatementLine):
        return
    if not isinstance(other, cst.Call) or called(other) != "arange" or len(other.args) != 1:
        return
    torch, size = torch_name(site), site.code(other.args[0].value)
    if not pure(other.args[0].value):
        return
    (check,) = statements_of(
        f"if {torch}.compiler.is_compiling():\n"
        f'    {torch}._assert_async({counts}.sum() == {size}, "the sum of {counts} is not {size}")\n'
    )
    given = giving(repeated, {"output_size": f"{size} if {torch}.compiler.is_compiling() else None"})
    new = cst.ensure_type(line.deep_replace(repeated, given), cst.SimpleStatementLine)
    text = site.with_statement(check, new.with_changes(leading_lines=[]), top=import_of_torch(site))
    title = f"Tell `repeat_interleave` that it makes {size} elements, which compiled code checks"
    yield Proposal("", title, text, loses=("raises",))


@rewriter("sized-by-caller", *READS, rank=44, outer=True)
def tell_the_size(site: Site) -> Iterator[Proposal]:
    """`positions(grid)` beside `x`, which has a row for each: `positions(grid, size_0=x.shape[0])`."""
    for path in paths_below(site):
        inner = path[-1]
        tail = tail_of(inner)
        given = {} if tail is None else {name: size for name, number in tail.unknown.items()
                                         if (size := _size(site, number))}  # fmt: skip
        if tail is None or {node.arg for node in tail.whole.arguments} & set(tail.unknown):
            continue
        most = {name: size for name, number in tail.lists.items()
                if name not in given and (size := _most(site, number))}  # fmt: skip
        title = f"{tail.title}, and tell it the size, which compiled code checks"
        if most and len({**given, **most}) == len(tail.unknown):
            changed = tail.in_operator(inner, given=[*given, *most], filled=list(most))
            told = f"{title}: {listed([*most.values()])} at most, its last element again where there are fewer"
            yield from proposed_with_call(site, path, changed, {**given, **most}, told)
        if given:
            changed = tail.in_operator(inner, given=list(given))
            for each in proposed_with_call(site, path, changed, given, title):
                yield replace(each, late=len(given) < len(tail.unknown))


@rewriter("empty-segments", *READS, rank=44, outer=True)
def fill_with_empty_segments(site: Site) -> Iterator[Proposal]:
    """`torch.repeat_interleave(lengths, counts)` of segments beside `x`, which has a row or more for each: as many
    lengths as `x` has rows, of which the last are 0. That nothing is done with empty segments shows in the proof.
    """
    for path in paths_below(site):
        inner = path[-1]
        made, call = inner.values.get(RETURNED), _interleaved(inner)
        most = "" if made is None or made.dims != 1 else _most(site, made.sizes[0], more="")
        torch = torch_name(inner)
        filling = _FILLING.replace("torch.", f"{torch}.")
        is_taken = _FILLED in top_names(inner.text) and filling not in inner.text
        if call is None or not most or is_taken or _has_name(inner, _MOST):
            continue
        choice = cst.parse_expression(
            f"{inner.code(call)} if {_MOST} is None or not {torch}.compiler.is_compiling() else "
            f"{_FILLED}({', '.join(inner.code(each.value) for each in call.args)}, {_MOST})"
        )
        top = import_of_torch(inner) + filling
        changed = inner.with_nodes({call: choice, inner.function.params: taking(inner.function, [_MOST])}, top)
        title = f"Let `{inner.function.name.value}` make {most} segments in compiled code, the last of them empty"
        yield from proposed_with_call(site, path, changed, {_MOST: most}, title)


def _has_name(inner: Site, name: str) -> bool:
    return any(isinstance(node, cst.Name) and node.value == name for node in walk(inner.function))


def _with_output_size(inner: Site, counts: str) -> str:
    """The file of a function that is told the sum of `counts` as its argument `size`."""
    changes: Changes = {inner.function.params: taking(inner.function, [_SIZE])}
    for node in walk(inner.function):
        if isinstance(node, cst.Call) and _repeats(inner, node) == counts:
            changes[node] = giving(node, {"output_size": _SIZE})
        elif isinstance(node, cst.Call) and _summed(inner, node) == counts:
            sum_ = cst.parse_expression(f"{counts}.sum() if {_SIZE} is None else {_SIZE}")
            changes[node] = node.with_changes(args=[cst.Arg(sum_, comma=node.args[0].comma), *node.args[1:]])
    lines = [inner.range_of(node)[0] for node in changes if node is not inner.function.params]
    changed = inner.at(inner.with_nodes(changes, import_of_torch(inner)), 0)
    shift = len(changed.text.splitlines()) - len(inner.text.splitlines())
    changed = inner.at(changed.text, min(lines) + shift)
    torch = torch_name(inner)
    (check,) = statements_of(
        f"if {_SIZE} is not None and {torch}.compiler.is_compiling():\n"
        f'    {torch}._assert_async({counts}.sum() == {_SIZE}, "the sum of {counts} is not the size given")\n'
        f"else:\n    {_SIZE} = None\n"
    )
    return changed.with_statement(check, changed.statement.with_changes(leading_lines=[]))


def _counts(inner: Site) -> str:
    """The tensor whose elements say how often something is repeated at the line that breaks, or whose sum is used."""
    for node in walk(inner.statement):
        if isinstance(node, cst.Call) and (counts := _repeats(inner, node) or _summed(inner, node)):
            return counts if inner.is_tensor(cst.parse_expression(counts)) else ""
    return ""


def _other_side(site: Site, node: cst.CSTNode) -> cst.BaseExpression | None:
    """What an operation does with an expression and another one: the other one."""
    above = site.parents[node]
    if not isinstance(above, cst.BinaryOperation):
        return None
    return above.right if above.left is node else above.left


def _interleaved(inner: Site) -> cst.Call | None:
    """The call `torch.repeat_interleave(lengths, counts)` of the line that breaks."""
    for node in walk(inner.statement):
        if isinstance(node, cst.Call) and called(node) == "repeat_interleave" and len(node.args) == 2:
            of_torch = isinstance(node.func, cst.Attribute) and inner.code(node.func.value) == torch_name(inner)
            return node if of_torch and all(each.keyword is None for each in node.args) else None
    return None


def _repeats(inner: Site, call: cst.Call) -> str:
    """How often a call repeats elements, as the name of a tensor; "" where it says the size already."""
    if called(call) != "repeat_interleave" or any(each.keyword is not None for each in call.args):
        return ""
    of_torch = isinstance(call.func, cst.Attribute) and inner.code(call.func.value) == torch_name(inner)
    given = call.args[of_torch].value if len(call.args) == 1 + of_torch else None
    return given.value if isinstance(given, cst.Name) else ""


def _summed(inner: Site, call: cst.Call) -> str:
    """The name of a tensor whose sum is how far a call of `arange` goes."""
    if called(call) != "arange" or not call.args or any(each.keyword is None for each in call.args[1:]):
        return ""
    name, _, rest = inner.code(call.args[0].value).partition(".")
    return name if rest == "sum()" else ""


def _size(site: Site, number: int) -> str:
    """A size of a tensor of the function that was this number, or a known number of times that; "" where none was."""
    if number < NO_CHANCE:
        return ""
    names = [each.name.value for each in site.function.params.params]
    local = {name: value for name, value in site.values.items() if name.isidentifier() and value.kind == "tensor"}
    ordered = sorted(local, key=lambda each: names.index(each) if each in names else len(names))
    for (factor, times), name in product([("", 1), *_numbers(site)], ordered):
        for dim, size in enumerate(_counted_sizes(local[name])):
            if size == number * times:
                return f"{name}.shape[{dim}] // {factor}" if factor else f"{name}.shape[{dim}]"
    return ""


def _most(site: Site, number: int, more: str = " + 1") -> str:
    """The rows of the first tensor that the function takes and that has as many as this number, or more."""
    for each in site.function.params.params:
        value = site.values.get(each.name.value)
        if value is not None and value.kind == "tensor" and value.sizes and value.sizes[0] >= max(number, NO_CHANCE):
            return f"{each.name.value}.shape[0]{more}"
    return ""


def _counted_sizes(tensor: Value) -> tuple[int, ...]:
    """How many rows a tensor has, of how many batches, and not of how many features: these may be as many by chance."""
    return tensor.sizes[:-1] if len(tensor.sizes) > 1 else tensor.sizes


def _numbers(site: Site) -> list[tuple[str, int]]:
    """Whole numbers above one that the function names, and their squares, as source with what they were."""
    found = [(name, value.number) for name, value in site.values.items() if value.number is not None]
    found = [(name, number) for name, number in found if number > 1 and name.replace(".", "").isidentifier()]
    return [*found, *((f"{name}**2", number * number) for name, number in found)]

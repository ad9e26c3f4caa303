"""Code that selects by a boolean mask or a list of rows: assignments, reductions and guards that need not look at the
selection.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import libcst as cst

from dynalyze.fix.rewriting import rewriter
from dynalyze.fix.rewriting.choices import targets_of, used_after
from dynalyze.fix.rewriting.conditions import import_of_torch, torch_name
from dynalyze.fix.rewriting.purity import UPDATES, pure, total
from dynalyze.fix.rewriting.syntax import ATOMS, block_of, bracketed, called, number, only_of, skips_turn, target_of
from dynalyze.fix.rewriting.tensors import dims_of, elementwise, is_boolean, looks_like_tensor, without_read
from dynalyze.fix.sites import Changes, Proposal, Site, replaced, statements_of, walk

_MASKED = ("Dynamic shape operator", "Data-dependent", "Data dependent operator", "Unsupported function call")
_REDUCED = ("sum", "mean", "any", "all")
_ADDING = ("index_add_", "index_copy_")
_RAISING = {"max", "min", "argmax", "argmin", "item", "median", "amax", "amin", "stack", "cat", "quantile"}
"""What raises where there are no rows."""
_NONE, _SOME = (cst.Equal, cst.LessThan), (cst.GreaterThan, cst.NotEqual, cst.GreaterThanEqual)


@dataclass(frozen=True)
class Masked:
    """`x[mask]` with the dimensions of both; the mask has the tensor's first ones."""

    tensor: cst.BaseExpression
    mask: cst.BaseExpression
    dims: int
    mask_dims: int

    def wide(self, site: Site) -> str:
        """The mask with all dimensions of the tensor."""
        code = bracketed(site, self.mask)
        more = self.dims - self.mask_dims
        return code if not more else f"{code}[{', '.join(['...', *['None'] * more])}]"

    def left_out(self, site: Site) -> str:
        """The inverted mask, with all dimensions of the tensor."""
        mask = self.mask
        if isinstance(mask, cst.UnaryOperation) and isinstance(mask.operator, cst.BitInvert):
            return replace(self, mask=mask.expression).wide(site)
        return f"~{self.wide(site)}"

    def filled(self, site: Site) -> str:
        """The whole tensor, with 0 outside the mask."""
        return f"{bracketed(site, self.tensor)}.masked_fill({self.left_out(site)}, 0)"


def masked_of(site: Site, node: cst.BaseExpression) -> Masked | None:
    """`x[mask]` or `torch.masked_select(x, mask)`, if the dimensions of both are known."""
    tensor: cst.BaseExpression
    if isinstance(node, cst.Call) and called(node) == "masked_select" and isinstance(node.func, cst.Attribute):
        given = [each.value for each in node.args]
        tensor, mask = (node.func.value, given[0]) if len(given) == 1 else (given[0], given[-1])
        whole = True
    elif isinstance(node, cst.Subscript) and isinstance(node.slice[0].slice, cst.Index):
        if not all(_is_whole(each.slice) for each in node.slice[1:]):
            return None
        tensor, mask, whole = node.value, node.slice[0].slice.value, False
    else:
        return None
    if not is_boolean(site, mask) or not total(mask) or not isinstance(tensor, cst.Name | cst.Attribute):
        return None
    dims, mask_dims = dims_of(site, tensor), dims_of(site, mask)
    if dims is None or mask_dims is None or not 0 < mask_dims <= dims or (whole and dims != mask_dims):
        return None
    if isinstance(node, cst.Subscript) and len(node.slice) - 1 > dims - mask_dims:
        return None
    return Masked(tensor, mask, dims, mask_dims)


def _is_whole(part: cst.BaseSlice) -> bool:
    """`:` of `x[mask, :]`."""
    return isinstance(part, cst.Slice) and part.lower is part.upper is part.step is None


@rewriter("masked-assignment", *_MASKED, rank=16)
def assign_under_mask(site: Site) -> Iterator[Proposal]:
    """`x[mask] = y[mask]`, `x[mask] += w`: `x.copy_(torch.where(mask, ..., x))`."""
    only = only_of(site.statement)
    text = None if only is None else assigned_under_mask(site, only)
    if text is not None:
        yield Proposal(
            "Choose between the whole tensors instead of copying through the mask",
            site.with_statement(*statements_of(text), top=import_of_torch(site)),
        )  # fmt: skip


def assigned_under_mask(site: Site, only: cst.BaseSmallStatement, condition: str = "") -> str | None:
    """`x[mask] = ...` as a copy of the whole tensor, which also keeps its values where `condition` is false."""
    target = target_of(only)
    masked = masked_of(site, target) if target is not None else None
    if masked is None or not isinstance(only, cst.Assign | cst.AugAssign):
        return None
    value = _whole(site, only.value, masked)
    if value is None:
        return None
    name = site.code(masked.tensor)
    if isinstance(only, cst.AugAssign):
        operator = UPDATES.get(type(only.operator))
        if operator is None:
            return None
        value = f"{name} {operator} {value}"
    chosen = f"{condition} & {masked.wide(site)}" if condition else masked.wide(site)
    return f"{name}.copy_({torch_name(site)}.where({chosen}, {value}, {name}))\n"


def _whole(site: Site, value: cst.BaseExpression, masked: Masked) -> str | None:
    """The assigned value for the whole tensor, without the mask; None if there is none."""
    mask = site.code(masked.mask)
    changes: dict[cst.CSTNode, cst.CSTNode] = {}
    for node in walk(value, cst.Subscript):
        inner = masked_of(site, node)
        if inner is None or site.code(inner.mask) != mask or inner.dims != masked.dims:
            return None
        changes[node] = inner.tensor
    bare = replaced(value, {node: cst.Name("x") for node in changes})
    if not total(bare) or not elementwise(bare):
        return None
    within = {part for changed in changes for part in walk(changed)}
    kept = [each for each in walk(value) if isinstance(each, cst.Name | cst.Attribute) and each not in within]
    for each in kept:
        found = site.value(each)
        if found is not None and found.kind == "tensor":
            # One value for all, or one for each place behind the mask's dimensions.
            if found.dims is None or found.dims > masked.dims - masked.mask_dims:
                return None
        elif found is None and isinstance(each, cst.Name) and looks_like_tensor(site, each):
            return None
    code = cst.Module([]).code_for_node(replaced(value, changes))
    return code if isinstance(value, ATOMS) else f"({code})"


@rewriter("masked-reduction", *_MASKED, rank=16)
def reduce_under_mask(site: Site) -> Iterator[Proposal]:
    """`x[mask].sum()`: of the whole tensor, with 0 outside the mask; `mean()` alike."""
    reduced = {node: _reduced(site, node) for node in walk(site.statement, cst.Call)}
    changes: Changes = {node: cst.parse_expression(text) for node, text in reduced.items() if text is not None}
    if changes:
        yield Proposal(
            "Reduce the whole tensor, with what the mask leaves out set to what changes nothing",
            site.with_nodes(changes, import_of_torch(site)),
        )  # fmt: skip


def _reduced(site: Site, call: cst.Call) -> str | None:
    name = called(call)
    if name not in _REDUCED or not isinstance(call.func, cst.Attribute):
        return None
    chosen, rest = call.func.value, call.args
    if isinstance(chosen, cst.Name) and chosen.value == torch_name(site) and call.args:
        chosen, rest = call.args[0].value, call.args[1:]
    masked = masked_of(site, chosen)
    if masked is None:
        return None
    dims = _over(masked, rest)
    return None if dims is None else _over_all(site, masked, name, dims)


def _over(masked: Masked, args: Sequence[cst.Arg]) -> str | None:
    """The dimensions to reduce; None if the call cannot be said of the whole tensor."""
    if not args:
        return ""
    given = args[0]
    first = (len(args) == 1 and given.keyword is None) or (given.keyword is not None and given.keyword.value == "dim")
    if not first or number(given.value) != 0:
        return None
    return "0" if masked.mask_dims == 1 else str(tuple(range(masked.mask_dims)))


def _over_all(site: Site, masked: Masked, name: str, dims: str) -> str | None:
    known = site.value(masked.tensor)
    boolean = is_boolean(site, masked.tensor)
    code, mask = bracketed(site, masked.tensor), masked.wide(site)
    if name in ("any", "all"):
        if not boolean:
            return None
        return f"({code} & {mask}).any({dims})" if name == "any" else f"({code} | ~{mask}).all({dims})"
    filled = masked.filled(site)
    if name == "sum":
        return f"{filled}.sum({dims})"
    if known is not None and known.dtype in ("float16", "bfloat16"):
        return None  # The sum may be infinite where the mean is not, and the count is no such number.
    count = f"{bracketed(site, masked.mask)}.sum()"
    if masked.dims != masked.mask_dims and not dims:
        count = f"{mask}.expand_as({code}).sum()"
    return f"{filled}.sum({dims}) / {count}"


@rewriter("unguarded", *_MASKED, "Consider annotating your code using torch._check", rank=19)
def without_guard(site: Site) -> Iterator[Proposal]:
    """`if rows.numel() == 0: continue` in a loop, `if mask.any(): x[mask] = ...`: without the condition, if the guarded
    code only touches these rows, or the mask.
    """
    branch = site.statement
    if not isinstance(branch, cst.If) or branch.orelse is not None:
        return
    asked, body = _asked(site, branch.test), block_of(branch.body)
    if asked is None or body is None or isinstance(site.parents[branch], cst.If):
        return
    key, where_some = asked
    guarded: Sequence[cst.BaseStatement] = body if where_some else site.following
    if not where_some and not skips_turn(site, branch):
        return
    if not _only_where(site, guarded, key):
        return
    changes: Changes = {branch: _moved(branch, body) if where_some else None}
    lines = [site.range_of(each)[0] for each in (*body[:1], *site.following[:1])]
    yield Proposal(f"Do it for any number of rows, also none: nothing happens where `{key}` chooses nothing",
                   site.with_nodes(changes), sides=tuple(lines))  # fmt: skip


def _moved(branch: cst.If, body: Sequence[cst.BaseStatement]) -> list[cst.BaseStatement]:
    first, *others = body
    assert isinstance(first, cst.SimpleStatementLine)
    return [first.with_changes(leading_lines=[*branch.leading_lines, *first.leading_lines]), *others]


def _asked(site: Site, test: cst.BaseExpression) -> tuple[str, bool] | None:
    """The source of what the condition asks to select anything, and whether it is true if that does."""
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        inner = _asked(site, test.expression)
        return None if inner is None else (inner[0], not inner[1])
    if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        operator, right = test.comparisons[0].operator, number(test.comparisons[0].comparator)
        key = _counted(site, test.left)
        one = isinstance(operator, cst.GreaterThanEqual | cst.LessThan)
        if key is None or right != int(one) or not isinstance(operator, (*_NONE, *_SOME)):
            return None
        return key, isinstance(operator, _SOME)
    key = _counted(site, test) or _any_of(site, test, "any")
    return None if key is None else (key, True)


def _counted(site: Site, node: cst.BaseExpression) -> str | None:
    """`rows` of `rows.numel()`, `len(rows)`, `rows.shape[0]`, `rows.size(0)`; `mask` of `mask.sum()`."""
    code = site.code(node)
    for each in walk(node, cst.Name):
        name = each.value
        if code in (f"{name}.numel()", f"len({name})", f"{name}.shape[0]", f"{name}.size(0)", f"{name}.nelement()"):
            return name
    return _any_of(site, node, "sum")


def _any_of(site: Site, node: cst.BaseExpression, name: str) -> str | None:
    """`mask` of `mask.any()`, `torch.any(mask)` and `mask.any().item()`."""
    call = without_read(node)
    if isinstance(call, cst.Call) and isinstance(call.func, cst.Name) and called(call) == "bool" and call.args:
        call = call.args[0].value
    if not isinstance(call, cst.Call) or called(call) != name or not isinstance(call.func, cst.Attribute):
        return None
    mask = call.args[0].value if len(call.args) == 1 else call.func.value
    return site.code(mask) if len(call.args) < 2 and is_boolean(site, mask) else None


def _only_where(site: Site, statements: Sequence[cst.BaseStatement], key: str) -> bool:
    """Whether statements do nothing for an empty selection: they only change tensors through it, and assign variables
    that nothing else reads.
    """
    keys, changing = {key}, 0
    for each in statements:
        only = only_of(each)
        calls = {called(call) for call in walk(each, cst.Call)}
        if only is None or calls & _RAISING:
            return False
        names = targets_of(only) if isinstance(only, cst.Assign) else None
        if isinstance(only, cst.Assign) and names is not None:
            if not pure(each) or any(used_after(site, name, *statements) for name in names):
                return False
            if calls & {"nonzero", "where"} and keys & {site.code(part) for part in walk(only.value)}:
                keys.update(names)
        elif not _through(site, only, keys):
            return False
        else:
            changing += 1
    return changing > 0


def _through(site: Site, only: cst.BaseSmallStatement, keys: set[str]) -> bool:
    """`x[rows] = ...`, `x[rows] += ...`, `x.index_add_(0, rows, ...)`."""
    if isinstance(only, cst.Expr) and isinstance(only.value, cst.Call):
        call = only.value
        plain = called(call) in _ADDING and len(call.args) >= len(("dim", "index", "source"))
        return plain and site.code(call.args[1].value) in keys and all(pure(each) for each in call.args)
    target = target_of(only)
    if not isinstance(target, cst.Subscript) or not pure(only):
        return False
    index = target.slice[0].slice
    return isinstance(index, cst.Index) and site.code(index.value) in keys

"""Elements that a boolean mask chooses: computed with for all elements and left out by the mask."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from dynalyze.fix.rewriting import rewriter
from dynalyze.fix.rewriting.choices import block_of
from dynalyze.fix.rewriting.conditions import (
    assigned_values,
    called,
    import_of_torch,
    is_first_of,
    looks_like_tensor,
    torch_name,
    without_read,
)
from dynalyze.fix.rewriting.purity import UPDATES, elementwise, names_of, number, pure, total, total_of_rows
from dynalyze.fix.rewriting.reads import takes_a_tensor
from dynalyze.fix.sites import Proposal, Site, statements_of, walk

_MASKED = ("Dynamic shape operator", "Data-dependent", "Data dependent operator", "Unsupported function call")
_BOOLEAN = ("isnan", "isinf", "isfinite", "eq", "ne", "gt", "lt", "ge", "le", "logical_and", "logical_or",
            "logical_not", "bool", "isin", "isclose")  # fmt: skip
_REDUCED = ("sum", "mean", "any", "all")


@dataclass(frozen=True)
class _Masked:
    """`x[mask]`, with their dimensions; the mask's are the first ones of the tensor's."""

    tensor: cst.BaseExpression
    mask: cst.BaseExpression
    dims: int
    mask_dims: int

    def wide(self, site: Site) -> str:
        """The mask with as many dimensions as the tensor has."""
        code = _bracketed(site, self.mask)
        more = self.dims - self.mask_dims
        return code if not more else f"{code}[{', '.join(['...', *['None'] * more])}]"


@rewriter("masked-reduction", *_MASKED, rank=16)
def reduce_under_mask(site: Site) -> Iterator[Proposal]:
    """`x[mask].sum()`: of the whole tensor, with 0 where the mask does not hold; `mean()` alike."""
    changes: dict[cst.CSTNode, cst.CSTNode] = {}
    for node in walk(site.statement, lambda each: isinstance(each, cst.Call)):
        assert isinstance(node, cst.Call)
        text = _reduced(site, node)
        if text is not None:
            changes[node] = cst.parse_expression(text)
    if changes:
        yield Proposal(
            "", "Reduce the whole tensor, with what the mask leaves out set to what changes nothing",
            site.with_nodes(dict(changes), import_of_torch(site)),
        )  # fmt: skip


@rewriter("masked-assignment", *_MASKED, rank=16)
def assign_under_mask(site: Site) -> Iterator[Proposal]:
    """`x[mask] = y[mask]`, `x[mask] += w`: `x.copy_(torch.where(mask, ..., x))`."""
    statement = site.statement
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
        return
    only = statement.body[0]
    target = only.target if isinstance(only, cst.AugAssign) else None
    if isinstance(only, cst.Assign) and len(only.targets) == 1:
        target = only.targets[0].target
    masked = _masked(site, target) if target is not None else None
    if masked is None or not isinstance(only, cst.Assign | cst.AugAssign):
        return
    value = _whole(site, only.value, masked) or _row_by_row(site, only.value, masked)
    if value is None:
        return
    name = site.code(masked.tensor)
    if isinstance(only, cst.AugAssign):
        operator = UPDATES.get(type(only.operator))
        if operator is None:
            return
        value = f"{name} {operator} {value}"
    new = statements_of(f"{name}.copy_({torch_name(site)}.where({masked.wide(site)}, {value}, {name}))\n")
    yield Proposal(
        "", "Choose between the whole tensors in the place of copying through the mask",
        site.with_statement(*new, top=import_of_torch(site)),
    )  # fmt: skip


@rewriter("masked-count", *_MASKED, rank=16)
def count_mask(site: Site) -> Iterator[Proposal]:
    """`x[mask].numel()` that is computed with, or compared: the sum of the mask."""
    if not isinstance(site.statement, cst.SimpleStatementLine):
        return
    changes: dict[cst.CSTNode, cst.CSTNode] = {}
    for node in walk(site.statement, lambda each: isinstance(each, cst.Call | cst.Subscript)):
        assert isinstance(node, cst.Call | cst.Subscript)
        text = _counted(site, node)
        if text is not None and takes_a_tensor(site, node):
            changes[node] = cst.parse_expression(text)
    if changes:
        yield Proposal("", "Count where the mask holds", site.with_nodes({**changes}))


@rewriter("mask-as-index", *_MASKED, rank=16)
def index_with_mask(site: Site) -> Iterator[Proposal]:
    """`x[torch.where(c)] = v`: `x[c] = v`."""
    changes: dict[cst.CSTNode, cst.CSTNode] = {}
    for node in walk(site.statement, lambda each: isinstance(each, cst.AssignTarget)):
        assert isinstance(node, cst.AssignTarget)
        target = node.target
        if not isinstance(target, cst.Subscript) or len(target.slice) != 1:
            continue
        index = target.slice[0].slice
        call = index.value if isinstance(index, cst.Index) else None
        if isinstance(call, cst.Call) and called(call) == "where" and len(call.args) == 1:
            asked = call.args[0].value
            boolean = _is_boolean(site, asked)
            changes[call] = asked if boolean else cst.parse_expression(f"({site.code(asked)}) != 0")
    if changes:
        yield Proposal("", "Index with the condition itself", site.with_nodes({**changes}))


@rewriter("rows-as-mask", *_MASKED, rank=17)
def rows_as_mask(site: Site) -> Iterator[Proposal]:
    """`rows = torch.nonzero(c).squeeze(-1)` that are filled, or added to, with the condition as a mask."""
    found = _rows(site)
    if found is None:
        return
    name, condition = found
    users = [each for each in site.following if name in names_of(each)]
    changes: dict[cst.CSTNode, cst.CSTNode] = {}
    guards: dict[cst.CSTNode, list[cst.CSTNode]] = {}
    for user in users:
        for call in walk(user, lambda each: isinstance(each, cst.Call)):
            assert isinstance(call, cst.Call)
            text = _with_rows(site, call, name)
            if text is not None:
                changes[call] = cst.parse_expression(text)
    for user in users:
        if isinstance(user, cst.If) and _asks_for_any(site, user, name) and _within_all(user.body, changes):
            unwrapped = [each.visit(_Replace(changes)) for each in user.body.body]
            changes = {each: new for each, new in changes.items() if each not in walk(user)}
            guards[user] = [each for each in unwrapped if isinstance(each, cst.CSTNode)]
    left = sum(_times(each, name) for each in users) - sum(_times(each, name) for each in [*changes, *guards])
    everywhere = _times(site.function, name) - _times(site.statement, name)
    if not (changes or guards) or left or everywhere != sum(_times(each, name) for each in users):
        return
    (mask,) = statements_of(f"{name} = {site.code(condition)}\n")
    yield Proposal(
        "", "Take the condition as a mask, in the place of the rows where it holds",
        site.with_nodes({**changes, **guards, site.statement: mask}, import_of_torch(site)),
    )  # fmt: skip


def _asks_for_any(site: Site, branch: cst.If, name: str) -> bool:
    """`if len(rows) > 0:`, `if rows.numel():`, and nothing else where there are none."""
    code = re.sub(r"\s", "", site.code(branch.test))
    counted = (f"len({name})", f"{name}.numel()", f"{name}.shape[0]", f"{name}.size(0)")
    return branch.orelse is None and code in {each + more for each in counted for more in ("", ">0", "!=0", ">=1")}


def _within_all(body: cst.BaseSuite, changes: dict[cst.CSTNode, cst.CSTNode]) -> bool:
    """Whether each statement of a block is one of these calls."""
    return all(
        isinstance(each, cst.SimpleStatementLine)
        and all(isinstance(small, cst.Expr) and small.value in changes for small in each.body)
        for each in body.body
    )


@rewriter("masked-variable", *_MASKED, rank=17)
def reduce_variable(site: Site) -> Iterator[Proposal]:
    """`valid = x[mask]` of which only sums, means and counts are asked for: those under the mask, without it."""
    statement = site.statement
    only = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1 else None
    if not isinstance(only, cst.Assign) or len(only.targets) != 1 or not isinstance(only.targets[0].target, cst.Name):
        return
    name = only.targets[0].target.value
    if _masked(site, only.value) is None or _changed_after(site, names_of(only.value)):
        return
    changes: dict[cst.CSTNode, cst.CSTNode | None] = {}
    for after in site.following:
        for node in walk(after, lambda each: isinstance(each, cst.Call | cst.Subscript)):
            if _times(node, name) == 1 and not any(node in walk(each) for each in changes):
                chosen = node.visit(_ReplaceName(name, only.value))
                assert isinstance(chosen, cst.Call | cst.Subscript)
                text = _reduced(site, chosen) if isinstance(chosen, cst.Call) else None
                text = text or _counted(site, chosen)
                if text is not None:
                    changes[node] = cst.parse_expression(text)
    if changes and len(changes) + 1 == _times(site.function, name):
        yield Proposal(
            "", "Ask the whole tensor and the mask, without choosing by it",
            site.with_nodes({**changes, statement: None}, import_of_torch(site)),
        )  # fmt: skip


def _changed_after(site: Site, names: set[str]) -> bool:
    """Whether the statements after the site assign to one of these names, or change what it holds."""
    for after in site.following:
        for node in walk(after):
            if isinstance(node, cst.AssignTarget | cst.AugAssign | cst.NamedExpr | cst.For):
                if names_of(node.target) & names:
                    return True
            elif isinstance(node, cst.Call) and called(node).endswith("_") and names_of(node.func) & names:
                return True
    return False


class _ReplaceName(cst.CSTTransformer):
    def __init__(self, name: str, new: cst.BaseExpression) -> None:
        super().__init__()
        self._name, self._new = name, new

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        return self._new if original_node.value == self._name else updated_node


@rewriter("unguarded-mask", *_MASKED, rank=19)
def without_guard(site: Site) -> Iterator[Proposal]:
    """`if mask.any(): x[mask] = ...`: without the condition, since nothing happens where the mask never holds."""
    statement = site.statement
    if not isinstance(statement, cst.If) or statement.orelse is not None:
        return
    body = block_of(statement.body)
    mask = _asked_for_any(site, statement.test)
    if body is None or mask is None or not all(_only_where(site, each, mask) for each in body):
        return
    yield Proposal(
        "", "Assign through the mask always: nothing happens where it holds nowhere", site.with_statement(*body)
    )


def _asked_for_any(site: Site, test: cst.BaseExpression) -> str | None:
    """`mask` of `mask.any()`, `torch.any(mask)` and `mask.sum() > 0`, as source."""
    if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        above = isinstance(test.comparisons[0].operator, cst.GreaterThan | cst.NotEqual)
        if not above or number(test.comparisons[0].comparator) != 0:
            return None
        call, wanted = without_read(test.left), "sum"
    else:
        call, wanted = without_read(test), "any"
    if not isinstance(call, cst.Call) or called(call) != wanted or not isinstance(call.func, cst.Attribute):
        return None
    mask = call.args[0].value if len(call.args) == 1 else call.func.value
    return site.code(mask) if len(call.args) < 2 and _is_boolean(site, mask) else None


def _only_where(site: Site, statement: cst.BaseStatement, mask: str) -> bool:
    """Whether a statement assigns through the mask and does nothing else, where it holds nowhere."""
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1 or not pure(statement):
        return False
    only = statement.body[0]
    if not isinstance(only, cst.Assign | cst.AugAssign):
        return False
    target = only.targets[0].target if isinstance(only, cst.Assign) and len(only.targets) == 1 else None
    target = only.target if isinstance(only, cst.AugAssign) else target
    if not isinstance(target, cst.Subscript) or len(target.slice) != 1:
        return False
    index = target.slice[0].slice
    calls = [called(each) for each in walk(only.value) if isinstance(each, cst.Call)]
    raising = {"max", "min", "argmax", "argmin", "item", "median", "amax", "amin", "stack", "cat", "quantile"}
    return isinstance(index, cst.Index) and site.code(index.value) == mask and not raising & set(calls)


def _counted(site: Site, node: cst.Call | cst.Subscript) -> str | None:
    """How many elements, or rows, `x[mask]` has: `.numel()`, `len(...)`, `.size(0)`, `.shape[0]`."""
    chosen: cst.BaseExpression | None = None
    rows = True
    if isinstance(node, cst.Subscript):
        shape = node.value
        if is_first_of(node) and isinstance(shape, cst.Attribute) and shape.attr.value == "shape":
            chosen = shape.value
    elif isinstance(node.func, cst.Name):
        chosen = node.args[0].value if called(node) == "len" and len(node.args) == 1 else None
    elif isinstance(node.func, cst.Attribute):
        rows = called(node) == "size" and len(node.args) == 1 and number(node.args[0].value) == 0
        chosen = node.func.value if rows or (called(node) == "numel" and not node.args) else None
    masked = _masked(site, chosen) if chosen is not None else None
    if masked is None:
        return None
    if rows or masked.dims == masked.mask_dims:
        return f"{_bracketed(site, masked.mask)}.sum()"
    return f"{masked.wide(site)}.expand_as({site.code(masked.tensor)}).sum()"


def _reduced(site: Site, call: cst.Call) -> str | None:
    name = called(call)
    if name not in _REDUCED or not isinstance(call.func, cst.Attribute):
        return None
    chosen, rest = call.func.value, call.args
    if isinstance(chosen, cst.Name) and chosen.value == torch_name(site) and call.args:
        chosen, rest = call.args[0].value, call.args[1:]
    masked = _masked(site, chosen)
    if masked is None:
        return None
    dims = _over(masked, rest)
    return None if dims is None else _over_all(site, masked, name, dims)


def _over(masked: _Masked, args: object) -> str | None:
    """The dimensions to reduce; None where the call asks for something that cannot be said of the whole tensor."""
    assert isinstance(args, list | tuple)
    if not args:
        return ""
    given = args[0]
    first = (len(args) == 1 and given.keyword is None) or (given.keyword is not None and given.keyword.value == "dim")
    if not first or number(given.value) != 0:
        return None
    return "0" if masked.mask_dims == 1 else str(tuple(range(masked.mask_dims)))


def _over_all(site: Site, masked: _Masked, name: str, dims: str) -> str | None:
    known = site.value(masked.tensor)
    boolean = _is_boolean(site, masked.tensor)
    code, mask = _bracketed(site, masked.tensor), masked.wide(site)
    if name in ("any", "all"):
        if not boolean:
            return None
        return f"({code} & {mask}).any({dims})" if name == "any" else f"({code} | ~{mask}).all({dims})"
    filled = f"{code}.masked_fill(~{mask}, 0)"
    if name == "sum":
        return f"{filled}.sum({dims})"
    if known is not None and known.dtype == "float16":
        return None  # The sum may be infinite where the mean is not.
    count = f"{_bracketed(site, masked.mask)}.sum()"
    if masked.dims != masked.mask_dims and not dims:
        count = f"{mask}.expand_as({code}).sum()"
    return f"{filled}.sum({dims}) / {count}"


def _masked(site: Site, node: cst.BaseExpression) -> _Masked | None:
    """`x[mask]` or `torch.masked_select(x, mask)`, where the dimensions of both are known."""
    tensor: cst.BaseExpression
    if isinstance(node, cst.Call) and called(node) == "masked_select" and isinstance(node.func, cst.Attribute):
        given = [each.value for each in node.args]
        tensor, mask = (node.func.value, given[0]) if len(given) == 1 else (given[0], given[-1])
        whole = True
    elif isinstance(node, cst.Subscript) and len(node.slice) == 1 and isinstance(node.slice[0].slice, cst.Index):
        tensor, mask, whole = node.value, node.slice[0].slice.value, False
    else:
        return None
    if not _is_boolean(site, mask) or not total(mask) or not isinstance(tensor, cst.Name | cst.Attribute):
        return None
    dims, mask_dims = _dims(site, tensor), _dims(site, mask)
    if dims is None or mask_dims is None or not 0 < mask_dims <= dims or (whole and dims != mask_dims):
        return None
    return _Masked(tensor, mask, dims, mask_dims)


def _is_boolean(site: Site, node: cst.BaseExpression, deepest: int = 3) -> bool:
    """Whether an expression is a tensor of booleans."""
    found = site.value(node)
    if found is not None:
        return found.kind == "tensor" and found.dtype == "bool"
    if isinstance(node, cst.Name) and deepest:
        made = assigned_values(site, node.value)
        return bool(made) and all(_is_boolean(site, each, deepest - 1) for each in made)
    if isinstance(node, cst.Comparison):
        return looks_like_tensor(site, node)
    if isinstance(node, cst.UnaryOperation):
        return isinstance(node.operator, cst.BitInvert) and _is_boolean(site, node.expression)
    if isinstance(node, cst.BinaryOperation):
        logical = isinstance(node.operator, cst.BitAnd | cst.BitOr | cst.BitXor)
        return logical and _is_boolean(site, node.left) and _is_boolean(site, node.right)
    return isinstance(node, cst.Call) and called(node) in _BOOLEAN


def _dims(site: Site, node: cst.BaseExpression, deepest: int = 3) -> int | None:
    """How many dimensions an expression has, where that can be told."""
    found = site.value(node)
    if found is not None:
        return found.dims if found.kind == "tensor" else 0 if found.kind in ("int", "float", "bool") else None
    if number(node) is not None:
        return 0
    parts: list[cst.BaseExpression] = []
    if isinstance(node, cst.Name) and deepest:
        parts = assigned_values(site, node.value)
        inner = {_dims(site, each, deepest - 1) for each in parts}
        return inner.pop() if len(inner) == 1 else None
    if isinstance(node, cst.Comparison):
        parts = [node.left, *(each.comparator for each in node.comparisons)]
    elif isinstance(node, cst.BinaryOperation) and not isinstance(node.operator, cst.MatrixMultiply):
        parts = [node.left, node.right]
    elif isinstance(node, cst.UnaryOperation):
        parts = [node.expression]
    elif isinstance(node, cst.Call) and elementwise(node) and isinstance(node.func, cst.Attribute):
        is_method = looks_like_tensor(site, node.func.value)
        parts = [*([node.func.value] if is_method else []), *(each.value for each in node.args if not each.keyword)]
    known = [_dims(site, each, deepest) for each in parts]
    return max((each for each in known if each is not None), default=None) if None not in known else None


def _whole(site: Site, value: cst.BaseExpression, masked: _Masked) -> str | None:
    """What is assigned through a mask, for the whole tensor: without the mask; None where it is no such thing."""
    mask = site.code(masked.mask)
    changes: dict[cst.CSTNode, cst.CSTNode] = {}
    for node in walk(value, lambda each: isinstance(each, cst.Subscript)):
        assert isinstance(node, cst.Subscript)
        inner = _masked(site, node)
        if inner is None or site.code(inner.mask) != mask or inner.dims != masked.dims:
            return None
        changes[node] = inner.tensor
    if not total(_replaced(value, {node: cst.Name("x") for node in changes})):
        return None
    kept = [each for each in walk(value) if isinstance(each, cst.Name | cst.Attribute) and not _within(each, changes)]
    for each in kept:
        found = site.value(each)
        if found is not None and found.kind == "tensor":
            # One value for all, or one for each place behind the mask's dimensions.
            if found.dims is None or found.dims > masked.dims - masked.mask_dims:
                return None
        elif found is None and isinstance(each, cst.Name) and looks_like_tensor(site, each):
            return None
    if not elementwise(_replaced(value, {node: cst.Name("x") for node in changes})):
        return None
    code = cst.Module([]).code_for_node(_replaced(value, changes))
    return code if isinstance(value, cst.Name | cst.Attribute | cst.Subscript | cst.Call) else f"({code})"


def _row_by_row(site: Site, value: cst.BaseExpression, masked: _Masked) -> str | None:
    """What modules and matrix products make of the rows that a mask chooses, made of all rows. Whether they look at
    each row by itself shows in the proof.
    """
    mask = site.code(masked.mask)
    changes: dict[cst.CSTNode, cst.CSTNode] = {}
    for node in walk(value, lambda each: isinstance(each, cst.Subscript)):
        assert isinstance(node, cst.Subscript)
        inner = _masked(site, node)
        if inner is None or site.code(inner.mask) != mask:
            return None
        changes[node] = inner.tensor
    whole = _replaced(value, changes)
    return f"({site.code(whole)})" if changes and total_of_rows(site, whole) else None


class _Replace(cst.CSTTransformer):
    def __init__(self, changes: dict[cst.CSTNode, cst.CSTNode]) -> None:
        super().__init__()
        self._changes = changes

    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> object:  # type: ignore[override]
        return self._changes.get(original_node, updated_node)


def _replaced(node: cst.BaseExpression, changes: dict[cst.CSTNode, cst.CSTNode]) -> cst.BaseExpression:
    new = node.visit(_Replace(changes))
    assert isinstance(new, cst.BaseExpression)
    return new


def _within(node: cst.CSTNode, outer: dict[cst.CSTNode, cst.CSTNode]) -> bool:
    return any(node in walk(each) for each in outer)


def _rows(site: Site) -> tuple[str, cst.BaseExpression] | None:
    """The name of the rows, and the condition of one dimension whose true places they are."""
    statement = site.statement
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
        return None
    only = statement.body[0]
    if not isinstance(only, cst.Assign) or len(only.targets) != 1:
        return None
    target, value = only.targets[0].target, only.value
    alone = isinstance(target, cst.Tuple) and len(target.elements) == 1
    name = target.elements[0].value if alone and isinstance(target, cst.Tuple) else target
    if not isinstance(name, cst.Name):
        return None
    condition = _indices_of(value, in_tuple=alone)
    if condition is None or _dims(site, condition) != 1 or not _is_boolean(site, condition) or not total(condition):
        return None
    return name.value, condition


def _indices_of(value: cst.BaseExpression, *, in_tuple: bool) -> cst.BaseExpression | None:
    """`c` of `torch.where(c)[0]`, `torch.nonzero(c).squeeze(-1)`, `c.nonzero(as_tuple=True)[0]`, ..."""
    inner = value
    if isinstance(value, cst.Subscript):
        if in_tuple or cst.Module([]).code_for_node(value).split("[")[-1] != "0]":
            return None
        inner, in_tuple = value.value, True
    elif isinstance(value, cst.Call) and called(value) in ("squeeze", "flatten", "view", "reshape", "squeeze_"):
        ends = [number(each.value) for each in value.args]
        if not isinstance(value.func, cst.Attribute) or ends not in ([-1], [1], [], [0]):
            return None
        if ends == [] and called(value) != "flatten":
            return None  # One row alone would have no dimension at all.
        inner = value.func.value
    if not isinstance(inner, cst.Call) or not isinstance(inner.func, cst.Attribute):
        return None
    plain = [each.value for each in inner.args if each.keyword is None]
    as_tuple = len(plain) < len(inner.args)
    if called(inner) == "where" and len(plain) == 1 and in_tuple:
        return plain[0]
    if called(inner) != "nonzero" or as_tuple != in_tuple or len(inner.args) - len(plain) > 1:
        return None
    return plain[0] if plain else inner.func.value


def _with_rows(site: Site, call: cst.Call, rows: str) -> str | None:
    """`x.index_fill(0, rows, v)` and `x.index_add_(0, rows, f(y[rows]))` with `rows` as a mask."""
    if not isinstance(call.func, cst.Attribute) or len(call.args) != 3 or any(each.keyword for each in call.args):
        return None
    first, second, third = (each.value for each in call.args)
    name, tensor = called(call), call.func.value
    dims = _dims(site, tensor)
    if number(first) != 0 or not isinstance(second, cst.Name) or second.value != rows or dims is None or dims < 1:
        return None
    code, mask = _bracketed(site, tensor), _Masked(tensor, second, dims, 1).wide(site)
    if name in ("index_fill", "index_fill_") and rows not in names_of(third):
        return f"{code}.masked_fill{'_' * name.endswith('_')}({mask}, {site.code(third)})"
    if name not in ("index_add", "index_add_"):
        return None
    of_rows: dict[cst.CSTNode, cst.CSTNode] = {}
    for node in walk(third, lambda each: isinstance(each, cst.Subscript)):
        assert isinstance(node, cst.Subscript)
        index = node.slice[0].slice
        if isinstance(index, cst.Index) and isinstance(index.value, cst.Name) and index.value.value == rows:
            whole = cst.SubscriptElement(cst.Slice(None, None), comma=node.slice[0].comma)
            of_rows[node] = node.value if len(node.slice) == 1 else node.with_changes(slice=[whole, *node.slice[1:]])
    added = _replaced(third, of_rows)
    if not of_rows or rows in names_of(added) or not total_of_rows(site, added):
        return None
    text = f"({cst.Module([]).code_for_node(added)}).masked_fill(~{mask}, 0)"
    return f"{code}.add{'_' * name.endswith('_')}({text})"


def _times(node: cst.CSTNode, name: str) -> int:
    return sum(1 for each in walk(node) if isinstance(each, cst.Name) and each.value == name)


def _bracketed(site: Site, node: cst.BaseExpression) -> str:
    code = site.code(node)
    return code if node.lpar or isinstance(node, cst.Name | cst.Attribute | cst.Call | cst.Subscript) else f"({code})"

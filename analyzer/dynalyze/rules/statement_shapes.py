"""How the code at a graph break is written: what recipes ask of a statement, by its syntax tree and never its text."""

from __future__ import annotations

import ast
from collections.abc import Callable

from dynalyze.rules.captured_numbers import asked_for
from dynalyze.rules.statement import Statement, called, head


def only_raises(written: Statement) -> bool:
    """`if ...:` whose only way is an exception, perhaps after its message was made."""
    found = written.statement
    if not isinstance(found, ast.If) or found.orelse or not isinstance(found.body[-1], ast.Raise):
        return False
    return all(isinstance(each, ast.Assign) for each in found.body[:-1])


_TELLING = ("print", "warn", "warning", "debug", "info", "error", "exception", "critical", "log")


def only_tells(written: Statement) -> bool:
    """`if ...:` whose only way prints or logs."""
    found = written.statement
    if not isinstance(found, ast.If) or found.orelse:
        return False
    said = [each.value for each in found.body if isinstance(each, ast.Expr)]
    return len(said) == len(found.body) and all(
        isinstance(each, ast.Call) and called(each) in _TELLING for each in said
    )


def updates(written: Statement) -> bool:
    """`if ...:` that computes variables anew, and has no other way: `if c: x = step(x)`."""
    found = written.statement
    return isinstance(found, ast.If) and not found.orelse and _computes(found.body)


def chooses(written: Statement) -> bool:
    """An `if` of which both ways compute the same variable, or return; a conditional expression."""
    found = written.statement
    if isinstance(found, ast.If):
        other = found.orelse or written.following[:1]
        if _returned(found.body) and _returned(other):
            return True
        return bool(found.orelse) and _computes(found.body) and _targets(found.body) == _targets(found.orelse)
    asked = ast.unparse(written.expression) if written.expression is not None else None
    return any(
        isinstance(each, ast.IfExp)
        and asked in (*map(ast.unparse, _operands(each.test)), ast.unparse(each), None)
        and _is_tensor(each.body)
        and _is_tensor(each.orelse)
        for each in (ast.walk(found) if found is not None else ())
    )


def _operands(test: ast.expr) -> list[ast.expr]:
    """A condition and, of `and`, `or` and `not`, all that they are made of."""
    parts = test.values if isinstance(test, ast.BoolOp) else [test.operand] if isinstance(test, ast.UnaryOp) else []
    return [test, *(each for part in parts for each in _operands(part))]


def skips(written: Statement) -> bool:
    """`if ...: continue` before statements that compute variables anew."""
    found = written.statement
    skipping = isinstance(found, ast.If) and not found.orelse and isinstance(found.body[-1], ast.Continue)
    return skipping and len(found.body) == 1 and _computes(written.following)  # type: ignore[union-attr]


def leaves_a_loop(written: Statement) -> bool:
    """`if ...: break`, with no other way."""
    found = written.statement
    return isinstance(found, ast.If) and not found.orelse and isinstance(found.body[-1], ast.Break)


def keeps_for_later(written: Statement) -> bool:
    """A number that an attribute or an entry is computed from: `self.mean = 0.5 * self.mean + x.mean().item()`."""
    return isinstance(written.target, ast.Attribute | ast.Subscript) and computes(written)


def writes_a_window(written: Statement) -> bool:
    """A number, and a slice that begins with it and is written below: `queue[:, start : start + n] = keys`."""
    if not isinstance(written.target, ast.Name) or not written.calls_any("item", "int"):
        return False
    targets = [target for each in written.following if isinstance(each, ast.Assign) for target in each.targets]
    slices = [part.lower for target in targets for part in ast.walk(target) if isinstance(part, ast.Slice)]
    return any(isinstance(each, ast.Name) and each.id == written.target.id for each in slices)


def takes_an_entry(written: Statement) -> bool:
    """`table[:, index]`, read or stored: one index that code computes, beside slices. Where only the line is known, any
    that stands in it.
    """
    parts = [written.expression or written.target]
    if written.expression is None and written.statement is not None:
        parts = [each for each in ast.walk(head(written.statement)) if isinstance(each, ast.expr)]
    found = [each.slice for each in parts if isinstance(each, ast.Subscript)]
    indices = [each.elts if isinstance(each, ast.Tuple) else [each] for each in found]
    return any([isinstance(each, ast.Slice | ast.Constant) for each in index].count(False) == 1 for index in indices)


def skips_by_chance(written: Statement) -> bool:
    """`if random.random() < p: continue`, also of numbers that torch or NumPy draw."""
    return skips(written) and drawn(written) is not None


def decides_by_chance(written: Statement) -> bool:
    """An `if`, or a conditional expression, on a random number that computes variables, or returns tensors."""
    draw, found = drawn(written), written.statement
    if draw is None:
        return False
    if isinstance(found, ast.If):
        return chooses(written) or updates(written)
    return any(
        isinstance(each, ast.IfExp)
        and draw in ast.walk(each.test)
        and _is_tensor(each.body)
        and _is_tensor(each.orelse)
        for each in written.holders(draw)
    )


_DRAWS = ("random", "rand", "uniform")


def drawn(written: Statement) -> ast.Call | None:
    """The call in a condition that draws a number between 0 and 1: `random.random()`, `torch.rand(())`."""
    found = written.statement
    tests = [each.test for each in ast.walk(found) if isinstance(each, ast.If | ast.IfExp)] if found is not None else []
    parts = [part for test in tests[:1] for part in ast.walk(test)]
    if written.located is not None and all(part is not written.located for part in parts):
        return None  # It draws what one of both ways computes with.
    return next((each for each in parts if isinstance(each, ast.Call) and called(each) in _DRAWS), None)


def chance(written: Statement) -> dict[str, str]:
    """How torch draws in the place of Python's decision by chance, for texts: the condition `drawn`, and its opposite
    as a factor of 0 or 1, `keep`, for the variable `x`; `inside` names the `if` that the other conditions remain.
    """
    draw, x = drawn(written), next(iter(_targets(written.following)), "x")
    compared = [each for each in written.holders(draw) if isinstance(each, ast.Compare)] if draw is not None else []
    found, kept = "torch.rand(()) < p", "torch.rand(()) >= p"
    if compared and len(compared[0].ops) == 1 and type(compared[0].ops[0]) in _OPPOSITES:
        operation, sides = type(compared[0].ops[0]), (compared[0].left, *compared[0].comparators)
        left, right = ("torch.rand(())" if each is draw else ast.unparse(each) for each in sides)
        ways = [f"{left} {_SIGNS[each]} {right}" for each in (operation, _OPPOSITES[operation])]
        nots = sum(isinstance(getattr(each, "op", None), ast.Not) for each in written.holders(compared[0]))
        found, kept = ways if nots % 2 == 0 else ways[::-1]
    test = next((each for each in written.holders(draw) if isinstance(each, ast.BoolOp)), None) if draw else None
    others = []
    if test is not None and isinstance(test.op, ast.And):
        others = [ast.unparse(each) for each in test.values if all(part is not draw for part in ast.walk(each))]
    when = " and ".join(others)
    inside = f", inside of `if {when}:`" if when else ""
    keep = f"({kept}).to({x}.dtype){f' if {when} else 1' if when else ''}"
    return {"drawn": found, "keep": keep, "x": x, "inside": inside}


_SIGNS: dict[type[ast.cmpop], str] = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_OPPOSITES: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt,
}  # fmt: skip


def drops_mask(written: Statement) -> bool:
    """`if mask.all(): mask = None`, or `return None`: a mask that masks nothing is left out."""
    found = written.statement
    if not isinstance(found, ast.If) or found.orelse or len(found.body) != 1:
        return False
    (only,) = found.body
    if not isinstance(only, ast.Assign | ast.Return) or not isinstance(only.value, ast.Constant):
        return False
    asked = {called(each) for each in written.calls} & {"all", "any"}
    names = {ast.unparse(each) for each in ast.walk(found.test) if isinstance(each, ast.Name | ast.Attribute)}
    of_it = isinstance(only, ast.Return) or (len(only.targets) == 1 and ast.unparse(only.targets[0]) in names)
    return only.value.value is None and bool(asked) and of_it


def counts(written: Statement) -> bool:
    """A `for` over a range, whose number of turns is read there, that only computes variables anew."""
    found = written.statement
    if not isinstance(found, ast.For) or not isinstance(found.iter, ast.Call):
        return False
    return called(found.iter) == "range" and len(found.iter.args) == 1 and not found.orelse and _computes(found.body)


def repairs(written: Statement) -> bool:
    """`if` there is inf or nan, then values are clamped or replaced."""
    found = written.statement
    if not isinstance(found, ast.If) or not updates(written):
        return False
    asked = {called(each) for each in ast.walk(found.test) if isinstance(each, ast.Call)}
    last = found.body[-1].value if isinstance(found.body[-1], ast.Assign) else None
    mends = isinstance(last, ast.Call) and called(last) in ("clamp", "clip", "nan_to_num", "nan_to_num_", "clamp_")
    return bool(asked & {"isinf", "isnan", "isfinite"}) and mends


def updates_masked(written: Statement) -> bool:
    """`x[mask] += w`, where `w` is the same for all: not taken with a mask itself."""
    found = written.statement
    if not isinstance(found, ast.AugAssign) or _masked(written) is None or not isinstance(found.target, ast.Subscript):
        return False
    whole = isinstance(found.op, ast.Add | ast.Sub)
    return (
        whole
        and ast.unparse(found.target) == ast.unparse(written.located or found)
        and isinstance(found.value, ast.Constant | ast.Name | ast.Attribute)
    )


def copies_masked(written: Statement) -> bool:
    """`x[mask] = y[mask]`."""
    found, target = written.statement, written.target
    if not isinstance(found, ast.Assign) or not isinstance(target, ast.Subscript) or _masked(written) is None:
        return False
    return isinstance(found.value, ast.Subscript) and ast.unparse(found.value.slice) == ast.unparse(target.slice)


def slice_is_summed(written: Statement) -> bool:
    """`x[: n.item()].sum()`."""
    part = written.located
    # The slice from the beginning within which a value is read.
    found = next((each for each in written.around if isinstance(each, ast.Slice)), None)
    if found is None and isinstance(part, ast.Subscript) and isinstance(part.slice, ast.Slice):
        found = part.slice
    if found is None or found.lower is not None or found.step is not None or found.upper is None:
        return False
    return _calls_method(written.holders(found)[1:3], "sum")


def compares_positions(written: Statement) -> bool:
    """`arange(...) < lengths[:, None]`, with the number of positions read from a tensor."""
    made = next((each for each in written.around if isinstance(each, ast.Call) and called(each) == "arange"), None)
    return made is not None and any(isinstance(each, ast.Compare) for each in written.holders(made))


def indexes(written: Statement) -> bool:
    """`scales[level]` that is used as a value: a list's entry, by one plain index, and not called."""
    part = written.located
    if not isinstance(part, ast.Subscript) or not isinstance(part.slice, ast.Name | ast.Attribute):
        return False
    above = written.holders(part)[:1]
    return not any(isinstance(each, ast.Call) and each.func is part for each in above)


def computes(written: Statement) -> bool:
    """A read value that is the whole of what a variable gets, or takes part in arithmetic; and nothing below asks for
    it as a number.
    """
    return _reads(written) and not asked_for(written)


def number_decides(written: Statement) -> bool:
    """`n = x.item()`, and all that asks for `n` as a number is an `if n > 1:` that computes variables anew; or that
    `if` on `x.item()` itself.
    """
    if isinstance(written.statement, ast.If):
        return _decides(written.statement, written.following)
    asked = asked_for(written)
    blocks = [(each, written.following[at + 1 :]) for at, each in enumerate(written.following) if each in asked]
    return _reads(written) and bool(asked) and all(_decides(each, rest) for each, rest in blocks)


def _decides(found: ast.stmt, following: list[ast.stmt]) -> bool:
    way = Statement(found, following)
    return updates(way) or chooses(way)


def _reads(written: Statement) -> bool:
    above = written.around[1:]
    if not above or not isinstance(written.statement, ast.Assign | ast.AugAssign | ast.Return):
        return False
    in_arithmetic = all(isinstance(each, ast.BinOp | ast.UnaryOp | ast.stmt | ast.operator) for each in above)
    returned = isinstance(written.statement, ast.Return) and len(above) == 1  # The caller wants a number.
    return in_arithmetic and not returned


def asks_for_equality(written: Statement) -> bool:
    """`if torch.equal(a, b):` or `allclose`, which chooses between tensors."""
    test = written.test
    asked = isinstance(test, ast.Call) and called(test) in ("allclose", "equal")
    return asked and (chooses(written) or updates(written))


def sums_rows(written: Statement) -> bool:
    """`for row, n in zip(x, lengths.tolist()): total = total + row[:n].sum()`."""
    found = written.statement
    if not isinstance(found, ast.For) or not _computes(found.body) or len(found.body) != 1:
        return False
    parts = [each for each in ast.walk(found.body[0]) if isinstance(each, ast.Call)]
    if list(map(called, parts)) != ["sum"] or not written.calls_any("tolist"):
        return False
    return any(isinstance(each, ast.Slice) and each.lower is None for each in ast.walk(parts[0]))


def gathers_and_adds(written: Statement) -> bool:
    """`rows = torch.where(c)[0]`, and what follows adds something computed of these rows back to their places."""
    rows = written.target
    if isinstance(rows, ast.Tuple) and len(rows.elts) == 1:  # rows, = torch.where(c)
        rows = rows.elts[0]
    asked = any(called(each) == "where" and len(each.args) == 1 for each in written.calls)
    return asked and _used_once(written, rows, "index_add_", "index_add")


def fills(written: Statement) -> bool:
    """`rows = torch.nonzero(c)...`, and what follows fills these rows with one number."""
    return _used_once(written, written.target, "index_fill_", "index_fill")


def _reduces_masked(written: Statement, method: str) -> bool:
    """Whether `x[mask]`, or `torch.masked_select(x, mask)`, is reduced at once by a method of that name."""
    picked = _masked(written) is not None or written.calls_any("masked_select")
    return picked and _calls_method(written.around[1:3], method)


def _calls_method(above: list[ast.AST], method: str) -> bool:
    """Whether what holds a value is `.method`, and what holds that a call of it without arguments."""
    if len(above) < 2 or not isinstance(above[0], ast.Attribute) or not isinstance(above[1], ast.Call):
        return False
    return above[0].attr == method and not above[1].args and not above[1].keywords


def _masked(written: Statement) -> ast.Subscript | None:
    """`x[mask]` at the break: one index that is a name, an attribute or a comparison, and no position."""
    part = written.located
    if not isinstance(part, ast.Subscript):
        return None
    index = part.slice
    whole = isinstance(index, ast.Name | ast.Attribute | ast.Compare)
    combined = isinstance(getattr(index, "op", None), ast.Invert | ast.BitAnd | ast.BitOr)
    return part if whole or combined else None


def _used_once(written: Statement, rows: ast.expr | None, *functions: str) -> bool:
    """Whether of what follows one statement uses a variable, and hands it to a function of one of these names."""
    if not isinstance(rows, ast.Name):
        return False

    def is_it(node: ast.AST) -> bool:
        return isinstance(node, ast.Name) and node.id == rows.id

    users = [each for each in written.following if any(map(is_it, ast.walk(each)))]
    calls = [each for user in users for each in ast.walk(user) if isinstance(each, ast.Call)]
    return len(users) == 1 and any(is_it(each) for call in calls if called(call) in functions for each in call.args)


def _computes(block: list[ast.stmt]) -> bool:
    """Whether a block only gives variables new values, which may be tensors."""
    assigned = all(isinstance(each, ast.Assign | ast.AugAssign) and _is_tensor(each.value) for each in block)
    return assigned and len(_targets(block)) > 0 and all(name.isidentifier() for name in _targets(block))


def _targets(block: list[ast.stmt]) -> set[str]:
    assigned = [target for each in block if isinstance(each, ast.Assign) for target in each.targets]
    updated = [each.target for each in block if isinstance(each, ast.AugAssign)]
    return {*map(ast.unparse, assigned), *map(ast.unparse, updated)}


def _returned(block: list[ast.stmt]) -> bool:
    *before, last = block or [ast.Pass()]
    if not isinstance(last, ast.Return) or last.value is None or not _is_tensor(last.value):
        return False
    return not before or _computes(before)


def _is_tensor(value: ast.expr) -> bool:
    """Whether a value may be a tensor, as far as code tells: no text, no list, no `None`, no yes or no."""
    if isinstance(value, ast.Constant):
        return type(value.value) in (int, float)
    return not isinstance(
        value, ast.List | ast.Tuple | ast.Dict | ast.Set | ast.ListComp | ast.JoinedStr | ast.Compare | ast.Lambda
    )


_FUNCTIONS: tuple[Callable[[Statement], bool], ...] = (
    only_raises, only_tells, updates, chooses, skips, leaves_a_loop, keeps_for_later, writes_a_window,
    takes_an_entry, skips_by_chance, decides_by_chance, drops_mask, counts, repairs,
    updates_masked, copies_masked, slice_is_summed, compares_positions, indexes, computes, number_decides,
    asks_for_equality, sums_rows, gathers_and_adds, fills,
)  # fmt: skip
SHAPES: dict[str, Callable[[Statement], bool]] = {
    **{each.__name__: each for each in _FUNCTIONS},
    # A `while` that only computes variables anew.
    "repeats": lambda written: (
        isinstance(written.statement, ast.While) and not written.statement.orelse and _computes(written.statement.body)
    ),
    # `x[mask].mean()`, or `torch.masked_select(x, mask).mean()`.
    "averages_masked": lambda written: _reduces_masked(written, "mean"),
    "sums_masked": lambda written: _reduces_masked(written, "sum"),
    # `torch.unique(x).numel()`.
    "counts_elements": lambda written: _calls_method(written.around[1:3], "numel"),
    # `scale = float(x.max().numpy())`: a value read by way of NumPy, and computed with.
    "computes_through_numpy": lambda written: written.calls_any("numpy") and computes(written),
    # `int(np.prod(x.shape))`, of sizes: not of values that a tensor hands to NumPy.
    "multiplies_with_numpy": lambda written: (
        any(ast.unparse(each.func) in ("np.prod", "numpy.prod") for each in written.calls)
        and not written.calls_any("numpy", "cpu", "detach", "tolist")
    ),
    # `x.item()`, `int(n)`; torch reads a number for `layers[index]` too, which is another matter.
    "reads_a_number": lambda written: written.calls_any("item", "int", "float", "bool"),
    "reads_a_list": lambda written: written.calls_any("tolist"),
    # `torch.arange(1, x.dim()).tolist()`: numbers that Python counts as well.
    "lists_a_range": lambda written: any(
        isinstance(made := each.func.value, ast.Call) and ast.unparse(made.func) == "torch.arange"
        for each in written.calls
        if isinstance(each.func, ast.Attribute) and each.func.attr == "tolist"
    ),
    # `torch.tensor(0.0, requires_grad=True)`.
    "makes_a_leaf": lambda written: any(
        each.arg == "requires_grad" for call in written.calls for each in call.keywords
    ),
    "chooses_attention_kernels": lambda written: written.calls_any("sdp_kernel"),
    # `pack_padded_sequence(x, lengths)`, `out, state = self.lstm(packed)`: of the second only the name tells.
    "takes_packed": lambda written: (
        written.statement is not None
        and any(word in ast.unparse(head(written.statement)) for word in ("packed", "pack_padded", "pack_sequence"))
    ),
    # `np.random.rand()`.
    "draws_with_numpy": lambda written: any(
        ast.unparse(each.func).startswith(("np.random.", "numpy.random.")) for each in written.calls
    ),
    # `for i in batch.unique()`.
    "loops_over": lambda written: (
        isinstance(written.statement, ast.For) and written.statement.iter in written.around[:2]
    ),
    # `assert parts`: not `assert len(parts) > 0`.
    "asserts_a_value": lambda written: (
        isinstance(written.statement, ast.Assert)
        and isinstance(written.statement.test, ast.Name | ast.Attribute | ast.Subscript)
    ),
    "asserts": lambda written: isinstance(written.statement, ast.Assert),
    # `x.data_ptr()`.
    "asks_for_address": lambda written: written.calls_any("data_ptr"),
    # `sorted(options.items())`.
    "sorts_items": lambda written: any(
        len(each.args) == 1 and not each.keywords and ast.unparse(each.args[0]).endswith(".items()")
        for each in written.calls
        if called(each) == "sorted"
    ),
    # `sorted(x)`, with neither a key nor `reverse`.
    "sorts_without_key": lambda written: all(
        len(each.args) == 1 and not each.keywords for each in written.calls if called(each) == "sorted"
    ),
    # `F.one_hot(labels, max(labels.max() + 1, 3))`: a number of classes that is computed.
    "counts_classes": lambda written: any(
        called(each) == "one_hot" and len(each.args) == 2 and isinstance(each.args[1], ast.Call)
        for each in written.calls
    ),
    # `torch.bincount(x)` of one tensor; weights would be a second one.
    "bins_without_weights": lambda written: all(
        len(each.args) == 1 for each in written.calls if called(each) == "bincount"
    ),
}
"""Every shape under the name that a recipe's head gives as `shape`."""

"""How the code at a graph break is written: what recipes ask of a statement, by its syntax tree and never its text."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from dynalyze.text.amounts import listed


@dataclass(frozen=True)
class Statement:
    """The statement of a break, those that follow it in its block, and the expression that torch points at.

    `statement` is None where the source is not known: then no recipe that asks for a shape fits.
    """

    statement: ast.stmt | None = None
    following: list[ast.stmt] = field(default_factory=list)
    expression: ast.expr | None = None

    @cached_property
    def calls(self) -> list[ast.Call]:
        """Calls in the expression, or, where that is not known, in the statement's own lines."""
        within = self.expression or (head(self.statement) if self.statement is not None else None)
        return [] if within is None else [each for each in ast.walk(within) if isinstance(each, ast.Call)]

    def calls_any(self, *names: str) -> bool:
        """Whether a function or method of one of these names is called."""
        return any(called(each) in names for each in self.calls)

    @property
    def test(self) -> ast.expr | None:
        """The condition of an `if`, `while` or `assert`."""
        return self.statement.test if isinstance(self.statement, ast.If | ast.While | ast.Assert) else None

    @property
    def target(self) -> ast.expr | None:
        """What the statement assigns to, where that is one thing."""
        if isinstance(self.statement, ast.Assign) and len(self.statement.targets) == 1:
            return self.statement.targets[0]
        return self.statement.target if isinstance(self.statement, ast.AugAssign) else None

    def holders(self, node: ast.AST) -> list[ast.AST]:
        """What holds a part of the statement, the nearest first."""
        parents = {id(child): each for each in ast.walk(self.statement or node) for child in ast.iter_child_nodes(each)}
        found: list[ast.AST] = []
        while (parent := parents.get(id(found[-1] if found else node))) is not None:
            found.append(parent)
        return found

    @cached_property
    def located(self) -> ast.expr | None:
        """The expression of the break as a part of the statement: the first that is written like it."""
        if self.expression is None or self.statement is None:
            return None
        wanted = ast.unparse(self.expression)
        parts = (each for each in ast.walk(self.statement) if isinstance(each, ast.expr))
        return next((each for each in parts if ast.unparse(each) == wanted), None)

    @property
    def around(self) -> list[ast.AST]:
        """The located expression and what holds it, the nearest first; empty where it is not known."""
        return [self.located, *self.holders(self.located)] if self.located is not None else []


def read_statement(block: str, expression: str) -> Statement:
    """The code of a break from its report; what cannot be parsed is not known."""
    statements: list[ast.stmt] = []
    with contextlib.suppress(SyntaxError, ValueError, RecursionError):
        statements = ast.parse(block).body
    node: ast.expr | None = None
    for text in (expression, f"{expression})"):  # A call in a condition is told without its last bracket.
        with contextlib.suppress(SyntaxError, ValueError, RecursionError):
            node = ast.parse(text.strip(), mode="eval").body
            break
    return Statement(statements[0] if statements else None, statements[1:], node)


def head(statement: ast.stmt) -> ast.AST:
    """A statement without the blocks inside of it: of an `if` the condition, of a `for` what it goes through."""
    if isinstance(statement, ast.If | ast.While | ast.Assert):
        return statement.test
    if isinstance(statement, ast.For):
        return statement.iter
    return ast.Tuple([item.context_expr for item in statement.items]) if isinstance(statement, ast.With) else statement


def called(call: ast.Call) -> str:
    """The name of what is called: `sum` for `x.sum()`."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


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
    return _reads(written) and not _asked_for(written)


def number_decides(written: Statement) -> bool:
    """`n = x.item()`, and all that asks for `n` as a number is an `if n > 1:` that computes variables anew; or that
    `if` on `x.item()` itself.
    """
    if isinstance(written.statement, ast.If):
        return _decides(written.statement, written.following)
    asked = _asked_for(written)
    blocks = [(each, written.following[at + 1 :]) for at, each in enumerate(written.following) if each in asked]
    return _reads(written) and bool(asked) and all(_decides(each, rest) for each, rest in blocks)


def needing_a_number(written: Statement) -> str:
    """The code below that needs the number, for texts: "`if n > 1` and `print(n)` below need the number. ", else ""."""
    asked = [f"`{ast.unparse(each).splitlines()[0].rstrip(':')}`" for each in _asked_for(written)]
    if not asked:
        return ""
    return f"{listed(asked[:3])} below {'needs' if len(asked) == 1 else 'need'} the number. "


def asking_for_size(written: Statement) -> str:
    """The decisions below on what a line made, for texts: they break once its size is allowed. "" where there are none:
    "`if rows.numel() == 0` below asks how many there are, and would break next ...".
    """
    made = {each.id for each in ast.walk(written.target or ast.Pass()) if isinstance(each, ast.Name)}
    asked = [each for each in written.following if isinstance(each, ast.If) and made & _names_in(each.test)]
    if not asked:
        return ""
    tests = [f"`if {ast.unparse(each.test)}`" for each in asked[:3]]
    ways = ""
    if empty := [test for test, each in zip(tests, asked, strict=False) if _asks_for_none(each.test)]:
        ways = f" Leave {listed(empty)} out where nothing comes of none."
    cuts = [(cut, len(one.body) > 1) for one in asked for each in one.body if (cut := _first_of(each))]
    if cuts:
        rest = "; keep what else stands in it" if cuts[0][1] else ""
        ways += f" `{cuts[0][0]}` needs no `if`: a slice past the end takes what there is{rest}."
    asks = "asks" if len(asked) == 1 else "ask"
    return (
        f"{listed(tests)} below {asks} how many there are, and would break next or raise an error with the setting "
        f"alone.{ways} "
    )


def _asks_for_none(test: ast.expr) -> bool:
    """`not len(rows)`, `rows.numel() == 0`, `rows.shape[0] < 1`."""
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq | ast.Lt):
        return ast.unparse(test.comparators[0]) == ("0" if isinstance(test.ops[0], ast.Eq) else "1")
    return isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)


def _first_of(statement: ast.stmt) -> str:
    """The slice in `rows = rows[:cap]`, or the first of several; "" where it is something else."""
    value = statement.value if isinstance(statement, ast.Assign) else None
    first = value.elts[0] if isinstance(value, ast.Tuple) and value.elts else value
    cut = first.slice if isinstance(first, ast.Subscript) else None
    return ast.unparse(first) if first is not None and isinstance(cut, ast.Slice) and cut.lower is None else ""


def _names_in(part: ast.AST | None) -> set[str]:
    return set() if part is None else {each.id for each in ast.walk(part) if isinstance(each, ast.Name)}


def _decides(found: ast.stmt, following: list[ast.stmt]) -> bool:
    way = Statement(found, following)
    return updates(way) or chooses(way)


_WANT_NUMBERS = (
    "range", "print", "str", "int", "float", "bool", "format", "append", "add_scalar", "log",
    "arange", "empty", "expand", "eye", "full", "linspace", "narrow", "new_ones", "new_zeros", "ones", "rand", "randn",
    "randperm", "repeat", "reshape", "split", "topk", "view", "zeros",
)  # fmt: skip


def _asked_for(written: Statement) -> list[ast.stmt]:
    """The statements below in which the variable steers Python, makes text or leaves: there a tensor breaks again, or
    is something else.
    """
    names = {written.target.id} if isinstance(written.target, ast.Name) else set()

    def uses(part: ast.AST | None) -> bool:
        return not names.isdisjoint(_names_in(part))

    def asks(part: ast.AST) -> bool:
        if isinstance(part, ast.If | ast.While | ast.IfExp | ast.Assert):
            return uses(part.test)
        if isinstance(part, ast.Slice | ast.FormattedValue):
            return uses(part)
        if not isinstance(part, ast.Call) or not any(map(uses, part.args)):
            return False
        return called(part) in _WANT_NUMBERS or ast.unparse(part.func).startswith("math.")

    found: list[ast.stmt] = []
    for each in written.following:
        if any(map(asks, ast.walk(each))):
            found.append(each)
        elif isinstance(each, ast.Assign) and _is_number(each.value) and uses(each.value):
            names |= {name for target in each.targets for name in _names_in(target)}
    return found


def _is_number(value: ast.expr) -> bool:
    """`min(3 * n, most)`, as `n` is."""
    return isinstance(value, ast.Call) and ast.unparse(value.func) in ("min", "max", "int", "round")


_UNDECIDED = ("range", "print", "str", "split", "linspace", "divmod")
_UNDECIDED_OF_MATH = ("exp", "expm1", "log", "log10", "log1p", "pow", "isnan", "isinf", "isfinite")
"""What torch 2.13 cannot do with a number that it captured: each was tried. `min`, `topk`, `arange`, a slice it can."""


def stays_unknown(written: Statement) -> bool:
    """Whether the code asks for a number in a way that torch cannot follow once it has captured it."""

    def stops(part: ast.AST) -> bool:
        if not isinstance(part, ast.Call):
            return isinstance(part, ast.If | ast.While | ast.IfExp)
        name, of_math = called(part), ast.unparse(part.func).startswith("math.")
        return name in (_UNDECIDED_OF_MATH if of_math else _UNDECIDED)

    below = [part for each in _asked_for(written) for part in ast.walk(each)]
    # At `y[n:]` Inductor 2.13 raises a NameError where `n` is `int()` of a float; `y[:n]` is well.
    begins = any(isinstance(part, ast.Slice) and part.lower is not None for part in below)
    return begins or any(map(stops, [*written.around[1:], *below]))


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

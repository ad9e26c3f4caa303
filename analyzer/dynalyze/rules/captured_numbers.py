"""What the code below a graph break does with a number or a size that was read there: what needs it as a number, and
what torch cannot follow once it has captured it.
"""

from __future__ import annotations

import ast
import re

from dynalyze.rules.statement import Statement, called
from dynalyze.text.amounts import listed


def needing_a_number(written: Statement) -> str:
    """The code below that needs the number, for texts: "`if n > 1` and `print(n)` below need the number. ", else ""."""
    asked = [f"`{ast.unparse(each).splitlines()[0].rstrip(':')}`" for each in asked_for(written)]
    if not asked:
        return ""
    return f"{listed(asked[:3])} below {'needs' if len(asked) == 1 else 'need'} the number. "


def asking_for_size(written: Statement) -> str:
    """The decisions below on what a line made, for texts: they break once its size is allowed. "" where there are none:
    "`if rows.numel() == 0` below asks how many there are, and would break next ...".
    """
    made = {each.id for each in ast.walk(written.target or ast.Pass()) if isinstance(each, ast.Name)}
    asked = [
        each
        for each in written.following
        if isinstance(each, ast.If) and made & _names_in(each.test) and not _KINDS.match(ast.unparse(each.test))
    ]
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


_KINDS = re.compile(r"(?:not )?isinstance\(|[\w.]+ is (?:not )?None$")
"""Conditions on what something is, whatever its size."""


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


_WANT_NUMBERS = (
    "range", "print", "str", "int", "float", "bool", "format", "append", "add_scalar", "log",
    "arange", "empty", "expand", "eye", "full", "linspace", "narrow", "new_ones", "new_zeros", "ones", "rand", "randn",
    "randperm", "repeat", "reshape", "split", "topk", "view", "zeros",
)  # fmt: skip


def asked_for(written: Statement) -> list[ast.stmt]:
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

    below = [part for each in asked_for(written) for part in ast.walk(each)]
    # At `y[n:]` Inductor 2.13 raises a NameError where `n` is `int()` of a float; `y[:n]` is well.
    begins = any(isinstance(part, ast.Slice) and part.lower is not None for part in below)
    return begins or any(map(stops, [*written.around[1:], *below]))

"""Branches on the values of tensors: both sides computed and one chosen (torch.where), or torch.cond."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from dynalyze.fix.rewriting import rewriter
from dynalyze.fix.rewriting.conditions import Condition, called, import_of_torch, tensor_condition, torch_name
from dynalyze.fix.sites import Proposal, Site, statements_of, walk

_BRANCHING = ("Data-dependent branching", "Unsupported Tensor.item()", "Data dependent operator", "Data-dependent")

# Operations that have a value, and a finite gradient, for every input: computed for a side that is not taken, they do
# no harm. sqrt, log, division and the like make NaN there, which a gradient of torch.where lets through.
_TOTAL = frozenset({
    "abs", "relu", "clamp", "clip", "minimum", "maximum", "sign", "neg", "tanh", "sigmoid", "gelu", "silu", "softmax",
    "sum", "mean", "amax", "amin", "masked_fill", "where", "nan_to_num", "float", "half", "bfloat16", "double", "to",
    "type_as", "clone", "detach", "view", "reshape", "permute", "transpose", "unsqueeze", "squeeze", "flatten",
    "expand", "expand_as", "contiguous", "sin", "cos", "zeros_like", "ones_like", "full_like", "zeros", "ones", "full",
    "new_zeros", "new_ones", "new_full", "tensor", "scalar_tensor", "logical_not", "eq", "ne", "gt", "lt", "ge", "le",
    "add", "sub", "mul", "roll", "flip", "tril", "triu", "size", "dim", "finfo", "leaky_relu", "elu",
})  # fmt: skip
_REFUSED = ("print", "append", "extend", "update", "pop", "add", "setdefault", "write", "backward", "manual_seed")


@dataclass(frozen=True)
class _Choice:
    """What the two sides of a branch give the same names; `returns` where they are returned."""

    names: tuple[str, ...]
    when_true: Sequence[cst.BaseStatement]
    when_false: Sequence[cst.BaseStatement]
    returns: bool = False


@rewriter("where-expression", *_BRANCHING, rank=20)
def conditional_expression(site: Site) -> Iterator[Proposal]:
    """`a if c else b` with a condition on a tensor: `torch.where(c, a, b)`."""
    for node in walk(site.statement, lambda each: isinstance(each, cst.IfExp)):
        assert isinstance(node, cst.IfExp)
        condition = tensor_condition(site, node.test)
        if condition is None or condition.static is not None or not (_total(node.body) and _total(node.orelse)):
            continue
        text = f"{torch_name(site)}.where({condition.tensor}, {site.code(node.body)}, {site.code(node.orelse)})"
        yield Proposal(
            "", "Compute both values and choose with torch.where",
            site.with_nodes({node: cst.parse_expression(text)}, import_of_torch(site)), sides=(),
        )  # fmt: skip


@rewriter("where", *_BRANCHING, rank=21)
def choose_with_where(site: Site) -> Iterator[Proposal]:
    """`if c: x = a` `else: x = b` with sides that are safe to compute always: `x = torch.where(c, a, b)`."""
    found = _branch(site)
    if found is None:
        return
    branch, condition, choice = found
    values = _single_values(choice)
    if values is None or not all(_total(each) for each in values):
        return
    one, other = (site.code(each) for each in values)
    chosen = f"{torch_name(site)}.where({condition.tensor}, {one}, {other})"
    text = f"return {chosen}\n" if choice.returns else f"{choice.names[0]} = {chosen}\n"
    yield Proposal(
        "", "Compute both sides and choose with torch.where", _written(site, branch, condition, choice, text),
        sides=_sides(site, branch),
    )  # fmt: skip


@rewriter("cond", *_BRANCHING, rank=30)
def choose_with_cond(site: Site) -> Iterator[Proposal]:
    """The sides as functions of torch.cond, which runs one of them. They must be pure."""
    found = _branch(site)
    if found is None:
        return
    branch, condition, choice = found
    if not all(map(_pure, [*choice.when_true, *choice.when_false])):
        return
    yield Proposal(
        "", "Let torch.cond choose the side",
        _written(site, branch, condition, choice, _cond(site, condition, choice)), sides=_sides(site, branch),
    )  # fmt: skip


@rewriter("assert-async", *_BRANCHING, rank=25)
def raise_asynchronously(site: Site) -> Iterator[Proposal]:
    """`if bad: raise E(...)`: in compiled code an assertion in the graph, in eager what it was."""
    statement = site.statement
    if not isinstance(statement, cst.If) or statement.orelse is not None or not _only_raises(statement.body):
        return
    condition = tensor_condition(site, statement.test)
    if condition is None:
        return
    torch = torch_name(site)
    holds = f"{torch}._assert_async({torch}.logical_not({condition.tensor}), {_message(site, statement)!r})"
    if condition.static is not None:
        holds = f"if {condition.static}:\n        {holds}"
    text = f"if {torch}.compiler.is_compiling():\n    {holds}\nelif 1:\n    pass\n"
    (new,) = statements_of(text)
    assert isinstance(new, cst.If) and isinstance(new.orelse, cst.If)
    otherwise = new.orelse.with_changes(test=statement.test, body=statement.body)
    yield Proposal(
        "", "Check it in the graph: compiled code raises RuntimeError there, eager what it did",
        site.with_statement(new.with_changes(orelse=otherwise), top=import_of_torch(site)),
        sides=_sides(site, statement), loses=("raises",),
    )  # fmt: skip


def _branch(site: Site) -> tuple[cst.If, Condition, _Choice] | None:
    """An `if` on a tensor at the site that gives names, or returns, one of two values."""
    statement = site.statement
    if not isinstance(statement, cst.If) or not isinstance(statement.body, cst.IndentedBlock):
        return None
    condition = tensor_condition(site, statement.test)
    choice = _choice(site, statement)
    return None if condition is None or choice is None else (statement, condition, choice)


def _choice(site: Site, branch: cst.If) -> _Choice | None:
    when_true = _statements(branch.body)
    if when_true is None:
        return None
    if _returned(when_true) is not None:
        when_false = _statements(branch.orelse.body) if isinstance(branch.orelse, cst.Else) else list(site.following)
        if branch.orelse is not None and not isinstance(branch.orelse, cst.Else):
            return None
        return None if when_false is None or _returned(when_false) is None else _Choice((), when_true, when_false, True)
    when_false = [] if branch.orelse is None else None
    if isinstance(branch.orelse, cst.Else):
        when_false = _statements(branch.orelse.body)
    if when_false is None:
        return None
    one, other = _assigned(when_true), _assigned(when_false)
    if one is None or other is None:
        return None
    # What one side alone makes for itself need not come out of it.
    names = tuple(name for name in one if name in other or not branch.orelse or _used_after(site, name))
    names += tuple(name for name in other if name not in names and _used_after(site, name))
    return _Choice(names, when_true, when_false) if names else None


def _statements(body: cst.BaseSuite) -> list[cst.BaseStatement] | None:
    if not isinstance(body, cst.IndentedBlock):
        return None
    return [each for each in body.body if isinstance(each, cst.BaseStatement)]


def _assigned(statements: Sequence[cst.BaseStatement]) -> tuple[str, ...] | None:
    """The names that simple assignments give values to; None where other things are done."""
    names: list[str] = []
    for each in statements:
        if not isinstance(each, cst.SimpleStatementLine):
            return None
        for small in each.body:
            if isinstance(small, cst.Pass):
                continue
            if not isinstance(small, cst.Assign) or len(small.targets) != 1:
                return None
            target = small.targets[0].target
            parts = [part.value for part in target.elements] if isinstance(target, cst.Tuple) else [target]
            if not all(isinstance(part, cst.Name) for part in parts):
                return None
            names += [part.value for part in parts if isinstance(part, cst.Name)]
    return tuple(dict.fromkeys(names))


def _returned(statements: Sequence[cst.BaseStatement]) -> cst.BaseExpression | None:
    """The value of the `return` at the end; what stands before it must be simple assignments."""
    if not statements or not isinstance(statements[-1], cst.SimpleStatementLine):
        return None
    last = statements[-1].body[-1]
    if not isinstance(last, cst.Return) or last.value is None or len(statements[-1].body) != 1:
        return None
    return last.value if _assigned(statements[:-1]) is not None else None


def _single_values(choice: _Choice) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
    """The two values, where each side is one expression."""
    if choice.returns:
        if len(choice.when_true) != 1 or len(choice.when_false) != 1:
            return None
        one, other = _returned(choice.when_true), _returned(choice.when_false)
        return None if one is None or other is None else (one, other)
    if len(choice.names) != 1 or len(choice.when_true) != 1 or len(choice.when_false) > 1:
        return None
    one, other = _value(choice.when_true[0]), cst.Name(choice.names[0])
    if choice.when_false:
        found = _value(choice.when_false[0])
        return None if one is None or found is None else (one, found)
    return None if one is None else (one, other)


def _value(statement: cst.BaseStatement) -> cst.BaseExpression | None:
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
        return None
    only = statement.body[0]
    return only.value if isinstance(only, cst.Assign) and isinstance(only.targets[0].target, cst.Name) else None


def _total(node: cst.CSTNode) -> bool:
    """Whether an expression has a value and a finite gradient for all inputs, does nothing else and costs little."""
    for each in walk(node):
        if isinstance(each, cst.Call):
            name = called(each)
            if name not in _TOTAL:
                return False
        if isinstance(each, cst.BinaryOperation) and not isinstance(
            each.operator, cst.Add | cst.Subtract | cst.Multiply | cst.BitAnd | cst.BitOr
        ):
            return False
        if isinstance(each, cst.NamedExpr | cst.Await | cst.Yield | cst.Lambda | cst.BaseComp):
            return False
    return True


def _pure(node: cst.CSTNode) -> bool:
    """Nothing in it is changed in place, printed or kept, as far as names tell; the proof looks at what happens."""
    for each in walk(node):
        if isinstance(
            each, cst.AugAssign | cst.Del | cst.Global | cst.Nonlocal | cst.NamedExpr | cst.Await | cst.Yield
        ):
            return False
        if isinstance(each, cst.Call):
            name = called(each)
            if (name.endswith("_") and not name.endswith("__")) or name in _REFUSED:
                return False
    return True


def _used_after(site: Site, name: str) -> bool:
    """Whether a name is read anywhere after the statement: in its block, or around it in a loop."""
    first, _, last, _ = site.range_of(site.statement)
    for node in walk(site.function, lambda each: isinstance(each, cst.Name)):
        assert isinstance(node, cst.Name)
        if node.value == name and not first <= site.range_of(node)[0] <= last:
            return True
    return False


def _written(site: Site, branch: cst.If, condition: Condition, choice: _Choice, text: str) -> str:
    """The file with the branch replaced; what both sides returned is returned, and nothing stands after it."""
    also = [] if not choice.returns or branch.orelse is not None else list(site.following)
    statements = statements_of(text)
    if condition.static is not None:
        (outer,) = statements_of(f"if {condition.static}:\n    pass\n")
        assert isinstance(outer, cst.If) and isinstance(outer.body, cst.IndentedBlock)
        outer = outer.with_changes(body=outer.body.with_changes(body=statements))
        if choice.returns:
            return site.with_statement(outer, top=import_of_torch(site))
        if isinstance(branch.orelse, cst.Else):
            outer = outer.with_changes(orelse=branch.orelse)
        return site.with_statement(outer, top=import_of_torch(site))
    return site.with_statement(*statements, also=also, top=import_of_torch(site))


def _cond(site: Site, condition: Condition, choice: _Choice) -> str:
    """Two functions and the call of torch.cond, as source."""
    read = {each.value for each in walk(site.function, lambda n: isinstance(n, cst.Name)) if isinstance(each, cst.Name)}
    stem = "_".join(choice.names[:2]) or "result"
    one, other = (_fresh(f"{stem}_{which}", read) for which in ("if_true", "if_false"))
    operands = _operands(site, choice)
    takes = ", ".join(operands)
    text = _function(site, one, takes, choice, choice.when_true) + _function(
        site, other, takes, choice, choice.when_false
    )
    call = f"{torch_name(site)}.cond({condition.tensor}, {one}, {other}, ({takes}{',' if len(operands) == 1 else ''}))"
    if choice.returns:
        return f"{text}return {call}\n"
    return f"{text}{', '.join(choice.names)} = {call}\n"


def _fresh(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _operands(site: Site, choice: _Choice) -> list[str]:
    """Tensors that a side both reads and assigns, or hands on unchanged: they are passed, all others closed over."""
    assigned = {
        *(_assigned(_body(choice.when_true, choice)) or ()),
        *(_assigned(_body(choice.when_false, choice)) or ()),
    }
    read: list[str] = []
    for statement in [*choice.when_true, *choice.when_false]:
        for node in walk(statement, lambda each: isinstance(each, cst.Name)):
            assert isinstance(node, cst.Name)
            if node.value not in read and (node.value in assigned or site.is_tensor(node)):
                read.append(node.value)
    for name in choice.names:
        if name not in read:
            read.append(name)
    return [name for name in read if (found := site.values.get(name)) is not None and found.kind == "tensor"]


def _body(statements: Sequence[cst.BaseStatement], choice: _Choice) -> Sequence[cst.BaseStatement]:
    return statements[:-1] if choice.returns else statements


def _function(site: Site, name: str, takes: str, choice: _Choice, statements: Sequence[cst.BaseStatement]) -> str:
    """One side as a function. What it hands on without computing it is copied: torch.cond forbids aliases."""
    lines = [site.code(each).strip("\n") for each in _body(statements, choice)]
    lines = [line.strip() for line in lines]
    if choice.returns:
        value = _returned(statements)
        assert value is not None
        given = [site.code(value)] if not isinstance(value, cst.Name) else [f"{site.code(value)}.clone()"]
    else:
        made = set(_assigned(statements) or ())
        given = [
            each if each in made and not _is_name(statements, each) else f"{each}.clone()" for each in choice.names
        ]
    body = "".join(f"    {line}\n" for line in lines)
    return f"def {name}({takes}):\n{body}    return {', '.join(given)}\n"


def _is_name(statements: Sequence[cst.BaseStatement], name: str) -> bool:
    """Whether a side gives `name` another variable as it is: `x = y`."""
    last = None
    for each in statements:
        value = _value(each)
        if value is not None and (_assigned([each]) or ())[:1] == (name,):
            last = value
    return isinstance(last, cst.Name | cst.Attribute)


def _sides(site: Site, branch: cst.If) -> tuple[int, ...]:
    """The first line of each side, in the file as it is."""
    found = [site.range_of(branch.body.body[0])[0]]
    if isinstance(branch.orelse, cst.Else):
        found.append(site.range_of(branch.orelse.body.body[0])[0])
    elif branch.orelse is None and site.following:
        found.append(site.range_of(site.following[0])[0])
    return tuple(found)


def _only_raises(body: cst.BaseSuite) -> bool:
    statements = _statements(body)
    if not statements or not isinstance(statements[-1], cst.SimpleStatementLine):
        return False
    return isinstance(statements[-1].body[-1], cst.Raise) and _assigned(statements[:-1]) is not None


def _message(site: Site, statement: cst.If) -> str:
    """The first text among what is raised; a message in a graph must be a constant."""
    for node in walk(statement.body):
        if isinstance(node, cst.SimpleString):
            value = node.evaluated_value
            return value if isinstance(value, str) else str(value)
        if isinstance(node, cst.FormattedString):
            texts = [part.value for part in node.parts if isinstance(part, cst.FormattedStringText)]
            return "...".join(texts).strip() or "a check failed"
    return f"not {site.code(statement.test)}"

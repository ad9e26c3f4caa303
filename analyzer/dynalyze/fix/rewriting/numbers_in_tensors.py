"""Numbers that a module keeps in tensors, and sizes that are worked out of them: `self.stride = nn.Buffer(torch.tensor(
conv.stride[0]))`. Methods compute with the numbers themselves, which the tensors were made of.

What a number was made of is followed through `__init__`; nothing is added to the module, so that it need not be made
anew, and checkpoints are what they were.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import libcst as cst

from dynalyze.fix.rewriting import rewriter
from dynalyze.fix.rewriting.conditions import called, torch_name
from dynalyze.fix.settings import READS
from dynalyze.fix.sites import Changes, Proposal, Site, statements_of, walk, with_top

_HELD = ("tensor", "Buffer", "as_tensor", "LongTensor", "IntTensor")
_ROUNDED = ("ceil", "floor")
_CAST = ("to", "int", "long", "item")


@rewriter("numbers-in-tensors", *READS, "Data-dependent", rank=12, outer=True)
def compute_with_numbers(site: Site) -> Iterator[Proposal]:
    """`length - self.kernel_size`, with a buffer of one number: `length - kernel_size`, with what it was made of."""
    owner = _class_of(site)
    numbers = _Made.by(owner) if owner is not None else {}
    if owner is None or not numbers:
        return
    methods = [each for each in owner.body if isinstance(each, ast.FunctionDef) and each.name != "__init__"]
    title = f"Compute the sizes in `{owner.name}` with the numbers that its tensors are made of"
    for branch, where in enumerate(("", ", in the first branch", ", in the second branch", ", in the third branch")):
        text, changed = site.text, set[str]()
        for each in reversed(methods):  # From below, so that lines above stay where they are.
            new = _with_numbers(site.at(text, each.body[0].lineno), numbers, branch - 1 if branch else None)
            changed |= {each.name} if new else set()
            text = new or text
        callers = {call.func.attr for each in methods if each.name not in changed for call in ast.walk(each)
                   if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)}  # fmt: skip
        if changed and not callers & changed:
            top = "import math\n" if text.count("math.") > site.text.count("math.") else ""
            yield Proposal("", title + where, with_top(text, top) if top else text)


def _class_of(site: Site) -> ast.ClassDef | None:
    """The innermost class that holds the line."""
    classes = [each for each in ast.walk(ast.parse(site.text)) if isinstance(each, ast.ClassDef)]
    holding = [each for each in classes if each.lineno <= site.line <= (each.end_lineno or each.lineno)]
    return max(holding, key=lambda each: each.lineno, default=None)


@dataclass
class _Made:
    """What the variables and attributes of an `__init__` were made of, as expressions of other attributes of the
    object; `tensors` are the attributes that hold the number as a tensor.
    """

    taken: set[str]
    variables: dict[str, ast.expr] = field(default_factory=dict)
    attributes: dict[str, ast.expr] = field(default_factory=dict)
    tensors: set[str] = field(default_factory=set)

    @classmethod
    def by(cls, owner: ast.ClassDef) -> Mapping[str, str]:
        """The attributes that hold numbers as tensors, with what these were made of, as source."""
        methods = [each for each in owner.body if isinstance(each, ast.FunctionDef)]
        init = next((each for each in methods if each.name == "__init__"), None)
        if init is None:
            return {}
        made = cls({each.arg for each in [*init.args.args, *init.args.kwonlyargs]} - {"self"})
        for statement in init.body:
            made.read(statement)
        numbers = {name: made.attributes[name] for name in made.tensors if name in made.attributes}
        changed = _changed_later(owner)
        return {
            name: ast.unparse(number) for name, number in numbers.items()
            if name not in changed and changed.isdisjoint(_attributes_of(number))
        }  # fmt: skip

    def read(self, statement: ast.stmt) -> None:
        """One statement of `__init__`, in their order."""
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            self._put(statement.targets[0], statement.value)
            return
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            call = statement.value
            name = call.args[0] if call.args else None
            is_buffer = ast.unparse(call.func) == "self.register_buffer" and not _in_checkpoints(call)
            if is_buffer and isinstance(name, ast.Constant) and call.args[1:]:
                self._put(ast.Attribute(ast.Name("self"), str(name.value)), call.args[1], held=True)
            return
        for each in ast.walk(statement):  # What may be assigned is not known any more.
            if isinstance(each, ast.Name | ast.Attribute) and isinstance(each.ctx, ast.Store):
                self._forget(each)

    def _put(self, target: ast.expr, value: ast.expr, held: bool = False) -> None:
        made = self._number(value)
        self._forget(target)
        if isinstance(target, ast.Name) and made is not None:
            self.variables[target.id] = made
        if not isinstance(target, ast.Attribute) or ast.unparse(target.value) != "self":
            return
        if isinstance(value, ast.Name) and value.id in self.taken:  # Said by the attribute from now on.
            self.variables[value.id] = ast.Attribute(ast.Name("self"), target.attr)
        elif made is not None:
            self.attributes[target.attr] = made
            if held or self._holds(value):
                self.tensors.add(target.attr)

    def _forget(self, target: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self.variables.pop(target.id, None)
            self.taken.discard(target.id)
        elif isinstance(target, ast.Attribute):
            self.attributes.pop(target.attr, None)
            self.tensors.discard(target.attr)

    def _holds(self, value: ast.expr) -> bool:
        """Whether a number is held as a tensor: made one, or worked out of one."""
        calls = [each for each in ast.walk(value) if isinstance(each, ast.Call)]
        return any(_name(each) in _HELD for each in calls) or not self.tensors.isdisjoint(_attributes_of(value))

    def _number(self, node: ast.expr) -> ast.expr | None:
        """An expression of numbers and of attributes of the object; None where it is another one."""
        found: ast.expr | None = None
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            found = node
        elif isinstance(node, ast.Name):
            found = self.variables.get(node.id)
        elif isinstance(node, ast.Attribute | ast.Subscript):
            found = self._attribute(node)
        elif isinstance(node, ast.BinOp):
            left, right = self._number(node.left), self._number(node.right)
            found = ast.BinOp(left, node.op, right) if left is not None and right is not None else None
        elif isinstance(node, ast.Call) and node.args and _name(node) in (*_HELD, "int") and not _in_checkpoints(node):
            found = self._number(node.args[0])
        return found

    def _attribute(self, node: ast.Attribute | ast.Subscript) -> ast.expr | None:
        """`self.conv.stride[0]` as it is, and `self.padding_total` as what it was made of."""
        root: ast.expr = node
        while isinstance(root, ast.Attribute | ast.Subscript):
            inner = root.value
            if isinstance(inner, ast.Name) and inner.id == "self" and isinstance(root, ast.Attribute):
                return self.attributes.get(root.attr) if root is node else node
            if isinstance(root, ast.Subscript) and not isinstance(root.slice, ast.Constant):
                return None
            root = inner
        return None


def _in_checkpoints(call: ast.Call) -> bool:
    """Whether a call makes a buffer that a checkpoint may have another value of."""
    kept = [each.value for each in call.keywords if each.arg == "persistent"]
    return _name(call) in ("Buffer", "register_buffer") and [ast.unparse(each) for each in kept] != ["False"]


def _attributes_of(node: ast.expr) -> set[str]:
    return {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}


def _changed_later(owner: ast.ClassDef) -> set[str]:
    """The attributes that other methods than `__init__` assign, or change in place."""
    found: set[str] = set()
    for method in owner.body:
        for each in ast.walk(method) if getattr(method, "name", "__init__") != "__init__" else ():
            if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store):
                found.add(each.attr)
            elif isinstance(each, ast.Attribute) and each.attr.endswith("_") and isinstance(each.value, ast.Attribute):
                found.add(each.value.attr)
    return found


def _name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)


def _with_numbers(site: Site, numbers: Mapping[str, str], branch: int | None) -> str:
    """The file with a method that computes with the numbers; "" where it reads none, or needs the tensors. With
    `branch` in that one alone of its branches that read some: what no call runs is better left as it is.
    """
    site = site.at(_rounded_by_math(site, numbers), site.line)
    reads = {each: name for each in walk(site.function) if (name := _read(each)) in numbers}
    wanted = (cst.Attribute, cst.Subscript, cst.AssignTarget, cst.AugAssign)
    if not reads or any(isinstance(site.parents[each], wanted) for each in reads):
        return ""
    if branch is not None:
        sides = {each: _side(site, each) for each in reads}
        ordered = list(dict.fromkeys(each for each in sides.values() if each is not None))
        kept = [None, *ordered[branch : branch + 1]]
        reads = {each: name for each, name in reads.items() if sides[each] in kept}
        if not reads:
            return ""
    labels = {each.attr for each in walk(site.function) if isinstance(each, cst.Attribute)}
    bound = {each.value for each in walk(site.function) if isinstance(each, cst.Name) and each not in labels}
    names = {each: f"{each}_number" if each in bound else each for each in reads.values()}
    lines = statements_of("".join(_lines({name: numbers[each] for each, name in names.items()})))
    changes: Changes = {each: cst.Name(names[name]) for each, name in reads.items()}
    rest = site.at(site.with_nodes(changes), site.line)
    first = rest.function.body.body[rest.function.get_docstring() is not None]
    return rest.with_nodes({first: [*lines, first]}) if isinstance(first, cst.BaseStatement) else ""


def _side(site: Site, node: cst.CSTNode) -> cst.CSTNode | None:
    """The innermost block of a branch that holds a node; None where nothing decides whether it runs."""
    above: cst.CSTNode | None = node
    while (above := site.parents.get(above)) is not None:  # type: ignore[arg-type]
        if isinstance(above, cst.IndentedBlock) and isinstance(site.parents.get(above), cst.If | cst.Else):
            return above
    return None


def _lines(numbers: Mapping[str, str]) -> list[str]:
    """Numbers as assignments, short ones first, each said by those above where it is made of them."""
    above: dict[str, str] = {}
    lines = []
    for name, text in sorted(numbers.items(), key=lambda each: len(each[1])):
        tree = ast.parse(text, mode="eval")
        told = ast.unparse(_Said(above).visit(tree)) if text not in above else above[text]
        lines.append(f"{name} = {told}\n")
        above.setdefault(text, name)
    return lines


class _Said(ast.NodeTransformer):
    """Puts names in the place of what they stand for."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def visit(self, node: ast.AST) -> ast.AST:
        name = self._names.get(ast.unparse(node)) if isinstance(node, ast.expr) else None
        return ast.Name(name) if name is not None else self.generic_visit(node)


def _rounded_by_math(site: Site, numbers: Mapping[str, str]) -> str:
    """The file with `math.ceil(n)` where the method has `torch.ceil(n).to(torch.int64)` of such numbers."""
    known: set[str] = set()

    def is_number(node: cst.BaseExpression) -> bool:
        if isinstance(node, cst.BinaryOperation):
            return is_number(node.left) and is_number(node.right)
        if isinstance(node, cst.Subscript):
            return isinstance(node.value, cst.Attribute) and node.value.attr.value == "shape"
        if isinstance(node, cst.Call):
            return rounded(node) is not None or called(node) in ("size", "len")
        return isinstance(node, cst.Integer) or _read(node) in numbers or site.code(node) in known

    def rounded(call: cst.Call) -> cst.Call | None:
        if isinstance(call.func, cst.Attribute) and isinstance(call.func.value, cst.Call) and called(call) in _CAST:
            return rounded(call.func.value)
        of_torch = isinstance(call.func, cst.Attribute) and site.code(call.func.value) == torch_name(site)
        if of_torch and called(call) in _ROUNDED and len(call.args) == 1 and is_number(call.args[0].value):
            return call.with_changes(func=cst.parse_expression(f"math.{called(call)}"))
        return None

    changes: Changes = {}
    for node in walk(site.function, lambda each: isinstance(each, cst.Assign)):
        assert isinstance(node, cst.Assign)
        target = site.code(node.targets[0].target)
        known = known | {target} if is_number(node.value) else known - {target}
        inner = [each for each in walk(node.value) if isinstance(each, cst.Call)]
        if (found := next((each for each in inner if rounded(each) is not None), None)) is not None:
            changes[found] = rounded(found)
    return site.with_nodes(changes)


def _read(node: cst.CSTNode) -> str:
    """The name of an attribute of the object; "" for another expression."""
    of_self = isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name) and node.value.value == "self"
    return node.attr.value if isinstance(node, cst.Attribute) and of_self else ""

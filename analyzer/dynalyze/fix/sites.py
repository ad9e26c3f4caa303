"""The code at a graph break as a tree that can be changed: the function that holds it, with its formatting kept.

Only the function is parsed by libcst, and put back between the lines around it, so that large files cost nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar, overload

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

from dynalyze.capture.source_lines import lines_of
from dynalyze.report import GraphBreak

Changes = dict[cst.CSTNode, cst.CSTNode | Sequence[cst.CSTNode] | None]
"""Nodes and their replacements: one node, several or none."""
Node = TypeVar("Node", bound=cst.CSTNode)
_HOLDER = "if 1:\n"
"""Makes an indented function a module of its own, whatever its indentation."""


_STEP = 4
_LOOSE = (cst.BinaryOperation, cst.UnaryOperation, cst.Comparison, cst.BooleanOperation, cst.IfExp, cst.Lambda)
_BINDING = (cst.ComparisonTarget, cst.Attribute, cst.Subscript, cst.Call, cst.Await)


class NoSite(Exception):
    """The line is in no function, or its file is no Python; the text says which."""


@dataclass(frozen=True)
class Value:
    """What an expression was when the program ran: `kind` is "tensor", "int", "function", "module", ... and the rest
    says more of a tensor, or of a function by its qualified name.
    """

    kind: str
    name: str = ""
    dtype: str = ""
    dims: int | None = None


@dataclass
class Proposal:
    """A change that might end a break: `source`, the whole new text of `file`, or `settings`; `rewrite` is the name of
    who proposes it. `sides` are the first lines of sides of a branch that it concerns. `loses` are kinds of side
    effects ("printed", "logged", ...) that compiled code does not have any more, by intention: they are told, and are
    no reason against it. `uncompared` says why what it does cannot be compared: then it is suggested at most. `fault`
    is the error by which a rewriter ended; then there is no change.
    """

    title: str
    source: str = ""
    file: str = ""
    settings: dict[str, object] = field(default_factory=dict)
    sides: tuple[int, ...] = ()
    loses: tuple[str, ...] = ()
    uncompared: str = ""
    rewrite: str = ""
    fault: str = ""


@dataclass(frozen=True)
class Site:
    """A graph break in the text of its file. `values` are what expressions at the line were, by their source."""

    broken: GraphBreak
    text: str
    line: int
    values: dict[str, Value] = field(default_factory=dict)

    @cached_property
    def _span(self) -> tuple[int, int]:
        """The first and last line of the function, its decorators included."""
        return _lines_of(self._node)

    @cached_property
    def _node(self) -> ast.FunctionDef | ast.AsyncFunctionDef:
        """The innermost function that holds the line."""
        try:
            tree = ast.parse(self.text)
        except (SyntaxError, ValueError, RecursionError) as error:
            raise NoSite(f"the file is no Python: {error}") from error
        found: ast.FunctionDef | ast.AsyncFunctionDef | None = None
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                first, last = _lines_of(node)
                if first <= self.line <= last and (found is None or first >= _lines_of(found)[0]):
                    found = node
        if found is None:
            raise NoSite("the line is in no function")
        return found

    @cached_property
    def _wrapper(self) -> MetadataWrapper:
        first, last = self._span
        lines = lines_of(self.text)[first - 1 : last]
        indented = lines[0].lstrip("\f")[:1].isspace()
        body = self._node.body[0]
        step = body.col_offset - self._node.col_offset if body.lineno > self._node.lineno else _STEP
        source = (_HOLDER if indented else "") + "".join(lines)
        try:
            module = cst.parse_module(source)
        except cst.ParserSyntaxError as error:
            raise NoSite(f"libcst cannot read the function: {error.message}") from error
        if module.code != source:  # As where a form feed stands before code.
            raise NoSite("libcst would change lines of the function that stay")
        if module.default_indent != " " * step:  # What is put in would be indented like the function itself.
            written = module.visit(_Indented(module.default_indent))
            assert isinstance(written, cst.Module)
            module = written.with_changes(default_indent=" " * step)
        return MetadataWrapper(module, unsafe_skip_copy=True)

    @property
    def module(self) -> cst.Module:
        """The function as a module of its own."""
        return self._wrapper.module

    @cached_property
    def _positions(self) -> dict[cst.CSTNode, CodeRange]:
        return dict(self._wrapper.resolve(PositionProvider))

    def range_of(self, node: cst.CSTNode) -> tuple[int, int, int, int]:
        """First line, first column, last line, last column of a node in the file; columns count from 0."""
        where = self._positions[node]
        above = self._span[0] - 1 - (1 if self._is_held else 0)
        return where.start.line + above, where.start.column, where.end.line + above, where.end.column

    @property
    def _is_held(self) -> bool:
        return self.module.code.startswith(_HOLDER)

    @cached_property
    def function(self) -> cst.FunctionDef:
        """The function that holds the line."""
        body: cst.CSTNode = self.module.body[0]
        if isinstance(body, cst.If):
            assert isinstance(body.body, cst.IndentedBlock)
            body = body.body.body[0]
        assert isinstance(body, cst.FunctionDef)
        return body

    @cached_property
    def parents(self) -> dict[cst.CSTNode, cst.CSTNode]:
        """The parent of each node of the function."""
        return {child: node for node in walk(self.function) for child in node.children}

    @cached_property
    def statement(self) -> cst.SimpleStatementLine | cst.BaseCompoundStatement:
        """The innermost statement whose own lines, without the blocks in it, hold the line."""
        found: cst.CSTNode | None = None
        for node in walk(self.function):
            if isinstance(node, cst.SimpleStatementLine | cst.BaseCompoundStatement) and node is not self.function:
                first, _, last, _ = self.range_of(node)
                if first <= self.line <= last:
                    found = node
        if found is None:
            raise NoSite("no statement stands on the line")
        assert isinstance(found, cst.SimpleStatementLine | cst.BaseCompoundStatement)
        return found

    @cached_property
    def expression(self) -> cst.BaseExpression | None:
        """The expression that the break's columns span, where torch told them and the line is as it was."""
        start, end = self.broken.location.column, self.broken.location.end_column
        if start is None:
            return None
        matching = [
            node
            for node in walk(self.statement)
            if isinstance(node, cst.BaseExpression) and self.range_of(node)[:2] == (self.line, start)
        ]
        exact = [n for n in matching if end is not None and self.range_of(n)[2:] == (self.line, end)]
        return next(iter(exact or matching), None)

    @property
    def block(self) -> Sequence[cst.BaseStatement]:
        """The statements of the block that holds the statement."""
        parent = self.parents[self.statement]
        assert isinstance(parent, cst.IndentedBlock)
        return [each for each in parent.body if isinstance(each, cst.BaseStatement)]

    @property
    def following(self) -> Sequence[cst.BaseStatement]:
        """The statements after it in its block."""
        block = list(self.block)
        return block[block.index(self.statement) + 1 :]

    def code(self, node: cst.CSTNode) -> str:
        """A node as source."""
        return self.module.code_for_node(node)

    def value(self, node: cst.CSTNode) -> Value | None:
        """What an expression was when the program ran, where that is known."""
        return self.values.get(self.code(node).strip())

    def is_tensor(self, node: cst.CSTNode) -> bool:
        found = self.value(node)
        return found is not None and found.kind == "tensor"

    def with_nodes(self, changes: Changes, top: str = "") -> str:
        """The file with these nodes replaced, each by another one, by several or by nothing; `top` are lines that go
        below the imports, unless they are there.
        """
        kept = {old: self._bracketed(old, new) if isinstance(new, cst.BaseExpression) else new
                for old, new in changes.items()}  # fmt: skip
        changed = self.module.visit(Replacer(kept))
        assert isinstance(changed, cst.Module)
        code = changed.code.removeprefix(_HOLDER) if self._is_held else changed.code
        first, last = self._span
        lines = lines_of(self.text)
        if lines[last - 1].endswith("\n") and not code.endswith("\n"):
            code += "\n"
        text = "".join([*lines[: first - 1], code, *lines[last:]])
        return with_top(text, top) if top else text

    def _bracketed(self, old: cst.CSTNode, new: cst.BaseExpression) -> cst.BaseExpression:
        """An expression that binds its parts together where it takes the place of a part of another one."""
        if new.lpar or not isinstance(new, _LOOSE) or not isinstance(self.parents.get(old), (*_LOOSE, *_BINDING)):
            return new
        return new.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])

    def with_statement(self, *statements: cst.BaseStatement, also: Sequence[cst.CSTNode] = (), top: str = "") -> str:
        """The file with the statement replaced by these, and `also` other ones left out. Comments above it stay."""
        new = list(statements)
        if new and hasattr(new[0], "leading_lines"):
            new[0] = new[0].with_changes(leading_lines=self.statement.leading_lines)
        changes: Changes = dict.fromkeys(also)
        return self.with_nodes({**changes, self.statement: new}, top)


def _lines_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[int, int]:
    first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
    return first, node.end_lineno or node.lineno


class _Indented(cst.CSTTransformer):
    """Writes the indentation of blocks out."""

    def __init__(self, indent: str) -> None:
        super().__init__()
        self._indent = indent

    def leave_IndentedBlock(self, original_node: cst.IndentedBlock, updated_node: cst.IndentedBlock) -> cst.BaseSuite:
        return updated_node if updated_node.indent is not None else updated_node.with_changes(indent=self._indent)


class Replacer(cst.CSTTransformer):
    """Replaces nodes by identity."""

    def __init__(self, changes: Changes) -> None:
        super().__init__()
        self._changes = changes

    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> object:  # type: ignore[override]
        if original_node not in self._changes:
            return updated_node
        new = self._changes[original_node]
        if new is None:
            return cst.RemoveFromParent()
        return new if isinstance(new, cst.CSTNode) else cst.FlattenSentinel(new)


def replaced(node: cst.CSTNode, changes: Mapping[cst.CSTNode, cst.CSTNode]) -> cst.BaseExpression:
    """An expression with some nodes in it replaced."""
    new = node.visit(Replacer({**changes}))
    assert isinstance(new, cst.BaseExpression)
    return new


def with_top(text: str, top: str) -> str:
    """A file with these lines below its imports at the top, where they are not there yet; an import stands above those
    from the same package.
    """
    if f"\n{top}" in f"\n{text}":
        return text
    imported, _, rest = top.partition("\n")
    last, body = 0, ast.parse(text).body
    for each in body:
        from_same = isinstance(each, ast.ImportFrom) and not each.level and each.module is not None
        if from_same and imported == f"import {each.module.partition('.')[0]}":  # type: ignore[attr-defined]
            lines = text.splitlines(keepends=True)
            text = "".join([*lines[: each.lineno - 1], f"{imported}\n", *lines[each.lineno - 1 :]])
            return with_top(text, rest) if rest else text
    for each in body:
        is_text = isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)
        if isinstance(each, ast.Import | ast.ImportFrom) or (is_text and not last):
            last = each.end_lineno or each.lineno
        elif not is_text:
            break
    lines = lines_of(text)
    return "".join([*lines[:last], top if top.endswith("\n") else f"{top}\n", *lines[last:]])


@overload
def walk(node: cst.CSTNode) -> list[cst.CSTNode]: ...
@overload
def walk(node: cst.CSTNode, kind: type[Node]) -> list[Node]: ...
def walk(node: cst.CSTNode, kind: type[cst.CSTNode] = cst.CSTNode) -> list[Any]:
    """A node and all below it, outer ones first; or those of one kind among them."""
    found = [node]
    for each in found:
        found.extend(each.children)
    return [each for each in found if isinstance(each, kind)]


def statements_of(text: str) -> list[cst.BaseStatement]:
    """Statements written out as source."""
    return [each for each in cst.parse_module(text).body if isinstance(each, cst.BaseStatement)]

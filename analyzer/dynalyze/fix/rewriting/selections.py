"""Rows that a boolean mask chooses, computed with by themselves and put back through the same mask: all rows are
computed with, those that it leaves out as zeros, and the mask chooses between the results and what was there.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from dynalyze.fix.rewriting import rewriter
from dynalyze.fix.rewriting.choices import targets_of
from dynalyze.fix.rewriting.conditions import called, import_of_torch, torch_name
from dynalyze.fix.rewriting.masked import MASKED, Masked, bracketed, changed_by, masked_of, replaced
from dynalyze.fix.rewriting.purity import UPDATES, fresh_name, names_of, number, pure, total_of_rows
from dynalyze.fix.sites import Changes, Proposal, Site, statements_of, walk

_SCATTERED = ("Attempted to call function marked as skipped",)
_Statements = dict[cst.BaseStatement, list[cst.BaseStatement]]
"""What becomes of statements."""
_COUNTING = ("numel", "size", "len", "item", "tolist")
"""What asks how many rows were chosen, or for the values of one alone."""


@rewriter("rows-under-mask", *MASKED, *_SCATTERED, rank=18)
def compute_all_rows(site: Site) -> Iterator[Proposal]:
    """`t = f(x[mask])`, `x[mask] += g(t)`; `x[mask] = f(x[mask])`; `x = x.masked_scatter(mask, f(x[mask]))`: of all
    rows, and `torch.where`. Whether each row is computed with by itself shows in the proof.
    """
    statement = site.statement
    if not isinstance(statement, cst.SimpleStatementLine):
        return
    chosen = [found for each in walk(statement) if isinstance(each, cst.Subscript) and (found := masked_of(site, each))]
    if len({site.code(each.mask) for each in chosen}) != 1:
        return
    rows = _Rows(site, chosen[0].mask)
    changes = rows.changes()
    if changes:
        yield Proposal(
            "", "Compute with all rows, and choose by the mask where they are put back",
            site.with_nodes(changes, import_of_torch(site)), loses=("raises",) if rows.given else (),
        )  # fmt: skip


class _Rows:
    """The statements of a block that compute with the rows of one mask. `_held` are variables that have such rows,
    `given` tensors from elsewhere that have one for each row, with what they are computed with.
    """

    def __init__(self, site: Site, mask: cst.BaseExpression) -> None:
        self._site = site
        self._mask = site.code(mask)
        self._held: set[str] = set()
        self.given: dict[str, Masked] = {}

    def changes(self) -> Changes | None:
        """What each of these statements becomes; None where rows get elsewhere, or the mask changes in between."""
        found: _Statements = {}
        for each in self._site.block:
            if not self._concerns(each):
                continue
            new = self._changed(each)
            if new is None:
                return None
            above = each.leading_lines if isinstance(each, cst.SimpleStatementLine) else ()
            found[each] = [new[0].with_changes(leading_lines=above), *new[1:]]
        if not self._put_back(found) or self._kept_elsewhere(found) or self._mask_changes(found):
            return None
        if self.given:
            return self._in_graph(found)
        changes: Changes = {}
        changes.update(found.items())
        return changes

    def _in_graph(self, found: _Statements) -> Changes | None:
        """The same in compiled code alone: that there are as many given rows as the mask chooses is known to Python
        only where it has looked.
        """
        block = list(self._site.block)
        places = [number for number, each in enumerate(block) if each in found]
        first, *others = block[places[0] : places[-1] + 1]
        if 1 + len(others) != len(found) or not isinstance(first, cst.SimpleStatementLine):
            return None
        torch, asked, checks = torch_name(self._site), [], []
        for name, into in self.given.items():
            # One row would be taken for all.
            asked.append(f"{name}.shape[0] != 1 and {name}.shape[1:] == "
                         f"{self._site.code(into.tensor)}.shape[{into.mask_dims}:]")  # fmt: skip
            counted = f"{bracketed(self._site, into.mask)}.sum() == {name}.shape[0]"
            checks.append(f"    {torch}._assert_async({counted}, 'as many rows as the mask chooses')\n")
        (branch,) = statements_of(
            f"if {torch}.compiler.is_compiling() and {' and '.join(asked)}:\n{''.join(checks)}else:\n    pass\n"
        )
        assert isinstance(branch, cst.If) and isinstance(branch.orelse, cst.Else)
        new = [each for old in (first, *others) for each in found[old]]
        branch = branch.with_changes(
            body=cst.IndentedBlock([*branch.body.body, *new]), leading_lines=first.leading_lines,
            orelse=branch.orelse.with_changes(
                body=cst.IndentedBlock([first.with_changes(leading_lines=[]), *others])),
        )  # fmt: skip
        return {first: branch, **dict.fromkeys(others)}

    def _concerns(self, node: cst.CSTNode) -> bool:
        return bool(self._chosen(node)) or not self._held.isdisjoint(names_of(node))

    def _chosen(self, node: cst.CSTNode) -> dict[cst.CSTNode, Masked]:
        """The places in some code where this mask chooses."""
        found = ((each, masked_of(self._site, each)) for each in walk(node) if isinstance(each, cst.Subscript))
        return {each: masked for each, masked in found if masked and self._site.code(masked.mask) == self._mask}

    def _changed(self, statement: cst.BaseStatement) -> list[cst.BaseStatement] | None:
        if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
            return None
        only = statement.body[0]
        if isinstance(only, cst.AugAssign):
            return self._updated(only)
        if not isinstance(only, cst.Assign) or len(only.targets) != 1:
            return None
        target = only.targets[0].target
        value = self._of_all(only.value)
        if value is None:
            return self._scattered(target, only.value)
        if (names := targets_of(only)) is not None:
            self._held.update(names)
            return statements_of(f"{self._site.code(target)} = {value}\n")
        places = [each.value for each in target.elements] if isinstance(target, cst.Tuple) else [target]
        masked = [self._chosen(each).get(each) for each in places]
        if any(each is None for each in masked):
            return None
        if len(places) == 1:
            return self._copied([each for each in masked if each], [value])
        names = [fresh_name(f"{_last(each.tensor)}_rows", names_of(self._site.function)) for each in masked if each]
        made = statements_of(f"{', '.join(names)} = {value}\n")
        return [*made, *self._copied([each for each in masked if each], names)]

    def _updated(self, only: cst.AugAssign) -> list[cst.BaseStatement] | None:
        """`x[mask] += f(...)`."""
        masked, operator = self._chosen(only.target).get(only.target), UPDATES.get(type(only.operator))
        value = None if masked is None else self._of_all(only.value, masked)
        if masked is None or value is None or operator is None:
            return None
        return self._copied([masked], [f"{self._site.code(masked.tensor)} {operator} ({value})"])

    def _copied(self, places: list[Masked], values: list[str]) -> list[cst.BaseStatement]:
        lines = []
        for masked, value in zip(places, values, strict=True):
            x = self._site.code(masked.tensor)
            chosen = f"{torch_name(self._site)}.where({masked.wide(self._site)}, {value}, {x})"
            lines.append(f"{x}.copy_({chosen})\n")
        return statements_of("".join(lines))

    def _scattered(self, target: cst.BaseExpression, value: cst.BaseExpression) -> list[cst.BaseStatement] | None:
        """`x = x.masked_scatter(mask.unsqueeze(-1), f(...))`."""
        if not isinstance(value, cst.Call) or called(value) != "masked_scatter" or len(value.args) != 2:
            return None
        if not isinstance(value.func, cst.Attribute) or not isinstance(target, cst.Name):
            return None
        x, (mask, source) = value.func.value, (each.value for each in value.args)
        into, rows = self._into(x), self._of_all(source)
        if into is None or rows is None or _widened(self._site, mask) != (self._mask, into.dims - into.mask_dims):
            return None
        chosen = f"{torch_name(self._site)}.where({into.wide(self._site)}, {rows}, {self._site.code(x)})"
        return statements_of(f"{self._site.code(target)} = {chosen}\n")

    def _into(self, tensor: cst.BaseExpression) -> Masked | None:
        """A tensor as one that the mask chooses from."""
        index = cst.SubscriptElement(cst.Index(cst.parse_expression(self._mask)))
        return masked_of(self._site, cst.Subscript(tensor, [index]))

    def _of_all(self, value: cst.BaseExpression, into: Masked | None = None) -> str | None:
        """An expression of rows that the mask chooses, or of those that go `into` it, as one of all rows; None where it
        is no such thing.
        """
        chosen = self._chosen(value)
        into = next(iter(chosen.values()), into)
        given = self._rows_given(value, into) if into is not None else []
        if not (self._concerns(value) or given) or not pure(value):
            return None
        calls = [called(each) for each in walk(value) if isinstance(each, cst.Call)]
        if not {*_COUNTING, "masked_scatter"}.isdisjoint(calls) or _asks_for_shape(self._site, value):
            return None
        rows = {node: cst.parse_expression(each.filled(self._site)) for node, each in chosen.items()}
        if into is not None:
            rows |= {each: self._spread(each, into) for each in given}
        if not total_of_rows(self._site, replaced(value, dict.fromkeys(rows, cst.Name("x")))):
            return None
        return self._site.code(replaced(value, {**rows}))

    def _rows_given(self, value: cst.BaseExpression, into: Masked) -> list[cst.CSTNode]:
        """The tensors in an expression, chosen by nothing, that have as many dimensions as what the mask chooses."""
        asked = [each for each in walk(value) if isinstance(each, cst.Attribute)
                 and each.attr.value in ("dtype", "device", "shape")]  # fmt: skip
        inside = {id(each) for node in [*self._chosen(value), *asked] for each in walk(node)}
        found = [each for each in walk(value) if isinstance(each, cst.Name) and id(each) not in inside]
        known = [(each, self._site.value(each)) for each in found if each.value not in self._held]
        dims = into.dims - into.mask_dims + 1
        return [each for each, value in known if value is not None and value.kind == "tensor" and value.dims == dims]

    def _spread(self, name: cst.CSTNode, into: Masked) -> cst.BaseExpression:
        """Given rows, each at the place of the row that it is for."""
        code, tensor = self._site.code(name), self._site.code(into.tensor)
        self.given[code] = into
        zeros = f"{torch_name(self._site)}.zeros_like({tensor}, dtype={code}.dtype)"
        return cst.parse_expression(f"{zeros}.masked_scatter({into.wide(self._site)}, {code})")

    def _put_back(self, found: _Statements) -> bool:
        """Whether any of the statements does more than to make rows."""
        return any(not isinstance(each, cst.SimpleStatementLine) or not isinstance(each.body[0], cst.Assign)
                   or not self._held.issuperset(targets_of(each.body[0]) or ("",)) for each in found)  # fmt: skip

    def _kept_elsewhere(self, found: _Statements) -> bool:
        """Whether rows are read, or their variables assigned, in statements that may run after these."""
        inside = {id(node) for each in found for node in walk(each)} | _not_after(self._site)
        everywhere = walk(self._site.function, lambda node: isinstance(node, cst.Name))
        return any(
            isinstance(each, cst.Name) and each.value in self._held and id(each) not in inside for each in everywhere
        )

    def _mask_changes(self, found: _Statements) -> bool:
        """Whether the mask is another one between the first of the statements and the last."""
        block = list(self._site.block)
        places = [number for number, each in enumerate(block) if each in found]
        return changed_by(block[places[0] : places[-1] + 1], names_of(cst.parse_expression(self._mask)))


def _not_after(site: Site) -> set[int]:
    """What stands before the statement, or on the other side of a branch around it: ids of the nodes. Nothing where a
    loop goes round to it.
    """
    found: set[int] = set()
    inner: cst.CSTNode = site.statement
    while (outer := site.parents.get(inner)) is not None:
        if isinstance(outer, cst.For | cst.While):
            return set()
        if isinstance(outer, cst.If):
            others = [side for side in (outer.body, outer.orelse) if side is not None and side is not inner]
            found |= {id(node) for side in others for node in walk(side)}
        elif isinstance(outer, cst.IndentedBlock):
            before = list(outer.body)[: next(n for n, each in enumerate(outer.body) if each is inner)]
            found |= {id(node) for each in before for node in walk(each)}
        inner = outer
    return found


def _widened(site: Site, mask: cst.BaseExpression) -> tuple[str, int]:
    """A mask without the dimensions that it is given behind its own, and how many these are."""
    if isinstance(mask, cst.UnaryOperation) and isinstance(mask.operator, cst.BitInvert) and not mask.lpar:
        code, more = _widened(site, mask.expression)
        return (f"~{code}" if not code.startswith("~") else code[1:]), more
    if isinstance(mask, cst.Call) and called(mask) == "unsqueeze" and isinstance(mask.func, cst.Attribute):
        code, more = _widened(site, mask.func.value)
        return (code, more + 1) if len(mask.args) == 1 and number(mask.args[0].value) == -1 else (site.code(mask), 0)
    if isinstance(mask, cst.Subscript) and [site.code(each.slice) for each in mask.slice] == ["...", "None"]:
        code, more = _widened(site, mask.value)
        return code, more + 1
    bare = mask.with_changes(lpar=[], rpar=[])
    return site.code(bare), 0


def _asks_for_shape(site: Site, value: cst.BaseExpression) -> bool:
    """Whether it asks for a shape, other than the size of the last dimension."""
    return any(
        isinstance(each, cst.Attribute) and each.attr.value == "shape" and "[-1]" not in site.code(site.parents[each])
        for each in walk(value)
    )


def _last(tensor: cst.BaseExpression) -> str:
    return tensor.attr.value if isinstance(tensor, cst.Attribute) else cst.ensure_type(tensor, cst.Name).value

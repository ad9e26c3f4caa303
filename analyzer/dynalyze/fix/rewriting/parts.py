"""Parts of sizes that only the data decide, which the caller joins again: it asks for what they are parts of."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from dynalyze.fix.rewriting import rewriter
from dynalyze.fix.rewriting.conditions import called, import_of_torch, torch_name
from dynalyze.fix.rewriting.purity import pure
from dynalyze.fix.rewriting.signatures import paths_below, proposed_with_call, taking
from dynalyze.fix.settings import READS
from dynalyze.fix.sites import Changes, Proposal, Site, statements_of, walk

_WHOLE, _SIZES = "undivided", "part_sizes"
_BLOCKS = (ast.If, ast.For, ast.While, ast.Try, ast.With)


@rewriter("undivided-parts", *READS, rank=42, outer=True)
def ask_for_the_whole(site: Site) -> Iterator[Proposal]:
    """`torch.split(x, counts.tolist())`, and in the caller `torch.cat(parts)`: one part, which is x."""
    path = next(paths_below(site), None)
    if path is None or len(path) > 1:  # What lies between may do more with the parts.
        return
    (inner,) = path
    split, joined = _Split.of(inner), _Joined(site, inner.function.name.value)
    keeper = joined.keeper
    if split is None or keeper is None or not joined.all_of(split.attributes):
        return
    torch, whole = torch_name(inner), f"{split.whole}.shape[{split.dim}]"
    (choice,) = statements_of(
        f"if {_WHOLE} and {torch}.compiler.is_compiling():\n"
        f'    {torch}._assert_async(({split.counts}).sum() == {whole}, "the parts are not the whole")\n'
        f"    {split.sizes} = [{whole}]\n"
        f"else:\n    {split.sizes} = {inner.code(split.read)}\n"
    )
    statement = inner.statement
    choice = choice.with_changes(leading_lines=getattr(statement, "leading_lines", ()))
    changes: Changes = {inner.function.params: taking(inner.function, [_WHOLE])}
    if split.sizes != _SIZES:
        text = inner.with_nodes({**changes, statement: choice}, import_of_torch(inner))
    else:  # The sizes have no name yet.
        changed = inner.at(inner.with_nodes({**changes, split.read: cst.Name(_SIZES)}), inner.line)
        shift = len(changed.text.splitlines()) - len(inner.text.splitlines())
        changed = inner.at(changed.text, inner.line + shift)
        rest = changed.statement.with_changes(leading_lines=[])
        text = changed.with_statement(choice, rest, top=import_of_torch(inner))
    title = f"Ask `{inner.function.name.value}` for one part, since the parts are joined again"
    if keeper in {each.name.value for each in site.function.params.params}:
        title += f"; `{keeper}` holds it too, where a caller gives one"
    yield from proposed_with_call(site, path, text, {_WHOLE: "True"}, title)


@dataclass(frozen=True)
class _Split:
    """Where a function reads `sizes` out of `counts`, to split `whole` along `dim`, and the attributes of its result
    that are parts then.
    """

    read: cst.Call
    counts: str
    sizes: str
    whole: str
    dim: int
    attributes: frozenset[str]

    @classmethod
    def of(cls, site: Site) -> _Split | None:
        named = {node.value for node in walk(site.function) if isinstance(node, cst.Name)}
        reads = [node for node in walk(site.statement) if isinstance(node, cst.Call) and called(node) == "tolist"]
        if len(reads) != 1 or not isinstance(reads[0].func, cst.Attribute) or {_WHOLE, _SIZES} & named:
            return None
        read, counts = reads[0], reads[0].func.value
        sizes, uses = _SIZES, list[cst.CSTNode]([read])
        if not isinstance(site.parents[read], cst.Arg):
            sizes = _assigned(site, read)
            uses = [node for node in walk(site.function) if isinstance(node, cst.Name) and node.value == sizes
                    and not isinstance(site.parents[node], cst.AssignTarget)]  # fmt: skip
        splits = [_split_by(site, use) for use in uses]
        known = [each for each in splits if each is not None]
        if not sizes or not known or len(known) < len(splits) or not pure(counts):
            return None
        attributes = [_attribute(site, call) for call, _, _ in known]
        dim, wholes = known[0][2], [whole for _, whole, _ in known if _is_bound(site, whole)]
        if not all(attributes) or not wholes or {each for _, _, each in known} != {dim}:
            return None
        return cls(read, site.code(counts), sizes, site.code(wholes[0]), dim, frozenset(attributes))


def _is_bound(site: Site, node: cst.BaseExpression) -> bool:
    """Whether all names in it have a value where the break is; those of a comprehension have none."""
    return all(site.value(each) is not None for each in walk(node)
               if isinstance(each, cst.Name) and not isinstance(site.parents[each], cst.Attribute))  # fmt: skip


def _assigned(site: Site, value: cst.CSTNode) -> str:
    """The one name that a value is assigned to; "" where it is another thing."""
    statement = site.parents[value]
    if isinstance(statement, cst.Assign) and len(statement.targets) == 1:
        target = statement.targets[0].target
        return target.value if isinstance(target, cst.Name) else ""
    return ""


def _split_by(site: Site, sizes: cst.CSTNode) -> tuple[cst.Call, cst.BaseExpression, int] | None:
    """The call that splits by these sizes, what it splits and along which dimension."""
    argument = site.parents[sizes]
    call = site.parents.get(argument)
    if not isinstance(argument, cst.Arg) or not isinstance(call, cst.Call) or called(call) != "split":
        return None
    if not isinstance(call.func, cst.Attribute):
        return None
    of_torch = site.code(call.func.value) == torch_name(site)
    given = [each for each in call.args if each.keyword is None]
    named = {each.keyword.value: each.value for each in call.args if each.keyword is not None}
    if len(given) < 1 + of_torch or given[of_torch] is not argument or named.keys() - {"dim"}:
        return None
    dims = [*(each.value for each in given[1 + of_torch :]), *named.values()]
    if not all(isinstance(each, cst.Integer) for each in dims):
        return None
    return call, given[0].value if of_torch else call.func.value, int(site.code(dims[0])) if dims else 0


def _attribute(site: Site, call: cst.Call) -> str:
    """The attribute that parts are assigned to, by themselves, as a list of such, or with the rows of each in one
    dimension; "" where it is another thing.
    """
    node = site.parents[call]
    if isinstance(node, cst.CompFor) and _only_joins_rows(site, node):
        node = site.parents[node]
    if isinstance(node, cst.ListComp):
        node = site.parents[node]
    if not isinstance(node, cst.Assign) or len(node.targets) != 1:
        return ""
    target = node.targets[0].target
    return target.attr.value if isinstance(target, cst.Attribute) else ""


def _only_joins_rows(site: Site, each: cst.CompFor) -> bool:
    """Whether a comprehension over parts does to each what may be done to the whole: `[f.flatten(0, 1) for f in x]`."""
    comprehension = site.parents[each]
    if not isinstance(comprehension, cst.ListComp) or each.ifs or each.inner_for_in is not None:
        return False
    name = site.code(each.target)
    done = [f"{name}.reshape(-1, {name}.shape[-1])", f"{name}.reshape(-1, {name}.size(-1))", f"{name}.flatten(0, 1)"]
    return site.code(comprehension.elt) in done


class _Joined:
    """Whether a function does nothing with the parts that a call of another one, by its name, gives it but join them:
    the tree tells, not a run.
    """

    def __init__(self, site: Site, function: str) -> None:
        self._function = function
        self._tree = ast.parse(site.code(site.module))
        self._torch = torch_name(site)
        nodes = ast.walk(self._tree)
        self._parents = {child: node for node in nodes for child in ast.iter_child_nodes(node)}

    def all_of(self, attributes: frozenset[str]) -> bool:
        read = [node for node in ast.walk(self._tree) if isinstance(node, ast.Attribute) and node.attr in attributes
                and isinstance(node.ctx, ast.Load) and self._is_of_result(node.value)]  # fmt: skip
        return bool(read) and all(map(self._is_joined, read))

    def _is_call(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == self._function

    def _is_of_result(self, node: ast.expr) -> bool:
        """Whether an expression is the result, or what the variable is or holds that keeps it."""
        while isinstance(node, ast.Subscript):
            node = node.value
        return self._is_call(node) or (isinstance(node, ast.Name) and node.id == self.keeper)

    @cached_property
    def keeper(self) -> str | None:
        """The variable in which the call's result stays, "" where there is none; None where it may go elsewhere."""
        calls = [node for node in ast.walk(self._tree) if self._is_call(node)]
        above = self._parents[calls[0]] if len(calls) == 1 else None
        if isinstance(above, ast.Attribute):
            return ""
        if not isinstance(above, ast.Assign | ast.AnnAssign):
            return None
        kept = above.target if isinstance(above, ast.AnnAssign) else above.targets[0]
        held = isinstance(kept, ast.Subscript)
        root = kept.value if isinstance(kept, ast.Subscript) else kept
        if not isinstance(root, ast.Name):
            return None
        reads = [node for node in ast.walk(self._tree) if isinstance(node, ast.Name) and node.id == root.id
                 and isinstance(node.ctx, ast.Load)]  # fmt: skip
        return root.id if all(self._only_reads(each, held=held) for each in reads) else None

    def _only_reads(self, node: ast.Name, *, held: bool) -> bool:
        """Whether a variable that is a result, or where one is `held`, is asked for its attributes or for None."""
        above = self._parents[node]
        outer = self._parents[above]
        if self._asks_what_it_is(node):
            return True
        if isinstance(above, ast.IfExp):
            return isinstance(outer, ast.Assign) and [ast.unparse(each) for each in outer.targets] == [node.id]
        if not held:
            return isinstance(above, ast.Attribute)
        if isinstance(above, ast.Attribute) and above.attr == "get":
            return isinstance(self._parents[outer], ast.Compare | ast.BoolOp)
        if isinstance(above, ast.Assign) and isinstance(outer, ast.If) and above in outer.body:
            return ast.unparse(outer.test) == f"isinstance({node.id}, {self._torch}.Tensor)"  # Then it holds nothing.
        stored = isinstance(above, ast.Subscript) and isinstance(above.ctx, ast.Store)
        return stored or (isinstance(above, ast.Subscript) and isinstance(outer, ast.Attribute))

    def _asks_what_it_is(self, node: ast.expr) -> bool:
        """`x is None`, `isinstance(x, list)`."""
        above = self._parents[node]
        if isinstance(above, ast.Compare):
            return all(isinstance(each, ast.Is | ast.IsNot) for each in above.ops)
        return isinstance(above, ast.Call) and ast.unparse(above.func) == "isinstance" and above.args[0] is node

    def _is_joined(self, node: ast.expr) -> bool:
        """Whether an expression that is parts, or a list of such, goes into `torch.cat` alone."""
        above = self._parents[node]
        function = ast.unparse(above.func) if isinstance(above, ast.Call) else ""
        if isinstance(above, ast.Call) and function == f"{self._torch}.cat":
            return above.args[:1] == [node]
        if isinstance(above, ast.Assign) and len(above.targets) == 1 and isinstance(above.targets[0], ast.Name):
            return self._is_joined_as(above.targets[0], above)
        if isinstance(above, ast.comprehension | ast.For) and above.iter is node and isinstance(above.target, ast.Name):
            return self._is_joined_as(
                above.target, self._parents[above] if isinstance(above, ast.comprehension) else above
            )
        if isinstance(above, ast.Call) and function == "zip":
            loop, at = self._parents[above], above.args.index(node)
            if isinstance(loop, ast.For) and isinstance(loop.target, ast.Tuple):
                target = loop.target.elts[at]
                return isinstance(target, ast.Name) and self._is_joined_as(target, loop)
        return False

    def _is_joined_as(self, name: ast.Name, where: ast.AST) -> bool:
        """Whether a name that parts have from here on is read to join them, or after it has been given what they are
        joined to.
        """
        within = where if isinstance(where, ast.For | ast.ListComp | ast.GeneratorExp) else self._tree
        named = [node for node in ast.walk(within) if isinstance(node, ast.Name) and node.id == name.id]
        first = where.lineno if isinstance(where, ast.stmt | ast.expr) else 0
        reads = sorted(
            (node for node in named if isinstance(node.ctx, ast.Load) and node.lineno >= first),
            key=lambda node: (node.lineno, node.col_offset),
        )
        for node in reads:
            if self._asks_what_it_is(node):
                continue
            if not self._is_joined(node):
                return False
            if self._is_given_back(node) and self._is_always_reached(node, where):
                return True
        return True

    def _is_always_reached(self, node: ast.Name, where: ast.AST) -> bool:
        """Whether what comes after `where` comes by a node whenever the parts have its name."""
        tests = [f"{node.id} is not None", f"isinstance({node.id}, (list, tuple))"]
        around = {where, *self._above(where)}
        inner = [each for each in self._above(node) if isinstance(each, _BLOCKS) and each not in around]
        return all(
            isinstance(each, ast.If) and ast.unparse(each.test) in tests
            and not any(node is one for other in each.orelse for one in ast.walk(other))
            for each in inner
        )  # fmt: skip

    def _above(self, node: ast.AST) -> Iterator[ast.AST]:
        while node in self._parents:
            node = self._parents[node]
            yield node

    def _is_given_back(self, node: ast.Name) -> bool:
        """Whether the statement that reads a name assigns the name as well."""
        above: ast.AST = node
        while not isinstance(above, ast.stmt):
            above = self._parents[above]
        return isinstance(above, ast.Assign) and [ast.unparse(each) for each in above.targets] == [node.id]

"""What the syntax of statements tells of the tensors that they make: sizes, types, and whether a device is named."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence

EMPTY_OR_FILLED = ("zeros", "ones", "full", "empty", "zeros_like", "ones_like", "full_like", "empty_like", "new_zeros",
                   "new_ones", "new_full", "new_empty")  # fmt: skip
_FACTORIES = ("arange", "zeros", "ones", "full", "empty", "tensor", "linspace", "from_numpy", "as_tensor")
_SAME_SIZE = ("to", "long", "int", "contiguous", "clone")
_SAME_TYPE = ("unsqueeze", "view", "reshape", "contiguous", "transpose", "t", "clone")
_STATIC = (ast.Attribute, ast.Name, ast.Constant, ast.Subscript, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop,
           ast.expr_context, ast.Tuple, ast.List)  # fmt: skip


class Made:
    """The tensors that `statements` make of what they take: arguments by name."""

    def __init__(self, statements: Sequence[ast.stmt], takes: Collection[str]) -> None:
        self._statements = statements
        self._takes = set(takes) - {
            each.id for each in _nodes(statements) if isinstance(each, ast.Name) and is_set(each)
        }

    def sizes(self, node: ast.expr, dims: int) -> list[str]:
        """The sizes of what an expression makes after the statements, each as source of what these take; "" where
        their syntax does not tell.
        """
        found = self._sizes(node, dims, self._statements)
        return found if len(found) == dims else [""] * dims

    def dtype(self, node: ast.expr) -> str:
        """The type of what an expression makes where that is the type of what is taken, as source; else ""."""
        made, before = self._resolved(node, self._statements)
        while isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute) and made.func.attr in _SAME_TYPE:
            made, before = self._resolved(made.func.value, before)
        if not isinstance(made, ast.Call) or not isinstance(made.func, ast.Attribute):
            return ""
        if made.func.attr not in (*EMPTY_OR_FILLED, *_FACTORIES):
            return ""
        given = [each.value for each in made.keywords if each.arg == "dtype" and self._is_static(each.value)]
        return next((text for each in given if (text := ast.unparse(each)).partition(".")[0] in self._takes), "")

    def is_made_by_itself(self, node: ast.expr, seen: frozenset[str] = frozenset()) -> bool:
        """Whether a tensor comes from one that was made without a device."""
        if isinstance(node, ast.Name) and node.id not in seen:
            values = [each.value for each in _nodes(self._statements)
                      if isinstance(each, ast.Assign) and node.id in map(ast.unparse, each.targets)]  # fmt: skip
            values += [each.args[0] for each in _nodes(self._statements)
                       if isinstance(each, ast.Call) and ast.unparse(each.func) == f"{node.id}.append"]  # fmt: skip
            return any(self.is_made_by_itself(each, seen | {node.id}) for each in values)
        if isinstance(node, ast.BinOp):
            return self.is_made_by_itself(node.left, seen)
        if isinstance(node, ast.Subscript):
            return self.is_made_by_itself(node.value, seen)
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            return False
        if node.func.attr in _FACTORIES:
            return not any(each.arg == "device" for each in node.keywords)
        if node.func.attr in ("to", "cuda", "type_as") and not all(_is_dtype(each) for each in _given(node)):
            return False
        owner = node.func.value
        of_module = isinstance(owner, ast.Name) and owner.id in ("torch", "F")
        first = next(iter(node.args), None) if of_module or ast.unparse(owner) == "torch.nn.functional" else owner
        if isinstance(first, ast.List | ast.Tuple):
            first = next(iter(first.elts), None)
        return first is not None and self.is_made_by_itself(first, seen)

    def _resolved(
        self, node: ast.expr | None, before: Sequence[ast.stmt]
    ) -> tuple[ast.expr | None, Sequence[ast.stmt]]:
        """What a variable was set to, with the statements before that; None where it may be something else."""
        while isinstance(node, ast.Name):
            name = node.id
            places = [number for number, each in enumerate(before) if isinstance(each, ast.Assign)
                      and [getattr(one, "id", "") for one in each.targets] == [name]]  # fmt: skip
            if not places or any(is_set(each, name) for each in _nodes(before[places[-1] + 1 :])):
                return None, before
            made = before[places[-1]]
            assert isinstance(made, ast.Assign)
            node, before = made.value, before[: places[-1]]
        return node, before

    def _sizes(self, node: ast.expr, dims: int, before: Sequence[ast.stmt]) -> list[str]:
        unknown = [""] * dims
        made, before = self._resolved(node, before)
        if not isinstance(made, ast.Call) or not isinstance(made.func, ast.Attribute):
            return unknown
        name, first = made.func.attr, next(iter(made.args), None)
        if name in EMPTY_OR_FILLED:
            return self._filled(made, dims)
        if name in _SAME_SIZE:
            return self._sizes(made.func.value, dims, before)
        if name == "unsqueeze" and isinstance(first, ast.Constant):
            inner = self._sizes(made.func.value, dims - 1, before)
            place = first.value % dims if isinstance(first.value, int) else 0
            return [*inner[:place], "1", *inner[place:]]
        if name in ("view", "reshape") and len(made.args) == dims:
            return [self._static(each) for each in made.args]
        if name == "tensor" and isinstance(first, ast.Name) and dims == 1:
            return [self._counted(first.id, before)]
        dim = next((ast.unparse(each.value) for each in made.keywords if each.arg == "dim"), "0")
        if name == "cat" and isinstance(first, ast.Name) and dim == "0" and dims:
            return ["", *self._appended(first.id, before, dims)[1:]]
        if name == "stack" and isinstance(first, ast.List) and dim == "-1":
            return [*unknown[1:], str(len(first.elts))]
        if name == "repeat" and len(made.args) == dims:
            inner = self._sizes(made.func.value, dims, before)
            return [size if ast.unparse(times) == "1" else "" for size, times in zip(inner, made.args, strict=False)]
        return unknown

    def _filled(self, made: ast.Call, dims: int) -> list[str]:
        """`torch.zeros(3, x.shape[0])`, `torch.zeros_like(x)`, `x.new_zeros((4, 2))`."""
        assert isinstance(made.func, ast.Attribute)
        given = made.args
        if made.func.attr.endswith("_like"):
            whole = ast.unparse(given[0]) if given and isinstance(given[0], ast.Name) else ""
            return [f"{whole}.shape[{dim}]" if whole in self._takes else "" for dim in range(dims)]
        if given and isinstance(given[0], ast.Tuple | ast.List):
            given = given[0].elts
        elif "full" in made.func.attr:
            return [""] * dims
        if len(given) != dims:
            whole = self._static(given[0]) if len(given) == 1 else ""
            return [f"{whole}[{dim}]" if whole.endswith(".shape") else "" for dim in range(dims)]
        return [self._static(each) for each in given]

    def _static(self, node: ast.expr) -> str:
        """A size that the sizes of what is taken tell, as source; else ""."""
        return ast.unparse(node) if self._is_static(node) and ast.unparse(node) != "-1" else ""

    def _is_static(self, node: ast.expr) -> bool:
        """Whether an expression is worked out of the sizes, types and places of arguments that stay what they were."""
        for each in ast.walk(node):
            if isinstance(each, ast.Call):
                of_size = isinstance(each.func, ast.Attribute) and each.func.attr in ("size", "dim", "numel")
                if not of_size and not (isinstance(each.func, ast.Name) and each.func.id == "len"):
                    return False
            elif isinstance(each, ast.Subscript):  # `x.shape[0]`, never `x[0]`.
                if not isinstance(each.value, ast.Attribute) or each.value.attr != "shape":
                    return False
            elif isinstance(each, ast.Name):
                if each.id not in ("torch", "len") and each.id not in self._takes:
                    return False
            elif not isinstance(each, _STATIC):
                return False
        return True

    def _appended(self, name: str, before: Sequence[ast.stmt], dims: int) -> list[str]:
        """The sizes of what is appended to a list, where all have one, or where an argument decides which."""

        def found(statements: Sequence[ast.stmt], above: Sequence[ast.stmt]) -> list[list[str]]:
            sizes: list[list[str]] = []
            for number, each in enumerate(statements):
                until = [*above, *statements[:number]]
                if isinstance(each, ast.If) and ast.unparse(each.test) in self._takes and each.orelse:
                    one, other = found(each.body, until), found(each.orelse, until)
                    if len(one) == len(other) == 1:
                        test = ast.unparse(each.test)
                        sizes.append([
                            a if a == b else f"({a} if {test} else {b})" if a and b else ""
                            for a, b in zip(one[0], other[0], strict=True)
                        ])  # fmt: skip
                        continue
                call = each.value if isinstance(each, ast.Expr) else None
                if isinstance(call, ast.Call) and ast.unparse(call.func) == f"{name}.append":
                    sizes.append(self._sizes(call.args[0], dims, until))
                else:
                    for block in ("body", "orelse"):
                        sizes += found(getattr(each, block, []), until)
            return sizes

        appended = found(before, [])
        return appended[0] if len(appended) == 1 else [""] * dims

    def _counted(self, name: str, before: Sequence[ast.stmt]) -> str:
        """How many elements a list has that gets one in each turn of a loop over an argument; else ""."""
        named = [each for each in _nodes(before) if isinstance(each, ast.Name) and each.id == name]
        empty = [each for each in before if isinstance(each, ast.Assign) and ast.unparse(each) == f"{name} = []"]
        for loop in before:
            if not isinstance(loop, ast.For) or loop.orelse:
                continue
            own = [each for each in loop.body if ast.unparse(each).startswith(f"{name}.append(")]
            if len(empty) == 1 and len(own) == 1 and len(named) == 2 and not any(map(_leaves_a_turn, loop.body)):
                return self._turns(loop.iter)
        return ""

    def _turns(self, node: ast.expr) -> str:
        """`x`, `enumerate(x)`, `range(len(x))`, `range(x.shape[0])`: the length of `x`."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 1:
            if node.func.id == "enumerate":
                return self._turns(node.args[0])
            if node.func.id == "range" and isinstance(node.args[0], ast.Call | ast.Subscript):
                return self._static(node.args[0])
        return f"{node.id}.shape[0]" if isinstance(node, ast.Name) and node.id in self._takes else ""


def is_set(node: ast.AST, name: str = "") -> bool:
    """Whether a node gives a variable another value, or the one of this name; an element of a tensor is none."""
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and name in ("", node.id)


def _leaves_a_turn(node: ast.AST) -> bool:
    """Whether a turn of the loop that a node stands in may end with it; what leaves a loop of its own does not."""
    inner = node.orelse if isinstance(node, ast.For | ast.While) else ast.iter_child_nodes(node)
    return isinstance(node, ast.Break | ast.Continue) or any(map(_leaves_a_turn, inner))


def _nodes(statements: Sequence[ast.stmt]) -> list[ast.AST]:
    return [node for each in statements for node in ast.walk(each)]


def _given(call: ast.Call) -> list[ast.expr | ast.keyword]:
    return [*call.args, *call.keywords]


def _is_dtype(node: ast.expr | ast.keyword) -> bool:
    """`dtype=d`, `torch.int64`."""
    if isinstance(node, ast.keyword):
        return node.arg == "dtype"
    return isinstance(node, ast.Attribute) and ast.unparse(node).startswith("torch.") and node.attr[-1].isdigit()

"""What the syntax of a function tells of the tensors that it makes: their sizes, and whether a device is named."""

from __future__ import annotations

import ast
from collections.abc import Sequence

_FACTORIES = ("arange", "zeros", "ones", "full", "empty", "tensor", "linspace", "from_numpy", "as_tensor")


def dims_of(node: ast.expr, before: Sequence[ast.stmt], dims: int, takes: set[str]) -> list[str]:
    """The sizes of what an expression makes, each as source; "" where its syntax does not tell."""
    unknown = [""] * dims
    if isinstance(node, ast.Name):
        places = [number for number, each in enumerate(before) if isinstance(each, ast.Assign)
                  and [getattr(one, "id", "") for one in each.targets] == [node.id]]  # fmt: skip
        later = [inner for each in before[places[-1] + 1 :] for inner in ast.walk(each)] if places else []
        named = [each for each in later if isinstance(each, ast.Name) and each.id == node.id]
        if not places or any(isinstance(each.ctx, ast.Store) for each in named):
            return unknown
        made = before[places[-1]]
        assert isinstance(made, ast.Assign)
        return dims_of(made.value, before[: places[-1]], dims, takes)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return unknown
    name, dim = node.func.attr, next((each.value for each in node.keywords if each.arg == "dim"), None)
    if name == "cat" and node.args and (dim is None or ast.unparse(dim) == "0") and isinstance(node.args[0], ast.Name):
        return ["", *_appended(node.args[0].id, before, dims, takes)[1:]] if dims else []
    if name == "stack" and node.args and isinstance(node.args[0], ast.List) and dim is not None:
        return [*unknown[1:], str(len(node.args[0].elts))] if ast.unparse(dim) == "-1" else unknown
    if name == "repeat" and len(node.args) == dims:
        inner = dims_of(node.func.value, before, dims, takes)
        return [size if ast.unparse(times) == "1" else "" for size, times in zip(inner, node.args, strict=True)]
    return unknown


def _appended(name: str, before: Sequence[ast.stmt], dims: int, takes: set[str]) -> list[str]:
    """The sizes of what is appended to a list, where all have one, or where an argument decides which."""

    def found(statements: Sequence[ast.stmt]) -> list[list[str]]:
        sizes: list[list[str]] = []
        for each in statements:
            if isinstance(each, ast.If) and isinstance(each.test, ast.Name) and each.test.id in takes and each.orelse:
                one, other = found(each.body), found(each.orelse)
                if len(one) == len(other) == 1:
                    test = each.test.id
                    sizes.append([
                        a if a == b else f"({a} if {test} else {b})" if a and b else ""
                        for a, b in zip(one[0], other[0], strict=True)
                    ])  # fmt: skip
                    continue
            call = each.value if isinstance(each, ast.Expr) else None
            if isinstance(call, ast.Call) and ast.unparse(call.func) == f"{name}.append":
                sizes.append(dims_of(call.args[0], before, dims, takes))
            else:
                for block in ("body", "orelse"):
                    sizes += found(getattr(each, block, []))
        return sizes

    appended = found(before)
    return appended[0] if len(appended) == 1 else [""] * dims


def is_made_by_itself(node: ast.expr, statements: Sequence[ast.stmt], seen: frozenset[str]) -> bool:
    """Whether a tensor comes from one that was made without a device."""
    if isinstance(node, ast.Name) and node.id not in seen:
        values = [each.value for statement in statements for each in ast.walk(statement)
                  if isinstance(each, ast.Assign) and node.id in map(ast.unparse, each.targets)]  # fmt: skip
        values += [each.args[0] for statement in statements for each in ast.walk(statement)
                   if isinstance(each, ast.Call) and ast.unparse(each.func) == f"{node.id}.append"]  # fmt: skip
        return any(is_made_by_itself(each, statements, seen | {node.id}) for each in values)
    if isinstance(node, ast.BinOp):
        return is_made_by_itself(node.left, statements, seen)
    if isinstance(node, ast.Subscript):
        return is_made_by_itself(node.value, statements, seen)
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
    return first is not None and is_made_by_itself(first, statements, seen)


def _given(call: ast.Call) -> list[ast.expr | ast.keyword]:
    return [*call.args, *call.keywords]


def _is_dtype(node: ast.expr | ast.keyword) -> bool:
    """`dtype=d`, `torch.int64`."""
    if isinstance(node, ast.keyword):
        return node.arg == "dtype"
    return isinstance(node, ast.Attribute) and ast.unparse(node).startswith("torch.") and node.attr[-1].isdigit()

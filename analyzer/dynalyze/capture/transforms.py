"""Functions of a script that run a model through torch.func (functional_call, vmap, grad, jacrev), by its source.

Such a model is never called as a module, and no call inside a transform can be compiled: the function around it is.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

_TRANSFORMS = frozenset(
    {"functional_call", "vmap", "grad", "grad_and_value", "jacrev", "jacfwd", "hessian", "vjp", "jvp"}
)
_HOMES = ("torch.func", "functorch", "torch.nn.utils.stateless")
_TRAINS = frozenset({"backward", "step", "zero_grad"})
_MOST_TURNS = 20


def names_in(source: bytes | str) -> list[str]:
    """What to compile of a script that compiles nothing: `score`, `Learner.adapt`, `per_sample = vmap(grad(loss))`; of
    those that use each other the outermost.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    if any(isinstance(node, ast.Attribute) and node.attr == "compile" for node in ast.walk(tree)):
        return []
    known = _imported(tree)
    found = {name: node for name, node in _definitions(tree.body) if _transforms(node, known) and not _trains(node)}
    used = {
        name
        for holder, node in found.items()
        for each in ast.walk(node)
        for name in found
        if name != holder and isinstance(each, (ast.Name, ast.Attribute)) and _last(each) == name.rpartition(".")[2]
    }
    return [name for name in found if name not in used]


def _imported(tree: ast.Module) -> set[str]:
    """What the transforms are called here: `vmap`, `torch.func.grad`, `F.jacrev`."""
    names = {f"{home}.{each}" for home in _HOMES for each in _TRANSFORMS} | {"torch.vmap"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            for each in node.names:
                whole, here = f"{node.module}.{each.name}", each.asname or each.name
                names |= {here + name[len(whole) :] for name in [*names] if f"{name}.".startswith(f"{whole}.")}
        elif isinstance(node, ast.Import):
            for each in node.names:
                if each.asname:
                    whole = f"{each.name}."
                    names |= {f"{each.asname}.{name[len(whole) :]}" for name in [*names] if name.startswith(whole)}
    return names


def _definitions(body: list[ast.stmt], of: str = "") -> Iterator[tuple[str, ast.stmt]]:
    """Functions, methods and names of a script's own level, each with the statement that binds it."""
    for node in body:
        if isinstance(node, ast.FunctionDef):
            yield of + node.name, node
        elif isinstance(node, ast.ClassDef) and not of:
            if not any("Module" in ast.unparse(base) for base in node.bases):  # A module is compiled as a whole.
                yield from _definitions(node.body, f"{node.name}.")
        elif isinstance(node, ast.Assign) and not of:
            target = node.targets[0]
            if isinstance(target, ast.Name) and isinstance(node.value, ast.Call):
                yield target.id, node
        elif isinstance(node, (ast.If, ast.With, ast.Try)) and not of:
            yield from _definitions(node.body)


def _transforms(node: ast.stmt, known: set[str]) -> bool:
    """Whether it uses a transform; of a name that is bound, whether a transform makes it."""
    if isinstance(node, ast.Assign):
        # `functional_call` gives a model's outputs, all others a function.
        makes = {name for name in known if not name.endswith("functional_call")}
        return isinstance(node.value, ast.Call) and ast.unparse(node.value.func) in makes
    return any(isinstance(each, ast.Call) and ast.unparse(each.func) in known for each in ast.walk(node))


def _trains(node: ast.stmt) -> bool:
    """Whether it is the loop of a program and not a step of it: torch would unroll that, or break at each turn."""
    for each in ast.walk(node):
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.func.attr in _TRAINS:
            return True
        if isinstance(each, ast.While) or (isinstance(each, ast.For) and not _few_turns(each.iter)):
            return True
    return False


def _few_turns(over: ast.expr) -> bool:
    if not isinstance(over, ast.Call) or ast.unparse(over.func) != "range":
        return not isinstance(over, ast.Name)  # Over `zip(...)` or `params.items()`; not over a loader.
    numbers = [each.value for each in over.args if isinstance(each, ast.Constant)]
    return all(isinstance(number, int) and number <= _MOST_TURNS for number in numbers)


def _last(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""

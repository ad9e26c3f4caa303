"""Whether a function does nothing but compute with what it is given: then it may run as an operator of torch. Told from
its syntax, and from what its names were when the program ran.
"""

from __future__ import annotations

import ast
import builtins
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from dynalyze.fix.rewriting.constants import top_names
from dynalyze.fix.rewriting.made_tensors import EMPTY_OR_FILLED, is_set
from dynalyze.fix.sites import Site, Value

WHOLE = ("int64", "int32", "int16", "int8", "uint8", "bool")
SCALARS = ("int", "float", "bool", "str")
_MODULES = ("torch", "torch.nn.functional", "itertools", "math")
_ON_THE_HOST = ("numpy", "scipy")
_OF_SEQUENCES = "torch.nn.utils.rnn."
_BUILT_IN = frozenset({"range", "len", "enumerate", "zip", "list", "tuple", "dict", "max", "min", "sum", "abs", "int",
                       "float", "bool", "iter", "next", "any", "all", "reversed", "sorted", "isinstance", "divmod",
                       "round", "bytes", "bytearray"})  # fmt: skip
_CONTAINERS = frozenset({"append", "extend", "insert", "pop", "update", "add", "setdefault", "sort", "reverse",
                         "clear", "remove", "popitem"})  # fmt: skip
_REFUSED = frozenset({"backward", "register_hook", "retain_grad", "manual_seed", "seed", "save", "load", "write",
                      "multinomial", "bernoulli", "normal", "gumbel_softmax", "uniform", "exponential", "poisson",
                      "geometric", "dropout", "shuffle", "is_compiling", "is_tracing", "is_grad_enabled",
                      "is_inference_mode_enabled", "copyto", "put", "putmask", "place", "fill", "fill_diagonal", "at",
                      "partition", "resize", "itemset", "setflags", "setfield", "tofile", "savez", "savetxt",
                      "seterr"})  # fmt: skip
_NEW = frozenset({*EMPTY_OR_FILLED, "arange", "cat", "stack", "tensor", "clone", "repeat_interleave", "repeat",
                  "cumsum", "linspace", "list", "dict", "sorted", "unique", "unique_consecutive", "copy",
                  "array"})  # fmt: skip
_SAME = ("reshape", "view", "unsqueeze", "transpose", "flatten", "long", "int", "contiguous", "to")
_LEFT_ALONE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Global, ast.Nonlocal, ast.Yield, ast.YieldFrom,
               ast.Await, ast.Delete, ast.With, ast.Import, ast.ImportFrom, ast.AsyncFor)  # fmt: skip

Chain = tuple[str, ...]
"""The attributes that are read from `self`, one from the other."""


@dataclass
class _Read:
    """What a function reads of its object: numbers and texts, and methods that know nothing of it."""

    chains: dict[Chain, str] = field(default_factory=dict)
    methods: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Function:
    """A function at the top of a file, or of a class there."""

    node: ast.FunctionDef
    owner: ast.ClassDef | None

    @property
    def name(self) -> str:
        """As people say it: a method `forward` with its class."""
        if self.owner is None or self.node.name != "forward":
            return self.node.name
        return f"{self.owner.name}.forward"

    @property
    def label(self) -> str:
        """What operators that are made of it are called after: a method `forward` after its class."""
        if self.owner is None or self.node.name != "forward":
            return self.node.name.strip("_")
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", self.owner.name).lower().strip("_")

    @property
    def me(self) -> str:
        """What a method calls its object; "" where it has none."""
        static = any(ast.unparse(each) == "staticmethod" for each in self.node.decorator_list)
        return "" if self.owner is None or static or not self.node.args.args else self.node.args.args[0].arg

    @property
    def arguments(self) -> list[ast.arg]:
        given = self.node.args
        return [*given.args[bool(self.me) :], *given.kwonlyargs]

    @property
    def nodes(self) -> list[ast.AST]:
        """All in its body."""
        return [node for statement in self.node.body for node in ast.walk(statement)]

    def method(self, name: str) -> Function | None:
        found = [] if self.owner is None else [
            each for each in self.owner.body if isinstance(each, ast.FunctionDef) and each.name == name
        ]  # fmt: skip
        return Function(found[0], self.owner) if len(found) == 1 and not found[0].decorator_list else None


def enclosing(site: Site) -> Function | None:
    """The function at the top of the file, or of a class there, that holds the line and not another one in it."""
    tree = ast.parse(site.text)
    places: list[tuple[ast.ClassDef | None, ast.stmt]] = [(None, each) for each in tree.body]
    places += [(each, inner) for each in tree.body if isinstance(each, ast.ClassDef) for inner in each.body]
    for owner, node in places:
        if isinstance(node, ast.FunctionDef) and node.lineno <= site.line <= (node.end_lineno or 0):
            return Function(node, owner) if node.name == site.function.name.value else None
    return None


def read_of(
    site: Site, function: Function, *, of_itself: bool = True, tensors: Sequence[str] | None = None
) -> _Read | None:
    """What a function reads of its object, where all else that it does is to compute with its arguments: with `tensors`
    also those of these dtypes, or of any.
    """
    read, bound = _Read(), _bound(function)
    seen: set[int] = set()
    tops = top_names(site.text)
    for node in function.nodes:
        if isinstance(node, _LEFT_ALONE) or not _only_own(function, node):
            return None
        if isinstance(node, ast.Attribute) and (chain := chain_of(node, function.me)) is not None:
            if id(node) in seen:
                continue
            seen.update(id(each) for each in ast.walk(node))
            value = site.values.get(ast.unparse(node)) if of_itself else None
            method = function.method(chain[0]) if len(chain) == 1 and of_itself else None
            if value is not None and value.kind in SCALARS:
                read.chains[chain] = value.kind
            elif value is not None and tensors is not None and is_plain_tensor(value, tensors):
                read.chains[chain] = "Tensor"
            elif tensors is not None and _is_of_tensor(site, node, tensors):
                seen.difference_update(id(each) for each in ast.walk(node))
            elif method is not None and read_of(site, method, of_itself=False) is not None:
                read.methods.append(chain[0])
            else:
                return None
        elif isinstance(node, ast.Call) and not _computes(site, node, bound):
            if not (of_itself and isinstance(node.func, ast.Name) and _is_helper(site, node.func.id)):
                return None
        elif isinstance(node, ast.Name) and id(node) not in seen and node.id not in bound:
            if node.id == function.me or not (node.id in tops or hasattr(builtins, node.id)):
                return None
            if node.id in tops and not _is_constant(site, node.id) and not (of_itself and _is_helper(site, node.id)):
                return None
    read.methods = list(dict.fromkeys(read.methods))
    return read


def is_plain_tensor(value: Value, dtypes: Sequence[str]) -> bool:
    """Whether a value is a plain tensor, or a parameter, of one of these dtypes, or of any."""
    plain = value.kind == "tensor" and value.name in ("Tensor", "Parameter", "Buffer")
    return plain and (not dtypes or value.dtype in dtypes)


def _is_of_tensor(site: Site, node: ast.Attribute, dtypes: Sequence[str]) -> bool:
    """`self.weight.sum`."""
    inner: ast.expr = node.value
    while isinstance(inner, ast.Attribute):
        value = site.values.get(ast.unparse(inner))
        if value is not None and is_plain_tensor(value, dtypes):
            return True
        inner = inner.value
    return False


def _is_helper(site: Site, name: str) -> bool:
    """Whether a function at the top of the file does nothing but compute with its arguments."""
    found = [each for each in ast.parse(site.text).body if isinstance(each, ast.FunctionDef) and each.name == name]
    if len(found) != 1 or found[0].decorator_list:
        return False
    return read_of(site, Function(found[0], None), of_itself=False) is not None


def _is_constant(site: Site, name: str) -> bool:
    """Whether what stands at the top of the file is a module or function that only computes, or numbers."""
    value = site.values.get(name)
    if value is not None:
        of_numbers = value.kind == "ndarray" or (value.kind in ("list", "tuple") and value.name in SCALARS)
        computes = value.kind in ("module", "function") and _has_no_effect(value.name, value.kind)
        return value.kind in SCALARS or of_numbers or computes
    imports = [alias for each in ast.parse(site.text).body if isinstance(each, ast.Import) for alias in each.names]
    return any(_has_no_effect(alias.name) and (alias.asname or alias.name) == name for alias in imports)


def _has_no_effect(name: str, kind: str = "module") -> bool:
    """Whether a module does nothing but compute, or a function is one of numpy's, SciPy's or of those that pack
    sequences that does.
    """
    if kind == "module" and name in _MODULES:
        return True
    parts = name.split(".")
    if kind == "function" and name.startswith(_OF_SEQUENCES):
        return True
    return parts[0] in _ON_THE_HOST and "random" not in parts and parts[-1] not in _REFUSED


def _bound(function: Function) -> set[str]:
    """Its arguments and variables."""
    stored = {each.id for each in function.nodes if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    lambdas = {each.arg for node in function.nodes if isinstance(node, ast.Lambda) for each in node.args.args}
    caught = {each.name for each in function.nodes if isinstance(each, ast.ExceptHandler) and each.name}
    return stored | lambdas | caught | {each.arg for each in function.arguments}


def _computes(site: Site, call: ast.Call, bound: set[str]) -> bool:
    """Whether a call is one of a built-in function, of torch's or of a method that does nothing but compute."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if isinstance(call.func, ast.Name):
        name = call.func.id
        value = site.values.get(name)
        of_host = value is not None and value.kind == "function" and _has_no_effect(value.name, value.kind)
        return name not in bound and (name in _BUILT_IN or name.endswith("Error") or of_host)
    if any(each.arg == "out" for each in call.keywords) or "random" in ast.unparse(call.func).split("."):
        return False
    if not name or name.rstrip("_") in _REFUSED or name.startswith(("rand", "set_")):
        return False
    root = call.func
    while isinstance(root, ast.Attribute):
        root = root.value
    if not isinstance(root, ast.Name) or root.id in bound:
        return True  # A method of a tensor or of a container; those that change it are looked at in `_only_own`.
    value = site.values.get(root.id)
    return value is None or value.kind != "module" or (_has_no_effect(value.name) and not name.endswith("_"))


def _only_own(function: Function, node: ast.AST) -> bool:
    """Whether a node changes nothing, or only what the function has made itself."""
    if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
        return False
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
        return _is_own(function, node.value, node)
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        return _is_own(function, node.target, node)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        name = node.func.attr
        if name in _CONTAINERS or (name.endswith("_") and not name.endswith("__")):
            return _is_own(function, node.func.value, node)
    return True


def _is_own(function: Function, changed: ast.expr, node: ast.AST) -> bool:
    """Whether a variable holds nothing but what was made in the function, or was set to that just above the node."""
    if not isinstance(changed, ast.Name):
        return False
    values = _values(function, changed.id)
    of_itself = changed.id not in {each.arg for each in function.arguments} or _set_at_first(function, changed.id)
    if of_itself:
        return bool(values) and all(value is not None and _is_new(value) for value in values)
    for block in _blocks(function.node):
        for above, statement in itertools.pairwise(block):
            if any(each is node for each in ast.walk(statement)) and isinstance(above, ast.Assign):
                targets = [each.id for each in above.targets if isinstance(each, ast.Name)]
                return targets == [changed.id] and _is_new(above.value)
    return False


def _set_at_first(function: Function, name: str) -> bool:
    """Whether the first statement that names an argument gives it another value: `cost = cost.copy()`."""
    for each in function.node.body:
        if any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(each)):
            return isinstance(each, ast.Assign) and [ast.unparse(target) for target in each.targets] == [name]
    return False


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """Every block of statements in it, inner ones first: of them one holds a node nearest."""
    for each in ast.iter_child_nodes(node):
        yield from _blocks(each)
    for name in ("body", "orelse"):
        block = getattr(node, name, None)
        if isinstance(block, list):
            yield block


def _values(function: Function, name: str) -> list[ast.expr | None]:
    """What a variable is set to; None for what cannot be told."""
    found: list[ast.expr | None] = []
    plain: set[int] = set()
    for node in function.nodes:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                pairs = [(target, node.value)]
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    pairs = list(zip(target.elts, node.value.elts, strict=False))
                for one, value in pairs:
                    if isinstance(one, ast.Name) and one.id == name:
                        plain.add(id(one))
                        found.append(value)
        elif isinstance(node, ast.AugAssign):
            plain.add(id(node.target))
    others = [each for each in function.nodes if is_set(each, name) and id(each) not in plain]
    return found + [None] * len(others)


def _is_new(value: ast.expr) -> bool:
    """Whether an expression makes something of its own: another tensor or container, or a number."""
    if isinstance(value, ast.Constant | ast.List | ast.Dict | ast.ListComp | ast.BinOp):
        return True
    if not isinstance(value, ast.Call):
        return False
    name = value.func.attr if isinstance(value.func, ast.Attribute) else getattr(value.func, "id", "")
    if name in _SAME and isinstance(value.func, ast.Attribute):
        return _is_new(value.func.value)
    return name in _NEW


def chain_of(node: ast.AST, me: str) -> Chain | None:
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return tuple(reversed(names)) if me and isinstance(node, ast.Name) and node.id == me else None

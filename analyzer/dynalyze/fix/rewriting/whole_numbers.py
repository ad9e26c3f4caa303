"""Functions that go by the values of whole numbers, as positions of tokens: in compiled code operators of torch.

What such a function does stays Python, which runs as it is: there is nothing in it to compile, and no gradient. Only
the size of what it returns must be known without it, which its syntax tells. The operator looks at the size as well.
"""

from __future__ import annotations

import ast
import builtins
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import libcst as cst

from dynalyze.capture.fixing import ARGUMENT
from dynalyze.fix.rewriting import rewriter
from dynalyze.fix.rewriting.conditions import import_of_torch, torch_name
from dynalyze.fix.rewriting.constants import top_names
from dynalyze.fix.sites import Proposal, Site, Value, statements_of

READS = ("Unsupported Tensor.item()", "Data dependent operator", "Dynamic shape operator", "Data-dependent",
          "Failed to trace builtin operator")  # fmt: skip
WHOLE = ("int64", "int32", "int16", "int8", "uint8", "bool")
_SCALARS = ("int", "float", "bool", "str")
_MODULES = ("torch", "torch.nn.functional", "itertools", "math")
_ON_THE_HOST = ("numpy", "scipy")
_BUILT_IN = frozenset({"range", "len", "enumerate", "zip", "list", "tuple", "dict", "max", "min", "sum", "abs", "int",
                       "float", "bool", "iter", "next", "any", "all", "reversed", "sorted", "isinstance", "divmod",
                       "round"})  # fmt: skip
_CONTAINERS = frozenset({"append", "extend", "insert", "pop", "update", "add", "setdefault", "sort", "reverse",
                         "clear", "remove", "popitem"})  # fmt: skip
_REFUSED = frozenset({"backward", "register_hook", "retain_grad", "manual_seed", "seed", "save", "load", "write",
                      "multinomial", "bernoulli", "normal", "gumbel_softmax", "uniform", "exponential", "poisson",
                      "geometric", "dropout", "shuffle", "is_compiling", "is_tracing", "is_grad_enabled",
                      "is_inference_mode_enabled", "copyto", "put", "putmask", "place", "fill", "fill_diagonal", "at",
                      "partition", "resize", "itemset", "setflags", "setfield", "tofile", "savez", "savetxt",
                      "seterr"})  # fmt: skip
_MAKES = ("zeros", "ones", "full", "empty", "zeros_like", "ones_like", "full_like", "empty_like", "new_zeros",
          "new_ones", "new_full", "new_empty")  # fmt: skip
_NEW = frozenset({*_MAKES, "arange", "cat", "stack", "tensor", "clone", "repeat_interleave", "repeat", "cumsum",
                  "linspace", "list", "dict", "sorted", "unique", "unique_consecutive", "copy", "array"})  # fmt: skip
_SAME = ("reshape", "view", "unsqueeze", "transpose", "flatten", "long", "int", "contiguous", "to")
_AROUND = ("unsqueeze", "view", "reshape", "to", "long", "int", "contiguous", "transpose", "t")
_LEFT_ALONE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Global, ast.Nonlocal, ast.Yield, ast.YieldFrom,
               ast.Await, ast.Delete, ast.Try, ast.With, ast.Import, ast.ImportFrom, ast.AsyncFor)  # fmt: skip
_ANNOTATED = frozenset({"torch", "Tensor", "LongTensor", "IntTensor", "BoolTensor", "None", "Optional", "Union"})

_LONG = 60

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
        return self.node.name if self.owner is None else f"{self.owner.name}.{self.node.name}"

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


@rewriter("whole-numbers", *READS, rank=40, outer=True)
def work_out_in_an_operator(site: Site) -> Iterator[Proposal]:
    """`positions(ids, grid)`, which goes by the values of whole numbers and makes tensors of known size: made one."""
    function = _function(site)
    torch = torch_name(site)
    if function is None or "." in torch or not isinstance(site.function.body, cst.IndentedBlock):
        return
    read = read_of(site, function)
    parameters = None if read is None else _parameters(site, function)
    faked = None if parameters is None else _faked(function, torch, set(parameters))
    if read is None or parameters is None or faked is None:
        return
    if not any("Tensor" in kind for kind, _ in parameters.values()):
        return
    name = f"_{function.node.name.strip('_')}_op"
    if {name, f"{name}_fake", "SimpleNamespace"} & top_names(site.text):
        return
    asked = [f"{torch}.compiler.is_compiling()"]
    owner = "" if function.owner is None else function.owner.name
    asked += [f"type({function.me}).{each} is {owner}.{each}" for each in read.methods]
    asked += [check for _, check in parameters.values() if check]
    asked += [f"isinstance({_chain(function.me, each)}, {kind})" for each, kind in read.chains.items()]
    given = [*parameters, *(_chain(function.me, each) for each in read.chains)]
    (early,) = statements_of(f"if {' and '.join(asked)}:\n    return {name}({', '.join(given)})\n")
    body = site.function.body
    has_text = ast.get_docstring(function.node) is not None
    new = body.with_changes(body=[*body.body[:has_text], early, *body.body[has_text:]])
    yield Proposal(
        "", f"Work `{function.node.name}` out in an operator of its own: whole numbers, nothing to compile",
        site.with_nodes({body: new}, import_of_torch(site) + _operator(site, function, name, parameters, read, faked)),
    )  # fmt: skip


def _function(site: Site) -> Function | None:
    """The function that holds the line, where all its arguments have names."""
    found = enclosing(site)
    if found is None:
        return None
    given, owner = found.node.args, found.owner
    named = owner is None or bool(given.args)
    plain = not given.posonlyargs and given.vararg is None and not found.node.decorator_list and named
    alone = owner is None or found.method(found.node.name) is not None
    return found if plain and alone else None


def enclosing(site: Site) -> Function | None:
    """The function at the top of the file, or of a class there, that holds the line and not another one in it."""
    tree = ast.parse(site.text)
    places: list[tuple[ast.ClassDef | None, ast.stmt]] = [(None, each) for each in tree.body]
    places += [(each, inner) for each in tree.body if isinstance(each, ast.ClassDef) for inner in each.body]
    for owner, node in places:
        if isinstance(node, ast.FunctionDef) and node.lineno <= site.line <= (node.end_lineno or 0):
            return Function(node, owner) if node.name == site.function.name.value else None
    return None


def _parameters(site: Site, function: Function) -> dict[str, tuple[str, str]] | None:
    """Of each argument that is used its type in a schema and what is to be asked first; None where one has none."""
    used = {each.id for each in function.nodes if isinstance(each, ast.Name)}
    if function.node.args.kwarg is not None and function.node.args.kwarg.arg in used:
        return None
    defaults = _defaults(function.node)
    found = {}
    for each in function.arguments:
        if each.arg in used:
            known = _type(site, each, defaults.get(each.arg))
            if known is None:
                return None
            found[each.arg] = known
    return found


def _defaults(node: ast.FunctionDef) -> dict[str, ast.expr]:
    given = node.args
    plain = zip(reversed(given.args), reversed(given.defaults), strict=False)
    named = zip(given.kwonlyargs, given.kw_defaults, strict=True)
    return {each.arg: default for each, default in [*plain, *named] if default is not None}


def _type(site: Site, argument: ast.arg, default: ast.expr | None) -> tuple[str, str] | None:
    torch, name = torch_name(site), argument.arg
    value = site.values.get(f"{ARGUMENT}{name}", site.values.get(name))
    annotation = ast.unparse(argument.annotation) if argument.annotation is not None else ""
    may_lack = (
        "None" in annotation
        or "Optional" in annotation
        or (isinstance(default, ast.Constant) and default.value is None)
    )
    words = set(re.findall(r"\w+", annotation))
    if value is None:
        return None
    if value.kind in ("tensor", "NoneType"):
        whole = value.kind == "NoneType" or (value.name == "Tensor" and value.dtype in WHOLE)
        if not whole or not words <= _ANNOTATED or (value.kind == "NoneType" and not (words and may_lack)):
            return None
        check = f"isinstance({name}, {torch}.Tensor)"
        asked = "" if annotation else f"({name} is None or {check})" if may_lack else check
        return f"{torch}.Tensor{' | None' * may_lack}", asked
    if value.kind in _SCALARS and not may_lack:
        return value.kind, "" if annotation == value.kind else f"isinstance({name}, {value.kind})"
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
            if value is not None and value.kind in _SCALARS:
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
        of_numbers = value.kind == "ndarray" or (value.kind in ("list", "tuple") and value.name in _SCALARS)
        computes = value.kind in ("module", "function") and _has_no_effect(value.name, value.kind)
        return value.kind in _SCALARS or of_numbers or computes
    imports = [alias for each in ast.parse(site.text).body if isinstance(each, ast.Import) for alias in each.names]
    return any(_has_no_effect(alias.name) and (alias.asname or alias.name) == name for alias in imports)


def _has_no_effect(name: str, kind: str = "module") -> bool:
    """Whether a module does nothing but compute, or a function is one of numpy's or SciPy's that does."""
    if kind == "module" and name in _MODULES:
        return True
    parts = name.split(".")
    return parts[0] in _ON_THE_HOST and "random" not in parts and parts[-1] not in _REFUSED


def _bound(function: Function) -> set[str]:
    """Its arguments and variables."""
    stored = {each.id for each in function.nodes if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    lambdas = {each.arg for node in function.nodes if isinstance(node, ast.Lambda) for each in node.args.args}
    return stored | lambdas | {each.arg for each in function.arguments}


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
    others = [each for each in function.nodes if _sets(each, name) and id(each) not in plain]
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


def _faked(function: Function, torch: str, parameters: set[str]) -> list[str] | None:
    """What it returns, each as an expression that makes a tensor of that size; None where its syntax does not tell."""
    *before, last = function.node.body
    if not isinstance(last, ast.Return) or sum(isinstance(each, ast.Return) for each in function.nodes) > 1:
        return None
    returned = last.value.elts if isinstance(last.value, ast.Tuple) else [last.value]
    found = [each and _outline(function, each, before, torch, parameters) for each in returned]
    return [each for each in found if each] if all(found) else None


def _outline(
    function: Function, node: ast.expr, before: Sequence[ast.stmt], torch: str, parameters: set[str]
) -> str | None:
    """An expression that makes a tensor of the size, type and place that this one has, of the arguments alone."""
    if isinstance(node, ast.Name):
        places = [number for number, each in enumerate(before) if isinstance(each, ast.Assign)
                  and [getattr(one, "id", "") for one in each.targets] == [node.id]]  # fmt: skip
        later = [inner for each in before[places[-1] + 1 :] for inner in ast.walk(each)] if places else []
        if not places or any(_sets(each, node.id) for each in later):
            return None
        made = before[places[-1]]
        assert isinstance(made, ast.Assign)
        return _outline(function, made.value, before[: places[-1]], torch, parameters)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    name, given = node.func.attr, [*node.args, *(each.value for each in node.keywords)]
    of_torch = isinstance(node.func.value, ast.Name) and node.func.value.id == torch
    if of_torch and name == "tensor" and node.args and all(_is_static(function, e, parameters) for e in given[1:]):
        count = _counted(function, node.args[0], before, parameters)
        more = "".join(f", {each.arg}={ast.unparse(each.value)}" for each in node.keywords)
        kind = "" if any(each.arg == "dtype" for each in node.keywords) else f", dtype={torch}.int64"
        return f"{torch}.empty(({count},){kind}{more})" if count is not None and len(node.args) == 1 else None
    if not all(_is_static(function, each, parameters) for each in given):
        return None
    if name in _MAKES and (of_torch or _is_static(function, node.func.value, parameters)):
        return ast.unparse(node)
    if name in _AROUND and (inner := _outline(function, node.func.value, before, torch, parameters)) is not None:
        return f"{inner}.{name}({', '.join(map(ast.unparse, [*node.args, *node.keywords]))})"
    return None


def _sets(node: ast.AST, name: str) -> bool:
    """Whether a node gives a variable another value; one of the elements of a tensor is no such."""
    return isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)


def _is_static(function: Function, node: ast.expr, parameters: set[str]) -> bool:
    """Whether an expression is worked out of the sizes, types and places of arguments that stay what they were."""
    set_again = {each.id for each in function.nodes if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    for each in ast.walk(node):
        if isinstance(each, ast.Call):
            of_size = isinstance(each.func, ast.Attribute) and each.func.attr in ("size", "dim", "numel")
            if not of_size and not (isinstance(each.func, ast.Name) and each.func.id == "len"):
                return False
        elif isinstance(each, ast.Name) and each.id not in ("torch", "len"):
            if each.id not in parameters or each.id in set_again:
                return False
        elif not isinstance(each, ast.Attribute | ast.Name | ast.Constant | ast.Subscript | ast.BinOp | ast.UnaryOp
                            | ast.operator | ast.unaryop | ast.expr_context | ast.Tuple | ast.List):  # fmt: skip
            return False
    return _of_outlines(node)


def _of_outlines(node: ast.expr) -> bool:
    """Whether elements are taken of shapes alone: `x.shape[0]`, never of `x[0]`."""
    return all(
        isinstance(each.value, ast.Attribute) and each.value.attr == "shape"
        for each in ast.walk(node) if isinstance(each, ast.Subscript)
    )  # fmt: skip


def _counted(function: Function, node: ast.expr, before: Sequence[ast.stmt], parameters: set[str]) -> str | None:
    """How many elements a list has that gets one in each turn of a loop over an argument."""
    if not isinstance(node, ast.Name):
        return None
    nodes = [inner for each in before for inner in ast.walk(each)]
    named = [each for each in nodes if isinstance(each, ast.Name) and each.id == node.id]
    empty = [each for each in before if isinstance(each, ast.Assign) and ast.unparse(each) == f"{node.id} = []"]
    for loop in before:
        if not isinstance(loop, ast.For) or loop.orelse:
            continue
        own = [each for each in loop.body if _appends(each, node.id)]
        leaves = any(isinstance(each, ast.Break | ast.Continue) for each in ast.walk(loop))
        if len(empty) == 1 and len(own) == 1 and len(named) == 2 and not leaves:
            return _turns(function, loop.iter, parameters)
    return None


def _appends(statement: ast.stmt, name: str) -> bool:
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != "append":
        return False
    return isinstance(call.func.value, ast.Name) and call.func.value.id == name


def _turns(function: Function, node: ast.expr, parameters: set[str]) -> str | None:
    """`x`, `enumerate(x)`, `range(len(x))`, `range(x.shape[0])`: the length of `x`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 1:
        if node.func.id == "enumerate":
            return _turns(function, node.args[0], parameters)
        sized = isinstance(node.args[0], ast.Call | ast.Subscript)
        if node.func.id == "range" and sized and _is_static(function, node.args[0], parameters):
            return ast.unparse(node.args[0])
    if isinstance(node, ast.Name) and _is_static(function, node, parameters):
        return f"{node.id}.shape[0]"
    return None


def chain_of(node: ast.AST, me: str) -> Chain | None:
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return tuple(reversed(names)) if me and isinstance(node, ast.Name) and node.id == me else None


def _chain(me: str, chain: Chain) -> str:
    return ".".join([me, *chain])


def _operator(
    site: Site, function: Function, name: str, parameters: dict[str, tuple[str, str]], read: _Read, faked: list[str]
) -> str:
    """The operator, which calls the function as it is, and its fake."""
    torch = torch_name(site)
    numbers = {each: "_".join(each) for each in read.chains}
    takes = in_lines([*(f"{each}: {kind}" for each, (kind, _) in parameters.items()),
                       *(f"{each}: {read.chains[chain]}" for chain, each in numbers.items())])  # fmt: skip
    gives = f"{torch}.Tensor" if len(faked) == 1 else f"tuple[{', '.join([f'{torch}.Tensor'] * len(faked))}]"
    given = [f"{each}={each}" for each in parameters]
    imported = ""
    if function.owner is not None:
        methods: dict[Chain, str] = {
            (each,): f"lambda *args, **kwargs: {function.owner.name}.{each}(None, *args, **kwargs)"
            for each in read.methods
        }
        given.insert(0, _stand_in({**numbers, **methods}))
        imported = "from types import SimpleNamespace\n"
    handed = ", ".join([*parameters, *numbers.values()])
    returned = faked[0] if len(faked) == 1 else f"({in_lines(faked, 1)})"
    made, expected = ("made", "expected") if len(faked) > 1 else ("[made]", "[expected]")
    return (
        f"{imported}\n\n"
        f'@{torch}.library.custom_op("{space_of(site)}::{function.node.name.strip("_")}", mutates_args=(), '
        f"tags={torch}.Tag.cudagraph_unsafe)\n"
        f"def {name}({takes}) -> {gives}:\n"
        f"    made = {function.name}({in_lines(given, 1)})\n"
        f"    expected = {name}_fake({handed})\n"
        f"    for one, other in zip({made}, {expected}, strict=True):\n"
        f"        if (one.shape, one.dtype, one.stride()) != (other.shape, other.dtype, other.stride()):\n"
        f'            raise RuntimeError("{function.node.name} makes something else than its fake says")\n'
        f"    return made\n\n\n"
        f"@{name}.register_fake\ndef {name}_fake({handed}):\n    return {returned}\n"
    )


def in_lines(parts: list[str], depth: int = 0, between: str = ", ") -> str:
    """What stands between brackets, one below the other where there are more than a few."""
    text = between.join(parts)
    inner, outer = f"\n{'    ' * (depth + 1)}", f"\n{'    ' * depth}"
    if len(text) < _LONG:
        return text
    word = between.strip()
    lines = [f"{each}," for each in parts] if word == "," else [parts[0], *(f"{word} {each}" for each in parts[1:])]
    return inner + inner.join(lines) + outer


def space_of(site: Site) -> str:
    """The namespace of operators that are made for a file."""
    return re.sub(r"\W", "_", Path(site.broken.location.file).stem) or "program"


def _stand_in(values: dict[Chain, str]) -> str:
    """An object that has these attributes, as source."""
    inner: dict[str, dict[Chain, str]] = {}
    for chain, value in values.items():
        inner.setdefault(chain[0], {})[chain[1:]] = value
    parts = [f"{name}={below[()] if () in below else _stand_in(below)}" for name, below in inner.items()]
    return f"SimpleNamespace({in_lines(parts, 2)})"

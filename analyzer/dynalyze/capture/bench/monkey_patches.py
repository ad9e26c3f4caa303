"""What a program put into the modules, classes and registries of others: `LlamaMLP.forward = fused`,
`F.scaled_dot_product_attention = sage`, `lib.USE_FLASH = False`, `AttentionInterface.register("mine", function)`,
`config.CFG.heads = 8` in a module of its own.

A process that imports them anew has them as their files say, so that its calls would be other ones. What cannot be from
the files travels with the calls. Functions and classes that are found under a name elsewhere go by that name, and those
of the program itself by value, each packed by itself: most are there once their module is imported (a named tuple, what
a decorator made), and only what is not is unpacked. Flags that a package sets by itself stay as they are: they may say
that something is there, as a library that was loaded.
"""

from __future__ import annotations

import ast
import collections
import contextlib
import functools
import importlib
import inspect
import sys
import types
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from dynalyze.capture.assigned_values import is_plain_value
from dynalyze.capture.bench import pickling
from dynalyze.capture.bench.failures import one_line
from dynalyze.capture.bench.module_content import is_content, same_content, written_into
from dynalyze.capture.hooks import ORIGINAL_MARK, after_import
from dynalyze.capture.installed import file_of, is_installed
from dynalyze.capture.nested_values import is_plain_object, reachable_modules
from dynalyze.capture.torch_private import compiled_calls

_OF_TORCH = ("torch", "torch.nn.functional")
_MOST_WRAPPED = 10
# No others: one may import, or make, what it is asked for.
_REGISTRIES = (dict, collections.OrderedDict, collections.defaultdict)
_IN_C = (types.BuiltinFunctionType, types.MethodDescriptorType)
_GONE = object()

Description = tuple[tuple[str, str, str, int], ...]
"""Of a function and of each that it wraps: the module that it says it is from, the one whose globals it has, its name
and its first line.
"""


@dataclass(frozen=True, slots=True)
class MonkeyPatch:
    """What stands in a module, or in one of its classes (`owner`), under a `name`; in a registry there under its `key`.
    A function or class is known by how it is `described`; one that is found elsewhere goes by that `reference`, its
    module and name, everything else by `value`, which of a function or class may be `Packed`.
    """

    module: str
    owner: str
    name: str
    key: Any
    described: Description
    reference: tuple[str, str] | None
    value: Any

    @property
    def place(self) -> str:
        return ".".join(filter(None, (self.module, self.owner, self.name)))

    def apply(self, module: types.ModuleType) -> None:
        """Put it there, unless it is there by itself. Raises what importing the module of a reference raises."""
        owner = _found(module, self.owner)
        registry = None if self.key is None else vars(owner).get(self.name) if owner is not None else None
        if owner is None or (self.key is not None and type(registry) not in _REGISTRIES):
            return
        held = vars(owner).get(self.name, _GONE) if registry is None else registry.get(self.key, _GONE)
        if self._is_there(held, module):
            return
        value = self.value
        if self.reference is not None:
            value = _found(importlib.import_module(self.reference[0]), self.reference[1])
        elif isinstance(value, Packed):
            value = value.unpacked(self)
        if registry is not None:
            registry[self.key] = value
        else:
            with contextlib.suppress(TypeError, AttributeError):  # Classes of C cannot be changed, and so were not.
                setattr(owner, self.name, value)

    def _is_there(self, held: Any, module: types.ModuleType) -> bool:
        if self.described:
            return self.described == _described(_behind_wrappers(held))
        if same_content(held, self.value) or self.name in _set_by_itself(module):
            return True
        return written_into(held, self.value)


def find_patches(targets: Any, package: types.ModuleType) -> list[MonkeyPatch]:
    """Those in the modules that have to do with these callables, packed with cloudpickle (`package`). For a function
    that cannot travel one that raises an error when it is called: many a callback never is. Other values that cannot
    are left out.
    """
    found, tried = list[MonkeyPatch](), dict[int, tuple[Any, Packed | CannotTravel | None]]()
    for each in (each for module in _homes(targets) for each in _in_module(module)):
        if each.reference is not None or is_plain_value(each.value):
            found.append(each)
            continue
        if id(each.value) not in tried:  # It is kept: another one would get its id.
            tried[id(each.value)] = each.value, _packed(each, package)
        value = tried[id(each.value)][1]
        if isinstance(value, CannotTravel):
            found += [replace(each, value=replace(value, what=each.place))] if each.described else []
        else:
            found.append(each if value is None or not each.described else replace(each, value=value))
    return found


@dataclass(eq=False, slots=True)
class Packed:
    """A function or class that is needed only where it is not there by itself; in several places it is one."""

    pickled: bytes
    made: Any = None

    def unpacked(self, patch: MonkeyPatch) -> Any:
        """It, or what stands for it where this process cannot have it."""
        try:
            self.made = pickling.unpack(self.pickled) if self.made is None else self.made
        except Exception as error:
            return CannotTravel(patch.place, one_line(error))
        return self.made


def _packed(patch: MonkeyPatch, package: types.ModuleType) -> Packed | CannotTravel | None:
    """None for what is too large to go by itself: it travels with the calls."""
    try:
        return Packed(pickling.pack(patch.value, package))
    except pickling.PickleTooLarge:
        return None
    except Exception as error:
        return CannotTravel(patch.place, one_line(error))


@dataclass(frozen=True)
class CannotTravel:
    """Stands in another process for a function of the program that cannot be there."""

    what: str
    why: str

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"{self.what}, which the program put there, cannot travel to another process: {self.why}")


def _homes(targets: Any) -> list[types.ModuleType]:
    """The modules of the classes in use, what these take from their own package, and those of the program itself."""
    kinds = {base for root in reachable_modules(targets) for part in root.modules() for base in type(part).__mro__}
    seeds = [each.__module__ for each in kinds] + [str(getattr(each, "__module__", "")) for each in targets]
    homes = list(dict.fromkeys(name for name in [*seeds, *_OF_TORCH, "__main__"] if _is_home(name)))
    seeds = list(homes)
    for home in homes:  # It grows.
        for value in list(vars(sys.modules[home]).values()):
            other = _home_of(value)
            alike = home in seeds and _package(other) == _package(home) != "torch"
            if other not in homes and _is_home(other) and (alike or _is_own(other)):
                homes.append(other)
    return [sys.modules[name] for name in homes if name != "__main__"]


def _home_of(value: Any) -> str:
    with contextlib.suppress(Exception):
        return str(getattr(value, "__name__" if isinstance(value, types.ModuleType) else "__module__", ""))
    return ""


def _is_home(name: str) -> bool:
    known = file_of(sys.modules.get(name)) != ""
    return known and _package(name) != "dynalyze" and _package(name) not in sys.stdlib_module_names


def _is_own(name: str) -> bool:
    return not is_installed(file_of(sys.modules.get(name)))


def _in_module(module: types.ModuleType) -> Iterator[MonkeyPatch]:
    home = module.__name__
    for name, value in list(vars(module).items()):
        with contextlib.suppress(Exception):  # A stand-in for another object may answer no question.
            if isinstance(value, type) and value.__module__ == home and _found(module, value.__qualname__) is value:
                for attribute, held in list(vars(value).items()):
                    yield from _under(home, value.__qualname__, attribute, held)
            if not name.startswith("__"):  # Builtins, and what Dynamo puts there: `__resume_at_12_0`.
                yield from _under(home, "", name, value)
            if is_plain_object(value) and not isinstance(value, torch.nn.Module):  # A registry may be an object.
                for attribute, held in list(vars(value).items()):
                    if type(held) in _REGISTRIES and any(map(_described, held.values())):
                        yield from _under(home, name, attribute, held)


def _under(module: str, owner: str, name: str, value: Any) -> Iterator[MonkeyPatch]:
    entries: list[tuple[Any, Any]] = [(None, value)]
    if type(value) in _REGISTRIES and any(map(_described, value.values())):
        entries = [(key, held) for key, held in value.items() if _is_key(key) and _described(held)]
    for key, held in entries:
        held = _behind_wrappers(held)
        if isinstance(held, types.ModuleType):
            is_of_program = _is_own(module) or _is_of_program(held.__name__)
            if is_of_program and sys.modules.get(held.__name__) is held:
                yield MonkeyPatch(module, owner, name, key, _described(held), (held.__name__, ""), None)
        elif described := _described(held):
            yield from _of_function(module, owner, name, key, described, held)
        elif name.startswith("__") or _package(module) == "torch":
            continue
        # Values of a package that are no flags are its affair.
        elif is_plain_value(held) or (_is_own(module) and is_content(held)):
            yield MonkeyPatch(module, owner, name, key, (), None, held)


def _is_key(key: Any) -> bool:
    """Whether another process has this key of a registry too: `type({}.keys())` has no name that leads to it."""
    if isinstance(key, type):
        module = key.__module__
        return module == "__main__" or _found(sys.modules.get(module), key.__qualname__) is key
    return isinstance(key, (str, int))


def _of_function(
    module: str, owner: str, name: str, key: Any, described: Description, held: Any
) -> Iterator[MonkeyPatch]:
    """A function or class, unless it is at home there."""
    homes = {each for part in described for each in part[:2]} - {module}
    packages = set(map(_package, homes))
    if "dynalyze" in packages or (_package(module) == "torch" and packages <= {"torch"}):
        return
    where, called = _name_of(held)
    own = list(filter(_is_of_program, homes))
    is_named = where != "__main__" and called != "" and _behind_wrappers(_found(sys.modules.get(where), called)) is held
    expected, first = ".".join(filter(None, (owner, name))), described[0]
    is_at_home = is_named and (where, called) == (module, expected)
    # A property, or a class's own method, says so itself.
    is_at_home |= len(described) == 1 and first[:2] == (module, module) and first[2].partition("[")[0] == expected
    if is_named and not is_at_home:
        yield MonkeyPatch(module, owner, name, key, described, (where, called), None)
    elif "__main__" in own or ((own or _is_own(module)) and not (is_at_home and _is_own(module))):
        yield MonkeyPatch(module, owner, name, key, described, None, _unnamed(held) if is_named else held)
    elif isinstance(held, functools.partial) and all(map(is_plain_value, (*held.args, *held.keywords.values()))):
        yield MonkeyPatch(module, owner, name, key, described, None, held)


def _name_of(value: Any) -> tuple[str, str]:
    """The module that has a function, class or module, and its name there; of functions in C those that torch has."""
    if isinstance(value, types.ModuleType):
        return value.__name__, ""
    where, called = getattr(value, "__module__", None), str(getattr(value, "__qualname__", ""))
    if isinstance(value, _IN_C) and (where is None or _found(sys.modules.get(where), called) is not value):
        plain, of_tensors = value.__name__, f"Tensor.{value.__name__}"
        return "torch", next((each for each in (plain, of_tensors) if _found(torch, each) is value), "")
    return str(where), called


def _behind_wrappers(value: Any) -> Any:
    if isinstance(value, types.FunctionType):
        value = vars(value).get(ORIGINAL_MARK, value)
    return compiled_calls.original_of(value)


def _is_of_program(module: str) -> bool:
    return module == "__main__" or (_is_home(module) and _is_own(module))


def _unnamed(value: Any) -> Any:
    """A copy of a function that says, as `functools.wraps` has it, that it is the one in whose place it stands: by that
    name nobody would find it elsewhere.
    """
    if not isinstance(value, types.FunctionType):
        return value
    made = types.FunctionType(value.__code__, value.__globals__, value.__name__, value.__defaults__, value.__closure__)
    made.__kwdefaults__, made.__module__ = value.__kwdefaults__, "__main__"
    vars(made).update(vars(value))
    return made


def _described(value: Any) -> Description:
    """What a function or class says of itself and, where a decorator wraps one, what that says; () for all else."""
    found: list[tuple[str, str, str, int]] = []
    while value is not None and len(found) < _MOST_WRAPPED:
        if isinstance(value, types.MethodType):  # `Own.apply` of an autograd.Function has torch's code.
            owner = value.__self__ if isinstance(value.__self__, type) else type(value.__self__)
            found.append((owner.__module__, owner.__module__, owner.__qualname__, 0))
            value = value.__func__
        elif isinstance(value, (staticmethod, classmethod)):
            value = value.__func__
        elif isinstance(value, property):
            value = value.fget
        elif isinstance(value, functools.partial):
            found.append(("", "", repr([each for each in (value.args, value.keywords) if is_content(each)]), 0))
            value = value.func
        elif isinstance(value, types.ModuleType):
            return (("", value.__name__, "", 0),)
        elif isinstance(value, (types.FunctionType, type, *_IN_C)):
            code = getattr(value, "__code__", None)
            defined = str(getattr(value, "__globals__", {}).get("__name__", "")) or str(_name_of(value)[0])
            line = 0 if code is None else code.co_firstlineno
            found.append((_name_of(value)[0], defined, f"{value.__qualname__}{_holds(value)}", line))
            value = None if isinstance(value, type) else getattr(value, "__wrapped__", None)
        else:
            kind = type(value)
            if callable(value) and _is_of_program(kind.__module__):
                found.append((kind.__module__, kind.__module__, f"{kind.__qualname__}()", 0))
            break
    return tuple(found)


def _holds(function: Any) -> str:
    """The numbers and texts that a function was made with: `make(5)` is not `make(2)`."""
    cells = [each.cell_contents for each in getattr(function, "__closure__", None) or () if _is_filled(each)]
    plain = [each for each in (*cells, *(getattr(function, "__defaults__", None) or ())) if is_plain_value(each)]
    return repr(plain) if plain else ""


def _is_filled(cell: Any) -> bool:
    with contextlib.suppress(ValueError):
        return cell.cell_contents is not None
    return False


def _found(owner: Any, names: str) -> Any:
    for name in names.split(".") if names else ():
        owner = getattr(owner, name, None)
    return owner


def _package(module: str) -> str:
    return module.partition(".")[0]


@functools.lru_cache(maxsize=64)
def _set_by_itself(module: types.ModuleType) -> frozenset[str]:
    """Globals, and attributes of whatever object, that functions of a package's module set. Of one of the program's own
    those that one function reads and sets, as a count or what is made once: what a setter alone sets is the program's.
    """
    try:
        tree = ast.parse(inspect.getsource(module))
    except (OSError, TypeError, SyntaxError):
        return frozenset(vars(module))
    found: set[str] = set()
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        nodes = list(ast.walk(function))
        shared = {name for node in nodes if isinstance(node, ast.Global) for name in node.names}
        names = [(each.id, each.ctx) for each in nodes if isinstance(each, ast.Name) and each.id in shared]
        names += [
            (each.attr, each.ctx)
            for each in nodes
            if isinstance(each, ast.Attribute) and ast.unparse(each.value) != "self"
        ]
        read = {name for name, context in names if isinstance(context, ast.Load)}
        read |= {getattr(each.target, "id", "") for each in nodes if isinstance(each, ast.AugAssign)}
        written = {name for name, context in names if isinstance(context, ast.Store)}
        found |= written & read if _is_own(module.__name__) else written
    return frozenset(found)


def apply_patches(patches: Iterable[MonkeyPatch]) -> None:
    """Put them there; in a module that is not imported, once it is."""
    of_modules: dict[str, list[MonkeyPatch]] = {}
    for each in patches:
        of_modules.setdefault(each.module, []).append(each)
    for name, own in of_modules.items():
        after_import(name, functools.partial(_apply_in, own))


def _apply_in(patches: Iterable[MonkeyPatch], module: types.ModuleType) -> None:
    for each in patches:
        each.apply(module)

"""Targets that dynalyze compiles itself: `file.py:NAME`, `package.module:NAME`, and a script's own `model`."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import operator
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from dynalyze.capture.events import ModuleClass
from dynalyze.capture.inputs import Inputs, Misuse, calls_from, calls_from_expressions, needs_inputs, signature_text
from dynalyze.capture.program import REFUSALS, misuse_of_source, module_of, origin_of, set_first_path


def import_target(path: str | None, module: str | None) -> ModuleType:
    """Import the file or module that holds NAME; whatever its own code raises passes through. Raises Misuse where there
    is no such module.
    """
    if path is not None:
        try:
            return _import_file(Path(path).resolve())
        except REFUSALS as error:
            raise misuse_of_source(error, path) or error from None
    assert module is not None
    set_first_path(str(Path.cwd()))
    try:
        return importlib.import_module(module)
    except REFUSALS as error:
        raise misuse_of_source(error, origin_of(module)) or error from None
    except ModuleNotFoundError as error:
        if error.name and (module == error.name or module.startswith(error.name + ".")):
            raise Misuse(f"no module named {error.name!r}; run from the folder that holds it") from error
        raise


def find_object(module: ModuleType, name: str) -> Any:
    """The object called `name`, which may have dots. Raises Misuse, with the names that there are, where this one is
    not.
    """
    try:
        return operator.attrgetter(name)(module)
    except AttributeError:
        there = ", ".join(_candidates(module)) or "nothing that can be compiled"
        raise Misuse(f"no {name!r} in {module.__file__ or module.__name__}; it defines {there}") from None


def prepare(
    value: Any, name: str, module: ModuleType, expressions: list[str], sizes: Mapping[str, int] | None = None
) -> tuple[Any, list[Inputs]]:
    """Turn an object into a callable and the calls to make; `sizes` are for a factory, as its keywords. Raises Misuse
    where it cannot be called, inputs are needed and none are given, or it takes no such sizes.
    """
    import torch

    if sizes:
        value = _sized(value, name, sizes)

    if isinstance(value, type) and issubclass(value, torch.nn.Module):
        value = _instance(value, name)
    elif not callable(value):
        kind = type(value).__name__
        a_kind = f"{'an' if kind[:1].lower() in 'aeiou' else 'a'} {kind}"
        raise Misuse(f"{name!r} is {a_kind}, which cannot be called; name a module, a class or a function")
    # `--input` is for a function that has parameters itself, not for what it makes.
    called_itself = isinstance(value, torch.nn.Module) or bool(expressions and _parameters_of(value) != [])
    if not called_itself and not needs_inputs(value):
        made = value()
        if isinstance(made, tuple) and len(made) == 2 and callable(made[0]):
            value, examples = made
            return value, calls_from_expressions(expressions, value) if expressions else calls_from(examples)
        if not callable(made):
            return value, [Inputs((), {})]
        value = made
    if expressions:
        return value, calls_from_expressions(expressions, value)
    examples = getattr(module, "example_inputs", None)
    if examples is not None:
        return value, calls_from(examples)
    if needs_inputs(value):
        raise Misuse(f'{name} takes {signature_text(value)}: give its inputs, e.g. --input "torch.randn(2, 3)"')
    return value, [Inputs((), {})]


def _sized(value: Any, name: str, sizes: Mapping[str, int]) -> Any:
    """A factory that makes its model and inputs for these sizes."""
    import torch

    try:
        if not callable(value) or isinstance(value, (type, torch.nn.Module)):
            raise TypeError
        inspect.signature(value).bind(**sizes)
    except (TypeError, ValueError):
        it, this = ("it", "this parameter") if len(sizes) == 1 else ("them", "these parameters")
        raise Misuse(
            f"--shapes {', '.join(sizes)}: {name} is no factory that takes {it} as a keyword; say which input has "
            f"this size, --dim {next(iter(sizes))}=INPUT:AXIS, or name a function with {this} that returns "
            "(model, inputs)"
        ) from None
    return functools.partial(value, **sizes)


def definitions(names: dict[str, Any]) -> list[ModuleClass]:
    """The nn.Module classes that a program defines itself, for a message on what to try."""
    torch = sys.modules.get("torch")
    if torch is None:
        return []
    own = names.get("__name__")
    classes: list[Any] = [v for v in names.values() if isinstance(v, type) and issubclass(v, torch.nn.Module)]
    return [
        ModuleClass(
            cls.__qualname__,
            init=_parameters(cls),
            forward=_parameters(cls.forward, skip=1),
            ready=_required(cls.__init__) <= 1,  # Only self.
            inputs=_required(cls.forward) - 1,
        )
        for cls in classes
        if cls.__module__ == own
    ]


def _instance(cls: Any, name: str) -> Any:
    try:
        inspect.signature(cls).bind()
    except TypeError:
        raise Misuse(
            f"{name}{_parameters(cls)} needs arguments: write a function without arguments that returns "
            "(model, inputs) and name that"
        ) from None
    return cls()


def _parameters_of(function: Any) -> list[inspect.Parameter] | None:
    """The parameters of a callable; None where they are unknown."""
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None


def _required(function: Any) -> int:
    """The number of required positional arguments."""
    parameters = _parameters_of(function)
    if parameters is None:
        return 1
    return sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty for p in parameters)


def _import_file(path: Path) -> ModuleType:
    root, name = module_of(path)
    if "." in name:
        set_first_path(str(root))
        return importlib.import_module(name.removesuffix(".__init__"))
    set_first_path(str(path.parent))
    # A file called like an installed module must not get that one, nor replace it.
    name = path.stem if path.stem.isidentifier() and path.stem not in sys.modules else f"_{path.stem}_target"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise Misuse(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _candidates(module: ModuleType) -> list[str]:
    import torch

    def ours(value: Any) -> bool:
        if isinstance(value, torch.nn.Module):
            return True
        return (inspect.isfunction(value) or isinstance(value, type)) and value.__module__ == module.__name__

    return [name for name, value in vars(module).items() if not name.startswith("_") and ours(value)][:12]


def _parameters(function: Any, skip: int = 0) -> str:
    """The names of the parameters; their defaults and annotations stay in the user's code."""
    parameters = _parameters_of(function)
    return "(...)" if parameters is None else f"({', '.join(each.name for each in parameters[skip:])})"

"""Pickles live objects of a program with cloudpickle, and reads them back in another process.

torch.save does the storages: what shared one shares one again, so tied weights and views stay what they were. What
the program's own file defines travels by value, everything else by reference. What torch.compile made is replaced by
its original, so that nothing that was written compiles by itself when it is read.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import pickle
import sys
import types
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from dynalyze.capture.bench import reducers
from dynalyze.capture.bench.failures import one_line
from dynalyze.capture.hooks import ORIGINAL_MARK
from dynalyze.capture.nested_values import has_finalizer, leaves, reachable_modules
from dynalyze.capture.torch_private import compiled_calls, custom_operators

_MODULE_NAMES = frozenset({"__name__", "__file__", "__package__", "__path__"})
_MOST_SEARCHED = 2000
_MOST_PACKED = 1 << 20  # Bytes of tensors.


class CannotPickle(Exception):
    """Some object cannot travel to another process; the text names it and says where it is."""


def load_cloudpickle(folder: str) -> types.ModuleType:
    """cloudpickle as installed, else from `folder`, as it came with dynalyze. Raises ImportError."""
    try:
        return importlib.import_module("cloudpickle")
    except ImportError:
        init = Path(folder) / "__init__.py"
        if not folder or not init.is_file():
            raise
    spec = importlib.util.spec_from_file_location("cloudpickle", init, submodule_search_locations=[folder])
    assert spec is not None and spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules["cloudpickle"] = package
    try:
        spec.loader.exec_module(package)
    except BaseException:
        del sys.modules["cloudpickle"]
        raise
    return package


@dataclass
class _Written:
    """State of one pickling: the bytes of all storages, and the definitions of `__main__` pickled by value."""

    budget: int
    nbytes: int = 0
    definitions: dict[str, Any] = field(default_factory=dict)
    last: Any = None
    seen: set[int] = field(default_factory=set)

    def meet(self, value: Any) -> None:
        """Add up the storages while pickling: torch.save writes them only after the last object was met.

        The tensors inside another one are met by themselves, and so are the indices and values of a sparse one.
        """
        self.last = value
        if isinstance(value, (type, types.FunctionType)) and value.__module__ == "__main__":
            name = value.__name__
            if vars(sys.modules["__main__"]).get(name) is value and not compiled_calls.is_compiled_function(value):
                self.definitions[name] = value
        is_plain = isinstance(value, torch.Tensor) and value.layout is torch.strided and value.device.type != "meta"
        if not is_plain or compiled_calls.wraps_tensors(value):
            return
        storage = value.untyped_storage()
        if storage._cdata not in self.seen:
            self.seen.add(storage._cdata)
            self.nbytes += storage.nbytes()
            if self.nbytes > self.budget:
                raise PickleTooLarge(f"model and inputs hold more than the limit of {self.budget / 2**30:.1f} GiB")


class PickleTooLarge(CannotPickle):
    """The tensors hold more bytes than may be written."""


def save(value: Any, path: Path, package: types.ModuleType, budget: int) -> int:
    """Write `value` to a new private file; returns the bytes of its tensors. Raises CannotPickle."""
    names = vars(sys.modules["__main__"])
    # Of the operators that the program's file registers, what calls them by `torch.ops` does not name them.
    own = {name: each for name, each in names.items() if custom_operators.registration_of(each) is not None}
    written = _Written(budget, definitions=own)
    pickler = _pickler(package, written)
    try:
        with path.open("xb") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of hooks on tensors: the program did not ask for this file.
            path.chmod(0o600)
            # The definitions are last: by the time they are written, all of them have been met.
            torch.save((value, written.definitions), file, pickle_module=pickler, pickle_protocol=5)
    except CannotPickle:
        raise
    except Exception as error:
        raise CannotPickle(_explained(error, written.last, value)) from error
    return written.nbytes


def pack(value: Any, package: types.ModuleType) -> bytes:
    """A value by itself, for `unpack`. Raises PickleTooLarge, and what pickling it raises."""
    file = io.BytesIO()
    _pickler(package, _Written(_MOST_PACKED)).Pickler(file, protocol=5).dump(value)
    return file.getvalue()


def unpack(packed: bytes) -> Any:
    """Read back what `pack` made. Globals of the program's file that are there already stay what they are: the
    functions and the model of a bundle have them too.
    """
    main = vars(sys.modules["__main__"])
    there = dict(main)
    try:
        return pickle.loads(packed)
    finally:
        main.update(there)


def load(path: Path) -> Any:
    """Read back what `save` wrote; the definitions of the program's own file become those of `__main__`.

    The tensors are the pages of the file, copied where they are written to: processes that read the same file share
    them, and gigabytes of parameters are there at once. cloudpickle has to be loaded already: the pickled names are
    looked up in it.
    """
    value, definitions = torch.load(path, weights_only=False, mmap=True)
    for name, found in definitions.items():
        sys.modules["__main__"].__dict__.setdefault(name, found)
    return value


def note_recordable_outputs(models: Iterable[Any]) -> None:
    """Tell transformers which outputs the models can record (`_CAN_RECORD_REGISTRY`, of 4.57 and later): without that
    they have no hidden states, whatever asks for them. Nothing where there is no such registry.
    """
    homes = [sys.modules.get(f"transformers.utils.{name}") for name in ("output_capturing", "generic")]
    registry = next(
        (found for home in homes if (found := getattr(home, "_CAN_RECORD_REGISTRY", None)) is not None), None
    )
    if not isinstance(registry, dict):
        return
    roots = [root for model in models for root in reachable_modules(model)]
    for part in (part for root in roots for part in root.modules()):
        outputs = getattr(part, "_can_record_outputs", None)
        if outputs is not None:
            registry[str(type(part)) if type(registry) is dict else part] = outputs


def _pickler(package: types.ModuleType, written: _Written) -> Any:
    """A module, as torch.save wants it, with our Pickler in it."""
    main = sys.modules["__main__"].__dict__

    class Pickler(package.Pickler):  # type: ignore[misc, name-defined]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.globals_ref[id(main)] = _MainGlobals()

        def reducer_override(self, value: Any) -> Any:
            written.meet(value)
            if has_finalizer(value) and not isinstance(value, type):
                raise TypeError("it has a __del__, which would run for each copy")
            changed = _replaced(value)
            if changed is not NotImplemented:
                return changed
            if isinstance(value, types.CodeType):
                return _of_its_file(self.dispatch_table[types.CodeType](value), value)
            if _importable(value):
                return super().reducer_override(value)
            if module := _module_around(value):
                self.globals_ref.setdefault(id(value.__globals__), _ModuleGlobals({"__name__": module}))
            made = super().reducer_override(compiled_calls.without_copied_marks(value))
            return _without_globals(made) if module else made

    made = types.ModuleType("dynalyze.capture.bench.pickling")
    made.Pickler = Pickler  # type: ignore[attr-defined]
    return made


class _MainGlobals(dict[str, Any]):
    """The globals of all functions of the program's file: on the other side they are the names of `__main__`.

    Dynamo looks a function's globals up in the module that the function says it is from.
    """

    def __reduce__(self) -> Any:
        return _globals_of_main, ({key: value for key, value in self.items() if key in _MODULE_NAMES},)


def _globals_of_main(names: dict[str, Any]) -> dict[str, Any]:
    main = sys.modules["__main__"].__dict__
    for name, value in names.items():
        main.setdefault(name, value)
    return main


class _ModuleGlobals(dict[str, Any]):
    """The globals of functions that a function of a module made, as hooks: the module's own, not copies of them."""

    def __reduce__(self) -> Any:
        return _globals_of, (self["__name__"],)


def _globals_of(module: str) -> dict[str, Any]:
    return vars(importlib.import_module(module))


def _module_around(value: Any) -> str:
    """The module whose globals a function has, whatever it is said to be from; "" where that is the program's file, or
    none that can be imported.
    """
    name = str(value.__globals__.get("__name__")) if isinstance(value, types.FunctionType) else "__main__"
    module = sys.modules.get(name) if name != "__main__" else None
    there = module is not None and getattr(module, "__spec__", None) is not None and vars(module) is value.__globals__
    return name if there else ""


def _without_globals(made: Any) -> Any:
    """What cloudpickle writes of a function, without the values of globals that it would set in its module."""
    if isinstance(made, tuple) and len(made) > 2 and isinstance(made[2], tuple) and "__globals__" in made[2][-1]:
        return (*made[:2], (*made[2][:-1], {**made[2][-1], "__globals__": {}}), *made[3:])
    return made


def _of_its_file(made: Any, code: types.CodeType) -> Any:
    """What cloudpickle writes of code, with the name of its file, by which breaks are known: 3.1.3 leaves that out."""
    call, parts = made
    # The first text among what the constructor takes, in all versions of Python.
    place = next(place for place, each in enumerate(parts) if isinstance(each, str))
    return call, (*parts[:place], code.co_filename, *parts[place + 1 :])


def _replaced(value: Any) -> Any:
    """How to write what must not be written as it is; NotImplemented for everything else."""
    if isinstance(value, _MainGlobals | _ModuleGlobals):
        return value.__reduce__()
    if isinstance(value, types.ModuleType) and sys.modules.get(value.__name__) is value:
        return importlib.import_module, (value.__name__,)  # As torch.backends.cudnn, of a class of its own.
    if isinstance(value, types.FunctionType) and ORIGINAL_MARK in vars(value):
        return _itself, (vars(value)[ORIGINAL_MARK],)
    if compiled_calls.is_compiled_module(value) or (
        compiled_calls.is_compiled_function(value) and not _importable(value)
    ):
        return _itself, (compiled_calls.original_of(value),)
    if compiled_calls.is_disabled(value) and not _importable(value):
        return torch.compiler.disable, (compiled_calls.original_of(value),)
    return reducers.reduced(value)


def _itself(value: Any) -> Any:
    return value


def _importable(function: Any) -> bool:
    """Whether a library has this very function under its name: there it is the library's affair."""
    if not isinstance(function, types.FunctionType) or function.__module__ == "__main__":
        return False
    found: Any = sys.modules.get(function.__module__)
    for part in function.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is function


def _explained(error: Exception, culprit: Any, value: Any) -> str:
    """The error, the kind of the object that raised it, and where the model keeps that object."""
    place = _place_of(culprit, value)
    kind = f"{type(culprit).__module__}.{type(culprit).__qualname__}".removeprefix("builtins.")
    return f"{kind} {place}cannot be pickled ({one_line(error)})"


def _place_of(culprit: Any, value: Any) -> str:
    def holds(held: Any) -> bool:
        if held is culprit or isinstance(held, (torch.nn.Module, types.ModuleType, type)):
            return held is culprit
        return any(each is culprit for each in islice(leaves(held, objects=False), _MOST_SEARCHED))

    for root in reachable_modules(value):
        for path, part in root.named_modules():
            for name, held in vars(part).items():
                if holds(held):
                    return f"in {'.'.join(filter(None, (path, name)))} of {type(root).__name__} "
    for name, held in sys.modules["__main__"].__dict__.items():
        if holds(held):
            return f"in the global {name} "
    return ""

"""What the functions of loaded modules are, so that two runs can be compared: code may put others in their place."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import types
from typing import Any

from dynalyze.capture.installed import is_installed

_OF_COMPILERS = frozenset({"dynalyze", "triton", "sympy", "torchgen", "depyf"})
"""Packages that change as they are used, by what is compiled."""
_OF_C = (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)


def functions_of_modules() -> dict[str, str]:
    """By "a function of math" a digest of all functions and classes in an installed module, and by "scale of
    /work/helper.py" each function of another one. torch's private parts are left out: they differ by what is compiled.
    """
    found: dict[str, str] = {}
    for name, module in list(sys.modules.items()):
        first, *rest = name.split(".")
        private = any(part.startswith("_") for part in rest) or "fx" in rest or "distributed" in rest
        if first in _OF_COMPILERS or (first == "torch" and private) or not isinstance(module, types.ModuleType):
            continue
        file, own = getattr(module, "__file__", None) or "", {}
        for attribute, value in list(vars(module).items()):
            with contextlib.suppress(Exception):  # A metaclass may answer anything.
                if not attribute.startswith("__") and (what := _described(value, name)):
                    own[attribute] = what
        if file.endswith(".py") and not is_installed(file):
            found |= {f"{attribute} of {os.path.realpath(file)}": what for attribute, what in own.items()}
        else:
            found[f"a function of {name}"] = hashlib.sha256(repr(sorted(own.items())).encode()).hexdigest()[:16]
    return found


def _described(value: Any, module: str) -> str:
    """Where the code of a function is, or of all methods of a class of this module; "" for anything else."""
    if issubclass(type(value), type):
        own = vars(value) if value.__module__ == module else {}
        methods = ((name, _described(each, "")) for name, each in list(own.items()))
        return f"{value.__module__}: {value.__qualname__} {sorted(each for each in methods if each[1])}"
    if type(value) in (types.MethodType, staticmethod, classmethod):
        value = value.__func__
    if type(value) is property:
        value = value.fget
    if type(value) is types.FunctionType:
        code = value.__code__
        return f"{code.co_filename}: {getattr(code, 'co_qualname', code.co_name)}"
    return f"{getattr(value, '__module__', '')}: {value.__qualname__}" if type(value) in _OF_C else ""

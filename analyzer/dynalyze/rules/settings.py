"""Settings of torch that advice names: read from it, put together, written down, and what they end."""

from __future__ import annotations

import ast
from collections import Counter

from dynalyze.report import Recompile

_CONFIG, _COMPILER = "torch._dynamo.config.", "torch.compiler.config."
LIMIT = "recompile_limit"
_LONGEST = 90
ALL_SIZES: dict[str, object] = {"assume_static_by_default": False}
"""What `torch.compile(..., dynamic=True)` does, for every call of torch.compile in the program."""


def read(config: str) -> dict[str, object]:
    """The settings in an advice; none if one of its lines is not a plain setting."""
    found: dict[str, object] = {}
    try:
        statements = ast.parse(config).body
    except (SyntaxError, ValueError, RecursionError):  # A name of the program's own in it need not be Python.
        return {}
    for statement in statements:
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant):
            name = ast.unparse(statement.targets[0])
            if not name.startswith((_CONFIG, _COMPILER)):
                return {}
            found[name.removeprefix(_CONFIG)] = statement.value.value
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            call = ast.unparse(statement.value.func)
            functions = [ast.unparse(each) for each in statement.value.args]
            adds = call.startswith(_CONFIG) and call.endswith(".add")
            if not adds or functions not in (["print"], ["warnings.warn"]):
                return {}
            found[call.removeprefix(_CONFIG).removesuffix(".add")] = functions
        else:
            return {}
    return found


def apart(named: dict[str, object]) -> list[dict[str, object]]:
    """The settings of a finding, that of the limit by itself: it is told beside what ends the cause."""
    return [{name: value for name, value in named.items() if (name == LIMIT) is alone} for alone in (False, True)]


def merged(one: dict[str, object], other: dict[str, object]) -> dict[str, object]:
    found = dict(one)
    for name, value in other.items():
        before = found.get(name)
        if isinstance(before, list) and isinstance(value, list):
            found[name] = [*before, *(each for each in value if each not in before)]
        elif isinstance(before, str) and isinstance(value, str):  # Sources, between commas.
            found[name] = ",".join(dict.fromkeys([*before.split(","), *value.split(",")]))
        else:
            found[name] = value
    return found


def as_python(settings: dict[str, object]) -> str:
    """The lines that set them, to be pasted above the first compile."""
    functions = [str(each) for value in settings.values() if isinstance(value, list) for each in value]
    lines = [
        f"import {module}" for module in dict.fromkeys(each.partition(".")[0] for each in functions if "." in each)
    ]
    for name, value in settings.items():
        if isinstance(value, list):
            lines += [f"{_CONFIG}{name}.add({function})" for function in value]
        else:
            lines.append(f"{'' if name.startswith(_COMPILER) else _CONFIG}{name} = {value!r}")
    return "\n".join(lines)


def gone(before: list[Recompile], after: list[Recompile]) -> list[Recompile]:
    """Those of `before` that are missing `after`; recompiles of the same cause and function stand for each other."""
    left = Counter(map(_what, after))
    found = []
    for each in before:
        left[_what(each)] -= 1
        if left[_what(each)] < 0:
            found.append(each)
    return found


def _what(recompile: Recompile) -> tuple[object, ...]:
    return recompile.location.file, recompile.location.function, recompile.cause, recompile.source


def setting_name(statements: str) -> str:
    """Settings as a sentence names them: "capture_scalar_outputs = True", "dynamic=True"; long values are cut."""
    lines = ("dynamic=True" if line == _DYNAMIC else line for line in statements.splitlines())
    names = (line.removeprefix(_CONFIG).removeprefix(_COMPILER) for line in lines)
    return ", ".join(name if len(name) <= _LONGEST else f"{name[:_LONGEST]}…" for name in names)


_DYNAMIC = as_python(ALL_SIZES)

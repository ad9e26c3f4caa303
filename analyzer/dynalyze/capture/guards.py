"""A failed guard: its bare text, what its value was and is, and whether it was the last batch of a DataLoader.

The text of a value guard says only what was expected; the call that failed it still stands on the stack. `bare_guard`
is used in the parent too.
"""

from __future__ import annotations

import ast
import contextlib
import enum
import gc
import json
import re
import sys
import types
from collections.abc import Iterator
from typing import Any

from dynalyze.capture.events import FailedCheck, FailedVersion
from dynalyze.capture.installed import file_of, is_installed
from dynalyze.capture.torch_private import dynamo, failed_guards

_STRING = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
_COMMENT = "  # "
_MOST_COMMENTS = 50
_PREFIX = re.compile(r"^!?\d+/\d*(?:/\d+)?: ")
_TYPE = re.compile(r", type=<.*$")
_STATE = re.compile(r"GLOBAL_STATE changed: (\S.*)")
_LONGEST = 2000
_TORCH_CONSTANTS = ("dtype", "device", "layout", "memory_format")
_SHOWN_AS_IS = (bool, int, float, complex, str, bytes, type(None))
_BATCH = re.compile(r"size mismatch at index 0\. expected (?P<whole>\d+), actual (?P<left>\d+)\b")
_met: dict[tuple[int, int], str] = {}


def bare_guard(text: str) -> str:
    """The guard itself: its first line, without the comment that names its origin and without torch's hint."""
    lines = text.strip().splitlines()
    head = _without_comment(lines[0]) if lines else ""
    before, found, _ = head.partition("HINT: ")
    return (before.rstrip().removesuffix("(") if found else head).strip()


def _without_comment(line: str) -> str:
    """A comment begins after two blanks, and never inside a string."""
    at = line.find(_COMMENT)
    for _ in range(_MOST_COMMENTS):
        if at < 0:
            return line
        if not {"'", '"'} & set(_STRING.sub("", line[:at])):
            return line[:at]
        at = line.find(_COMMENT, at + 1)
    return line


def failed_versions() -> list[FailedVersion]:
    """Every guard that the call failed, of each version, while torch tells of a recompile. Never raises."""
    try:
        return [
            FailedVersion(version.id, [_check(bare_guard(text), version.modes) for text in version.failed])
            for version in failed_guards.versions()
        ]
    except Exception:  # Guards on objects of any kind, whose own code may raise anything.
        return []


def _check(guard: str, modes: dict[str, Any]) -> FailedCheck:
    return FailedCheck(guard[:_LONGEST], *guard_values(guard, modes), *_owner(guard))


def _owner(guard: str) -> tuple[str, str]:
    """The class of the object that holds the value that a guard is about, and whose class that is."""
    scope = dynamo.recompile_scope()
    with contextlib.suppress(Exception):
        node = ast.parse(guard, mode="eval").body
        node = node.left if isinstance(node, ast.Compare) else node
        while scope is not None and isinstance(node, ast.Attribute | ast.Subscript):
            node = node.value
            held = type(_value(node, scope))
            if held.__module__ not in ("builtins", "collections"):
                return f"{held.__module__}.{held.__qualname__}", _library(held)
    return "", ""


def _library(held: type) -> str:
    optimizer = getattr(sys.modules.get("torch.optim"), "Optimizer", None)
    if optimizer is not None and issubclass(held, optimizer):
        return "optimizer"
    package = held.__module__.partition(".")[0]
    file = file_of(sys.modules.get(held.__module__))
    # A namespace of Python's own holds what the program puts into it.
    return package if is_installed(file) and package not in sys.stdlib_module_names else ""


def guard_values(payload: str, modes: dict[str, Any] | None = None) -> tuple[str | None, str | None]:
    """Expected and actual value of the first failed guard in the payload of a recompile event, as text.

    `modes` of torch, as they were while compiling. Either is None where it is unknown. Never raises.
    """
    try:
        guard = _TYPE.sub("", bare_guard(_PREFIX.sub("", _first(payload).strip())))
        state = _STATE.match(guard)
        if state is not None:  # In torch's order; what cannot be known of one of several is a question mark.
            names = re.split(r"[,.\s]+", state[1].strip(",. "))
            actual = [dynamo.global_state(name) for name in names]
            known = {name: value for name, value in (modes or {}).items() if name == "num_threads"}
            expected = [
                str(not value) if isinstance(value, bool) else str(known[name]) if name in known else None
                for name, value in zip(names, actual, strict=True)
            ]
            return _joined(expected), _joined([None if value is None else str(value) for value in actual])
        scope = dynamo.recompile_scope()
        return _comparison(guard, scope) if scope is not None else (None, None)
    except Exception:  # A guard on objects of any kind: their own code may raise anything.
        return None, None


def _first(payload: str) -> str:
    try:
        reasons = json.loads(payload)
    except ValueError:
        return payload
    return str(reasons[0]) if isinstance(reasons, list) and reasons else str(reasons)


def _joined(values: list[str | None]) -> str | None:
    return ", ".join(value or "?" for value in values) if any(values) else None


def _comparison(guard: str, scope: dict[str, Any]) -> tuple[str | None, str | None]:
    node = ast.parse(guard, mode="eval").body
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return "False", _shown(_value(node.operand, scope))
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        measured = next((side for side in sides if _reads_program(side, scope)), None)
        if measured is None:
            return None, None
        # The plain other side of an equation, else the whole condition.
        plain = len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq | ast.Is) and measured is node.left
        return ast.unparse(node.comparators[0] if plain else node), _shown(_value(measured, scope))
    if isinstance(node, ast.Call) and node.args and _reads_program(node.args[0], scope):
        actual = _value(node.args[0], scope)  # A check such as ___check_obj_id(source, ...).
        return _expected_object(node, actual, scope), _shown(actual)
    return None, _shown(_value(node, scope)) if _reads_program(node, scope) else None


def _expected_object(node: ast.Call, actual: Any, scope: dict[str, Any]) -> str | None:
    """The object whose id the guard compares, where the program or torch has a name for it.

    It is looked for among living objects; an id is never turned into an object.
    """
    wanted = node.args[1] if len(node.args) > 1 else None
    if not isinstance(wanted, ast.Constant) or getattr(node.func, "id", "") != "___check_obj_id":
        return None
    found = next((known for known in _known_objects(actual, scope) if id(known) == wanted.value), None)
    return None if found is None else _shown(found)


def _known_objects(actual: Any, scope: dict[str, Any]) -> Iterator[Any]:
    if isinstance(actual, enum.Enum):
        yield from type(actual)
    modules = (sys.modules.get(name) for name in ("torch", "torch.nn.functional"))
    for names in (scope.get("G", {}), *(vars(module) for module in modules if module is not None)):
        for known in list(names.values()):
            is_code = isinstance(known, types.FunctionType) and isinstance(actual, types.CodeType)
            yield known.__code__ if is_code else known


def _reads_program(node: ast.expr, scope: dict[str, Any]) -> bool:
    return any(isinstance(part, ast.Name) and part.id in scope for part in ast.walk(node))


def _value(node: ast.expr, scope: dict[str, Any]) -> Any:
    code = compile(ast.fix_missing_locations(ast.Expression(node)), "<guard>", "eval")
    return eval(code, {"__builtins__": {"len": len, "type": type, "str": str, "list": list, "dict": dict}, **scope})


def _shown(value: Any) -> str:
    if isinstance(value, _SHOWN_AS_IS):
        return repr(value)[:_LONGEST]
    if isinstance(value, types.BuiltinFunctionType):
        return value.__name__
    if callable(value) and hasattr(value, "__qualname__"):
        return str(value.__qualname__)
    if isinstance(value, types.CodeType):
        return str(getattr(value, "co_qualname", value.co_name))  # Python 3.11 and later know the qualified one.
    if isinstance(value, enum.Enum):
        return f"{type(value).__qualname__}.{value._name_}"
    if type(value).__module__ == "torch" and type(value).__name__ in _TORCH_CONSTANTS:
        return repr(value)
    return f"{type(value).__qualname__} object"


def dataset_of(guard: str) -> str:
    """The class of the dataset whose last batch has the size that came, in place of the whole batch; "" for none.

    A `for` over a DataLoader keeps it in no variable: all living samplers of batches are looked at, once for two sizes.
    """
    found = _BATCH.search(guard)
    if found is None or "torch.utils.data" not in sys.modules:
        return ""
    sizes = int(found["whole"]), int(found["left"])
    if sizes[1] >= sizes[0]:
        return ""
    if not _met.get(sizes):
        _met[sizes] = _find_dataset(*sizes)
    return _met[sizes]


def _find_dataset(whole: int, left: int) -> str:
    from torch.utils.data import BatchSampler

    for each in gc.get_objects():
        if issubclass(type(each), BatchSampler):
            with contextlib.suppress(Exception):  # A sampler of the program's own, or one without a length.
                if each.batch_size == whole and not each.drop_last and len(each.sampler) % whole == left:
                    held = (getattr(each.sampler, name, None) for name in ("data_source", "dataset"))
                    dataset = next((data for data in held if data is not None), each.sampler)
                    return type(dataset).__qualname__
    return ""

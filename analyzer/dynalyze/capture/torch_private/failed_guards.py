"""Every guard that a call failed, of each version compiled so far, while torch looks for the reason of a recompile.

torch itself names the first one of each version. Run on torch 2.13; where a version of torch keeps its guards in
another way nothing is found, and the guard that torch names has to do.
"""

from __future__ import annotations

import ast
import contextlib
import itertools
import json
import re
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from dynalyze.capture.torch_private.dynamo import frames_from

_MOST_VERSIONS = 32
_MOST_GUARDS = 20
_LOCAL = re.compile(r"L\[\s*['\"](.*?)['\"]\s*\]")
_TENSOR = re.compile(
    r"check_tensor\((?P<name>.+), \w+, DispatchKeySet\(.*?\), (?P<dtype>[\w.]+), device=\w+, "
    r"requires_grad=(?P<grad>\w+), size=\[(?P<sizes>[\w, ]*)\], stride=\[(?P<strides>[\w, ]*)\]"
)
_ONE_SIZE = re.compile(r"(\S+\.size\(\)\[\d+\]) == (\S+\.size\(\)\[\d+\])(?=\s|$)")
# Whether an attribute or a key is there: what else the object holds can be asked all the same.
_OF_A_MEMBER = ("NO_HASATTR", "DICT_CONTAINS", "DICT_LENGTH")
_BUILTINS = {each.__name__: each for each in (len, type, str, int, list, tuple, dict, set, next, iter, hasattr)}


class NearVersion(NamedTuple):
    """One compiled version: its compile id, the texts of the guards that failed, as torch words them, and the modes of
    torch that it was compiled under, if those failed.
    """

    id: str
    failed: list[str]
    modes: dict[str, Any]


def versions() -> list[NearVersion]:
    """The versions of the code that is about to be compiled again, the newest first; empty where they are out of reach.

    Only reads: what torch counts and how it sorts its guards stays as it is.
    """
    for frame in frames_from(sys._getframe(1)):
        if frame.f_code.co_name == "get_and_maybe_log_recompilation_reasons":
            called = frame.f_locals.get("frame")
            entries = frame.f_locals.get("cache_entries")
            names = getattr(called, "f_locals", None)
            if names is None or not isinstance(entries, list):
                return []
            values: dict[str, Any] = {}
            return [_version(entry, names, values) for entry in entries[:_MOST_VERSIONS]]
    return []


def _version(entry: Any, names: dict[str, Any], values: dict[str, Any]) -> NearVersion:
    guards = entry.guard_manager
    scope = {**guards.closure_vars, "L": names, "G": guards.global_scope["G"], "__builtins__": _BUILTINS}
    modes: dict[str, Any] = {}
    texts = itertools.islice(_failed(guards.root, names, scope, values, modes), _MOST_GUARDS)
    failed = list(dict.fromkeys(_LOCAL.sub(r"\1", text) for text in texts))
    return NearVersion(str(entry.compile_id), failed, modes)


def _failed(
    root: Any, names: dict[str, Any], scope: dict[str, Any], values: dict[str, Any], modes: dict[str, Any]
) -> Iterator[str]:
    """In the order of the tree. What hangs below a guard that failed is not asked, unless that is about one member."""
    waiting = [root]
    while waiting:
        manager = waiting.pop()
        source = manager.get_source()
        try:
            if source not in values:
                values[source] = names if manager is root else eval(source, scope)
            value = values[source]
        except LookupError as error:
            yield f"{type(error).__name__} on {source}"
            continue
        except Exception:  # A name that is not in reach here.
            continue
        fits = True
        for leaf in manager.get_leaf_guards():
            with contextlib.suppress(TypeError):  # One that relates several tensors cannot be asked alone.
                if fits and not leaf(value):
                    fits = manager is root or type(leaf).__name__ in _OF_A_MEMBER  # Of root, modes of torch.
                    yield from _texts(leaf, value, modes)
        if fits:
            waiting += reversed([*manager.get_child_managers(), *_of_dictionary(manager)])
    conditions = [(leaf, part) for leaf in root.get_epilogue_lambda_guards() for part in leaf.verbose_code_parts()]
    equal = [found.groups() for _, part in conditions if (found := _ONE_SIZE.match(part)) is not None]
    failed = {id(leaf) for leaf, _ in conditions if not leaf(names)}
    for part in [part for leaf, part in conditions if id(leaf) in failed and not _holds(part, scope)]:
        yield part
        # What torch asks of one size holds for those that it has found to be the same one.
        yield from (part.replace(one, other) for pair in equal for one, other in (pair, pair[::-1]) if one in part)


def _of_dictionary(manager: Any) -> list[Any]:
    """The managers of the keys and values of a dictionary, which are no children of its own one."""
    pairs: dict[int, tuple[Any, Any]] = getattr(manager, "get_key_value_managers", dict)()
    return [each for _, pair in sorted(pairs.items()) for each in pair if each is not None]


def _texts(leaf: Any, value: Any, modes: dict[str, Any]) -> Iterator[str]:
    parts = leaf.verbose_code_parts()
    kind = type(leaf).__name__
    if kind == "GLOBAL_STATE":
        with contextlib.suppress(ValueError):
            modes.update(json.loads(parts[0].partition(" against ")[2]))
        yield from leaf.check_verbose(value).verbose_code_parts
        return
    if kind == "TENSOR_MATCH":
        yield from _of_tensor(parts[0], value, modes)
    else:
        yield parts[0]


def _of_tensor(guard: str, value: Any, modes: dict[str, Any]) -> Iterator[str]:
    """Each dimension that has another size, of which torch names one; else what is another, in torch's words."""
    found = _TENSOR.match(guard)
    if found is None:
        return
    name, expected = found["name"], ast.literal_eval(f"[{found['sizes']}]")
    if not hasattr(value, "shape"):
        yield f"expected type of '{name}' to be a tensor type, but found {type(value)}"
        return
    if len(expected) != value.dim():
        yield f"tensor '{name}' rank mismatch. expected {len(expected)}, actual {value.dim()}"
        return
    differs = False
    for at, (before, now) in enumerate(zip(expected, value.shape, strict=True)):
        if before is not None and before != now:
            differs = True
            yield f"tensor '{name}' size mismatch at index {at}. expected {before}, actual {int(now)}"
    if found["dtype"] != str(value.dtype):
        differs = True
        yield f"tensor '{name}' dtype mismatch. expected {found['dtype']}, actual {value.dtype}"
    if found["grad"] != str(value.requires_grad):
        differs = True
        yield f"tensor '{name}' requires_grad mismatch. expected requires_grad={int(not value.requires_grad)}"
    strides = zip(ast.literal_eval(f"[{found['strides']}]"), () if differs else value.stride(), strict=False)
    for at, (before, now) in enumerate(strides):
        if before is not None and before != now:
            differs = True
            yield f"tensor '{name}' stride mismatch at index {at}. expected {before}, actual {now}"
            break
    # Modes of torch that changed show in the dispatch keys of every tensor.
    if not differs and not modes:
        yield f"tensor '{name}' dispatch key set mismatch"


def _holds(part: str, scope: dict[str, Any]) -> bool:
    try:
        return bool(eval(part, scope))
    except Exception:  # One of torch's functions, which is not in reach here.
        return True

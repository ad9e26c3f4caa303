"""What torch's compile caches look up by, in more detail than they log: run on torch 2.13.

A version that lacks one of these functions tells less: what it logs by itself is all there is then.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import itertools
import os
import pickle
import re
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NamedTuple

from dynalyze.capture.hooks import Patch, after_import
from dynalyze.capture.torch_private.dynamo import traced_frames

# Modules of settings, and what a component of a key begins with that is one of them.
_SETTINGS = {
    "torch._inductor.config": "inductor_config", "torch._functorch.config": "autograd_config",
    "torch.compiler.config": "",
}  # fmt: skip
# Components that are no settings but follow from one, or from a variable that torch itself does not read.
_FOLLOWS = {"inductor_config[trace.provenance_tracking_level]": "provenance_tracking_level"}
_OF_THREADS = ("cpp_runtime_thread_count", ("OMP_NUM_THREADS", "MKL_NUM_THREADS"))
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{3,}\Z")
_MOST_VALUES, _LONGEST, _MOST_WAITING = 64, 500, 64


class RefusedOperation(NamedTuple):
    """An operation for which AOTAutograd's cache refuses a graph, in torch's words: file, line and function of it, or,
    where it has none (`next_one`), of the next one.
    """

    reason: str
    place: tuple[str, int, str] | None
    next_one: bool = False


# Further lines about a graph that is about to be looked up, by the line that torch has for it.
_more: dict[str, list[str]] = {}
_refused: list[RefusedOperation] = []
_MOST_REFUSED = 20


def watch_keys() -> None:
    """Keep, from where the caches are imported, what `more_lines` and `refused` give."""
    after_import("torch._inductor.codecache", _watch_lines)
    after_import("torch._functorch._aot_autograd.autograd_cache", _watch_autograd)


def more_lines(lines: list[str]) -> list[str]:
    """What torch does not log of a key that it logs as these lines: tensors in the graph, AOTAutograd's settings."""
    return [more for line in lines for more in _more.pop(line, ())]


def refused() -> list[RefusedOperation]:
    """The operations for which AOTAutograd's cache has refused a graph, that which it named first; told once."""
    found = list(_refused)
    _refused.clear()
    return found


def variables_of_settings() -> dict[str, str]:
    """Which variable that is set now torch takes a component's value from, `NAME=value` by component."""
    found = {}
    for module, head in _SETTINGS.items():
        with contextlib.suppress(Exception):
            for name, variable in _variables_in(sys.modules[module]):
                component = f"{head}[{name}]" if head else name
                found[_FOLLOWS.get(component, component)] = f"{variable}={os.environ[variable]}"
    component, variables = _OF_THREADS
    for name in reversed(variables):
        if name in os.environ:
            found[component] = f"{name}={os.environ[name]}"
    return found


def _variables_in(config: ModuleType) -> Iterator[tuple[str, str]]:
    """Settings that name a variable that is set, where their module gives them their value."""
    with open(str(config.__file__), encoding="utf-8") as file:  # noqa: PTH123
        text = file.read()
    names = {name for name in os.environ if _VARIABLE.match(name) and name in text}
    if names:
        yield from _assigned(ast.parse(text).body, "", names)


def _assigned(body: list[ast.stmt], prefix: str, names: set[str]) -> Iterator[tuple[str, str]]:
    for statement in body:
        if isinstance(statement, ast.ClassDef):
            yield from _assigned(statement.body, f"{prefix}{statement.name}.", names)
        elif isinstance(statement, ast.If):
            yield from _assigned([*statement.body, *statement.orelse], prefix, names)
        elif isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
            texts = (each.value for each in ast.walk(statement.value) if isinstance(each, ast.Constant))
            variable = next((text for text in texts if isinstance(text, str) and text in names), "")
            if variable and isinstance(target, ast.Name):
                yield f"{prefix}{target.id}", variable


def _watch_lines(codecache: ModuleType) -> None:
    pickler: Any = getattr(codecache, "FxGraphCachePickler", None)
    if not hasattr(pickler, "debug_lines"):
        return
    patch = Patch(pickler, "debug_lines")

    def debug_lines(self: Any, details: Any) -> Any:
        lines = patch.original(self, details)
        with contextlib.suppress(Exception):
            if len(_more) > _MOST_WAITING:  # Nobody logs them.
                _more.clear()
            graph = next(line for line in lines if line.partition("] ")[2].startswith("gm: "))
            _more[graph] = [*_constants(self, details.gm), *_autograd_settings(details)]
        return lines

    patch.put(debug_lines)


def _watch_autograd(autograd_cache: ModuleType) -> None:
    if hasattr(autograd_cache, "_get_debug_lines_for_cache_key"):  # It gives none unless it logs them.
        lines = Patch(autograd_cache, "_get_debug_lines_for_cache_key")

        def debug_lines(pickler: Any, details: Any, key: str) -> Any:
            found = lines.original(pickler, details, key)
            with contextlib.suppress(Exception):
                found = found or pickler.debug_lines(details)
            return found

        lines.put(debug_lines)
    if hasattr(autograd_cache, "check_node_safe"):
        check = Patch(autograd_cache, "check_node_safe")

        def check_node_safe(node: Any) -> Any:
            try:
                return check.original(node)
            except Exception as error:
                _refused[:] = [_refusal(node, error)]
                with contextlib.suppress(Exception):
                    _refused.extend(_others(node, _refused[0].reason, check.original))
                raise

        check.put(check_node_safe)


def _refusal(node: Any, error: Exception) -> RefusedOperation:
    place = _place(node)
    following = node if hasattr(node, "next") else None
    while place is None and following is not None and getattr(following, "op", "output") != "output":
        following = following.next
        place = _place(following)
    return RefusedOperation(str(error), place, next_one=_place(node) is None and place is not None)


def _place(node: Any) -> tuple[str, int, str] | None:
    frames = traced_frames(getattr(node, "stack_trace", None))
    return frames[-1] if frames else None


def _others(node: Any, first: str, check: Callable[[Any], Any]) -> Iterator[RefusedOperation]:
    """What the cache would refuse next in the same graph, each reason once: torch stops at the first."""
    known = {first}
    for other in itertools.islice(node.graph.nodes, 10 * _LONGEST):
        try:
            check(other)
        except Exception as error:
            refusal = _refusal(other, error)
            if refusal.reason not in known and len(known) < _MOST_REFUSED:
                yield refusal
            known.add(refusal.reason)


def _constants(pickler: Any, graph: Any) -> Iterator[str]:
    import torch

    held = {**vars(graph), **getattr(graph, "_parameters", {}), **getattr(graph, "_buffers", {})}
    for name, value in held.items():
        if isinstance(value, torch.Tensor):
            text = f"{value.dtype} {list(value.shape)}"
            with contextlib.suppress(Exception):
                text = f"{text} {value.tolist()}" if value.numel() <= _MOST_VALUES else text
            yield f"[{pickler.get_hash(value)}] gm[{name}]: {text[:_LONGEST]}"


def _autograd_settings(details: Any) -> Iterator[str]:
    """AOTAutograd's settings stand in the key as bytes that torch has pickled itself."""
    settings = getattr(details, "autograd_config", None)
    values = pickle.loads(settings) if isinstance(settings, bytes) else settings or {}
    for name, value in values.items():
        yield f"[{hashlib.sha256(str(value).encode()).hexdigest()}] autograd_config[{name}]: {value}"

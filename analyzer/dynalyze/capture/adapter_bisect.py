"""The private APIs of torch that a bisection needs: what Dynamo notes on the nodes of its graphs, and its backends.

Run on torch 2.13. Where a version lacks one, the fact is empty: the bisection then names less.
"""

from __future__ import annotations

import contextlib
import linecache
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

_FRAME = re.compile(r'^ *File "(?P<file>[^"]+)", line (?P<line>\d+), in ', re.MULTILINE)
_TORCH = str(Path(torch.__file__).parent)

Compile = Callable[[Any, list[Any]], Callable[..., Any]]


def backend_function(backend: Any, mode: str | None, dynamic: bool | None) -> Compile:
    """What torch.compile would hand its graphs to, for these arguments of its own."""
    if callable(backend):
        return _compiles(backend)
    wrapper = getattr(torch, "_TorchCompileInductorWrapper", None)
    if backend == "inductor" and mode is not None and wrapper is not None:
        return _compiles(wrapper(mode, None, dynamic))
    from torch._dynamo.backends.registry import lookup_backend

    return _compiles(lookup_backend(backend))


def _compiles(backend: Any) -> Compile:
    """Torch tells no types of its backends."""
    made: Compile = backend
    return made


def value_of(node: torch.fx.Node) -> Any:
    """What Dynamo saw a node give: a tensor without values, a number; None where it does not tell."""
    return node.meta.get("example_value")


def module_ids(node: torch.fx.Node) -> list[int]:
    """The ids of the modules whose forward a node comes from, the outermost first."""
    stack = node.meta.get("nn_module_stack")
    keys = stack.keys() if isinstance(stack, dict) else ()
    return [int(number[0]) for key in keys if (number := re.findall(r"^\d+", str(key)))]


def place_of(node: torch.fx.Node) -> tuple[str, int]:
    """File and line of the innermost call outside torch; "" and 0 where none is known."""
    frames = [(frame["file"], int(frame["line"])) for frame in _FRAME.finditer(node.meta.get("stack_trace") or "")]
    outside = [frame for frame in frames if not frame[0].startswith(_TORCH) and linecache.getline(*frame)]
    return (outside or [("", 0)])[-1]


def decompositions() -> dict[Any, Any]:
    """Into what Inductor takes operations apart before it compiles them."""
    with contextlib.suppress(ImportError, AttributeError):
        from torch._inductor.decomposition import select_decomp_table

        return dict(select_decomp_table())
    return {}

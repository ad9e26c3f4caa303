"""How many operators of a run are in compiled graphs, and how many in eager code between them.

Each graph is run by eager's own kernels in a range of the profiler: what the profiler sees outside all ranges was not
compiled. What a custom operator calls is not part of a graph: a compiler cannot look into it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

from torch.autograd import profiler

from dynalyze.capture.fixing.records import CompiledShare

BACKEND = f"{__name__}:marked"
"""The backend to compile with, as options name one."""

_GRAPH = "dynalyze: compiled graph"
_BACKWARD = "autograd::engine"
_OF_TORCH = ("aten", "prims", "prim", "torch", "quantized", "mkldnn", "mkl", "c10d", "inductor", "higher_order")
_NO_WORK = frozenset({
    "aten::view", "aten::reshape", "aten::permute", "aten::transpose", "aten::t", "aten::expand", "aten::slice",
    "aten::select", "aten::unsqueeze", "aten::squeeze", "aten::detach", "aten::as_strided", "aten::unbind",
    "aten::split", "aten::chunk", "aten::alias", "aten::flatten", "aten::unflatten", "aten::narrow", "aten::view_as",
    "aten::empty", "aten::item", "aten::is_nonzero", "aten::_local_scalar_dense", "aten::lift_fresh", "aten::detach_",
})  # fmt: skip
"""What moves no numbers about: it costs next to nothing wherever it runs."""


def marked(graph: Any, _inputs: Any) -> Callable[..., Any]:
    """A backend like "eager" whose graphs `share_of` recognizes."""
    forward = graph.forward

    def run(*args: Any) -> Any:
        with profiler.record_function(_GRAPH):
            return forward(*args)

    return run


def share_of(make_pass: Callable[[], object]) -> CompiledShare:
    """How many operators of a forward run were in graphs of `marked`."""
    # Read when it is first used: it would report its own stages on standard error.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    with profiler.profile(use_kineto=True) as profile:
        make_pass()
    tops = [each for each in profile.function_events if each.cpu_parent is None]
    counted = list(_operators(tops, in_graph=False))
    return CompiledShare(sum(counted), len(counted))


def _operators(events: Iterable[Any], *, in_graph: bool) -> Iterable[bool]:
    """For each operator whether it was in a graph."""
    for event in events:
        name = str(event.name)
        if name.startswith(_BACKWARD):
            continue
        namespace, _, rest = name.partition("::")
        if not rest or ":" in namespace or " " in namespace:  # A range of ours, or of the program.
            yield from _operators(event.cpu_children, in_graph=in_graph or name == _GRAPH)
        elif namespace in _OF_TORCH:
            copies = name != "aten::to" or event.cpu_children  # Dynamo turns a number into a tensor by `to` alone.
            if name not in _NO_WORK and copies:
                yield in_graph
        elif event.cpu_children:
            yield from _operators(event.cpu_children, in_graph=False)
        else:
            yield in_graph

"""What is told of cache keys beyond torch's own lines, and that a torch without those functions tells less."""

from __future__ import annotations

import types
from typing import Any

import pytest
import torch
from torch._inductor.codecache import FxGraphCachePickler

from dynalyze.capture.torch_private import cache_keys


def module_of(**functions: Any) -> types.ModuleType:
    module = types.ModuleType("torch_part")
    vars(module).update(functions)
    return module


def test_a_torch_without_these_functions_is_left_alone() -> None:
    for module in (module_of(), module_of(FxGraphCachePickler=object)):
        before = dict(vars(module))
        cache_keys._watch_lines(module)
        cache_keys._watch_autograd(module)
        assert vars(module) == before
    assert cache_keys.more_lines(["[a] gm: x"]) == [] and cache_keys.refused() == []


def test_tensors_that_the_graph_holds_are_told_with_torchs_lines() -> None:
    class Pickler(FxGraphCachePickler):
        pass

    cache_keys._watch_lines(module_of(FxGraphCachePickler=Pickler))
    graph = torch.fx.symbolic_trace(lambda x: x)
    graph.held = torch.tensor([1.0, 2.0])
    details = types.SimpleNamespace(gm=graph, grad_enabled=True)
    lines = Pickler(graph).debug_lines(details)
    assert [line.partition("] ")[2].partition(":")[0] for line in lines] == ["gm", "grad_enabled"]
    (more,) = cache_keys.more_lines(lines)
    assert more.endswith("gm[held]: torch.float32 [2] [1.0, 2.0]")
    assert cache_keys.more_lines(lines) == []  # Told once.


def test_autograds_lines_are_there_also_where_its_log_is_not_at_debug() -> None:
    pickler = types.SimpleNamespace(debug_lines=lambda details: ["[a] gm: x"])
    module = module_of(_get_debug_lines_for_cache_key=lambda pickler, details, key: [])
    cache_keys._watch_autograd(module)
    assert module._get_debug_lines_for_cache_key(pickler, None, "key") == ["[a] gm: x"]


def test_the_operation_that_a_cache_refused_is_the_innermost_frame() -> None:
    def refuse(node: Any) -> None:
        raise ValueError(node)

    module = module_of(check_node_safe=refuse)
    cache_keys._watch_autograd(module)
    stack = 'File "/srv/train.py", line 3, in step\n  f(x)\nFile "/srv/model.py", line 9, in f\n  mine(x)\n'
    for text, frame in ((stack, ("/srv/model.py", 9, "f")), (None, None)):
        try:
            module.check_node_safe(types.SimpleNamespace(stack_trace=text))
        except ValueError:
            assert [each.place for each in cache_keys.refused()] == [frame]
            assert cache_keys.refused() == []
        else:
            raise AssertionError("torch's own exception goes on")


def test_what_it_would_refuse_next_is_told_too_and_an_operation_without_a_line_has_that_of_the_next() -> None:
    def refuse(node: Any) -> None:
        if node.target in (torch.relu, torch.sigmoid):
            raise ValueError(f"no {node.target.__name__}")

    module = module_of(check_node_safe=refuse)
    cache_keys._watch_autograd(module)
    graph = torch.fx.symbolic_trace(lambda x: torch.sigmoid(torch.relu(torch.sin(torch.relu(x))))).graph
    operations = [node for node in graph.nodes if node.op == "call_function"]
    for line, node in enumerate(operations, 1):
        node.stack_trace = None if line == 1 else f'File "/m.py", line {line}, in f\n  x\n'
    with pytest.raises(ValueError, match="no relu"):
        module.check_node_safe(operations[0])
    told = [(each.reason, each.place, each.next_one) for each in cache_keys.refused()]
    assert told == [("no relu", ("/m.py", 2, "f"), True), ("no sigmoid", ("/m.py", 4, "f"), False)]

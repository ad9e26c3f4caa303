"""Which hooks never run: those that are there when something compiled before them is called."""

from __future__ import annotations

import torch
from torch import nn

from dynalyze.capture.events import HookSeen
from dynalyze.capture.listener import LateHooks


def test_a_hook_that_is_gone_before_the_next_compiled_call_is_none_that_never_ran() -> None:
    """As counters of operations do it: they run the module itself, with hooks, and take them away."""
    seen: list[HookSeen] = []
    hooks = LateHooks(seen.append)
    net, inputs, ran = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), torch.ones(2, 4), list[str]()
    compiled = torch.compile(net, backend="eager")
    end = hooks.watch()
    try:
        compiled(inputs)
        hooks.compiled("0 0/0", [net])
        counting = net[0].register_forward_hook(lambda *_: ran.append("counting"))
        net(inputs)
        counting.remove()
        compiled(inputs)
        assert (ran, seen) == (["counting"], [])
        net[1].register_forward_hook(lambda *_: ran.append("late"))
        assert seen == []
        compiled(inputs)
        net[0].register_forward_hook(lambda *_: ran.append("after the last call"))
    finally:
        end()
    assert ran == ["counting"]
    assert [(each.class_name, each.compiles, each.met) for each in seen] == [("ReLU", ["0 0/0"], False)]

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


def test_a_hook_that_the_rest_of_the_same_call_is_compiled_with_runs() -> None:
    """The frame behind a graph break is compiled once the hook is there."""
    seen: list[HookSeen] = []
    hooks = LateHooks(seen.append)
    net, inputs = nn.Linear(4, 4), torch.ones(2, 4)
    compiled = torch.compile(net, backend="eager")
    end = hooks.watch()
    try:
        hooks.compiled("0 0/0", [net])
        net.register_forward_hook(lambda *_: None)
        hooks.compiled("0 1/0", [net])
        compiled(inputs)
    finally:
        end()
    assert seen == []


def test_what_is_registered_in_a_recording_is_not_told_after_it() -> None:
    seen: list[HookSeen] = []
    hooks = LateHooks(seen.append)
    net = nn.Linear(4, 4)
    end = hooks.watch()
    hooks.compiled("0 0/0", [net])
    net.register_forward_hook(lambda *_: None)
    end()
    torch.compile(nn.Linear(4, 4), backend="eager")(torch.ones(2, 4))
    assert seen == []

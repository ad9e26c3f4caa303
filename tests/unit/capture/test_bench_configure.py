"""Configurations applied to small models, in this process and without Inductor."""

from __future__ import annotations

import contextlib
import types
from typing import Any

import pytest
import torch
import torch._dynamo

from dynalyze.capture.bench.configure import (
    check,
    checked_arguments,
    compile_regions,
    configured,
    holds_repeated,
    is_repeated,
    uncompiled,
)
from dynalyze.capture.bench.protocol import Configuration
from dynalyze.capture.inputs import Misuse

pytestmark = pytest.mark.usefixtures("fresh_dynamo")

X = torch.ones(2, 4)


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x).relu()


class Model(torch.nn.Module):
    def __init__(self, blocks: int = 4) -> None:
        super().__init__()
        self.first = torch.nn.Linear(4, 4)
        self.nothing = None
        self.body = torch.nn.Sequential()
        self.body.blocks = torch.nn.ModuleList(Block() for _ in range(blocks))
        self.register_module("absent", None)
        self.scale = 2.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for block in self.body.blocks:
            x = block(x)
        return x * self.scale


def counted(seen: list[str]) -> Any:
    def part(module: torch.nn.Module) -> Any:
        seen.append(type(module).__name__)
        return module

    return part


def test_regions_are_the_blocks_and_whatever_holds_none() -> None:
    model, parts = Model(), []
    made = compile_regions(model, counted(parts))
    assert sorted(parts) == ["Block"] * 4 + ["Linear"]
    assert type(made) is Model and made is not model
    assert torch.equal(made(X), model(X))
    assert {id(p) for p in made.parameters()} == {id(p) for p in model.parameters()}
    assert isinstance(model.body.blocks[0], Block)  # The model itself has not changed.


def test_a_model_without_blocks_is_compiled_whole_and_mixed_lists_are_no_blocks() -> None:
    parts: list[str] = []
    compile_regions(Block(), counted(parts))
    assert parts == ["Block"]
    assert not is_repeated(torch.nn.ModuleList([Block(), torch.nn.ReLU()]))
    assert not is_repeated(torch.nn.ModuleList())
    assert is_repeated(torch.nn.ModuleList([Block(), Block()]))
    assert not holds_repeated(Block()) and holds_repeated(Model())


def test_a_forward_put_on_the_instance_calls_the_compiled_blocks() -> None:
    model = Model()
    model.forward = types.MethodType(lambda self, x: self.body.blocks[0](x), model)
    parts: list[torch.nn.Module] = []

    def part(module: torch.nn.Module) -> Any:
        wrapper = torch.nn.Sequential(module)
        parts.append(wrapper)
        return wrapper

    made = compile_regions(model, part)
    called = []
    next(p for p in parts if isinstance(p[0], Block)).register_forward_hook(lambda *_: called.append(1))
    made(X)
    assert called == [1]


def test_arguments_are_those_that_were_given() -> None:
    assert checked_arguments(Configuration("c", backend="eager")) == {"backend": "eager", "fullgraph": False}
    wanted = Configuration("c", mode="reduce-overhead", dynamic="off", fullgraph=True)
    assert checked_arguments(wanted) == {
        "backend": "inductor", "fullgraph": True, "mode": "reduce-overhead", "dynamic": False,
    }  # fmt: skip


@pytest.mark.parametrize(
    "wrong",
    [
        Configuration("c", backend="no_such"),
        Configuration("c", backend="no.such:thing"),
        Configuration("c", mode="sideways"),
        Configuration("c", backend="eager", mode="reduce-overhead"),
        Configuration("c", backend="eager", autocast="float99"),
    ],
    ids=str,
)
def test_what_torch_does_not_know_is_refused(wrong: Configuration) -> None:
    with pytest.raises(Misuse):
        check(wrong)


def test_autocast_is_on_around_the_call_in_eager_too() -> None:
    target = configured(Block(), Configuration("eager", compile=False, autocast="bfloat16"))
    assert target(X).dtype is torch.bfloat16


def test_inputs_are_marked_once_for_each_size() -> None:
    graphs: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    torch._dynamo.register_backend(backend, name="unit_test_marks")
    target = configured(Block(), Configuration("c", backend="unit_test_marks", dynamic="mark"))
    for size in (2, 3, 5, 2, 3):
        target(torch.ones(size, 4))
    assert len(graphs) == 1


def test_what_was_compiled_already_is_measured_uncompiled() -> None:
    block = Block()
    wrapped = torch.compile(torch.compile(block, backend="eager"), backend="eager")
    assert uncompiled(wrapped)[0] is block

    def function(x: Any) -> Any:
        return x

    assert uncompiled(torch.compile(function, backend="eager"))[0] is function
    block.compile(backend="eager")
    model, notes = uncompiled(block)
    assert model is block and block._compiled_call_impl is None
    assert len(notes) == 1 and ".compile()" in notes[0]
    plain = Block()
    assert uncompiled(plain) == (plain, [])


def test_compiled_parts_are_named() -> None:
    model = Model()
    model.first = torch.compile(model.first, backend="eager")
    model.body.blocks[1].compile(backend="eager")
    _, notes = uncompiled(model)
    assert "(first, body.blocks.1)" in notes[0]


def test_the_eager_stance_holds_for_a_dynamo_that_is_imported_already() -> None:
    from dynalyze.capture.torch_private import runtime
    from dynalyze.capture.torch_private.dynamo import stance

    with contextlib.ExitStack() as stack:
        stack.callback(torch.compiler.set_stance, "default")
        runtime.stay_eager()
        assert stance() == "force_eager"

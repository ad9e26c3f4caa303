"""What is found to be compiled in the place of a model that breaks, and the lines that do it."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
nn = torch.nn

from dynalyze.capture.bench.configure import CallableGroup  # noqa: E402
from dynalyze.capture.fixing.regions import find, lines_of  # noqa: E402
from dynalyze.capture.regions import RegionalCompile, compile_in_place_of_wholes  # noqa: E402


class Block(nn.Module):  # type: ignore[misc]
    """Four operators, and views that are none."""

    def __init__(self, breaks: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))
        self.breaks = breaks

    def forward(self, x: Any) -> Any:
        x = (x * self.weight).relu().view(2, 2, 2).sigmoid().view(2, 4)
        if self.breaks:
            torch._dynamo.graph_break()
        return x + 1


class Whole(nn.Module):  # type: ignore[misc]
    """Calls these, and breaks by itself where it is told to; eight operators of its own."""

    def __init__(self, parts: dict[str, Any], breaks: bool = False) -> None:
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)
        self.breaks = breaks

    def forward(self, x: Any) -> Any:
        for part in self.children():
            for each in part if isinstance(part, nn.ModuleList) else [part]:
                x = each(x)
        if self.breaks:
            torch._dynamo.graph_break()
        return x + 1 + 2 + 3 + 4 + 5 + 6 + 7 + 8


class Silent(Block):
    """Has no parameters."""

    def __init__(self) -> None:
        super().__init__()
        del self.weight
        self.weight = 2.0


def found(model: Any) -> RegionalCompile:
    def make_pass(call: Callable[..., Any]) -> None:
        with torch.no_grad():
            call(torch.ones(2, 4))

    def eager(call: Callable[..., Any]) -> None:
        with torch.compiler.set_stance("force_eager"):
            make_pass(call)

    torch._dynamo.reset()
    return find(model, model, make_pass, eager)


CASES: dict[str, tuple[Callable[[], Any], dict[str, list[str]], float, str]] = {
    "a break in one child": (
        lambda: Whole({"a": Block(), "b": Block(breaks=True), "c": nn.ModuleList([Block(), Block()])}),
        {"Whole": ["a", "c.0", "c.1"]}, 12 / 24, "model.a.compile()\nfor block in model.c:\n    block.compile()",
    ),
    "breaks in the top forward alone": (
        lambda: Whole({"a": Block(), "s": nn.Sequential(Block(), nn.Linear(4, 4), Silent())}, breaks=True),
        {"Whole": ["a", "s.0"]}, 8 / 21, "model.a.compile()\nmodel.s[0].compile()",
    ),
    "below the break": (
        lambda: Whole({"a": Whole({"b": Block(), "c": Block(breaks=True)})}),
        {"Whole": ["a.b"]}, 4 / 24, "model.a.b.compile()",
    ),
    "none that could be": (
        lambda: Whole({"a": Block(breaks=True), "b": nn.Linear(4, 4), "c": Silent()}), {}, 0.0, "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_largest_submodules_without_a_break_are_found_with_their_share_of_the_operators(name: str) -> None:
    make, regions, share, lines = CASES[name]
    instead = found(make())
    assert (instead.regions, instead.lines) == (regions, lines)
    assert instead.operators == pytest.approx(share)
    assert 0.0 <= instead.seconds <= 1.0 and bool(instead.seconds) == bool(regions)


def test_nothing_stays_behind_in_the_model() -> None:
    model = Whole({"a": Block(), "b": Block(breaks=True)})
    found(model)
    assert all(each._compiled_call_impl is None for each in model.modules())


def test_each_model_of_a_program_has_its_own() -> None:
    class Head(Whole):
        pass

    members = [Whole({"a": Block()}, breaks=True), Head({"b": Block()}, breaks=True), Whole({"a": Block()})]

    def call(x: Any) -> Any:
        return [member(x) for member in members]

    def make_pass(each: Callable[..., Any]) -> None:
        each(torch.ones(2, 4))

    torch._dynamo.reset()
    instead = find(CallableGroup(members), call, make_pass, make_pass)
    name = Head.__qualname__
    assert instead.regions == {"Whole": ["a"], name: ["b"]}
    assert instead.lines == "whole.a.compile()\nhead.b.compile()"


@pytest.mark.parametrize(
    ("paths", "lines"),
    [
        (["blocks.0.a", "blocks.1.a", "blocks.2.a"], ["for block in model.blocks:", "    block.a.compile()"]),
        (["blocks.0", "blocks.2"], ["for block in (model.blocks[0], model.blocks[2]):", "    block.compile()"]),
        (
            ["blocks.0.c.0", "blocks.0.c.1", "blocks.1.c.0", "blocks.1.c.1", "blocks.2.c.0", "blocks.2.c.1"],
            ["for block in model.blocks:", "    for part in block.c:", "        part.compile()"],
        ),
        (["named.x y"], ["model.named['x y'].compile()"]),
        (["blocks.1.c.0"], ["model.blocks[1].c[0].compile()"]),
        (["blocks.0", "blocks.1.a", "blocks.2.a"], [
            "model.blocks[0].compile()", "for block in (model.blocks[1], model.blocks[2]):", "    block.a.compile()",
        ]),
    ],
)  # fmt: skip
def test_the_lines_run_and_compile_these_alone(paths: list[str], lines: list[str]) -> None:
    def block() -> Any:
        return Whole({"a": Block(), "c": nn.ModuleList([Block(), Block()])})

    model = Whole({"blocks": nn.ModuleList([block() for _ in range(3)]), "named": nn.ModuleDict({"x y": Block()})})
    assert lines_of([model], {"Whole": paths}) == lines
    compiled: list[int] = []
    for each in model.modules():
        each.compile = lambda each=each: compiled.append(id(each))
    exec("\n".join(lines), {"model": model})
    assert compiled == [id(model.get_submodule(path)) for path in paths]


def test_a_program_that_compiles_the_whole_compiles_regions_instead() -> None:
    """As it calls torch.compile: with a module, its method or a function, and with arguments."""
    given: list[tuple[Any, dict[str, Any]]] = []

    def compile_call(call: Any = None, **arguments: Any) -> Any:
        given.append((call, arguments))
        return lambda *args: ("compiled", call(*args))

    module: Any = types.SimpleNamespace(compile=compile_call)
    compile_in_place_of_wholes(module, {"Whole": ["a"]})
    model, other = Whole({"a": Block(), "b": Block()}), Block()
    assert module.compile(model, mode="default") is model
    assert module.compile(model.forward) == model.forward  # Compiled already: not once more.
    assert given == [(model.a._call_impl, {"mode": "default"})]
    assert model.a(torch.ones(2, 4))[0] == "compiled" and model.b._compiled_call_impl is None
    assert module.compile(other, fullgraph=True)(torch.ones(2, 4))[0] == "compiled"
    assert given[1:] == [(other, {"fullgraph": True})]

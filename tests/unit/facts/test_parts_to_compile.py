"""The parts that no break reaches, and the lines that compile them, run on the modules: each part and no other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from dynalyze.capture.module_tree import module_tree
from dynalyze.facts.candidates import _of_tree
from dynalyze.facts.sources import Sources
from dynalyze.report import GraphBreak, Location, Region
from dynalyze.rules.diagnoses.compile_a_part import _line, _room
from sample_reports import empty_report, recompile


class Loud(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Quiet()

    def forward(self, x: Any) -> Any:
        print("loud")
        return self.inner(x)


class Quiet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        return self.a(x)


class Around(nn.Module):
    def __init__(self, fn: nn.Module) -> None:
        super().__init__()
        self.fn = fn

    def forward(self, x: Any) -> Any:
        return self.fn(x)


class Made(nn.Module):
    """Takes nothing, and gives a parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Parameter(torch.ones(2, 2))

    def forward(self) -> Any:
        return self.tokens


class Named(nn.Module):
    """Numbers that are names: no list."""

    def __init__(self, *parts: nn.Module) -> None:
        super().__init__()
        for number, part in enumerate(parts):
            self.add_module(str(number), part)

    def forward(self, x: Any) -> Any:
        return x


class Model(nn.Module):
    def __init__(self, **parts: nn.Module) -> None:
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x: Any) -> Any:
        return x


def nested() -> nn.Module:
    return Model(layers=nn.ModuleList([nn.ModuleList([Around(Loud()), Around(Quiet())]) for _ in range(2)]))


def some_of_a_list() -> nn.Module:
    return Model(layers=nn.ModuleList([Quiet(), Loud(), Quiet(), Quiet()]))


def lists_in_lists() -> nn.Module:
    return Model(stages=nn.ModuleList([Model(blocks=nn.ModuleList([Quiet(), Loud(), Quiet()])) for _ in range(3)]))


def uneven_lists() -> nn.Module:
    return Model(stages=nn.ModuleList([nn.ModuleList([Quiet() for _ in range(n)]) for n in (1, 3)]), loud=Loud())


def small() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU())


def torchs_own() -> nn.Module:
    return Model(
        layers=nn.ModuleList([small() for _ in range(2)]),
        stages=nn.ModuleList(
            Model(norm=small(), lists=nn.ModuleList([small(), small()]), loud=Loud()) for _ in range(2)
        ),
        alone=small(),
        loud=Loud(),
    )


def names_that_are_no_names() -> nn.Module:
    return Model(heads=nn.ModuleDict({"3x3": Quiet(), "plain": Quiet()}), named=Named(Quiet(), Loud(), Quiet()))


def shared() -> nn.Module:
    both = Loud()
    return Model(layers=nn.ModuleList([Around(both), Around(Quiet()), Around(both)]))


MODELS = [nested, some_of_a_list, lists_in_lists, uneven_lists, torchs_own, names_that_are_no_names, shared]


def regions_of(model: nn.Module) -> list[Region]:
    code = Loud.forward.__code__
    at = Location(code.co_filename, code.co_firstlineno + 1, None, "forward")
    outer = Around.forward.__code__
    above = Location(outer.co_filename, outer.co_firstlineno + 1, None, "forward")
    model_code = Model.forward.__code__
    main = Location(model_code.co_filename, model_code.co_firstlineno + 1, None, "forward")
    broken = GraphBreak("b1", "GB0059", "Failed to trace builtin operator", "split", at, [main, above, at])
    return list(_of_tree(module_tree("main:model", model, None), [broken], Sources()))


def largest_without_break(model: nn.Module) -> set[str]:
    """By the modules themselves: nothing in them is loud, and they are in nothing that could be taken whole."""
    modules = dict(model.named_modules(remove_duplicate=False))

    def is_whole(path: str) -> bool:
        part = modules[path]
        loud = any(isinstance(each, Loud) for each in part.modules())
        container = isinstance(part, (nn.ModuleList, nn.ModuleDict))
        layer = type(part).__module__.startswith("torch.") and not list(part.children())
        return not loud and not container and not layer and not isinstance(part, (Made, Named))

    def above(path: str) -> list[str]:
        words = path.split(".")
        return [".".join(words[:end]) for end in range(1, len(words))]

    return {path for path in modules if path and is_whole(path) and not any(map(is_whole, above(path)))}


@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_the_lines_compile_each_part_and_no_other(
    make: Callable[[], nn.Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make()
    wanted = largest_without_break(model)
    paths: dict[int, set[str]] = {}
    for path, part in model.named_modules(remove_duplicate=False):
        paths.setdefault(id(part), set()).add(path)
    compiled: set[str] = set()
    monkeypatch.setattr(nn.Module, "compile", lambda self: compiled.update(paths[id(self)]))
    monkeypatch.setattr(torch, "compile", lambda part: compiled.update(paths[id(part)]) or part)
    found = regions_of(model)
    for region in found:
        exec(_line(region), {"model": model, "torch": torch})
    assert compiled == wanted
    assert sum(region.count for region in found) == len(wanted)


def test_nested_lists_are_one_loop_over_the_list_that_varies() -> None:
    """As the owner of the model would write it."""
    assert sorted(map(_line, regions_of(nested()))) == [
        "for block in model.layers: block[0].fn.inner.compile()",
        "for block in model.layers: block[1].compile()",
    ]


def test_what_takes_no_inputs_is_no_part_to_compile() -> None:
    found = regions_of(Model(made=Made(), quiet=Quiet(), loud=Loud()))
    assert sorted(region.path for region in found) == ["loud.inner", "quiet"]


def test_parts_whose_code_reached_the_recompile_limit_need_room_for_all_of_them() -> None:
    report, (part, *_) = empty_report(), regions_of(nested())
    assert part.count > 1 and _room(report, [part]) == ""
    report.recompiles = [recompile("r1", "0/8", cause="limit", location=part.location)]
    assert f"recompile_limit = {max(16, 4 * part.count)}`" in _room(report, [part])

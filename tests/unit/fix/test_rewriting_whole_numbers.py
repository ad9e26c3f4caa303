"""Functions that go by the values of whole numbers and make tensors of known size: made operators."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from dynalyze.capture.fixing import ARGUMENT, RETURNED
from dynalyze.fix.rewriting import proposals
from dynalyze.fix.sites import Site, Value
from dynalyze.report import GraphBreak, Location

_WHOLE = Value("tensor", "Tensor", "int64", 2)
_KNOWN = {
    "ids": _WHOLE, "grid": _WHOLE, f"{ARGUMENT}video": Value("NoneType"), "step": Value("int"),
    "torch": Value("module", "torch"),
    RETURNED: Value("tuple", "Tensor", items=(Value("tensor", "Tensor", "int64", 3, sizes=(3, 2, 2)),
                                              Value("tensor", "Tensor", "int64", 2, sizes=(2, 1)))),
    "self.config.merge": Value("int"), "self.box": Value("object"), "SEEN": Value("list"),
}  # fmt: skip
_PROGRAM = """import torch

SEEN = []


class Model(torch.nn.Module):
    def grid_of(self, sizes):
        return torch.arange(sizes[0].item()) + 1

    def positions(self, ids: torch.Tensor, grid: torch.LongTensor, video: torch.Tensor | None = None, step: int = 1):
        if video is not None:
            video = torch.repeat_interleave(video, video[:, 0], dim=0)
            video[:, 0] = 1
        merge = self.config.merge
        found = torch.zeros(3, ids.shape[0], len(grid), dtype=ids.dtype)
        deltas = []
        for row, current in enumerate(ids):
            length = grid[row, 0].item() * step // merge
            found[:, row, :length] = self.grid_of(grid[row])
            deltas.append(current.max() - length)
        deltas = torch.tensor(deltas, device=ids.device).unsqueeze(1)
        return found, deltas
"""


def _proposed(text: str, known: dict[str, Value], marked: str, gb_type: str) -> dict[str, str]:
    line = next(number for number, each in enumerate(text.splitlines(), 1) if marked in each)
    place = Location("model.py", line, None, "f")
    site = Site(GraphBreak("b1", None, gb_type, "split", place, [place]), text, line, known)
    found = {each.rewrite: each.source for each in proposals(site)}
    for source in found.values():
        compile(source, "model.py", "exec")
    return found


def _operator(old: str = "", new: str = "", known: dict[str, Value] | None = None) -> str:
    """What the program becomes with a part of it exchanged; "" where no operator is proposed."""
    assert old in _PROGRAM
    text = _PROGRAM.replace(old, new) if old else _PROGRAM
    return _proposed(text, {**_KNOWN, **(known or {})}, "length = ", "Unsupported Tensor.item() call").get(
        "whole-numbers", ""
    )


def test_a_function_of_whole_numbers_is_an_operator_in_compiled_code() -> None:
    made = _operator()
    for asked in ("torch.compiler.is_compiling()", "type(self).grid_of is Model.grid_of"):
        assert asked in made
    assert "isinstance(ids" not in made and "isinstance(self.config.merge, int)" in made
    assert "            return _positions_op(ids, grid, video, step, self.config.merge)\n" in made
    assert "        found[:, row, :length] = Model.grid_of(None, grid[row])\n" in made
    assert "torch.empty((3, ids.shape[0], len(grid)), dtype=ids.dtype)" in made
    assert "ids.new_empty((ids.shape[0], 1), dtype=torch.int64)" in made
    assert "video: torch.Tensor | None" in made and "cudagraph_unsafe" in made


def test_it_compiles_to_one_graph_and_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    before, now = (_model(source, monkeypatch) for source in (_PROGRAM, _operator()))
    torch._dynamo.reset()
    compiled = torch.compile(now.positions, backend="eager", fullgraph=True)
    for rows in (2, 3):
        ids = torch.arange(rows * 7).reshape(rows, 7)
        grid, video = torch.tensor([[1, 4]] * rows), torch.tensor([[1, 5]] * rows)
        for given in ((ids, grid), (ids, grid, video, 4)):
            for one, other in zip(compiled(*given), before.positions(*given), strict=True):
                assert torch.equal(one, other) and one.dtype == other.dtype


def _model(source: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    module = ModuleType("model_of_whole_numbers")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(source, "model.py", "exec", dont_inherit=True), vars(module))
    model = module.Model()
    model.config = SimpleNamespace(merge=2)
    return model


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("        deltas = []\n", "        deltas = []\n        ids[0] = 1\n"),
        ("length = grid", "current[0] = 1; length = grid"),  # A view of an argument.
        ("deltas.append(current", "current.zero_(); deltas.append(current"),
        ("length = grid", "self.last = row; length = grid"),
        ("length = grid", "SEEN.append(row); length = grid"),
        ("length = grid", "print(row); length = grid"),
        ("length = grid", "torch.manual_seed(0); length = grid"),
        ("length = grid", "torch.randint(3, (2,)); length = grid"),
        ("length = grid", "self.box.n(row); length = grid"),
        ("length = grid", "torch.compiler.is_compiling(); length = grid"),
        ("            deltas.append(", "            if length: deltas.append("),  # How long it is, is not known.
        ("            deltas.append(", "            if length:\n                break\n            deltas.append("),
        ("            deltas.append(", "            deltas.append(row)\n            deltas.append("),
        ("ids.shape[0], len(grid)", "int(ids[0, 0]), len(grid)"),
        ("return found, deltas", "return found[0], deltas"),
        ("        deltas = []\n", "        if step:\n            return found, found\n        deltas = []\n"),
        ("self, sizes):\n", "self, sizes):\n        self.n = 1\n"),  # In the method that it calls.
    ],
)
def test_what_does_more_or_makes_tensors_of_other_sizes_is_none(old: str, new: str) -> None:
    assert not _operator(old, new)


@pytest.mark.parametrize(
    "known",
    [
        {"grid": Value("tensor", "Tensor", "float32", 2)},  # It may need a gradient.
        {"ids": Value("tensor", "Subclass", "int64", 2)},
        {"self.config.merge": Value("list", "int")},
    ],
)
def test_what_is_no_whole_number_is_left_alone(known: dict[str, Value]) -> None:
    assert not _operator(known=known)

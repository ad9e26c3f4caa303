"""Functions of whole numbers made operators, and comprehensions made loops, on source text."""

from __future__ import annotations

import pytest

from dynalyze.fix.rewriting import proposals
from dynalyze.fix.sites import Site, Value
from dynalyze.report import GraphBreak, Location

_WHOLE = Value("tensor", "Tensor", "int64", 2)
_KNOWN = {
    "ids": _WHOLE, "grid": _WHOLE, "video": Value("NoneType"), "step": Value("int"), "torch": Value("module", "torch"),
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
    assert (
        "        if torch.compiler.is_compiling() and type(self).grid_of is Model.grid_of "
        "and isinstance(self.config.merge, int):\n"
        "            return _positions_op(ids, grid, video, step, self.config.merge)\n"
        "        if video is not None:\n"
    ) in made
    assert (
        "def _positions_op_fake(ids, grid, video, step, config_merge):\n"
        "    return (\n"
        "        torch.zeros(3, ids.shape[0], len(grid), dtype=ids.dtype),\n"
        "        torch.empty((ids.shape[0],), dtype=torch.int64, device=ids.device).unsqueeze(1),\n"
        "    )\n"
    ) in made
    assert "video: torch.Tensor | None" in made and "cudagraph_unsafe" in made


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
        ("        merge = ", "        ids = ids[:1]\n        merge = "),  # Another size than that of the argument.
        ("return found, deltas", "return found[0], deltas"),
        ("        deltas = []\n", "        if step:\n            return found, found\n        deltas = []\n"),
        ("    def positions", "    @torch.no_grad()\n    def positions"),
        ("grid: torch.LongTensor", "grid: list[int] | torch.LongTensor"),
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


_LOOP = """def wrapped(function):
    def wrapper(self, **kwargs):
        wanted = {comprehension}
        return function(self, wanted)
    return wrapper
"""


def _loop(comprehension: str, program: str = _LOOP) -> str:
    text = program.replace("{comprehension}", comprehension)
    return _proposed(text, {}, "wanted =", "Missing tp_iternext").get("comprehension-as-loop", "")


def test_a_comprehension_is_a_loop_with_variables_of_its_own() -> None:
    assert _loop("{f'a_{k}': kwargs.get(k, self.k) for k in self.names if k}") == _LOOP.replace(
        "        wanted = {comprehension}\n",
        "        wanted = {}\n"
        "        for k_ in self.names:\n"
        "            if k_:\n"
        "                key_ = f'a_{k_}'\n"
        "                wanted[key_] = kwargs.get(k_, self.k)\n",
    ).replace("key_", "key")


@pytest.mark.parametrize(
    "comprehension",
    [
        "[k for a in self.names for k in a]",
        "[lambda: k for k in self.names]",
        "[k for k in wanted]",
        "[[j for j in k] for k in self.names]",
        "[(last := k) for k in self.names]",
    ],
)
def test_a_comprehension_that_a_loop_is_not_the_same_as_stays(comprehension: str) -> None:
    assert not _loop(comprehension)


def test_a_comprehension_stays_where_an_exception_would_show_half_of_it() -> None:
    program = _LOOP.replace("        wanted = {comprehension}\n", (
        "        wanted = None\n        try:\n            wanted = {comprehension}\n        except KeyError:\n"
        "            pass\n"
    ))  # fmt: skip
    text = program.replace("{comprehension}", "[self.k[k] for k in kwargs]").replace("wanted = None", "other = None")
    assert "comprehension-as-loop" not in _proposed(text, {}, "wanted =", "Missing tp_iternext")

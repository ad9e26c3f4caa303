"""Sizes that the caller knows and the data decide: told by it, as source and running."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from dynalyze.capture.fixing import RETURNED
from dynalyze.fix.rewriting import proposals
from dynalyze.fix.sites import Proposal, Site, Value
from dynalyze.report import GraphBreak, Location

_ROWS = Value("tensor", "Tensor", "int64", 2, sizes=(20, 2))
_LONG = Value("tensor", "Tensor", "int64", 1, sizes=(20,))
_CALLED = {
    "grid": Value("tensor", "Tensor", "int64", 2, sizes=(2, 2)), "deep": Value("bool"), "kwargs": Value("NoneType"),
    "torch": Value("module", "torch"), "counts": Value("tensor", "Tensor", "int64", 1, sizes=(2,)), RETURNED: _ROWS,
}  # fmt: skip
_CALLER = {"grid": _CALLED["grid"], "x": Value("tensor", "Tensor", "float32", 2, sizes=(20, 7)),
           "merge": Value("int", number=2)}  # fmt: skip
_POSITIONS = """
def positions(grid, kwargs=None):
    found = []
    for h, w in grid.tolist():
        rows = torch.arange(h).repeat_interleave(w)
        found.append(torch.stack([rows, torch.arange(w).repeat(h)], dim=-1))
    return torch.cat(found, dim=0)
"""
_REPEATED = """
def positions(
    grid,
    kwargs=None,
):
    counts = grid[:, 0] * grid[:, 1]
    # The end of each image.
    ends = torch.repeat_interleave(counts.cumsum(0), counts)
    widths = grid[:, 1].repeat_interleave(counts)
    return torch.stack([(ends - torch.arange(counts.sum())) % widths, ends], dim=-1)
"""
_REWRITES = ("output-size", "sized-by-caller", "empty-segments")
_FORWARD = """
def forward(x, grid, merge=2):
    found = positions(
        grid,
        kwargs=None,
    )
    return x * found.sum(-1, keepdim=True)
"""


def _proposed(
    called: str, forward: str = _FORWARD, *, caller: dict[str, Value] | None = None, apart: bool = False,
    returned: Value = _ROWS,
) -> list[Proposal]:  # fmt: skip
    texts = [f"import torch\n{called}", f"import torch\n{forward}"]
    files = ["positions.py", "model.py"]
    if not apart:
        texts, files = [f"import torch\n{called}{forward}"] * 2, ["model.py"] * 2
    marks = [".tolist()" if ".tolist()" in called else "repeat_interleave(", "found = positions("]
    lines = [next(number for number, each in enumerate(text.splitlines(), 1) if mark in each)
             for text, mark in zip(texts, marks, strict=True)]  # fmt: skip
    places = [Location(file, line, None, "f") for file, line in zip(files, lines, strict=True)]
    broken = GraphBreak("b1", None, "Dynamic shape operator", "split", places[0], places[::-1])
    known = {**_CALLED, RETURNED: returned}
    inner = Site(broken, texts[0], lines[0], known)
    outer = GraphBreak("b1", None, broken.gb_type, "split", places[1], places[::-1])
    site = Site(outer, texts[1], lines[1], _CALLER if caller is None else caller, called=inner)
    return [each for each in proposals(site, outer=True) if each.rewrite in _REWRITES]


def _ran(source: str) -> dict[str, Any]:
    space: dict[str, Any] = {"__name__": "model"}
    exec(compile(source, "model.py", "exec"), space)
    return space


def _in_one_graph(before: str, now: str, *grids: torch.Tensor, rows: int = 1) -> Any:
    """The function of a program with a change, compiled: it gives what the one as it was gives, and so in eager."""
    was, changed = (_ran(text)["forward"] for text in (before, now))
    torch._dynamo.reset()
    compiled = torch.compile(changed, backend="eager", fullgraph=True)
    for grid in grids:
        x = torch.randn(int(rows * grid.prod(1).sum()), 7)
        assert torch.equal(compiled(x, grid), was(x, grid)) and torch.equal(changed(x, grid), was(x, grid))
    return compiled


@pytest.mark.parametrize("called", [_POSITIONS, _REPEATED])
def test_without_a_setting_it_compiles_to_one_graph_and_gives_the_same(called: str) -> None:
    proposal, *_ = _proposed(called)
    assert not proposal.settings
    compiled = _in_one_graph(
        f"import torch\n{called}{_FORWARD}",
        proposal.source,
        torch.tensor([[2, 3], [4, 2]]),
        torch.tensor([[3, 5], [1, 2]]),
    )
    with pytest.raises(RuntimeError):
        compiled(torch.randn(9, 7), torch.tensor([[2, 3], [4, 2]]))


def test_arguments_stand_on_lines_of_their_own_where_the_others_do() -> None:
    proposal, *_ = _proposed(_REPEATED)
    assert "    kwargs=None,\n    *,\n    size=None,\n):\n" in proposal.source
    assert "    # The end of each image.\n    if size is not None and" in proposal.source
    assert "        kwargs=None,\n        size=x.shape[0],\n    )\n" in proposal.source
    proposal, *_ = _proposed(_REPEATED.replace("None,\n)", "None\n)"), _FORWARD.replace("None,\n    )", "None\n    )"))
    assert "    kwargs=None, *, size=None\n):\n" in proposal.source
    assert "        kwargs=None, size=x.shape[0]\n    )\n" in proposal.source
    proposal, *_ = _proposed(_POSITIONS)
    assert "def positions(grid, kwargs=None, *, size_0=None):\n" in proposal.source


def test_a_function_of_another_file_is_changed_there() -> None:
    proposal, *_ = _proposed(_REPEATED, apart=True)
    assert proposal.file == "model.py" and "size=x.shape[0]" in proposal.source
    assert "output_size=size" in proposal.others["positions.py"] and "output_size" not in proposal.source


def test_a_known_number_of_rows_may_stand_for_one() -> None:
    tens = Value("tensor", "Tensor", "int64", 2, sizes=(80, 2))
    proposal, *_ = _proposed(_REPEATED, caller={**_CALLER, "x": tens})
    assert "size=x.shape[0] // merge**2" in proposal.source


def test_a_size_that_nobody_holds_is_what_the_data_say() -> None:
    called = _POSITIONS.replace("return torch.cat(found, dim=0)", "a = torch.cat(found).flatten()\n    return a, a[:3]")
    short = Value("tensor", "Tensor", "int64", 1, sizes=(3,))
    _, proposal = _proposed(called, returned=Value("tuple", "Tensor", items=(_LONG, short)))
    assert proposal.late and not proposal.settings and "size_0=x.shape[0]" in proposal.source


@pytest.mark.parametrize("name, rows", [("x", 21), ("self.x", 20)])
def test_nothing_is_told_that_is_not_known(name: str, rows: int) -> None:
    caller = {name: Value("tensor", "Tensor", "float32", 2, sizes=(rows, 20))}
    assert not _proposed(_POSITIONS, caller=caller) and not _proposed(_REPEATED, caller=caller)


_SEGMENTED = """
import torch


def ends_of(grid, device=None):
    lengths = torch.repeat_interleave(grid[:, 1] * 2, grid[:, 0])
    return torch.nn.functional.pad(lengths.cumsum(0), (1, 0))


def segments_of(grid, config=None):
    ends = ends_of(grid)
    return ends, config


def forward(x, grid):
    ends, _ = segments_of(grid)
    segment = torch.searchsorted(ends[1:], torch.arange(x.shape[0]), right=True)
    return x * segment[:, None]
"""


def test_segments_are_filled_with_empty_ones_through_those_who_call() -> None:
    marks = ("repeat_interleave(", "= ends_of(", "= segments_of(")
    lines = [next(n for n, text in enumerate(_SEGMENTED.splitlines(), 1) if mark in text) for mark in marks]
    places = [Location("model.py", line, None, "f") for line in lines]
    ends = Value("tensor", "Tensor", "int64", 1, sizes=(6,))
    inner = None
    for place, known in zip(places, ({RETURNED: ends}, {}, {"x": _CALLER["x"]}), strict=True):
        broken = GraphBreak("b1", None, "Dynamic shape operator", "split", place, places[::-1])
        grid = {"grid": _CALLED["grid"], "torch": _CALLED["torch"]}
        inner = Site(broken, _SEGMENTED, place.line, {**grid, **known}, called=inner)
    assert inner is not None
    proposal, *_ = [each for each in proposals(inner, outer=True) if each.rewrite in _REWRITES]
    assert "ends = ends_of(grid, most=most)" in proposal.source and not proposal.settings
    compiled = _in_one_graph(
        _SEGMENTED, proposal.source, torch.tensor([[2, 3], [3, 2]]), torch.tensor([[5, 1], [7, 3]]), rows=2
    )
    with pytest.raises(RuntimeError):
        compiled(torch.randn(20, 7), torch.tensor([[21, 3], [4, 2]]))


def test_a_list_whose_length_nobody_knows_is_filled_with_its_last_element() -> None:
    called = """
def positions(grid, kwargs=None):
    places, ends = [], [0]
    for h, w in grid.tolist():
        places.append(torch.arange(h * w))
        ends.extend([ends[-1] + w * (row + 1) for row in range(h)])
    return torch.cat(places), torch.tensor(ends, device=grid.device)
"""
    forward = """
def forward(x, grid, merge=2):
    found = positions(grid)
    segment = torch.searchsorted(found[1][1:], torch.arange(x.shape[0]), right=True)
    return x * (found[0] + segment)[:, None]
"""
    ends = Value("tensor", "Tensor", "int64", 1, sizes=(7,))
    proposal, by_data = _proposed(called, forward, returned=Value("tuple", "Tensor", items=(_LONG, ends)))
    assert by_data.late and not proposal.late
    assert "positions(grid, size_0=x.shape[0], size_1=x.shape[0] + 1)" in proposal.source
    _in_one_graph(
        f"import torch\n{called}{forward}",
        proposal.source,
        torch.tensor([[2, 3], [4, 2]]),
        torch.tensor([[3, 5], [1, 2]]),
    )

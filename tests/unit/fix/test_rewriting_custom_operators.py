"""What the data decide the size of, as positions of patches of images: made an operator, as source and running."""

from __future__ import annotations

import pytest
import torch

from dynalyze.capture.fixing import RETURNED
from dynalyze.fix.rewriting import proposals
from dynalyze.fix.sites import Proposal, Site, Value
from dynalyze.report import GraphBreak, Location

_WHOLE = Value("tensor", "Tensor", "int64", 2, sizes=(2, 3))
_KNOWN = {
    "grid": _WHOLE, "merge": Value("int"), "deep": Value("bool"), "kwargs": Value("dict"), "device": Value("device"),
    "torch": Value("module", "torch"), RETURNED: Value("tensor", "Tensor", "int64", 2, sizes=(10, 2)),
}  # fmt: skip
_LAST = "    return torch.cat(found, dim=0)\n"
_PROGRAM = """import torch


def halves(size, merge):
    return torch.arange(size) // merge


def positions(grid, merge, deep=False, kwargs=None):
    if kwargs is not None:
        return kwargs.pop("positions")
    device = grid.device
    found = []
    for t, h, w in grid.tolist():
        rows = torch.arange(h, device=device).repeat_interleave(w) // merge
        columns = torch.arange(w, device=device).repeat(h) // merge
        if deep:
            found.append(torch.stack([rows, rows, columns], dim=-1).repeat(t, 1))
        else:
            found.append(torch.stack([rows, columns], dim=-1).repeat(t, 1))
    return torch.cat(found, dim=0)
"""


def _proposed(old: str = "", new: str = "", known: dict[str, Value] | None = None) -> list[Proposal]:
    assert old in _PROGRAM
    text = _PROGRAM.replace(old, new) if old else _PROGRAM
    line = next(number for number, each in enumerate(text.splitlines(), 1) if ".tolist()" in each)
    place = Location("model.py", line, None, "positions")
    site = Site(GraphBreak("b1", None, "Data dependent operator", "split", place, [place]), text, line,
                {**_KNOWN, **(known or {})})  # fmt: skip
    return [each for each in proposals(site) if each.rewrite == "sized-by-data"]


def _ran(source: str) -> dict[str, object]:
    space: dict[str, object] = {"__name__": "model"}
    exec(compile(source, "model.py", "exec"), space)
    return space


def test_what_the_data_size_is_an_operator_that_needs_no_setting() -> None:
    plain, at_least_two = _proposed()
    assert plain.late and at_least_two.late and not (plain.settings or at_least_two.settings)
    assert "raises in compiled code where a size is below 2" in at_least_two.title and ">= 2" in at_least_two.source
    assert "    return grid.new_empty((size_0, (3 if deep else 2)), dtype=torch.int64)\n" in plain.source
    assert "    return _positions_of(grid, merge, deep)\n" in plain.source


@pytest.mark.parametrize("which", [0, 1])
def test_it_compiles_to_one_graph_and_gives_the_same(which: int) -> None:
    grids = [torch.tensor([[1, 2, 3], [2, 4, 2]]), torch.tensor([[3, 1, 5], [1, 1, 2]])]
    before, now = _ran(_PROGRAM)["positions"], _ran(_proposed()[which].source)["positions"]
    torch._dynamo.reset()
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(now, backend="eager", fullgraph=True)  # type: ignore[call-overload]
        for grid in grids:
            for deep in (False, True):
                wanted = before(grid, 2, deep)  # type: ignore[operator]
                assert torch.equal(compiled(grid, 2, deep), wanted) and torch.equal(now(grid, 2, deep), wanted)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    found = []\n", "    found = []\n    grid[0] = 1\n"),
        ("    found = []\n", "    found = []\n    print(grid)\n"),
        ("    found = []\n", "    found = []\n    merge += torch.randint(3, ()).item()\n"),
        ("    found = []\n", "    found = []\n    device = kwargs\n"),
        (
            "    return torch.cat(found, dim=0)\n",
            "    if deep:\n        return grid\n    return torch.cat(found, dim=0)\n",
        ),
        ("        rows = ", "        kwargs['rows'] = rows = "),
        ("        rows = ", "        rows = SEEN or "),
    ],
)
def test_what_does_more_than_compute_is_left_alone(old: str, new: str) -> None:
    assert not _proposed(old, new)


@pytest.mark.parametrize(
    "known",
    [
        {"grid": Value("tensor", "Tensor", "float32", 2), RETURNED: Value("tensor", "Tensor", "complex64", 2)},
        {"merge": Value("list", "str")},
        {RETURNED: Value("tuple")},
        {RETURNED: Value("tensor", "Subclass", "int64", 2)},
    ],
)
def test_what_is_no_whole_number_is_left_alone(known: dict[str, Value]) -> None:
    assert not _proposed(known=known)


def test_functions_of_the_file_that_only_compute_are_called_as_they_are() -> None:
    (plain, _) = _proposed("torch.arange(h, device=device).repeat_interleave(w) // merge", "halves(h * w, merge)")
    assert "        rows = halves(h * w, merge)\n" in plain.source
    assert not _proposed("torch.arange(h, device=device).repeat_interleave(w) // merge", "others(h * w, merge)")


def test_what_is_appended_has_a_size_that_the_lines_above_it_in_the_loop_tell() -> None:
    appended = _PROGRAM[_PROGRAM.index("        if deep:") : _PROGRAM.index(_LAST)]
    pairs = "        pairs = rows + columns\n        pairs = pairs.view(-1, merge * 2)\n        found.append(pairs)\n"
    plain, *_ = _proposed(appended, pairs)
    assert "    return grid.new_empty((size_0, merge * 2), dtype=torch.int64)\n" in plain.source


def test_results_of_one_size_are_told_to_have_one() -> None:
    long, short = (Value("tensor", "Tensor", "int64", 1, sizes=(size,)) for size in (20, 3))
    known = {RETURNED: Value("tuple", "Tensor", items=(long, long, short))}
    plain, *_ = _proposed(_LAST, "    a = torch.cat(found).flatten()\n    return a, -a, a[:3]\n", known)
    assert "made_1.shape[0] == made_0.shape[0]" in plain.source and plain.source.count("= _new_size(grid)") == 2


_OVERLAPPING = """import torch


def kept(boxes, limit):
    areas = boxes.square().sum(-1)
    order = areas.argsort()
    found = []
    while order.numel():
        found.append(order[0])
        order = order[1:][areas[order[1:]] > limit * areas[order[0]]]
    return torch.stack(found)
"""


def _of_floats(text: str, mark: str, known: dict[str, Value]) -> list[Proposal]:
    line = next(number for number, each in enumerate(text.splitlines(), 1) if mark in each)
    place = Location("model.py", line, None, "f")
    site = Site(GraphBreak("b1", None, "Data-dependent branching", "split", place, [place]), text, line, known)
    return [each for each in proposals(site) if each.rewrite == "sized-by-data"]


def test_places_among_floats_are_found_in_an_operator_since_they_have_no_gradient() -> None:
    boxes, areas = (Value("tensor", "Tensor", "float32", dims, sizes=(9, 4)[:dims]) for dims in (2, 1))
    order = Value("tensor", "Tensor", "int64", 1, sizes=(9,))
    known = {"boxes": boxes, "limit": Value("float"), "areas": areas, "order": order, "found": Value("list"),
             RETURNED: Value("tensor", "Tensor", "int64", 1, sizes=(3,))}  # fmt: skip
    plain, *_ = _of_floats(_OVERLAPPING, "while", known)
    assert "return _kept_op(limit, areas.detach(), order)" in plain.source
    before, now = _ran(_OVERLAPPING)["kept"], _ran(plain.source)["kept"]
    torch._dynamo.reset()
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(now, backend="eager", fullgraph=True)  # type: ignore[call-overload]
        for seed in range(5):
            boxes = torch.randn(9 + seed, 4, generator=torch.Generator().manual_seed(seed), requires_grad=True)
            assert torch.equal(compiled(boxes, 1.5), before(boxes, 1.5))  # type: ignore[operator]


_SMOOTHED = """import numpy as np
import torch

KERNEL = [0.25, 0.5, 0.25]


def smooth(x):
    rows = [np.convolve(row, KERNEL, mode="same") for row in x.numpy()]
    return torch.from_numpy(np.stack(rows)).float()
"""


def test_what_numpy_makes_of_a_tensor_is_an_operator_of_the_size_of_that() -> None:
    x = Value("tensor", "Tensor", "float32", 2, sizes=(4, 8))
    known = {"x": x, "np": Value("module", "numpy"), "KERNEL": Value("list", "float"), RETURNED: x}
    (only,) = _of_floats(_SMOOTHED, "np.convolve", known)
    assert not only.settings and "torch.empty((x.shape[0], x.shape[1]), dtype=torch.float32)" in only.source
    before, now = _ran(_SMOOTHED)["smooth"], _ran(only.source)["smooth"]
    torch._dynamo.reset()
    compiled = torch.compile(now, backend="eager", fullgraph=True)  # type: ignore[call-overload]
    for rows in (4, 5):
        given = torch.randn(rows, 8)
        assert torch.equal(compiled(given), before(given))  # type: ignore[operator]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("np.stack(rows)", "np.random.permutation(rows)"),
        ("np.stack(rows)", "np.stack(rows, out=KERNEL)"),
        ("    return ", "    np.copyto(x.numpy(), 0.0)\n    return "),
        ("    return ", "    y = x.numpy()\n    y[0] = 0\n    return "),
    ],
)
def test_what_numpy_draws_or_changes_is_left_alone(old: str, new: str) -> None:
    x = Value("tensor", "Tensor", "float32", 2, sizes=(4, 8))
    known = {"x": x, "np": Value("module", "numpy"), "KERNEL": Value("list", "float"), RETURNED: x}
    assert old in _SMOOTHED
    assert not _of_floats(_SMOOTHED.replace(old, new), "np.convolve", known)


_RAGGED = """import torch


def crops(x, lengths, scale):
    made = []
    for row, n in zip(x, lengths.tolist()):
        part = row[:n] - row[:n].mean(0)
        if n > 2:
            part = part * scale
        made.append(torch.nn.functional.interpolate(part.T[None], size=4, mode="linear")[0].T)
    return torch.stack(made)
"""


def test_what_has_a_gradient_is_an_operator_with_one() -> None:
    x, lengths = Value("tensor", "Tensor", "float32", 3, sizes=(3, 5, 6)), Value("tensor", "Tensor", "int64", 1)
    known = {"x": x, "lengths": lengths, "scale": Value("float"),
             RETURNED: Value("tensor", "Tensor", "float32", 3, sizes=(3, 4, 6))}  # fmt: skip
    plain, _, alike = _of_floats(_RAGGED, "tolist", known)
    assert "which has its gradient" in plain.title and plain.source.count("size_2 = ") == 1
    assert "x.new_empty((x.shape[0], size_0, x.shape[2]), dtype=torch.float32)" in alike.source
    for source in (plain.source, alike.source):
        before, now = _ran(_RAGGED)["crops"], _ran(source)["crops"]
        given = torch.randn(3, 5, 6, requires_grad=True)
        wanted, counts = before(given, torch.tensor([4, 2, 5]), 3.0), torch.tensor([4, 2, 5])  # type: ignore[operator]
        (slope,) = torch.autograd.grad(wanted.square().sum(), given)
        for backend in ("eager", "aot_eager"):
            torch._dynamo.reset()
            with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
                compiled = torch.compile(now, backend=backend, fullgraph=True)  # type: ignore[call-overload]
                got = compiled(given, counts, 3.0)
                assert torch.equal(got, wanted)
                assert torch.equal(torch.autograd.grad(got.square().sum(), given)[0], slope)


def test_a_result_of_the_size_of_what_is_given_is_told_to_have_that() -> None:
    x = Value("tensor", "Tensor", "float32", 2, sizes=(4, 8))
    known = {"x": x, "np": Value("module", "numpy"), "KERNEL": Value("list", "float"), RETURNED: x}
    (only,) = _of_floats(_SMOOTHED, "np.convolve", known)
    assert "has the size of x, which compiled code checks" in only.title


_MATCHED = """import torch


def best(cost):
    return [column.index(min(column)) for column in cost.t().tolist()]


def matched(outputs, targets):
    cost = torch.cdist(outputs.flatten(0, 1), torch.cat(targets)).view(*outputs.shape[:2], -1)
    sizes = [len(each) for each in targets]
    # Taken as they are.
    rows = [best(part[number]) for number, part in enumerate(cost.split(sizes, -1))]
    return [(torch.as_tensor(each), torch.as_tensor(sorted(each))) for each in rows]


def forward(outputs, targets):
    return torch.cat([outputs[at][i] - targets[at] + j[:, None] for at, (i, j) in enumerate(matched(outputs, targets))])
"""


def _pair(size: int) -> Value:
    one = Value("tensor", "Tensor", "int64", 1, sizes=(size,))
    return Value("tuple", "Tensor", items=(one, one))


@pytest.mark.parametrize("told", ["targets", "sizes"])
def test_lists_go_in_and_lists_of_tuples_come_out(told: str) -> None:
    sizes = Value("list", "int", items=(Value("int", number=3), Value("int", number=2)))
    targets = tuple(Value("tensor", "Tensor", "float32", 2, sizes=(size, 4)) for size in (3, 2))
    known = {"cost": Value("tensor", "Tensor", "float32", 3, sizes=(2, 6, 5)), "torch": Value("module", "torch"),
             "outputs": Value("tensor", "Tensor", "float32", 3), "targets": Value("list", "Tensor", items=targets),
             "sizes": sizes, RETURNED: Value("list", "tuple", items=(_pair(3), _pair(2)))}  # fmt: skip
    (only,) = _of_floats(_MATCHED, "rows = " if told == "sizes" else "sizes = ", known)
    assert not only.settings and f"the sizes of its results are those in {told}" in only.title
    assert "-> list[torch.Tensor]:" in only.source and ("sizes: list[int]" in only.source) == (told == "sizes")
    before, now = _ran(_MATCHED)["forward"], _ran(only.source)["forward"]
    torch._dynamo.reset()
    compiled = torch.compile(now, backend="eager", fullgraph=True)  # type: ignore[call-overload]
    for counts in ((3, 2), (1, 4, 2)):
        outputs = torch.randn(len(counts), 6, 4, requires_grad=True)
        targets = [torch.randn(count, 4) for count in counts]
        wanted = before(outputs, targets)  # type: ignore[operator]
        assert torch.equal(compiled(outputs, targets), wanted) and torch.equal(now(outputs, targets), wanted)  # type: ignore[operator]


def test_a_list_whose_length_nothing_tells_is_left_alone() -> None:
    known = {"cost": Value("tensor", "Tensor", "float32", 3, sizes=(7, 6, 5)), "torch": Value("module", "torch"),
             "sizes": Value("list", "int"), RETURNED: Value("list", "tuple", items=(_pair(3), _pair(2)))}  # fmt: skip
    assert not _of_floats(_MATCHED, "rows = ", known)


def test_an_argument_that_may_be_none_has_its_gradient_where_it_is_a_tensor() -> None:
    text = _RAGGED.replace("lengths, scale", "lengths, scale: torch.Tensor | None = None").replace(
        "part * scale", "part * (1.0 if scale is None else scale)"
    )
    x, lengths = Value("tensor", "Tensor", "float32", 3, sizes=(3, 5, 6)), Value("tensor", "Tensor", "int64", 1)
    known = {"x": x, "lengths": lengths, "scale": Value("tensor", "Tensor", "float32", 1, sizes=(6,)),
             RETURNED: Value("tensor", "Tensor", "float32", 3, sizes=(3, 4, 6))}  # fmt: skip
    plain, *_ = _of_floats(text, "tolist", known)
    before, now = _ran(text)["crops"], _ran(plain.source)["crops"]
    given, counts = torch.randn(3, 5, 6), torch.tensor([4, 2, 5])
    scale = torch.rand(6, requires_grad=True)
    (slope,) = torch.autograd.grad(before(given, counts, scale).sum(), scale)  # type: ignore[operator]
    torch._dynamo.reset()
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(now, backend="aot_eager", fullgraph=True)  # type: ignore[call-overload]
        assert torch.equal(torch.autograd.grad(compiled(given, counts, scale).sum(), scale)[0], slope)
    assert torch.equal(now(given, counts), before(given, counts))  # type: ignore[operator]

"""The drawing of kernels as areas."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynalyze.render.view.plots.drawing import Rect
from dynalyze.render.view.plots.treemap import kernel_treemap
from dynalyze.report import Kernel, KernelKind

WIDTH, HEIGHT = 760, 260


def kernel(number: int, ops: int = 1, calls: int = 1, kind: KernelKind = "cpp") -> Kernel:
    return Kernel("g1", f"kernel_{number}", kind, "forward", calls, [f"aten.op{each}" for each in range(ops)])


def rects(kernels: list[Kernel]) -> list[Rect]:
    plot = kernel_treemap(kernels)
    assert plot is not None
    return [shape for shape in plot.shapes if isinstance(shape, Rect)]


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9)), min_size=3, max_size=80))
def test_the_areas_fill_the_drawing_in_proportion(sizes: list[tuple[int, int]]) -> None:
    found = rects([kernel(number, ops, calls) for number, (ops, calls) in enumerate(sizes)])
    assert sum(each.width * each.height for each in found) == pytest.approx(WIDTH * HEIGHT, rel=0.02)
    for each in found:
        assert -0.1 <= each.x <= each.x + each.width <= WIDTH + 0.2
        assert -0.1 <= each.y <= each.y + each.height <= HEIGHT + 0.2
    total = sum(max(ops, 1) * calls for ops, calls in sizes)
    largest = max(max(ops, 1) * calls for ops, calls in sizes)
    share = found[0].width * found[0].height / (WIDTH * HEIGHT)
    assert share == pytest.approx(largest / total, rel=0.1, abs=0.002)


def test_no_two_overlap() -> None:
    found = rects([kernel(number, number % 7 + 1) for number in range(25)])
    for at, one in enumerate(found):
        for other in found[at + 1 :]:
            across = min(one.x + one.width, other.x + other.width) - max(one.x, other.x)
            down = min(one.y + one.height, other.y + other.height) - max(one.y, other.y)
            assert min(across, down) <= 0.2


def test_each_kind_is_told_in_words() -> None:
    plot = kernel_treemap([kernel(1, 3, 2), kernel(2, 2), kernel(3, 1, 1, "extern")])
    assert plot is not None
    assert plot.description == ("generated C++: 2 kernels with 8 operations; library call: 1 kernel with 1 operation")
    assert [words for _, words in plot.legend] == ["generated C++", "library call"]


def test_few_kernels_need_no_drawing_and_many_are_counted() -> None:
    assert kernel_treemap([kernel(1), kernel(2)]) is None
    plot = kernel_treemap([kernel(number) for number in range(10)], most=4)
    assert plot is not None
    assert "4 of 10 kernels are drawn" in plot.note


def test_each_area_leads_to_its_kernel() -> None:
    kernels = [kernel(1, 1), kernel(2, 5), kernel(3, 3)]
    plot = kernel_treemap(kernels, ["k1", "k2"])
    assert plot is not None
    assert plot.leads
    led = {shape.title.split()[1].rstrip(","): shape.anchor for shape in plot.shapes if isinstance(shape, Rect)}
    assert led == {kernels[0].name: "k1", kernels[1].name: "k2", kernels[2].name: ""}
    alone = kernel_treemap(kernels)
    assert alone is not None
    assert not alone.leads

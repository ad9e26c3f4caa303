"""`--shapes` and `--dim` on the command line, and the inputs that they resize."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dynalyze.capture.inputs import Inputs, Misuse
from dynalyze.capture.objects import prepare
from dynalyze.capture.shapes import Dim, fit, resized
from dynalyze.launch.shape_options import MOST_SHAPES, combinations, read_dims, read_shapes
from dynalyze.text.errors import UsageError


@pytest.mark.parametrize(
    ("texts", "means"),
    [
        (["batch=1,4", "sequence=128..512:128"], {"batch": (1, 4), "sequence": (128, 256, 384, 512)}),
        (["batch=1..3,sequence=128|512|2048"], {"batch": (1, 2, 3), "sequence": (128, 512, 2048)}),
        (["batch=1,4,sequence=8"], {"batch": (1, 4), "sequence": (8,)}),
        ([" batch = 1 | 2 , 5 "], {"batch": (1, 2, 5)}),
        (["n=1..10:4"], {"n": (1, 5, 9)}),
        (["n=2|2|1..2"], {"n": (2, 1)}),
        (["größe=7"], {"größe": (7,)}),
        ([], {}),
    ],
)
def test_sizes_by_name(texts: list[str], means: dict[str, tuple[int, ...]]) -> None:
    assert read_shapes(texts) == means


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "give names with their sizes"),
        ("4", "give names with their sizes"),
        ("batch", "give names with their sizes"),
        ("batch=", "'' is no size"),
        ("batch=1,,2", "'' is no size"),
        ("batch=0", "above zero"),
        ("batch=-1", "'-1' is no size"),
        ("batch=1.5", "'1.5' is no size"),
        ("batch=1...3", "is no size"),
        ("batch=8..1", "ends before it begins"),
        ("batch=1..8:0", "above zero"),
        ("batch=1:2", "'1:2' is no size"),
        ("batch=1..999999", "give a step"),
        ("2d=4", "'2d' is no name"),
        ("a b=4", "'a b' is no name"),
        ("batch=1,batch=2", "batch is given twice"),
        ("a=b=3", "'a=b' is no name"),
        ("batch=１", "is no size"),
    ],
)
def test_a_mistake_in_shapes_is_one_line(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=r"^--shapes ") as error:
        read_shapes([text])
    assert says in str(error.value)
    assert "\n" not in str(error.value)


@given(st.text(alphabet="ab=,|.:0123 -", max_size=20))
def test_nothing_but_a_clear_line_or_sizes_above_zero(text: str) -> None:
    try:
        found = read_shapes([text])
    except UsageError as error:
        assert "\n" not in str(error)
        return
    assert found
    assert all(sizes and min(sizes) > 0 and len(set(sizes)) == len(sizes) for sizes in found.values())


def test_every_combination_once_the_last_name_fastest() -> None:
    assert combinations({"b": (1, 2), "s": (8, 16)}) == [
        (("b", 1), ("s", 8)), (("b", 1), ("s", 16)), (("b", 2), ("s", 8)), (("b", 2), ("s", 16)),
    ]  # fmt: skip
    assert combinations({}) == [()]
    with pytest.raises(UsageError, match="6 combinations; at most 5"):
        combinations({"b": (1, 2), "s": (1, 2, 3)}, most=5)
    assert len(combinations({"b": range(1, MOST_SHAPES + 1)})) == MOST_SHAPES


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("batch=0:0", Dim("batch", "0", 0)),
        ("s=input_ids:-1", Dim("s", "input_ids", -1)),
        (" s = 01:2 ", Dim("s", "1", 2)),
    ],
)
def test_a_dim(text: str, means: Dim) -> None:
    assert read_dims([text, text]) == (means,)


@pytest.mark.parametrize(
    "text", ["", "batch", "batch=0", "batch=:0", "batch=x:y", "0=0:0", "batch=a.b:0", "batch=0:--1"]
)
def test_a_mistake_in_dim_is_one_line(text: str) -> None:
    with pytest.raises(UsageError, match=r"^--dim .*give NAME=INPUT:AXIS, e\.g\. "):
        read_dims([text])


# ---- the inputs


def forward(ids: torch.Tensor, mask: torch.Tensor | None = None, scale: float = 1.0) -> torch.Tensor:
    return ids if mask is None else ids * mask * scale


def test_values_are_cut_off_or_repeated() -> None:
    tensor = torch.tensor([[1, 2, 3], [4, 5, 6]])
    assert fit(tensor, 1, 2).tolist() == [[1, 2], [4, 5]]
    assert fit(tensor, -1, 7).tolist() == [[1, 2, 3, 1, 2, 3, 1], [4, 5, 6, 4, 5, 6, 4]]
    assert fit(tensor, 0, 3).tolist() == [[1, 2, 3], [4, 5, 6], [1, 2, 3]]


@given(
    shape=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    axis=st.integers(0, 3),
    size=st.integers(1, 9),
    order=st.randoms(),
    grad=st.booleans(),
)
def test_a_resized_tensor_is_of_the_same_kind(
    shape: list[int], axis: int, size: int, order: object, grad: bool
) -> None:
    axis %= len(shape)
    permuted = list(range(len(shape)))
    order.shuffle(permuted)  # type: ignore[attr-defined]
    tensor = torch.rand(shape, dtype=torch.float64).permute(permuted).requires_grad_(grad)
    made = fit(tensor, axis, size)
    assert made.shape[axis] == size
    assert [n for at, n in enumerate(made.shape) if at != axis] == [
        n for at, n in enumerate(tensor.shape) if at != axis
    ]
    assert (made.dtype, made.requires_grad, made.is_leaf) == (tensor.dtype, grad, True)
    assert all(torch.equal(made.select(axis, at), tensor.select(axis, at % tensor.shape[axis])) for at in range(size))
    steps = [step for _, step in sorted(zip(tensor.stride(), made.stride(), strict=True), reverse=True)]
    assert sorted(steps, reverse=True) == steps or 1 in (*tensor.shape, *made.shape)


def test_an_input_is_found_by_position_keyword_and_parameter() -> None:
    ids, mask = torch.arange(6).view(2, 3), torch.ones(2, 3)
    dims = [Dim("n", "0", 0), Dim("n", "mask", 0), Dim("other", "0", 1)]
    (by_keyword,) = resized([Inputs((ids,), {"mask": mask})], dims, {"n": 5}, forward)
    (by_position,) = resized([Inputs((ids, mask, 2.0), {})], dims, {"n": 5}, forward)
    assert by_keyword.args[0].shape == by_keyword.kwargs["mask"].shape == (5, 3)
    assert by_position.args[0].shape == by_position.args[1].shape == (5, 3)
    assert by_position.args[2] == 2.0
    assert ids.shape == (2, 3)


@pytest.mark.parametrize(
    ("dim", "says"),
    [
        (Dim("n", "7", 0), "without such an input; it has positions 0 to 2"),
        (Dim("n", "gone", 0), "without such an input"),
        (Dim("n", "1", 2), r"has no axis 2, its shape is \[2, 3\]"),
        (Dim("n", "2", 0), "is no tensor, it is of type float"),
    ],
)
def test_what_cannot_be_resized_is_one_line(dim: Dim, says: str) -> None:
    call = Inputs((torch.ones(2, 3), torch.ones(2, 3), 1.0), {})
    with pytest.raises(Misuse, match=says) as error:
        resized([call], [dim], {"n": 4}, forward)
    assert str(error.value).startswith(f"--dim n={dim.input}:{dim.axis}: ")


# ---- the factory


def make(batch: int = 1, width: int = 4) -> tuple[torch.nn.Module, tuple[torch.Tensor]]:
    return torch.nn.Linear(width, 2), (torch.ones(batch, width),)


def anything(**sizes: int) -> tuple[torch.nn.Module, tuple[torch.Tensor]]:
    return make(**sizes)


@pytest.mark.parametrize("factory", [make, anything])
def test_a_factory_is_called_with_the_sizes(factory: Callable[..., object]) -> None:
    model, (call,) = prepare(factory, "make", ModuleType("sizes"), [], {"batch": 3, "width": 5})
    assert model.in_features == 5
    assert call.args[0].shape == (3, 5)


@pytest.mark.parametrize("target", [make, torch.nn.Linear(4, 4), torch.nn.ReLU, lambda x, height=1: x, 3])
def test_what_is_no_factory_for_a_name_says_what_to_do(target: object) -> None:
    with pytest.raises(Misuse, match=r"^--shapes height: it is no factory") as error:
        prepare(target, "it", ModuleType("sizes"), [], {"height": 3})
    assert "--dim height=INPUT:AXIS" in str(error.value)

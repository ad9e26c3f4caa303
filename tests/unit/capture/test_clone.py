"""Frozen inputs keep values, aliases, strides and structure, and nothing done later changes them."""

from __future__ import annotations

import gc
import threading
from collections import OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dynalyze.capture.clone import CannotClone, freeze
from dynalyze.capture.nested_values import describe_call, sign

BUDGET = 1 << 24
Pair = namedtuple("Pair", "left right")


@dataclass(frozen=True)
class Frozenish:
    x: torch.Tensor
    sizes: list[int] = field(default_factory=list)


class Layer:
    def __init__(self) -> None:
        self.keys: torch.Tensor | None = None

    def update(self, new: torch.Tensor) -> None:
        self.keys = new if self.keys is None else torch.cat([self.keys, new])


class Marked:
    last_op: str | None = None
    size: list[int]
    names: list[str]

    def __init__(self) -> None:
        self.x = torch.ones(1)


class Slotted:
    __slots__ = ("__hidden", "x")

    def __init__(self, x: torch.Tensor) -> None:
        self.x = x
        self.__hidden = [x]

    def hidden(self) -> torch.Tensor:
        return self.__hidden[0]


def test_views_of_one_buffer_stay_views_of_one_buffer() -> None:
    buffer = torch.arange(24.0).reshape(4, 6)
    value = (buffer[1:3], buffer[:, 2], buffer.view(torch.int32)[1], buffer[0].expand(3, 6))
    rows, column, bits, expanded = freeze(value, BUDGET).thaw()

    assert torch.equal(rows, value[0]) and torch.equal(column, value[1]) and torch.equal(bits, value[2])
    assert [t.stride() for t in (rows, column, bits, expanded)] == [t.stride() for t in value]
    rows[0, 2] = -1.0
    assert column[1] == -1.0
    assert bits[2] != value[2][2]
    assert buffer[1, 2] == 8.0


def test_a_copy_begins_in_its_storage_where_the_tensor_does_and_is_aligned_alike() -> None:
    rows = torch.arange(44.0 * 16).reshape(44, 16)
    memory = bytearray(256)
    begins = torch.frombuffer(memory, dtype=torch.uint8).data_ptr()
    misplaced = torch.frombuffer(memory, dtype=torch.float32, offset=(16 - begins) % 64)
    for tensor in (rows, rows[:16], rows[1:3], rows[16:], misplaced):
        copy = freeze(tensor, BUDGET).thaw()
        assert torch.equal(copy, tensor)
        assert copy.storage_offset() == tensor.storage_offset()
        assert tensor.data_ptr() % 16 or copy.data_ptr() % 64 == tensor.data_ptr() % 64
    far = freeze(torch.zeros(1 << 19)[-5:], BUDGET).thaw()
    assert far.storage_offset() == (1 << 19) - 5 and far._base.shape == (1 << 19,)
    whole = torch.zeros(44, 16)
    for value in ((whole[1:3], whole), (whole, whole[1:3])):  # Whichever is met first.
        one, other = sorted(freeze(value, BUDGET).thaw(), key=len)
        assert one._base is other


def test_later_changes_do_not_reach_the_frozen_value_and_each_thaw_is_fresh() -> None:
    x = torch.ones(3)
    layer = Layer()
    layer.update(x)
    frozen = freeze({"x": x, "cache": [layer]}, BUDGET)
    layer.update(torch.zeros(2))
    x.add_(5)

    first, second = frozen.thaw(), frozen.thaw()
    assert first["x"].tolist() == [1, 1, 1]
    assert first["cache"][0].keys is first["x"]
    first["cache"][0].update(torch.zeros(4))
    first["x"].zero_()
    assert second["cache"][0].keys.tolist() == [1, 1, 1]


def test_grad_history_is_cut_and_requires_grad_kept() -> None:
    leaf = torch.ones(3, requires_grad=True)
    inner, plain = freeze((leaf * 2, leaf.detach()), BUDGET).thaw()
    assert inner.is_leaf and inner.requires_grad and inner.tolist() == [2, 2, 2]
    assert not plain.requires_grad


def test_modules_parameters_and_functions_are_kept_by_reference() -> None:
    module = torch.nn.Linear(2, 2)
    lock = threading.Lock()
    value = {"model": module, "all": [module], "weight": module.weight, "f": torch.relu, "lock": lock}
    frozen = freeze(value, BUDGET)
    thawed = frozen.thaw()
    assert all(thawed[key] is value[key] for key in ("model", "weight", "f", "lock"))
    assert thawed["all"][0] is module and thawed["all"] is not value["all"]
    assert frozen.referenced == {"lock"}


def test_containers_and_objects_keep_their_classes() -> None:
    x = torch.ones(2)
    value = [
        Pair(x, x),
        OrderedDict(a=x),
        defaultdict(list, {1: [x]}),
        deque([x], maxlen=3),
        Frozenish(x, [1, 2]),
        Slotted(x),
        torch.ones(2, 2).max(dim=0),
        {"s": frozenset({1}), "t": {2}},
    ]
    pair, ordered, default, queue, data, slotted, maximum, plain = freeze(value, BUDGET).thaw()
    assert isinstance(pair, Pair) and pair.left is pair.right is ordered["a"] is default[1][0] is queue[0] is data.x
    assert default["new"] == [] and queue.maxlen == 3 and data.sizes == [1, 2] and data.sizes is not value[4].sizes
    assert slotted.hidden() is slotted.x is data.x
    assert maximum.values.tolist() == [1, 1] and type(maximum) is type(value[6])
    assert plain == value[7]


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.eye(3).to_sparse(),
        lambda: torch.randn(3, dtype=torch.complex64).conj(),
        lambda: torch.randn(4, 3).to(torch.bfloat16).t(),
        lambda: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8),
        lambda: torch.empty(0, 3),
        lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged),
        lambda: torch.ones(3).as_subclass(type("Mine", (torch.Tensor,), {})),
        lambda: torch.eye(3).to_sparse().coalesce().values(),
        lambda: torch.eye(3).to_sparse_csr().values(),
        lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]).unbind()[1],
        lambda: torch.randn(3, dtype=torch.complex64).imag,
    ],
    ids=[
        "sparse",
        "conjugate",
        "transposed",
        "quantized",
        "empty",
        "nested",
        "subclass",
        "values of sparse",
        "values of rows",
        "part of nested",
        "imaginary",
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_unusual_tensors(make: Any) -> None:
    tensor = make()
    thawed = freeze([tensor], BUDGET).thaw()[0]
    assert type(thawed) is type(tensor) and thawed.layout == tensor.layout and thawed.dtype == tensor.dtype
    assert thawed.is_conj() == tensor.is_conj() and thawed is not tensor
    assert str(thawed) == str(tensor)


def test_meta_tensors_have_no_bytes_and_stand_ins_are_refused() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    frozen = freeze(torch.empty(1 << 30, 4, device="meta"), budget=10)
    assert frozen.nbytes == 0 and frozen.thaw().shape == (1 << 30, 4)
    with FakeTensorMode():
        fake = torch.empty(2)
    with pytest.raises(CannotClone, match="FakeTensor"):
        freeze([fake], BUDGET)


def test_inference_tensors_stay_what_they_are() -> None:
    with torch.inference_mode():
        made = torch.ones(2)
        outside = freeze((made, torch.zeros(1)), BUDGET)
    ordinary = torch.ones(2)
    with torch.inference_mode():
        inside = freeze(ordinary, BUDGET).thaw()
    assert outside.thaw()[0].is_inference() and not inside.is_inference()


def test_no_mode_of_the_program_sees_the_copy() -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func)
            return func(*args, **(kwargs or {}))

    x = torch.ones(3)
    version, state = x._version, torch.get_rng_state()
    with Watch():
        frozen = freeze([x], BUDGET)
    assert seen == [] and x._version == version and torch.equal(torch.get_rng_state(), state)
    assert torch.equal(frozen.thaw()[0], x)


def test_signature_counts_what_a_compiler_guards_on() -> None:
    layer = Layer()
    layer.update(torch.ones(3))
    base = ((torch.ones(2, 3), 1, "a", None), {"cache": layer})
    same = sign(base)
    assert sign(((torch.zeros(2, 3), 1, "a", None), {"cache": layer})) == same
    others = [
        ((torch.ones(3, 3), 1, "a", None), {"cache": layer}),
        ((torch.ones(3, 2).t(), 1, "a", None), {"cache": layer}),
        ((torch.ones(2, 3).double(), 1, "a", None), {"cache": layer}),
        ((torch.ones(2, 3, requires_grad=True), 1, "a", None), {"cache": layer}),
        ((torch.ones(2, 3), 1.0, "a", None), {"cache": layer}),
        ((torch.ones(2, 3), True, "a", None), {"cache": layer}),
        ((torch.ones(2, 3), 1, "b", None), {"cache": layer}),
        ((torch.ones(2, 3), 1, "a", 0), {"cache": layer}),
    ]
    assert len({same, *map(sign, others)}) == 1 + len(others)
    layer.update(torch.ones(1))
    assert sign(base) != same
    bare, again = Marked(), Marked()
    again.last_op = None  # As its class says: compiled code leaves it so.
    assert sign(again) == sign(bare)
    bare.size, bare.names = [4], ["x"]
    again.names, again.size = ["x"], [4]
    assert sign(again) == sign(bare)
    again.last_op = "cat"
    assert sign(again) != sign(bare)
    x = torch.ones(2)
    assert sign(([x, x], {})) != sign(([x, torch.ones(2)], {}))
    assert (
        describe_call(same) == "(Tensor[2, 3] float32, 1, str of length 1, None, cache=Layer(keys=Tensor[3] float32))"
    )


BUFFERS = [torch.arange(60.0), torch.arange(60, dtype=torch.int64), torch.randn(3, 4, 5)]


@st.composite
def views(draw: st.DrawFn) -> torch.Tensor:
    """A view, of any strides and offset, of one of a few buffers, so that views often overlap."""
    buffer = BUFFERS[draw(st.integers(0, 2))]
    size = draw(st.lists(st.integers(0, 3), max_size=3))
    stride = [draw(st.integers(0, 6)) for _ in size]
    return buffer.as_strided(size, stride, draw(st.integers(0, 20)))


nested = st.recursive(
    views() | st.integers() | st.text(max_size=3) | st.none(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=2), inner, max_size=3)
        | st.tuples(inner, inner).map(lambda pair: Pair(*pair))
        | inner.map(lambda value: (value, [value]))
    ),
    max_leaves=10,
)


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else []
    return [tensor for item in items for tensor in _tensors(item)]


def _overlaps(tensors: list[torch.Tensor]) -> list[list[int]]:
    """The place of every element of every tensor, numbered as met: equal lists mean the same sharing."""
    order: dict[int, int] = {}
    return [[order.setdefault(place, len(order)) for place in _addresses(tensor)] for tensor in tensors]


def _addresses(tensor: torch.Tensor) -> list[int]:
    offsets = [0]
    for size, step in zip(tensor.shape, tensor.stride(), strict=True):
        offsets = [offset + i * step for offset in offsets for i in range(size)]
    return [tensor.data_ptr() + offset * tensor.element_size() for offset in offsets]


@settings(max_examples=60)
@given(nested)
def test_any_nested_value_comes_back_alike(value: Any) -> None:
    thawed = freeze(value, BUDGET).thaw()
    assert sign(thawed) == sign(value)
    before, after = _tensors(value), _tensors(thawed)
    assert all(torch.equal(a, b) and a.stride() == b.stride() for a, b in zip(before, after, strict=True))
    assert _overlaps(after) == _overlaps(before)
    assert not {t.data_ptr() for t in before if t.numel()} & {t.data_ptr() for t in after if t.numel()}


class Scratch:
    """Removes its folder as it goes; a copy of it would too."""

    removed: ClassVar[list[str]] = []

    def __init__(self, path: str) -> None:
        self.path = path

    def __del__(self) -> None:
        self.removed.append(self.path)


def test_what_has_a_finalizer_is_not_copied() -> None:
    scratch = Scratch("here")
    with pytest.raises(CannotClone, match="Scratch has a __del__"):
        freeze({"scratch": scratch}, BUDGET)
    gc.collect()
    assert Scratch.removed == []
    del scratch
    assert Scratch.removed == ["here"]

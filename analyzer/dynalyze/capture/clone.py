"""Copies of a call's inputs that nothing the program does later can change.

`freeze` copies the bytes of all tensors to host memory, so that recording never takes memory of an accelerator from
the program, and `Frozen.thaw` makes the inputs anew as often as wanted. Two tensors that shared a storage share one
again, strides and offsets are kept (an expanded tensor stays expanded), and one object met twice stays one object.
Parameters and modules are the program's own and stay so: they are kept by reference.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from dynalyze.capture.nested_values import Copier, NotCopied, leaves
from dynalyze.capture.torch_private import compiled_calls

_ALIGNMENT = 64
_MOST_BEFORE = 1 << 20
_REFERENCED = (
    torch.nn.Module,
    torch.optim.Optimizer,
    torch.utils.data.Dataset,
    torch.utils.data.DataLoader,
    torch.utils.data.Sampler,
)
_OWN = (torch.nn.Parameter, *_REFERENCED)


class CannotClone(Exception):
    """Some input cannot be copied; the text says which and why."""


class CloneTooLarge(CannotClone):
    """The copy would be larger than allowed."""


@dataclass(slots=True, eq=False)
class StorageRange:
    """The bytes of one storage that the tensors of one value reach, from the lowest to the highest. In a fresh one they
    begin at `begins`; it begins so many bytes after an aligned address as are `skipped`.
    """

    source: torch.UntypedStorage | None
    device: torch.device
    low: int
    high: int
    skipped: int = 0
    begins: int = 0
    data: torch.Tensor | None = None

    @property
    def nbytes(self) -> int:
        return 0 if self.device.type == "meta" else max(0, self.high - self.low)

    def load(self) -> None:
        """Copy the bytes and let go of the program's storage."""
        source, self.source = self.source, None
        assert source is not None
        if self.nbytes:
            address = source.data_ptr()
            # Kernels are chosen by alignment too: keep the address modulo 64 where that is possible. Guards ask where
            # in its storage a slice begins.
            self.skipped = address % _ALIGNMENT if address % 16 == 0 else 0
            self.begins = self.low if self.low <= _MOST_BEFORE else _ALIGNMENT + self.low % _ALIGNMENT
            view = torch.empty(0, dtype=torch.uint8, device=self.device)
            view.set_(source, self.low, (self.nbytes,), (1,))
            self.data = torch.empty(self.nbytes, dtype=torch.uint8, device="cpu").copy_(view)

    def storage(self) -> torch.UntypedStorage:
        """A fresh storage on the original device with these bytes in it."""
        lead = self.skipped + self.begins
        made = torch.empty(lead + max(0, self.high - self.low), dtype=torch.uint8, device=self.device)
        if self.data is not None:
            made[lead:].copy_(self.data)
        return made.untyped_storage()[self.skipped :] if self.skipped else made.untyped_storage()


@dataclass(slots=True, eq=False)
class TensorCopy:
    """What a tensor was: a view of a region, or, where it has no plain storage, a copy of the whole."""

    requires_grad: bool
    inference: bool
    attributes: dict[str, Any]
    region: StorageRange | None = None
    whole: torch.Tensor | None = None
    dtype: torch.dtype | None = None
    size: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()
    start: int = 0
    conjugate: bool = False

    def thaw(self, storages: dict[int, torch.UntypedStorage]) -> torch.Tensor:
        made = _copy_of(self.whole) if self.whole is not None else self._view(storages)
        made.__dict__.update(_copied_marks(self.attributes))
        return made.requires_grad_() if self.requires_grad else made

    def _view(self, storages: dict[int, torch.UntypedStorage]) -> torch.Tensor:
        region = self.region
        assert region is not None
        with compiled_calls.unobserved():
            storage = storages.get(id(region))
            if storage is None:
                storage = storages[id(region)] = region.storage()
            with torch.inference_mode(self.inference), torch.no_grad():
                made = torch.empty(0, dtype=self.dtype, device=region.device)
                offset = (region.begins + self.start - region.low) // made.element_size()
                made.set_(storage, offset, self.size, self.stride)
                return made.conj() if self.conjugate else made


@dataclass(slots=True)
class Frozen:
    """A nested value with every tensor replaced by what it was."""

    value: Any
    nbytes: int
    referenced: frozenset[str] = frozenset()

    def held(self) -> Iterator[Any]:
        """The program's own objects in it, which are kept by reference."""
        yield from (each for each in leaves(self.value, objects=False) if isinstance(each, _OWN))

    def thaw(self) -> Any:
        """The value as it was when it was frozen, in fresh tensors."""
        storages: dict[int, torch.UntypedStorage] = {}

        def leaf(value: Any) -> Any:
            return value.thaw(storages) if isinstance(value, TensorCopy) else _copy_leaf(value)

        return Copier(leaf).copy(self.value)


def freeze(value: Any, budget: int) -> Frozen:
    """Copy a nested value of the running program.

    Raises OverBudget, with nothing copied, where its tensors and arrays hold more than `budget` bytes, and CannotClone
    where it holds a tensor without values, too many objects, or one with a `__del__`.
    """
    freezer = _Freezer(budget)
    copier = Copier(freezer.leaf)
    try:
        frozen = copier.copy(value)
    except NotCopied as error:
        raise CannotClone(str(error)) from error
    return Frozen(frozen, freezer.load(), frozenset(copier.referenced))


@dataclass(slots=True)
class _Freezer:
    budget: int
    spent: int = 0
    regions: dict[int, StorageRange] = field(default_factory=dict)

    def leaf(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter):
            return self._tensor(value)
        if _is_array(value):
            self._spend(value.nbytes)
        return _copy_leaf(value)

    def load(self) -> int:
        """Copy the bytes of all regions met, and return the size of everything."""
        for region in self.regions.values():
            self._spend(region.nbytes)
        if not self.regions:
            return self.spent
        with compiled_calls.unobserved():
            for region in self.regions.values():
                region.load()
        return self.spent

    def _spend(self, nbytes: int) -> None:
        self.spent += nbytes
        if self.spent > self.budget:
            raise CloneTooLarge(f"{self.spent:,} bytes, {self.budget:,} are left")

    def _tensor(self, tensor: torch.Tensor) -> TensorCopy:
        if compiled_calls.is_stand_in(tensor):
            raise CannotClone(f"a {type(tensor).__name__} holds no values")
        plain = type(tensor) is torch.Tensor
        marks = {name: item for name, item in vars(tensor).items() if plain or name.startswith("_dynamo")}
        kept = TensorCopy(tensor.requires_grad, tensor.is_inference(), _copied_marks(marks))
        if plain and tensor.layout is torch.strided and not (tensor.is_quantized or tensor.is_neg()):
            self._place(tensor, kept)
        else:
            self._spend(tensor.numel() * tensor.element_size())
            kept.whole = _copy_of(tensor)
        return kept

    def _place(self, tensor: torch.Tensor, kept: TensorCopy) -> None:
        width = tensor.element_size()
        kept.dtype, kept.size, kept.stride = tensor.dtype, tuple(tensor.shape), tensor.stride()
        kept.conjugate = tensor.is_conj()
        kept.start = tensor.storage_offset() * width
        end = kept.start
        if tensor.numel():
            end += (1 + sum((n - 1) * step for n, step in zip(kept.size, kept.stride, strict=True))) * width
        storage = tensor.untyped_storage()
        if end > storage.nbytes() and tensor.numel():
            raise CannotClone("the storage of a tensor was freed")
        region = self.regions.get(storage._cdata)
        if region is None:
            region = StorageRange(storage, tensor.device, kept.start, end)
            self.regions[storage._cdata] = region
        region.low, region.high = min(region.low, kept.start), max(region.high, end)
        kept.region = region


def _copy_leaf(value: Any) -> Any:
    if isinstance(value, (torch.Tensor, *_REFERENCED)):  # Of tensors only parameters come here.
        return value
    if isinstance(value, torch.Generator):
        return value.clone_state()
    if _is_array(value):
        return value if value.dtype.hasobject else value.copy(order="K")
    return NotImplemented


def _is_array(value: Any) -> bool:
    """Whether it is a NumPy array, without importing NumPy for those who do not have it."""
    return isinstance(value, getattr(sys.modules.get("numpy"), "ndarray", ()))


def _copy_of(tensor: torch.Tensor) -> torch.Tensor:
    """A copy of the whole, of the same class."""
    with compiled_calls.unobserved_but_for_subclasses():
        made = tensor.detach().clone()
        return made if type(made) is type(tensor) else made.as_subclass(type(tensor))


def _copied_marks(marks: dict[str, Any]) -> dict[str, Any]:
    """Attributes set on a tensor, as mark_dynamic does: their sets must not be shared with the program's."""
    return {name: copy.copy(item) if isinstance(item, (set, dict, list)) else item for name, item in marks.items()}

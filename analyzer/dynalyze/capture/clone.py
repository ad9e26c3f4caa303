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
_MOST_UNWRITTEN, _MOST_ELSEWHERE = 1 << 30, 1 << 20
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
    """The bytes of one storage that the tensors of one value reach, from the lowest to the highest. `end` is that of
    the tensors that they are views of: of these only the shape is kept. In a fresh storage the bytes begin at
    `begins`; it begins so many bytes after an aligned address as are `skipped`.
    """

    source: torch.UntypedStorage | None
    device: torch.device
    low: int
    high: int
    end: int = 0
    skipped: int = 0
    begins: int = 0
    data: torch.Tensor | None = None

    @property
    def nbytes(self) -> int:
        return 0 if self.device.type == "meta" else max(0, self.high - self.low)

    @property
    def keeps_offsets(self) -> bool:
        """Whether a fresh storage is as large: memory that is not written takes none on a CPU."""
        most = _MOST_UNWRITTEN if self.device.type == "cpu" else _MOST_ELSEWHERE
        return max(self.end, self.low) <= most

    def load(self) -> None:
        """Copy the bytes and let go of the program's storage."""
        source, self.source = self.source, None
        assert source is not None
        # Guards ask where in its storage a slice begins.
        self.begins = self.low if self.keeps_offsets else _ALIGNMENT + self.low % _ALIGNMENT
        if self.nbytes:
            address = source.data_ptr()
            # Kernels are chosen by alignment too: keep the address modulo 64 where that is possible.
            self.skipped = address % _ALIGNMENT if address % 16 == 0 else 0
            view = torch.empty(0, dtype=torch.uint8, device=self.device)
            view.set_(source, self.low, (self.nbytes,), (1,))
            self.data = torch.empty(self.nbytes, dtype=torch.uint8, device="cpu").copy_(view)

    def storage(self) -> torch.UntypedStorage:
        """A fresh storage on the original device with these bytes in it."""
        lead = self.skipped + self.begins
        after = lead + max(0, self.high - self.low)
        size = max(after, self.skipped + self.end) if self.keeps_offsets else after
        made = torch.UntypedStorage(size, device=self.device)
        if self.data is not None:
            bytes_of = torch.empty(0, dtype=torch.uint8, device=self.device).set_(made, lead, self.data.shape, (1,))
            bytes_of.copy_(self.data)
        return made[self.skipped :] if self.skipped else made


@dataclass(slots=True, eq=False)
class TensorCopy:
    """What a tensor was: a view of a region, or, where it has no plain storage, a copy of the whole. Guards ask for the
    shape of the tensor that it is a view of, `base`.
    """

    requires_grad: bool = False
    inference: bool = False
    attributes: dict[str, Any] = field(default_factory=dict)
    region: StorageRange | None = None
    whole: torch.Tensor | None = None
    dtype: torch.dtype | None = None
    size: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()
    start: int = 0
    conjugate: bool = False
    base: TensorCopy | None = None

    def thaw(self, fresh: Thawed) -> torch.Tensor:
        made = fresh.tensors.get(id(self))
        if made is None:
            made = _copy_of(self.whole) if self.whole is not None else self._view(fresh)
            made.__dict__.update(_copied_marks(self.attributes))
            fresh.tensors[id(self)] = made.requires_grad_() if self.requires_grad else made
        return made

    def note_layout(self, tensor: torch.Tensor) -> int:
        """Note where in its storage the tensor is; returns the byte after it."""
        width = tensor.element_size()
        self.dtype, self.size, self.stride = tensor.dtype, tuple(tensor.shape), tensor.stride()
        self.conjugate = tensor.is_conj()
        self.start = tensor.storage_offset() * width
        if not tensor.numel():
            return self.start
        last: int = sum((n - 1) * step for n, step in zip(self.size, self.stride, strict=True))
        end: int = self.start + (1 + last) * width
        return end

    def _view(self, fresh: Thawed) -> torch.Tensor:
        region = self.region
        assert region is not None
        with compiled_calls.unobserved():
            if self.base is not None and region.keeps_offsets:
                base = self.base.thaw(fresh)
                with torch.inference_mode(False), torch.enable_grad():
                    return base.as_strided(self.size, self.stride, self.start // base.element_size())
            storage = fresh.storages.get(id(region))
            if storage is None:
                storage = fresh.storages[id(region)] = region.storage()
            with torch.inference_mode(self.inference), torch.no_grad():
                made = torch.empty(0, dtype=self.dtype, device=region.device)
                offset = (region.begins + self.start - region.low) // made.element_size()
                made.set_(storage, offset, self.size, self.stride)
                return made.conj() if self.conjugate else made


@dataclass(slots=True)
class Thawed:
    """What was made for one value: storages by the id of their region, and tensors by that of their copy."""

    storages: dict[int, torch.UntypedStorage] = field(default_factory=dict)
    tensors: dict[int, torch.Tensor] = field(default_factory=dict)


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
        fresh = Thawed()

        def leaf(value: Any) -> Any:
            return value.thaw(fresh) if isinstance(value, TensorCopy) else _copy_leaf(value)

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
    copies: dict[int, TensorCopy] = field(default_factory=dict)
    bases: list[torch.Tensor] = field(default_factory=list)  # Kept alive, for the ids of `copies` to stay theirs.

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
        kept = self.copies.setdefault(id(tensor), TensorCopy())
        kept.requires_grad, kept.inference = tensor.requires_grad, tensor.is_inference()
        kept.attributes = _copied_marks(marks)
        if plain and tensor.layout is torch.strided and not (tensor.is_quantized or tensor.is_neg()):
            self._place(tensor, kept)
        else:
            self._spend(tensor.numel() * tensor.element_size())
            kept.whole = _copy_of(tensor)
        return kept

    def _place(self, tensor: torch.Tensor, kept: TensorCopy) -> None:
        end = kept.note_layout(tensor)
        storage = tensor.untyped_storage()
        if end > storage.nbytes() and tensor.numel():
            raise CannotClone("the storage of a tensor was freed")
        region = self.regions.get(storage._cdata)
        if region is None:
            region = StorageRange(storage, tensor.device, kept.start, end)
            self.regions[storage._cdata] = region
        region.low, region.high = min(region.low, kept.start), max(region.high, end)
        kept.region = region
        if (base := _base_of(tensor)) is not None:
            self.bases.append(base)
            kept.base = self.copies.setdefault(id(base), TensorCopy(region=region))
            region.end = max(region.end, kept.base.note_layout(base))


def _base_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """The tensor that it is a view of; None where that has a gradient, or is looked at in another way."""
    base = tensor._base
    if base is None or type(base) is not torch.Tensor or base.is_nested or base.layout is not torch.strided:
        return None
    if base.requires_grad or tensor.requires_grad or base.is_inference() or tensor.is_inference():
        return None
    alike = base.dtype is tensor.dtype and not (tensor.is_conj() or base.is_conj() or base.is_neg())
    return base if alike and base.untyped_storage()._cdata == tensor.untyped_storage()._cdata else None


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

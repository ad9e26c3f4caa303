"""Whether two tensors hold the same."""

from __future__ import annotations

import torch

_LARGE = 4096  # Elements from which on a second look is worth its start.


def _same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether they are known to be the same bit by bit: for large tensors this takes less than half the time."""
    if one.numel() < _LARGE or not (one.is_contiguous() and other.is_contiguous()):
        return False
    try:
        return bool(torch.equal(one.flatten().view(torch.int64), other.flatten().view(torch.int64)))
    except RuntimeError:  # Their number of bytes, or their place in a storage, is not one of whole int64.
        return False


def identical(one: torch.Tensor, other: torch.Tensor, *, signs: bool = False) -> bool:
    """Whether two tensors hold the same, NaN at the same places included. With `signs` 0.0 and -0.0 differ."""
    if (one.shape, one.dtype, one.layout) != (other.shape, other.dtype, other.layout):
        return False
    if one.layout is not torch.strided:
        one, other = one.to_dense(), other.to_dense()
    if _same_bits(one, other):
        return True
    same = torch.equal(one, other) or (
        one.is_floating_point() and bool(torch.all((one == other) | (one.isnan() & other.isnan())))
    )
    return same and (not signs or _same_signs(one, other))


def _same_signs(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether equal tensors have zeros of the same sign."""
    if one.is_complex():
        one, other = torch.view_as_real(one.resolve_conj()), torch.view_as_real(other.resolve_conj())
    if not one.is_floating_point():
        return True
    if one.element_size() == 1:  # Few operations take a float of 8 bits.
        one, other = one.float(), other.float()
    return bool(torch.all((torch.signbit(one) == torch.signbit(other)) | one.isnan()))

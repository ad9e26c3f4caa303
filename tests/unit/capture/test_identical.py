"""Two tensors that hold the same, bit by bit or but for the sign of a zero."""

from __future__ import annotations

import pytest
import torch

from dynalyze.capture.bench.compare import identical


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64, torch.float8_e4m3fn])
def test_zeros_of_another_sign(dtype: torch.dtype) -> None:
    one, other = torch.tensor([0.0, 1.0]).to(dtype), torch.tensor([-0.0, 1.0]).to(dtype)
    assert identical(one, one.clone(), signs=True)
    assert identical(one, other) and not identical(one, other, signs=True)


def test_a_nan_has_no_sign() -> None:
    nan = torch.tensor([float("nan")])
    assert identical(nan, -nan, signs=True)


class Packed(torch.Tensor):
    """A tensor around another, which like many quantised ones answers to few operators."""

    @staticmethod
    def __new__(cls, inner: torch.Tensor, scale: float) -> Packed:
        made = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=torch.float32)
        made.inner, made.scale = inner, scale
        return made

    def __tensor_flatten__(self) -> tuple[list[str], float]:
        return ["inner"], self.scale

    @staticmethod
    def __tensor_unflatten__(inner: dict[str, torch.Tensor], scale: float, *_: object) -> Packed:
        return Packed(inner["inner"], scale)

    @classmethod
    def __torch_dispatch__(cls, *_: object) -> object:
        return NotImplemented  # So torch raises for whatever is asked.


def test_tensors_around_others_are_compared_by_what_is_in_them() -> None:
    whole = torch.arange(4, dtype=torch.int8)
    assert identical(Packed(whole, 0.5), Packed(whole.clone(), 0.5))
    assert not identical(Packed(whole, 0.5), Packed(whole + 1, 0.5))
    assert not identical(Packed(whole, 0.5), Packed(whole, 0.25))
    assert not identical(Packed(whole, 0.5), torch.arange(4.0))

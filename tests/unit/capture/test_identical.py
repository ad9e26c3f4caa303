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

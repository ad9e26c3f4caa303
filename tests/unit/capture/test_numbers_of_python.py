"""Arguments of whole numbers, given to what is compiled as numbers of Python."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from dynalyze.capture import hooks
from dynalyze.capture.numbers_of_python import compile_with_numbers, given_numbers, whole_numbers_among


class Cropping(torch.nn.Module):
    def forward(self, x: torch.Tensor, sizes: Any, mask: Any = None) -> torch.Tensor:
        return torch.cat([row[: size[0]] for row, size in zip(x, sizes, strict=True)])


SIZES = torch.tensor([[2], [3]])


def test_tensors_of_a_few_whole_numbers_are_found_by_place_and_by_name() -> None:
    x = torch.randn(2, 4)
    assert whole_numbers_among(Cropping(), (x, SIZES), {"mask": x > 0}) == ["sizes"]
    assert whole_numbers_among(Cropping(), (x,), {"sizes": SIZES, "mask": torch.ones(3, 4, 9).long()}) == ["sizes"]
    assert whole_numbers_among(max, (SIZES,), {}) == []


@pytest.mark.parametrize("named", [False, True])
def test_a_call_is_given_numbers_for_tensors_and_anything_else_as_it_is(named: bool) -> None:
    seen: list[Any] = []
    called = given_numbers(lambda *args, **kwargs: seen.append((args, kwargs)), Cropping(), ["sizes"])
    x = torch.randn(2, 4)
    called(x, sizes=SIZES) if named else called(x, SIZES)
    called(x, [[1], [2]], None, "more")
    (args, kwargs), other = seen
    assert (kwargs["sizes"] if named else args[1]) == [[2], [3]] and args[0] is x
    assert other == ((x, [[1], [2]], None, "more"), {})


def test_numbers_are_given_beside_the_tensor_under_a_name_of_their_own() -> None:
    seen: list[Any] = []
    called = given_numbers(lambda *args, **kwargs: seen.append((args, kwargs)), Cropping(), ["sizes_numbers=sizes"])
    x = torch.randn(2, 4)
    called(x, SIZES)
    called(x, sizes=SIZES)
    called(x, sizes=None)
    assert seen[0][1] == {"sizes_numbers": [[2], [3]]} and seen[0][0][1] is SIZES
    assert seen[1][1] == {"sizes": SIZES, "sizes_numbers": [[2], [3]]} and seen[2][1] == {"sizes": None}


def test_whoever_compiles_gets_one_graph_and_a_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", torch.compile)  # What is put in its place goes with the test.
    compile_with_numbers(torch, ["sizes"])
    try:
        torch._dynamo.reset()
        model = Cropping()
        compiled = torch.compile(model, backend="eager", fullgraph=True)

        @torch.compile(backend="eager", fullgraph=True)
        def cropped(x: torch.Tensor, sizes: Any) -> torch.Tensor:
            return model(x, sizes)

        assert isinstance(compiled, torch.nn.Module)
        for sizes in (SIZES, SIZES + 1):
            x = torch.randn(2, 4)
            assert torch.equal(compiled(x, sizes), model(x, sizes))
            assert torch.equal(cropped(x, sizes=sizes), model(x, sizes))
    finally:
        hooks.Patch(torch, "compile")

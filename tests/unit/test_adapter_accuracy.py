"""The switches that comparing numbers needs, and what is done where torch lacks one."""

from __future__ import annotations

import pytest
import torch

from dynalyze.capture import adapter_accuracy as adapter


def test_inductors_switches_hold_inside_and_not_after() -> None:
    config = torch._inductor.config
    before = config.fallback_random, config.emulate_precision_casts
    with adapter.comparable_code(emulate=True):
        assert config.fallback_random and config.emulate_precision_casts
    with adapter.comparable_code():
        assert config.fallback_random and not config.emulate_precision_casts
    assert (config.fallback_random, config.emulate_precision_casts) == before
    assert adapter.can_emulate("inductor")
    assert not adapter.can_emulate("aot_eager")


def test_without_inductors_settings_nothing_is_emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "_inductor_config", lambda: None)
    assert not adapter.can_emulate("inductor")
    with adapter.comparable_code(emulate=True):
        pass


def test_float32_is_multiplied_in_float32_inside_alone() -> None:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        with adapter.full_float32():
            assert torch.get_float32_matmul_precision() == "highest"
            assert not torch.backends.cudnn.allow_tf32
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision(before)


def test_which_operations_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    aten = torch.ops.aten
    assert adapter.draws_random_numbers(aten.native_dropout.default)
    assert adapter.draws_random_numbers(aten.bernoulli_.float)
    assert not adapter.draws_random_numbers(aten.mul.Tensor)
    assert not adapter.draws_random_numbers(aten._scaled_dot_product_flash_attention.default)
    monkeypatch.setattr(adapter, "_DRAWS", None)
    assert not adapter.draws_random_numbers(aten.native_dropout.default)


def test_compiled_parts_run_in_eager() -> None:
    calls: list[int] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[object]) -> object:
        def run(x: torch.Tensor) -> list[torch.Tensor]:
            calls.append(1)
            return [x + 1]

        return run

    torch._dynamo.reset()
    compiled = torch.compile(lambda x: torch.sin(x) + 1, backend=backend)
    x = torch.ones(2)
    before = adapter.compiled_frames()
    with adapter.nothing_compiled():
        assert torch.equal(compiled(x), torch.sin(x) + 1)
    assert not calls and adapter.compiled_frames() == before
    assert torch.equal(compiled(x), x + 1) and calls
    assert adapter.compiled_frames() == (before or 0) + 1
    torch._dynamo.reset()

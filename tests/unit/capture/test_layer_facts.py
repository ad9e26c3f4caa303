"""Layers, adapters and caches as a module shows them; classes here only bear the names of the libraries'."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from dynalyze.capture.inspecting import library_layers, modules


def layer(package: str, name: str, base: type = nn.Linear, **attributes: Any) -> nn.Module:
    """A layer whose class says that it comes from `package`."""
    made: nn.Module = type(name, (base,), {"__module__": package})(2, 2)
    vars(made).update(attributes)
    return made


def groups(module: nn.Module) -> list[dict[str, Any]]:
    return list(library_layers.quantised(module).get("layers", []))


@pytest.mark.parametrize(
    ("package", "name", "library"),
    [
        ("hqq.core.quantize", "HQQLinear", "hqq"),
        ("gptqmodel.nn_modules.qlinear.torch", "TorchQuantLinear", "gptqmodel"),
        ("optimum.quanto.nn.qlinear", "QLinear", "optimum"),
        ("transformers.integrations.fbgemm_fp8", "FbgemmFp8Linear", "fbgemm"),
        ("transformers.integrations.finegrained_fp8", "FP8Linear", "fp8"),
        ("bitsandbytes.nn.modules", "LinearNF4bit", "bitsandbytes"),
    ],
)
def test_a_quantiser_is_known_by_where_its_class_comes_from(package: str, name: str, library: str) -> None:
    (group,) = groups(nn.Sequential(nn.ReLU(), layer(package, name, bits=4, compute_dtype=torch.bfloat16)))
    assert (group["library"], group["kind"], group["count"], group["first"]) == (library, name, 1, "1")
    assert group["facts"] == {"bits": 4, "compute_dtype": "bfloat16"}


@pytest.mark.parametrize(
    ("package", "name"),
    [
        ("torch.nn.modules.linear", "Linear"),
        ("bitsandbytes.nn.modules", "StableEmbedding"),
        ("transformers.integrations.moe", "Linear"),
        ("mine.hqq", "HQQLinear"),
        ("peft.tuners.lora.bnb", "Linear4bit"),
    ],
)
def test_other_layers_are_not_quantised(package: str, name: str) -> None:
    assert library_layers.quantised(nn.Sequential(layer(package, name))) == {}


def test_layers_with_the_same_facts_are_one_group() -> None:
    eight = [layer("hqq.core", "HQQLinear", nbits=8) for _ in range(2)]
    four = layer("hqq.core", "HQQLinear", nbits=4)
    found = groups(nn.Sequential(eight[0], four, eight[1]))
    assert [(group["count"], group["first"], group["facts"]["nbits"]) for group in found] == [(2, "0", 8), (1, "1", 4)]


class Tuned(nn.Module):
    """What of PEFT's base class the facts are read from."""

    adapter_layer_names = ("lora_A",)
    _disable_adapters = False

    def __init__(self, ranks: dict[str, int]) -> None:
        super().__init__()
        self.lora_A = nn.ModuleDict({name: nn.Linear(4, rank) for name, rank in ranks.items()})
        self.r = dict(ranks)
        self.scaling: dict[str, Any] = dict.fromkeys(ranks, 2.0)
        self._active_adapter = [next(iter(ranks))]
        self.merged_adapters: list[str] = []


@pytest.fixture
def tuned(monkeypatch: pytest.MonkeyPatch) -> nn.Sequential:
    monkeypatch.setitem(library_layers.sys.modules, "peft.tuners.tuners_utils", SimpleNamespace(BaseTunerLayer=Tuned))
    return nn.Sequential(Tuned({"a": 4, "b": 8}), Tuned({"a": 2, "b": 8}))


def test_adapters_with_their_highest_ranks(tuned: nn.Sequential) -> None:
    facts = library_layers.adapters(tuned)["adapters"]
    assert (facts["names"], facts["active"], facts["ranks"]) == (["a", "b"], ["a"], {"a": 4, "b": 8})
    assert (facts["layers"], facts["merged"], facts["prepared_for_hotswap"]) == (2, False, False)


def test_each_change_between_two_looks_counts(tuned: nn.Sequential) -> None:
    counts = []
    for active, disabled in ((["a"], False), (["b"], False), (["b"], False), (["b"], True), (["b"], False)):
        for part in tuned:
            part._active_adapter, part._disable_adapters = active, disabled
        counts.append(library_layers.adapters(tuned)["adapters"]["switches"])
    assert counts == [0, 1, 1, 2, 3]


class Generating(nn.Module):
    def __init__(self, implementation: str | None, use_cache: bool = True) -> None:
        super().__init__()
        self.config = SimpleNamespace(use_cache=use_cache)
        self.generation_config = SimpleNamespace(cache_implementation=implementation, use_cache=use_cache)

    def generate(self) -> None: ...


@pytest.mark.parametrize(
    ("model", "cache"),
    [
        (Generating(None), {"cache": "dynamic"}),
        (Generating("static"), {"cache": "static"}),
        (Generating("sliding_window"), {"cache": "static"}),
        (Generating("quantized"), {"cache": "quantized"}),
        (Generating(None, use_cache=False), {}),
        (nn.Linear(2, 2), {}),
    ],
)
def test_the_cache_that_a_model_makes(model: nn.Module, cache: dict[str, str]) -> None:
    assert modules.cache(model) == cache
    assert modules.cache(nn.Sequential(model)) == cache

"""No false alarm: in architectures of transformers every operation of the compiled code is right, in both types."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("transformers")

import torch

from dynalyze.capture.bench.bisect import Bisector
from dynalyze.capture.bench.load import load
from dynalyze.capture.bench.wire import Configuration, WorkerRequest
from dynalyze.capture.hf.asked import Asked

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"), pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]  # fmt: skip

_ARCHITECTURES = (
    "LlamaModel", "BertModel", "GPT2Model", "T5Model", "ViTModel", "MixtralModel", "Qwen3Model", "Gemma2Model",
    "WhisperModel", "CLIPModel",
)  # fmt: skip


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def _check(name: str, dtype: str, stage: str, folder: Path) -> None:
    source = {"kind": "transformers", "name": name, **Asked().building()}
    workload = load(WorkerRequest(source, Configuration("tested"), dtype=dtype)).workload
    answer = Bisector(workload, Configuration("tested"), "cpu").take(
        "operations", {"stage": stage, "folder": str(folder)}
    )
    assert answer["fault"] is None
    assert answer["judged"] > 20 and not answer["problems"]


def test_a_clean_model_raises_no_alarm(tmp_path: Path) -> None:
    _check("LlamaModel", "bfloat16", "aot_autograd", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("name", _ARCHITECTURES)
def test_ten_clean_architectures_raise_none_under_inductor(name: str, dtype: str, tmp_path: Path) -> None:
    _check(name, dtype, "inductor", tmp_path)

"""No false alarm: in architectures of transformers answers and every operation of compiled code are right."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from slow_siblings import mostly_slow

pytest.importorskip("transformers")


from dynalyze.capture.bench.bisect import Bisector
from dynalyze.capture.bench.load import load
from dynalyze.capture.bench.protocol import Configuration, Phase, WorkerRequest
from dynalyze.capture.bench.workload import Workload
from dynalyze.capture.settings import ModelBuild

pytestmark = [
    pytest.mark.usefixtures("fresh_dynamo"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"), pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]  # fmt: skip

_ARCHITECTURES = (
    "BertModel", "LlamaForCausalLM", "GPT2LMHeadModel", "T5ForConditionalGeneration", "ViTModel", "MixtralForCausalLM",
    "WhisperForConditionalGeneration", "Qwen2ForCausalLM", "CLIPModel", "MambaForCausalLM",
)  # fmt: skip


def _workload(name: str, dtype: str, phase: Phase) -> Workload:
    source = {"kind": "library", "library": "hf", "name": name, **asdict(ModelBuild())}
    return load(WorkerRequest(source=source, configuration=Configuration("tested"), dtype=dtype, phase=phase))[0]


def _check_operations(workload: Workload, stage: str) -> None:
    answer = Bisector(workload, Configuration("tested"), "cpu").operations(stage)
    assert answer["fault"] is None
    assert answer["judged"] > 20 and not answer["problems"]


@pytest.mark.parametrize(("name", "dtype"), mostly_slow([("BertModel", "float32"), ("LlamaModel", "bfloat16")]))
def test_a_clean_model_raises_no_alarm(name: str, dtype: str) -> None:
    _check_operations(_workload(name, dtype, "forward"), "aot_autograd")


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("name", _ARCHITECTURES)
def test_the_training_of_ten_clean_architectures_raises_none(name: str, dtype: str) -> None:
    _check_operations(_workload(name, dtype, "train"), "aot_autograd")

"""A measuring process that builds the model of `hf:NAME` by itself."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest
from bench_process import BY_EAGER_BACKEND, EAGER, started

from dynalyze.capture.bench.protocol import WorkerRequest
from dynalyze.capture.settings import ModelBuild

pytest.importorskip("transformers")

pytestmark = pytest.mark.slow

OFFLINE = {"HF_HUB_OFFLINE": "1"}


def of_model(name: str, building: dict[str, Any] | None = None, **fields: Any) -> WorkerRequest:
    source = {"kind": "transformers", "name": name, **asdict(ModelBuild()), **(building or {})}
    return WorkerRequest(source=source, **{"configuration": EAGER, "threads": 1, **fields})


def test_decoding_is_compiled_and_valid() -> None:
    request = of_model(
        "LlamaForCausalLM", configuration=BY_EAGER_BACKEND, phase="decode", batch=3, sequence=12, new_tokens=2,
        static_cache=True,
    )  # fmt: skip
    with started(request, **OFFLINE) as worker:
        facts = worker.done("load")
        assert (facts["batch"], facts["sequence"], facts["tokens"], facts["calls"]) == (3, 12, 6, 2)
        assert facts["name"] == "LlamaForCausalLM"
        assert any("LlamaForCausalLM (llama) with" in note for note in facts["notes"])
        worker.done("warm", seconds=20, most=10)
        assert len(worker.done("block", passes=2)["samples_ms"]) == 2
        assert worker.done("check")["invalid"] == ""


def test_a_picture_has_a_batch_and_no_sequence() -> None:
    with started(of_model("ViTModel", batch=3), **OFFLINE) as worker:
        facts = worker.done("load")
        assert (facts["batch"], facts["sequence"], facts["items"]) == (3, None, 3)


def test_training_has_a_loss() -> None:
    with started(of_model("BertForSequenceClassification", phase="train", train=True), **OFFLINE) as worker:
        assert worker.done("load")["phase"] == "train"
        worker.done("warm", seconds=20, most=3)


@pytest.mark.parametrize(
    ("name", "fields", "kind", "says"),
    [
        ("LlamaModle", {}, "misuse", "LlamaModel"),
        ("LlamaModel", {"phase": "decode"}, "misuse", "LlamaModel has no generate()"),
        ("LlamaModel", {"building": {"attn_implementation": "none_such"}}, "load", "the model could not be built: "),
    ],
)
def test_what_cannot_be_had(name: str, fields: dict[str, Any], kind: str, says: str) -> None:
    with started(of_model(name, **fields), **OFFLINE) as worker:
        error = worker.refused("load")
    assert error["kind"] == kind
    assert says in error["message"]

"""Prefill, decode and generate of a real transformers model: the same work, whatever stands in for the model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch._dynamo
from torch._dynamo.utils import counters

from dynalyze.capture.bench.language import LanguageWorkload
from dynalyze.capture.inputs import Inputs, Misuse
from dynalyze.capture.settings import LANGUAGE_PHASES as PHASES

transformers = pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def model() -> Any:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=128, hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=4,
        num_key_value_heads=2,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config).eval()


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()


def one_pass(steps: list[Any]) -> list[torch.Tensor]:
    outputs = []
    for step in steps:
        step.prepare()
        output = step.run()
        outputs.append(getattr(output, "logits", output).clone())
    return outputs


@pytest.mark.parametrize(
    ("phase", "static"),
    [
        *((phase, phase == "decode") for phase in PHASES),
        *(pytest.param(phase, phase != "decode", marks=pytest.mark.slow) for phase in PHASES),
    ],
)
def test_every_pass_does_the_same_work(model: Any, phase: str, static: bool) -> None:
    workload = LanguageWorkload(model, phase, batch=2, sequence=9, new_tokens=3, static_cache=static)
    eager = workload.steps(model)
    compiled = workload.steps(torch.compile(model, backend="eager"))
    first, second = one_pass(eager), one_pass(eager)
    assert len(first) == (3 if phase == "decode" else 1)
    for one, two, other in zip(first, second, one_pass(compiled), strict=True):
        assert torch.equal(one, two)
        torch.testing.assert_close(other, one)
    assert counters["stats"]["unique_graphs"] >= 1
    graphs = counters["stats"]["unique_graphs"]
    one_pass(compiled)
    one_pass(compiled)
    assert counters["stats"]["unique_graphs"] == graphs  # A later pass compiles nothing.
    assert workload.tokens == 2 * (9 if phase == "prefill" else 3)


def test_decoding_goes_on_from_the_prompt(model: Any) -> None:
    """The logits of the first decode step are those of the whole sequence given at once."""
    workload = LanguageWorkload(model, "decode", batch=1, sequence=5, new_tokens=2)
    whole = torch.cat([workload.prompt, workload.following], dim=1)
    with torch.no_grad():
        expected = model(whole).logits[:, 5:]
    torch.testing.assert_close(torch.cat(one_pass(workload.steps(model)), dim=1), expected)


def test_generate_calls_the_stand_in_for_every_token(model: Any) -> None:
    workload = LanguageWorkload(model, "generate", batch=1, sequence=5, new_tokens=4)
    seen = []

    def stand_in(*args: Any, **kwargs: Any) -> Any:
        seen.append(kwargs["input_ids"].shape[1])
        return model(*args, **kwargs)

    (made,) = one_pass(workload.steps(stand_in))
    assert seen == [5, 1, 1, 1]
    assert made.shape == (1, 9)
    assert "forward" not in vars(model)


def test_the_models_own_tokens_are_the_prompt(model: Any) -> None:
    tokens = torch.arange(12).reshape(2, 6)
    workload = LanguageWorkload(model, "prefill", calls=[Inputs((), {"input_ids": tokens})])
    assert (workload.batch, workload.sequence) == (2, 6)
    assert torch.equal(workload.prompt, tokens)


def test_any_other_model_is_refused_with_its_name() -> None:
    with pytest.raises(Misuse, match="Linear has no generate"):
        LanguageWorkload(torch.nn.Linear(2, 2), "decode")
    with pytest.raises(Misuse, match="unknown phase"):
        LanguageWorkload(torch.nn.Linear(2, 2), "forward")


def test_what_goes_with_the_prompt_goes_with_all_of_it_and_with_nothing_after(model: Any) -> None:
    call = Inputs((), {"input_ids": torch.arange(12).reshape(2, 6), "attention_mask": torch.ones(2, 6), "marks": 1})
    workload = LanguageWorkload(model, "decode", batch=1, sequence=4, calls=[call])
    assert workload.beside == {}  # A prompt of another size is another one.
    workload = LanguageWorkload(model, "generate", calls=[call])
    assert workload.beside == {"marks": 1}
    assert workload.arguments(workload.prompt, None, 0)["marks"] == 1
    assert "marks" not in workload.arguments(workload.following, None, 6)
    arguments = workload.generate_arguments()
    assert {"input_ids", "marks"} <= arguments.keys() and "attention_mask" not in arguments


def test_an_encoder_has_generate_alone() -> None:
    torch.manual_seed(0)
    config = transformers.T5Config(
        vocab_size=128, d_model=32, d_kv=8, d_ff=48, num_layers=1, num_heads=4, decoder_start_token_id=0
    )
    model = transformers.T5ForConditionalGeneration(config).eval()
    tokens = torch.arange(2, 14).reshape(2, 6)
    inputs = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "decoder_input_ids": tokens[:, :1]}
    for phase in ("prefill", "decode"):
        with pytest.raises(Misuse, match="T5ForConditionalGeneration has an encoder"):
            LanguageWorkload(model, phase, calls=[Inputs((), inputs)])
    workload = LanguageWorkload(model, "generate", calls=[Inputs((), inputs)], new_tokens=3)
    assert (workload.batch, workload.sequence, workload.tokens) == (2, None, 6)
    (eager,), (compiled,) = (
        one_pass(workload.steps(each)) for each in (model, torch.compile(model.forward, backend="eager"))
    )
    assert eager.shape == (2, 4)  # The decoder begins with a token of its own.
    assert torch.equal(eager, compiled)

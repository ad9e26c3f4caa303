"""What a name after `hf:` means. Nothing here imports torch's models: the lists come from transformers' own index."""

from __future__ import annotations

import pytest

from dynalyze.capture.inputs import Misuse
from dynalyze.capture.libraries.hf import names

pytest.importorskip("transformers")


@pytest.mark.parametrize(("name", "model"), [("llama", "LlamaModel"), ("LlamaConfig", "LlamaModel"), ("t5", "T5Model")])
def test_a_type_or_config_means_its_bare_model(name: str, model: str) -> None:
    assert names.resolve(name) == ("class", model)


@pytest.mark.parametrize("name", ["LamaModel", "llamaForCausalLm", "BertModle"])
def test_a_wrong_name_gets_one_line_with_the_nearest(name: str) -> None:
    with pytest.raises(Misuse) as raised:
        names.resolve(name)
    assert "\n" not in str(raised.value)
    assert {"LamaModel": "LlamaModel", "llamaForCausalLm": "LlamaForCausalLM", "BertModle": "BertModel"}[name] in str(
        raised.value
    )


def test_a_class_that_picks_others_is_refused() -> None:
    with pytest.raises(Misuse, match="picks an architecture"):
        names.resolve("AutoModelForCausalLM")


def test_all_lists_the_models_that_stand_for_themselves() -> None:
    every = names.listed("all")
    assert every == sorted(set(every))
    assert {"BertModel", "GPT2Model", "LlamaForCausalLM", "T5ForConditionalGeneration"} <= set(every)
    assert all(name.endswith(("Model", "ForCausalLM", "ForConditionalGeneration")) for name in every)
    assert not {"AutoModel", "PreTrainedModel", "LlamaPreTrainedModel", "BartPretrainedModel"} & set(every)
    assert len(every) > 400


def test_a_glob_reaches_all_heads() -> None:
    found = names.listed("Bert*")
    assert {"BertModel", "BertForMaskedLM", "BertForQuestionAnswering"} <= set(found)
    assert not {"BertLayer", "BertPreTrainedModel", "BertConfig"} & set(found)
    assert names.listed("Nothing*") == []

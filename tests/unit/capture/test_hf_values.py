"""Tensors for the inputs of models of transformers, checked on models that need none of it installed."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from dynalyze.capture.libraries.building import ModelRequest  # noqa: E402
from dynalyze.capture.libraries.hf.inputs import text  # noqa: E402
from dynalyze.capture.libraries.hf.inputs.input_builder import InputBuilder, Placeholder  # noqa: E402


class Config:
    """A configuration as far as inputs look at one."""

    model_type = "planted"

    def __init__(self, **fields: Any) -> None:
        vars(self).update(fields)

    def to_dict(self) -> dict[str, Any]:
        return vars(self)


class Reader(torch.nn.Module):
    def __init__(self, config: Any, rows: int = 32) -> None:
        super().__init__()
        self.config = config
        self.table = torch.nn.Embedding(rows, 4)

    def get_input_embeddings(self) -> torch.nn.Module:
        return self.table

    def forward(
        self, input_ids: Any, attention_mask: Any = None, mm_token_type_ids: Any = None, **options: Any
    ) -> None: ...


def made(model: Any = None, **request: Any) -> InputBuilder:
    model = model or Reader(Config(vocab_size=32, pad_token_id=0, eos_token_id=[30, 31]))
    return InputBuilder(model, ModelRequest("planted", **request))


def test_forward_tells_what_it_takes_and_what_it_needs() -> None:
    of = made()
    assert set(of.takes) == {"input_ids", "attention_mask", "mm_token_type_ids"}
    assert [name for name in of.takes if of.needs(name)] == ["input_ids"]
    assert of.needs("input_ids")
    of.inputs["input_ids"] = None
    assert not of.needs("input_ids")
    assert not of.wants("input_ids")


def test_tokens_stay_in_the_vocabulary_and_off_special_ids() -> None:
    drawn = made().tokens((50, 50))
    assert set(drawn.unique().tolist()) == set(range(1, 30))


def test_floats_have_the_dtype_of_the_model_and_the_seed_decides() -> None:
    half = Reader(Config(vocab_size=32)).to(torch.float16)
    one, same, other = (made(half, seed=seed).floats((8,)) for seed in (1, 1, 2))
    assert one.dtype == torch.float16
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_text_has_a_placeholder_for_each_feature_between_its_own_tokens() -> None:
    of = made(batch=3, sequence=5)
    of.placeholders.append(Placeholder(7, 4, "audio", begin=8))
    text.add(of)
    ids = of.inputs["input_ids"]
    assert ids.shape == (3, 5 + 1 + 4)
    assert ids[:, 2].tolist() == [8, 8, 8]
    assert torch.equal(of.inputs["mm_token_type_ids"], (ids == 7) * 3)
    assert ids[0, 3:7].tolist() == [7] * 4
    assert torch.equal(of.inputs["attention_mask"], torch.ones_like(ids))

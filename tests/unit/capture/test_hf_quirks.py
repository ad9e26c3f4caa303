"""Quirks of single architectures: whom they name, and what the rows of tables do."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dynalyze.capture.libraries.hf import quirks

pytest.importorskip("torch")

_CONFIGURATION = re.compile(r"^class (\w+)\(.*?(?=^class |\Z)", re.MULTILINE | re.DOTALL)
_MODEL_TYPE = re.compile(r'^    model_type\b[^=\n]*= "(.+)"', re.MULTILINE)


def _types_of_transformers() -> set[str]:
    """The model type of every configuration that has one, and the class of every one that has none."""
    found = find_spec("transformers")
    if found is None or found.origin is None:
        pytest.skip("needs transformers")
    names = set()
    for file in Path(found.origin).parent.glob("models/*/configuration_*.py"):
        for statement in _CONFIGURATION.finditer(file.read_text(encoding="utf-8")):
            told = _MODEL_TYPE.search(statement[0])
            names.add(told[1] if told else statement[1])
    return names


def test_every_model_type_with_a_quirk_is_one_of_transformers() -> None:
    quirks.load()
    named = {model_type for kind in quirks.KINDS for model_type in kind.functions}
    assert {"openai-gpt", "t5gemma", "Qwen3OmniMoeTalkerConfig"} <= named
    assert sorted(named - _types_of_transformers()) == []


def test_a_model_type_has_one_quirk_of_a_kind() -> None:
    kind = quirks.Kind("shrinks")
    kind("bert", "albert")(lambda config: None)
    with pytest.raises(ValueError, match="albert has two quirks of the kind 'shrinks'"):
        kind("albert")(lambda config: None)


def test_a_quirk_is_for_the_type_that_it_names_and_a_configuration_without_one_goes_by_its_class() -> None:
    class NamelessConfig:
        model_type = ""
        layers = 4

    kind = quirks.Kind("shrinks")
    kind("openai-gpt", "NamelessConfig")(lambda config: setattr(config, "layers", 1))
    configs = [*(SimpleNamespace(model_type=name, layers=4) for name in ("openai-gpt", "gpt2")), NamelessConfig()]
    for config in configs:
        kind.apply(config)
    assert [config.layers for config in configs] == [1, 4, 1]


def test_fields_that_are_kept_equal_follow_the_other_part() -> None:
    vision, text = SimpleNamespace(projection_dim=2048), SimpleNamespace(hidden_size=64)
    config = SimpleNamespace(model_type="janus", vision_config=vision, text_config=text)
    for kind in (quirks.completes, quirks.shrinks):
        text.hidden_size += 64
        kind.apply(config)
        assert vision.projection_dim == text.hidden_size


def test_inputs_of_a_row_are_made_where_forward_takes_them_and_none_takes_one_away() -> None:
    builder: Any = SimpleNamespace(inputs={"labels": 1, "kept": 2}, takes={"labels", "made"}, placeholders=[])
    config = SimpleNamespace(model_type="planted", size=3)
    values = {"labels": None, "made": lambda b, c: c.size, "not_taken": 5, "placeholder": lambda b, c: b.inputs["made"]}
    quirks._change(builder, config, values)
    assert builder.inputs == {"kept": 2, "made": 3}
    assert builder.placeholders == [3]
    quirks._add(builder, config, values)
    assert builder.placeholders == [3], "its inputs were made already"

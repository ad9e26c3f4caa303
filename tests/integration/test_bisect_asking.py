"""Differences that are the program's own: it asks whether it is compiled, and the line that asks is found."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from accuracy_runs import calls

from dynalyze.capture.bench.bisect import Bisector, fewest_places
from dynalyze.capture.bench.call_workload import CallsWorkload
from dynalyze.capture.bench.protocol import Configuration
from dynalyze.capture.inputs import Inputs
from dynalyze.capture.torch_private import compile_questions
from dynalyze.capture.torch_private.compile_questions import AskingLine

_asked = torch.compiler.is_compiling  # As `from torch.compiler import is_compiling` leaves it in a module.


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    yield
    torch._dynamo.reset()


def _is_tracing(x: torch.Tensor) -> bool:
    """Hands the question on, as the function of this name of transformers does."""
    return x is not None and torch.compiler.is_compiling()


def _alike(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if torch.compiler.is_compiling() else 1 + x


def _other(x: torch.Tensor) -> torch.Tensor:
    return x * 1.5 if _is_tracing(x) else x


def _plain(x: torch.Tensor) -> torch.Tensor:
    return x


class OneOfTwo(torch.nn.Module):
    """Asks at two places, and does otherwise at one of them."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _other(_alike(x))


class Both(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x * 2 if _asked() else x
        return x + 3 if torch.compiler.is_dynamo_compiling() else x


class Refuses(torch.nn.Module):
    """Eager refuses what compiled answers."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not torch.compiler.is_compiling() and x.sum() > 0:
            raise ValueError("too large")
        return x * 2


class Alike(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _alike(x) * 2


class NotTheCause(torch.nn.Module):
    """Compiled differs, and not for the question that is asked: Dynamo traces another function."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _plain(_alike(x))


def _places(model: Callable[..., Any]) -> list[dict[str, Any]]:
    torch.manual_seed(0)
    workload = calls(model, torch.rand(4, 8) + 1)
    places = Bisector(workload, Configuration("tested", backend="eager"), "cpu").own_source()["places"]
    assert all(linecache.getline(at["file"], at["line"]).strip() == at["code"] for at in places)
    return list(places)


def test_of_two_places_that_ask_the_one_that_does_otherwise_is_named() -> None:
    (place,) = _places(OneOfTwo())
    assert (place["function"], place["file"]) == ("_other", __file__)
    assert place["code"] == "return x * 1.5 if _is_tracing(x) else x"  # The line that asks, not the one that hands on.


def test_where_it_takes_two_places_both_are_named() -> None:
    assert sorted(at["line"] for at in _places(Both())) == [
        Both.forward.__code__.co_firstlineno + number for number in (1, 2)
    ]


def test_what_eager_refuses_and_compiled_answers_may_be_the_programs_own_too() -> None:
    assert [at["function"] for at in _places(Refuses())] == ["forward"]


def test_a_question_that_changes_nothing_is_not_blamed() -> None:
    assert _places(Alike()) == []


def test_a_question_that_is_not_the_cause_is_not_blamed() -> None:
    @torch.compiler.substitute_in_graph(_plain)
    def traced_instead(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    x, model = torch.ones(2), NotTheCause()
    assert not torch.equal(torch.compile(model, backend="eager")(x), model(x))
    assert _places(model) == []


def test_a_question_that_cannot_be_replaced_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_questions, "_can_be_replaced", lambda question: False)
    assert _places(OneOfTwo()) == []


def test_the_functions_are_left_as_they_were() -> None:
    questions = compile_questions.questions()
    assert {torch.compiler.is_compiling, torch.compiler.is_dynamo_compiling} <= questions.keys()
    assert all(questions.values())
    codes = {question: question.__code__ for question in questions}  # type: ignore[attr-defined]
    with pytest.raises(RuntimeError), compile_questions.answering(questions, lambda place: True):
        assert _asked() and torch.compiler.is_compiling()
        raise RuntimeError
    assert codes == {question: question.__code__ for question in questions}  # type: ignore[attr-defined]
    assert not torch.compiler.is_compiling()


def test_code_of_torch_is_never_told() -> None:
    questions = compile_questions.questions()
    with compile_questions.answering(questions, lambda place: True) as places:
        torch.cond(torch.tensor(True), lambda: torch.ones(1), lambda: torch.zeros(1))
    assert places == []


@pytest.mark.parametrize("needed", [{0}, {9}, {3, 4}, {0, 5, 9}])
def test_the_fewest_places_are_found_wherever_they_are(needed: set[int]) -> None:
    places = [AskingLine("net.py", number, "forward") for number in range(10)]
    tried = []

    def explains(some: Any) -> bool:
        tried.append(some)
        return needed <= {each.line for each in some}

    assert {each.line for each in fewest_places(explains, places)} == needed
    assert len(tried) <= 5 * len(needed) + 1


@pytest.mark.slow
def test_paligemma_skips_its_mask_in_eager_alone() -> None:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    size = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    vision = {"model_type": "siglip_vision_model", "image_size": 28, "patch_size": 14, "projection_dim": 32, **size}
    text = {"model_type": "gemma", "num_key_value_heads": 1, "head_dim": 16, "vocab_size": 128, **size}
    config = transformers.PaliGemmaConfig(
        vision_config=vision, text_config=text, image_token_index=100, projection_dim=32, hidden_size=32
    )
    model = transformers.PaliGemmaModel(config).eval()
    ids = torch.cat([torch.full((2, 4), config.image_token_id), torch.randint(1, 90, (2, 6))], 1)
    inputs = {"pixel_values": torch.randn(2, 3, 28, 28), "input_ids": ids, "attention_mask": torch.ones_like(ids)}
    workload = CallsWorkload(model, [Inputs((), inputs)], phase="forward", grad=False)
    answer = Bisector(workload, Configuration("tested", backend="eager"), "cpu").own_source()
    (place,) = answer["places"]
    assert place["function"] == "_ignore_causal_mask_sdpa"
    assert "is_tracing" in place["code"] and place["file"].endswith("masking_utils.py")
    model.set_attn_implementation("eager")  # What the advice names: with it there is nothing to explain.
    with torch.no_grad():
        torch._dynamo.reset()
        compiled = torch.compile(model, backend="eager")(**inputs)
        assert torch.equal(model(**inputs).last_hidden_state, compiled.last_hidden_state)

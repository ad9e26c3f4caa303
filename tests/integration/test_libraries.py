"""Models of timm and diffusers by name, against what the libraries themselves say of them."""

from __future__ import annotations

import importlib.util

import pytest
import torch

from dynalyze.capture.inputs import Misuse
from dynalyze.capture.libraries import library, library_facts
from dynalyze.capture.libraries.request import Built, ModelRequest


def built(target: str, **request: object) -> Built:
    prefix, _, name = target.partition(":")
    if importlib.util.find_spec(library_facts(prefix).package) is None:  # Imported only beside what mends its imports.
        pytest.skip(f"needs {library_facts(prefix).package}")
    return library(prefix).build(ModelRequest(name, prefix, **request))  # type: ignore[arg-type]


def outputs(made: Built) -> list[object]:
    with torch.no_grad():
        return [made.model(*call.args, **call.kwargs) for call in made.calls]


class TestTimm:
    def test_a_model_is_small_unless_it_keeps_its_size(self) -> None:
        small, whole = built("timm:resnet50"), built("timm:resnet50", full_size=True)
        import timm

        assert whole.parameters == sum(each.numel() for each in timm.create_model("resnet50").parameters())
        assert small.parameters < whole.parameters and type(small.model) is type(whole.model)
        assert (small.family, small.class_name) == ("resnet", "ResNet")
        assert [tuple(call.args[0].shape) for call in whole.calls] == [(2, 3, 224, 224)]
        (logits,) = outputs(small)
        assert logits.shape == (2, 1000)  # type: ignore[attr-defined]

    def test_each_size_is_a_call(self) -> None:
        for name in "resnet18", "vit_tiny_patch16_224":  # Any size, and one that the model is made for.
            made = built(f"timm:{name}", size=(64, 96), batch=1)
            assert [tuple(call.args[0].shape) for call in made.calls] == [(1, 3, 64, 64), (1, 3, 96, 96)]
            assert len(outputs(made)) == 2

    def test_features_are_a_list_of_maps(self) -> None:
        (maps,) = outputs(built("timm:resnet18", features=True))
        assert isinstance(maps, list) and [each.dim() for each in maps] == [4] * 5

    def test_weights_that_are_not_here_fail_at_once(self) -> None:
        from dynalyze.capture.libraries.request import CannotBuild

        with pytest.raises(CannotBuild) as failed:
            built("timm:resnet18", weights=True)
        assert failed.value.stage == "weights"

    def test_a_name_that_is_not_there_gets_the_nearest(self) -> None:
        with pytest.raises(Misuse, match=r"no model 'resnet1' in the installed timm; did you mean resnet18"):
            built("timm:resnet1")

"""Models of timm and diffusers by name, against what the libraries themselves say of them."""

from __future__ import annotations

import importlib.util

import pytest
import torch

from dynalyze.capture.inputs import Misuse
from dynalyze.capture.libraries import library, library_facts
from dynalyze.capture.libraries.building import Built, ModelRequest


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
        assert (small.is_small, whole.is_small, whole.has_small_inputs) == (True, False, False)
        (logits,) = outputs(small)
        assert logits.shape == (2, 1000)  # type: ignore[attr-defined]

    @pytest.mark.parametrize("name", ["resnet18", "convnext_atto", "regnetx_002", "hiera_tiny_224"])
    def test_a_model_is_called_small_where_it_has_fewer_parameters(self, name: str) -> None:
        small, whole = built(f"timm:{name}"), built(f"timm:{name}", full_size=True)
        assert small.is_small == (small.parameters < whole.parameters)
        assert small.has_small_inputs == (small.calls[0].args[0].shape != whole.calls[0].args[0].shape)

    def test_each_size_is_a_call(self) -> None:
        for name in "resnet18", "vit_tiny_patch16_224":  # Any size, and one that the model is made for.
            made = built(f"timm:{name}", size=(64, 96), batch=1)
            assert [tuple(call.args[0].shape) for call in made.calls] == [(1, 3, 64, 64), (1, 3, 96, 96)]
            assert len(outputs(made)) == 2

    def test_features_are_a_list_of_maps(self) -> None:
        (maps,) = outputs(built("timm:resnet18", features=True))
        assert isinstance(maps, list) and [each.dim() for each in maps] == [4] * 5

    def test_weights_that_are_not_here_fail_at_once(self) -> None:
        from dynalyze.capture.libraries.building import CannotBuild

        with pytest.raises(CannotBuild) as failed:
            built("timm:resnet18", weights=True)
        assert failed.value.stage == "weights"

    def test_a_name_that_is_not_there_gets_the_nearest(self) -> None:
        with pytest.raises(Misuse, match=r"no model 'resnet1' in the installed timm; did you mean resnet18"):
            built("timm:resnet1")


@pytest.mark.filterwarnings("ignore::FutureWarning")  # Of diffusers to itself.
class TestDiffusers:
    def test_an_image_model_gets_what_its_signature_asks_for(self) -> None:
        made = built("diffusers:FluxTransformer2DModel", batch=3, size=(16, 32))
        one, other = (call.kwargs for call in made.calls)
        assert (one["hidden_states"].shape, other["hidden_states"].shape) == ((3, 16, 64), (3, 64, 64))
        assert one["img_ids"].shape == (16, 3) and one["txt_ids"].shape[0] == one["encoder_hidden_states"].shape[1]
        assert [each.sample.shape for each in outputs(made)] == [(3, 16, 64), (3, 64, 64)]  # type: ignore[attr-defined]

    def test_small_keeps_the_widths_of_what_comes_in(self) -> None:
        small = built("diffusers:UNet2DConditionModel")
        import diffusers

        assert small.model.config.cross_attention_dim == 1280 and small.model.config.in_channels == 4
        assert small.is_small and not built("diffusers:UNet2DConditionModel", full_size=True).is_small
        assert len(small.model.down_blocks) == len(diffusers.UNet2DConditionModel().down_blocks)
        (output,) = outputs(small)
        assert output.sample.shape == small.calls[0].kwargs["sample"].shape  # type: ignore[attr-defined]

    @pytest.mark.parametrize("name", ["AutoencoderKLWan", "CogVideoXTransformer3DModel", "StableAudioDiTModel"])
    def test_videos_and_sounds(self, name: str) -> None:
        made = built(f"diffusers:{name}")
        given = made.calls[0].kwargs.get("sample", made.calls[0].kwargs.get("hidden_states"))
        (output,) = outputs(made)
        assert output.sample.shape == given.shape and torch.isfinite(output.sample).all()  # type: ignore[attr-defined]

    def test_a_model_that_holds_others_holds_two(self) -> None:
        assert len(built("diffusers:MultiControlNetModel").model.nets) == 2

    def test_names(self) -> None:
        pytest.importorskip("diffusers")
        names = library("diffusers").listed("UNet2D*")
        assert names == ["UNet2DConditionModel", "UNet2DModel"]
        with pytest.raises(Misuse, match="did you mean FluxTransformer2DModel"):
            library("diffusers").resolve("FluxTransformer2D")

    @pytest.mark.parametrize("name", ["FluxPipeline", "WanPipeline"])
    def test_a_pipeline_runs_its_steps_and_compiles_what_repeats(self, name: str) -> None:
        made = built(f"diffusers:{name}", size=(16, 32), steps=2)
        steps: list[object] = []
        made.model.denoiser.register_forward_hook(lambda *_: steps.append(None))
        latents = [call.kwargs["hidden_states"].shape for call in made.calls]
        assert [each.shape for each in outputs(made)] == latents and len(steps) == 4  # type: ignore[attr-defined]
        (regions,) = made.model.compiled_regions.values()
        kinds = {type(made.model.get_submodule(each)).__name__ for each in regions}
        assert kinds == set(made.model.denoiser._repeated_blocks)

    def test_adapters_are_switched_between_calls(self) -> None:
        pytest.importorskip("peft")
        made = built("diffusers:FluxPipeline", steps=1, lora=True)
        (first, second), (again, _) = outputs(made), outputs(made)
        assert not torch.equal(first, second) and torch.equal(first, again)  # type: ignore[arg-type]

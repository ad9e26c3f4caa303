"""A pipeline's denoising loop: the model and the scheduler that its constructor names, without texts and decoding."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from dynalyze.capture.inputs import Inputs, Misuse

# What a pipeline calls the model that its steps run.
_DENOISERS = ("transformer", "unet")
# Where a pipeline takes any scheduler of a family.
_ANY_SCHEDULER = "EulerDiscreteScheduler"
_RANK = 4
_ADAPTED = ("to_q", "to_k", "to_v")


def parts_of(pipeline: Any) -> tuple[str, str]:
    """The names of the class of the model and of the scheduler. Raises Misuse where the pipeline has no such model."""
    import diffusers

    parameters = inspect.signature(pipeline.__init__).parameters
    annotations = {name: list(_classes(each.annotation)) for name, each in parameters.items()}
    found = [name for part in _DENOISERS for name in annotations.get(part, ()) if hasattr(diffusers, name)]
    if not found:
        raise Misuse(f"diffusers:{pipeline.__name__} has no model of diffusers that its steps would run")
    schedulers = [each for each in annotations.get("scheduler", ()) if isinstance(getattr(diffusers, each, None), type)]
    known = [name for name in schedulers if hasattr(getattr(diffusers, name), "set_timesteps")]
    return found[0], (known or [_ANY_SCHEDULER])[0]


def _classes(annotation: Any) -> Iterator[str]:
    """The names of the classes in an annotation, as a text too."""
    if isinstance(annotation, str):
        yield from (
            part.strip().rpartition(".")[2] for part in annotation.replace("[", "|").replace("]", "|").split("|")
        )
    elif arguments := typing.get_args(annotation):
        yield from (name for each in arguments for name in _classes(each))
    else:
        yield getattr(annotation, "__name__", "")


class DenoisingLoop(torch.nn.Module):  # type: ignore[misc]
    """Steps of a model and its scheduler on latents. `compiled_regions` are what diffusers' documentation compiles: the
    repeated blocks of a model that names them, else the model.
    """

    def __init__(self, denoiser: Any, scheduler: Any, steps: int, adapters: int) -> None:
        super().__init__()
        self.denoiser = denoiser
        self._scheduler, self._steps = scheduler, steps
        self._latents = "sample" if "sample" in inspect.signature(denoiser.forward).parameters else "hidden_states"
        self._adapters = [_adapter(denoiser, seed) for seed in range(adapters)]
        if self._adapters:
            denoiser.enable_lora_hotswap(target_rank=_RANK)
            denoiser.load_lora_adapter(self._adapters[0], adapter_name="default", prefix=None)
        repeated = getattr(denoiser, "_repeated_blocks", None) or ()
        blocks = [name for name, each in self.named_modules() if type(each).__name__ in repeated]
        self.compiled_regions = {type(self).__qualname__: blocks or ["denoiser"]}

    def calls(self, inputs: list[Inputs]) -> list[Inputs]:
        """Of calls to the model, calls to the loop: each of them with the adapter of its number."""
        adapters = len(self._adapters)
        return [
            Inputs((), {**call.kwargs, **({"adapter": number % adapters} if adapters else {})})
            for number, call in enumerate(inputs)
        ]

    def forward(self, adapter: int | None = None, **inputs: Any) -> Any:
        if adapter is not None:
            self.denoiser.load_lora_adapter(self._adapters[adapter], adapter_name="default", hotswap=True, prefix=None)
        latents, time = inputs.pop(self._latents), inputs.pop("timestep")
        self._scheduler.set_timesteps(self._steps, device=latents.device)
        for step in self._scheduler.timesteps:
            scale = getattr(self._scheduler, "scale_model_input", None)
            given = latents if scale is None else scale(latents, step)
            # A UNet takes the step as it is, a transformer one for each sample.
            inputs["timestep"] = step if self._latents == "sample" else step.expand(time.shape).to(latents.dtype)
            predicted = self.denoiser(**{self._latents: given}, **inputs, return_dict=False)[0]
            latents = self._scheduler.step(predicted, step, latents, return_dict=False)[0]
        return latents


def _adapter(model: Any, seed: int) -> Mapping[str, Any]:
    """The state of a LoRA adapter with random weights for the projections of attention."""
    generator, state = torch.Generator().manual_seed(seed), {}
    for name, each in model.named_modules():
        if isinstance(each, torch.nn.Linear) and name.rpartition(".")[2] in _ADAPTED:
            state[f"{name}.lora_A.weight"] = torch.randn(_RANK, each.in_features, generator=generator)
            state[f"{name}.lora_B.weight"] = torch.randn(each.out_features, _RANK, generator=generator)
    return state

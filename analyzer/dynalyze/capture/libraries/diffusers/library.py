"""diffusers as a `Library`: its model classes from small configurations, and the denoising loops of pipelines.

A loop has the model and the scheduler that the pipeline's constructor names, without texts and decoding.
"""

from __future__ import annotations

import contextlib
import fnmatch
import inspect
import sys
import typing
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from dynalyze.capture.inputs import Inputs, Misuse
from dynalyze.capture.libraries.building import Built, ModelRequest, built, near, place, quiet, random_weights, stage
from dynalyze.capture.libraries.diffusers.configs import defaults, small
from dynalyze.capture.libraries.diffusers.inputs import make_inputs

# How the names end that its package of models exports, and that are no model.
_NO_MODELS = ("AutoModel", "Mixin", "ParallelConfig", "BackendName")
# What a pipeline calls the model that its steps run.
_DENOISERS = ("transformer", "unet")
# Where a pipeline takes any scheduler of a family.
_ANY_SCHEDULER = "EulerDiscreteScheduler"
_RANK = 4
_ADAPTED = ("to_q", "to_k", "to_v")


def resolve(name: str) -> None:
    import diffusers

    if name in (known := listed("all")) or name in diffusers._import_structure["pipelines"]:
        return
    hint = near(name, [*known, *diffusers._import_structure["pipelines"]])
    raise Misuse(f"no model class and no pipeline {name!r} in the installed diffusers{hint}")


def listed(pattern: str) -> list[str]:
    """Model classes; pipelines too where the pattern says so, as `Flux*Pipeline`."""
    import diffusers

    exported = diffusers._import_structure["models"]
    names = {each for each in exported if each[0].isupper() and not each.endswith(_NO_MODELS)}
    if pattern.endswith("Pipeline"):
        names.update(each for each in diffusers._import_structure["pipelines"] if each.endswith("Pipeline"))
    return sorted(names if pattern == "all" else fnmatch.filter(names, pattern))


def build(request: ModelRequest) -> Built:
    resolve(request.name)
    import diffusers

    with quiet("diffusers"):
        with stage("model"):
            found = getattr(diffusers, request.name)
        is_pipeline = hasattr(found, "from_pretrained") and not hasattr(found, "forward")
        if request.lora and not is_pipeline:
            raise Misuse(f"--lora is for pipelines: {request.name} is a model")
        with stage("model"), random_weights(request):
            model, is_small = (_loop if is_pipeline else _random)(found, request)
        with stage("model"):
            place(model, request)
        with stage("inputs"):
            calls = make_calls(model, request)
    family = request.name if is_pipeline else found.__module__.rpartition(".")[2]
    return built(model, calls, family, is_small=is_small)


def _loop(pipeline: Any, request: ModelRequest) -> tuple[Any, bool]:
    import diffusers

    denoiser, scheduler = (getattr(diffusers, name) for name in parts_of(pipeline))
    model, is_small = _random(denoiser, request, pipeline.__name__)
    return DenoisingLoop(model, scheduler(), request.steps, adapters=2 if request.lora else 0), is_small


def _random(model_class: Any, request: ModelRequest, pipeline: str = "") -> tuple[Any, bool]:
    """The model, and whether it is smaller than its configuration."""
    config = defaults(model_class, pipeline)
    for name in {"controlnets", "adapters"} & set(inspect.signature(model_class.__init__).parameters):
        part = model_class.__name__.replace("Multi", "T2I" if name == "adapters" else "")  # It holds several of them.
        made = [_random(getattr(sys.modules["diffusers"], part), request) for _ in range(config.get(name, 2))]
        config[name] = [each for each, _ in made]
        return model_class(**config), any(is_small for _, is_small in made)
    if not request.full_size:
        with contextlib.suppress(Exception):
            return model_class(**(less := small(config))), less != config
    return model_class(**config), False


def make_calls(model: Any, request: ModelRequest) -> list[Inputs]:
    """Each size is a call; LoRA adapters are switched between two of one size where no other sizes are asked for."""
    dtype = next((each.dtype for each in model.parameters()), torch.float32)

    def placed(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.to(request.device or "cpu", dtype if value.is_floating_point() else None)
        return value

    def call(size: int | None) -> Inputs:
        made = make_inputs(denoiser, batch=request.batch or 2, size=size, seed=request.seed)
        return Inputs((), torch.utils._pytree.tree_map(placed, made.kwargs))

    denoiser = getattr(model, "denoiser", model)
    calls = [call(size) for size in request.size or (None,) * (2 if request.lora else 1)]
    return calls if denoiser is model else model.calls(calls)


def preload() -> None:
    import diffusers.models.modeling_utils  # noqa: F401


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
        for number, call in enumerate(inputs if self._adapters else ()):
            call.kwargs["adapter"] = number % len(self._adapters)
        return inputs

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

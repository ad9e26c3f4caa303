"""Builds the model classes of the installed diffusers, and denoising loops of them, with inputs. Runs in the child."""

from dynalyze.capture.libraries import LibraryFacts

FACTS = LibraryFacts(
    package="diffusers",
    models="a model class (diffusers:FluxTransformer2DModel) or a pipeline (diffusers:FluxPipeline)",
    example="diffusers:UNet2DConditionModel",
    options=frozenset({"full_size", "init", "size", "steps", "lora", "batch", "phase", "cold"}),
)

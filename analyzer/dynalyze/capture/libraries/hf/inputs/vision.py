"""Images and videos, in the form that forward's parameters tell: whole, in tiles, or as patches."""

from __future__ import annotations

from collections.abc import Callable

import torch

from dynalyze.capture.libraries.hf import quirks
from dynalyze.capture.libraries.hf.inputs import pixels
from dynalyze.capture.libraries.hf.inputs.input_builder import InputBuilder, extractor, parameters_of
from dynalyze.capture.libraries.hf.parts import first

# What forward takes beside pixels tells how it reads them; the first that it takes decides.
_FORMS: dict[str, Callable[[InputBuilder], None]] = {
    "image_grid_thw": lambda b: pixels.add_grid(b, "pixel_values", "image_grid_thw"),
    "grid_thw": lambda b: pixels.add_grid(b, "pixel_values", "grid_thw"),
    "spatial_shapes": pixels.add_packed,
    "image_position_ids": lambda b: pixels.add_positioned(b, "image_position_ids"),
    "pixel_position_ids": lambda b: pixels.add_positioned(b, "pixel_position_ids"),
    "target_sizes": pixels.add_strip,
    "aspect_ratio_ids": pixels.add_by_aspect,
    "pixel_attention_mask": pixels.add_several,
}


def add(builder: InputBuilder) -> None:
    """The inputs of models that see, and the points inside an image that prompt some of them."""
    if builder.name.endswith("ForKeypointMatching") and builder.wants("pixel_values"):
        # Pairs of images.
        builder.inputs["pixel_values"] = pixels.images(builder, 2)
    if builder.wants("input_points") and builder.wants("input_labels"):
        # One point of the object for each image: (batch, objects, points, 2), and 1 for "inside".
        edge = min(pixels.image_size(builder.config, builder.request.full_size))
        builder.inputs["input_points"] = builder.integers((builder.batch, 1, 1, 2), 0, edge).to(builder.dtype)
        builder.inputs["input_labels"] = builder.ones((builder.batch, 1, 1))
    # Videos where they are what the model is for, rather than something that its image encoder reads as well.
    about_videos = "video" in f"{builder.config.model_type} {builder.name}".lower()
    if builder.wants("pixel_values_videos") and ("pixel_values" not in builder.takes or about_videos):
        if "video_grid_thw" in builder.takes:
            pixels.add_grid(builder, "pixel_values_videos", "video_grid_thw", times=2)
        else:
            builder.inputs["pixel_values_videos"] = clips(builder)
    quirks.makes_pixels.apply(builder.config, builder)
    if builder.needs("hidden_states") and "grid_thw" in builder.takes:
        pixels.add_grid(builder, "hidden_states", "grid_thw")
    if builder.wants("pixel_values"):
        _add_pixels(builder)
    for name in ("image", "images"):
        if builder.needs(name) or (builder.wants(name) and "bbox" in builder.takes):
            builder.inputs[name] = pixels.images(builder)
    if builder.wants("flattened_patches"):
        pixels.add_flattened(builder)
    _add_what_goes_with_pixels(builder)


def clips(builder: InputBuilder) -> torch.Tensor:
    """A batch of clips: frames before channels."""
    height, width = pixels.image_size(builder.config, builder.request.full_size)
    frames = pixels.frames_or_few(builder.config)
    return builder.floats((builder.batch, frames, pixels.channels(builder.config), height, width))


def _add_pixels(builder: InputBuilder) -> None:
    form = next((form for name, form in _FORMS.items() if name in builder.takes), None)
    if form is not None:
        form(builder)
    elif _reads_sizes(builder):
        pixels.add_sized(builder)
    elif _reads_videos(builder):
        builder.inputs["pixel_values"] = clips(builder)
    else:
        builder.inputs["pixel_values"] = pixels.images(builder)
        if "pixel_values_local" in builder.takes:
            pixels.add_local_views(builder)


def _reads_videos(builder: InputBuilder) -> bool:
    """Whether what forward calls `pixel_values` are clips: its configuration counts frames. That of a model which
    reads any array (`inputs`) counts them for another head.
    """
    return pixels.frames(builder.config) is not None and "inputs" not in builder.takes


def _reads_sizes(builder: InputBuilder) -> bool:
    """Whether the images' sizes in pixels matter: to a choice of tiles, or to an encoder for images of any size."""
    if "image_sizes" not in builder.takes:
        return False
    extract = extractor(builder.model, "image")
    return (
        bool(getattr(builder.config, "image_grid_pinpoints", None))
        or "image_sizes" in parameters_of(pixels.encoder(builder.model).forward)
        or (extract is not None and parameters_of(extract).get("image_sizes", False))
    )


def _add_what_goes_with_pixels(builder: InputBuilder) -> None:
    """Masks and the like that a processor returns beside the pixels, or that forward cannot do without."""
    if builder.wants("pixel_mask") and "pixel_values" in builder.inputs:
        shape = builder.inputs["pixel_values"].shape
        builder.inputs["pixel_mask"] = builder.ones((*shape[:-3], *shape[-2:]))
    guesses = "MaskedImageModeling" in builder.name or "ForPreTraining" in builder.name
    if builder.needs("bool_masked_pos") or (builder.wants("bool_masked_pos") and guesses):
        builder.inputs["bool_masked_pos"] = _masked_patches(builder)


def _masked_patches(builder: InputBuilder) -> torch.Tensor:
    """Half of the patches, the same ones in every sample: models want as many of each."""
    height, width = pixels.image_size(builder.config, builder.request.full_size)
    edge = pixels.patch_size(builder.config)
    count = (height // edge) * (width // edge)
    if _reads_videos(builder):  # A patch is of as many frames as the model takes together.
        count *= pixels.frames_or_few(builder.config) // int(first(builder.config, "tubelet_size", default=1))
    masked = builder.full((builder.batch, count), 0).bool()
    masked[:, ::2] = True
    return masked

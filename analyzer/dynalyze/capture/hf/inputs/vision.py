"""Images and videos, in the form that forward's parameters tell: whole, in tiles, or as patches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynalyze.capture.hf import quirks
from dynalyze.capture.hf.inputs import geometry, patches, tiles
from dynalyze.capture.hf.inputs.features import extractor, required_parameters
from dynalyze.capture.hf.inputs.made import forward_parameters
from dynalyze.capture.hf.inputs.values import first, floats, integers, ones, zeros

if TYPE_CHECKING:
    import torch

    from dynalyze.capture.hf.inputs.made import Made


def add(made: Made) -> None:
    """The inputs of models that see, and the points inside an image that prompt some of them."""
    if made.name.endswith("ForKeypointMatching") and made.wants("pixel_values"):
        # Pairs of images.
        made.inputs["pixel_values"] = tiles.images(made, 2)
    if made.wants("input_points") and made.wants("input_labels"):
        _add_points(made)
    if made.wants("pixel_values_videos") and _is_about_videos(made):
        _add_videos(made)
    quirks.makes_pixels.apply(made.config, made)
    if made.needs("hidden_states") and "grid_thw" in made.takes:
        patches.add_grid(made, "hidden_states", "grid_thw")
    if made.wants("pixel_values"):
        _add_pixels(made)
    for name in ("image", "images"):
        if made.needs(name) or (made.wants(name) and "bbox" in made.takes):
            made.inputs[name] = tiles.images(made)
    if made.wants("flattened_patches"):
        patches.add_flattened(made)
    _add_what_goes_with_pixels(made)


def clips(made: Made) -> torch.Tensor:
    """A batch of clips: frames before channels."""
    height, width = geometry.image_size(made.config, made.request.full_size)
    frames = geometry.frames_or_few(made.config)
    return floats(made, (made.batch, frames, geometry.channels(made.config), height, width))


def _add_points(made: Made) -> None:
    """One point of the object for each image: (batch, objects, points, 2), and 1 for "inside"."""
    edge = min(geometry.image_size(made.config, made.request.full_size))
    made.inputs["input_points"] = integers(made, (made.batch, 1, 1, 2), 0, edge).to(made.dtype)
    made.inputs["input_labels"] = ones(made, (made.batch, 1, 1))


def _add_videos(made: Made) -> None:
    if "video_grid_thw" in made.takes:
        patches.add_grid(made, "pixel_values_videos", "video_grid_thw", times=2)
    else:
        made.inputs["pixel_values_videos"] = clips(made)


def _add_pixels(made: Made) -> None:
    takes = made.takes
    grid = next((name for name in ("image_grid_thw", "grid_thw") if name in takes), None)
    positions = next((name for name in ("image_position_ids", "pixel_position_ids") if name in takes), None)
    if grid is not None:
        patches.add_grid(made, "pixel_values", grid)
    elif "spatial_shapes" in takes:
        patches.add_packed(made)
    elif positions is not None:
        patches.add_positioned(made, "pixel_values", positions, made.batch)
    elif "target_sizes" in takes:
        tiles.add_strip(made, "pixel_values", "target_sizes")
    elif "aspect_ratio_ids" in takes:
        tiles.add_by_aspect(made)
    elif "pixel_attention_mask" in takes:
        tiles.add_several(made)
    elif _reads_sizes(made):
        tiles.add_sized(made)
    elif _reads_videos(made):
        made.inputs["pixel_values"] = clips(made)
    else:
        made.inputs["pixel_values"] = tiles.images(made)
        if "pixel_values_local" in takes:
            tiles.add_local_views(made)


def _is_about_videos(made: Made) -> bool:
    """Whether videos are what the model is for, rather than something that its image encoder reads as well."""
    return "pixel_values" not in made.takes or "video" in f"{made.config.model_type} {made.name}".lower()


def _reads_videos(made: Made) -> bool:
    """Whether what forward calls `pixel_values` are clips: its configuration counts frames. That of a model which
    reads any array (`inputs`) counts them for another head.
    """
    return geometry.frames(made.config) is not None and "inputs" not in made.takes


def _reads_sizes(made: Made) -> bool:
    """Whether the images' sizes in pixels matter: to a choice of tiles, or to an encoder for images of any size."""
    if "image_sizes" not in made.takes:
        return False
    extract = extractor(made.model, "image")
    return (
        bool(getattr(made.config, "image_grid_pinpoints", None))
        or "image_sizes" in forward_parameters(patches.encoder(made.model))[0]
        or (extract is not None and "image_sizes" in required_parameters(extract))
    )


def _add_what_goes_with_pixels(made: Made) -> None:
    """Masks and the like that a processor returns beside the pixels, or that forward cannot do without."""
    if made.wants("pixel_mask") and "pixel_values" in made.inputs:
        pixels = made.inputs["pixel_values"]
        made.inputs["pixel_mask"] = ones(made, (*pixels.shape[:-3], *pixels.shape[-2:]))
    if made.needs("bool_masked_pos") or (made.wants("bool_masked_pos") and _guesses_patches(made)):
        made.inputs["bool_masked_pos"] = _masked_patches(made)


def _guesses_patches(made: Made) -> bool:
    return "MaskedImageModeling" in made.name or "ForPreTraining" in made.name


def _layers_of_patches(made: Made) -> int:
    """One for an image; for a video its frames, as many to a patch as the model takes together."""
    if not _reads_videos(made):
        return 1
    return geometry.frames_or_few(made.config) // int(first(made.config, "tubelet_size", default=1))


def _masked_patches(made: Made) -> torch.Tensor:
    """Half of the patches, the same ones in every sample: models want as many of each."""
    height, width = geometry.image_size(made.config, made.request.full_size)
    edge = geometry.patch_size(made.config)
    count = (height // edge) * (width // edge) * _layers_of_patches(made)
    masked = zeros(made, (made.batch, count)).bool()
    masked[:, ::2] = True
    return masked

"""Videos: whole clips or patches of their frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynalyze.capture.hf.inputs import geometry, patches
from dynalyze.capture.hf.inputs.values import floats

if TYPE_CHECKING:
    import torch

    from dynalyze.capture.hf.inputs.made import Made


def add(made: Made) -> None:
    """`pixel_values_videos` of models that are about videos."""
    if not made.wants("pixel_values_videos") or not is_about_videos(made):
        return
    if "video_grid_thw" in made.takes:
        patches.add_grid(made, "pixel_values_videos", "video_grid_thw", times=2)
    else:
        made.inputs["pixel_values_videos"] = clips(made)


def is_about_videos(made: Made) -> bool:
    """Whether videos are what the model is for, rather than something that its image encoder reads as well."""
    return "pixel_values" not in made.takes or "video" in f"{made.config.model_type} {made.name}".lower()


def reads_videos(made: Made) -> bool:
    """Whether what forward calls `pixel_values` are clips: its configuration counts frames. That of a model which
    reads any array (`inputs`) counts them for another head.
    """
    return geometry.frames(made.config) is not None and "inputs" not in made.takes


def clips(made: Made) -> torch.Tensor:
    """A batch of clips: frames before channels."""
    height, width = geometry.image_size(made.config, made.request.full_size)
    frames = geometry.frames_or_few(made.config)
    return floats(made, (made.batch, frames, geometry.channels(made.config), height, width))

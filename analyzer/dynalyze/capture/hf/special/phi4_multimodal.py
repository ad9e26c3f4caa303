"""Phi-4 multimodal: an image is a small whole and its crops, with a mask of patches for each; a sound has its length
in tokens beside it.
"""

from __future__ import annotations

import math

from dynalyze.capture.hf.inputs.made import Made, Placeholder
from dynalyze.capture.hf.inputs.values import floats, full, ones

_FRAMES = 128


def pixels(made: Made) -> None:
    """Images of exactly one crop."""
    if not made.wants("image_pixel_values"):
        return
    vision = made.config.vision_config
    edge, patches = vision.crop_size, vision.image_size // vision.patch_size
    made.inputs["image_pixel_values"] = floats(made, (made.batch, 2, 3, vision.image_size, vision.image_size))
    made.inputs["image_sizes"] = full(made, (made.batch, 2), edge)
    made.inputs["image_attention_mask"] = ones(made, (made.batch, 2, patches, patches))
    # Both views are pooled by two; a separator ends each of their rows, and one stands between them.
    pooled = math.ceil(patches / 2)
    made.placeholders.append(Placeholder(vision.image_token_id, 2 * pooled * (pooled + 1) + 1))


def sounds(made: Made) -> None:
    """A spectrogram, whose frames the encoder makes a token of by eights."""
    import torch

    if not made.wants("audio_input_features"):
        return
    audio = made.config.audio_config
    tokens = -(-_FRAMES // (audio.time_reduction * audio.downsample_rate))
    made.inputs["audio_input_features"] = floats(made, (made.batch, _FRAMES, audio.input_size))
    made.inputs["audio_embed_sizes"] = full(made, (made.batch,), tokens)
    made.inputs["audio_attention_mask"] = ones(made, (made.batch, _FRAMES), dtype=torch.bool)
    made.placeholders.append(Placeholder(audio.audio_token_id, tokens, "audio"))

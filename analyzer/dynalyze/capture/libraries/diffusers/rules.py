"""What inputs look like, by the name of the parameter: expressions over sizes, kinds and fields of configurations.

B is the batch, T tokens of text, N tokens of an image, H and W its height and width, F frames of a video, L the length
of a sound. `normal` draws, `full` repeats its first argument, `ids` draws whole numbers below its first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dynalyze.capture.libraries.diffusers.configs import LATENT

Expressions = str | tuple[str, ...]

SIZES: dict[str, dict[str, int]] = {
    "latents": {"H": LATENT, "W": LATENT, "F": 3, "L": 64},
    "pixels": {"H": 64, "W": 64, "F": 9, "L": 1 << 13},
}

# Parts of the names of classes.
_KINDS: dict[str, tuple[str, ...]] = {
    "autoencoder": ("Autoencoder", "VQModel", "VAE", "Vae", "Tokenizer", "T2IAdapter"),
    "video": (
        "3D", "Video", "Wan", "Mochi", "Allegro", "CogVideoX", "KLCosmos", "Magvit", "VidTok", "KLQwenImage",
        "Refiner", "MiniMaxH3", "Kandinsky6SR", "I2VGen", "Motion", "SparseControl", "SanaWM",
    ),
    "sound": ("Audio", "Oobleck", "SAME", "1D"),
}  # fmt: skip
# Parameters that say that an image comes as tokens.
_PACKED = {"img_ids", "img_shapes", "height"}


def kinds_of(class_name: str, parameters: Iterable[str]) -> dict[str, Any]:
    """What kind of model it is, each as 0 or 1, from the name of its class and the parameters of its forward."""
    found = {kind: int(any(part in class_name for part in parts)) for kind, parts in _KINDS.items()}
    return {**found, "packed": int(bool(_PACKED & set(parameters))), "unet": int("sample" in parameters)}


_TEXT_WIDTHS = (
    "joint_attention_dim", "text_embed_dim", "text_dim", "caption_channels", "cap_feat_dim", "encoder_hid_dim",
    "cross_attention_input_dim", "text_in_dim", "in_text_dim", "context_in_dim", "text_hidden_dim", "dit_text_dim",
    "cross_attention_dim", "encoder_hidden_size", "condition_dim", "cond_token_dim", "llm_features_dim",
)  # fmt: skip
_LATENTS = (
    "normal(B, N, in_channels) if packed else normal(B, in_channels, F, H, W) if video "
    "else normal(B, in_channels, L) if sound else normal(B, in_channels, H, W)"
)

RULES: dict[str, Expressions] = {
    "sample": (
        _LATENTS,
        "normal(B, input_channels, F, H, W)",
        "normal(B, audio_channels, L)",
        "normal(B, num_channels, L) if sound else normal(B, num_channels, H, W)",
    ),
    "hidden_states": (_LATENTS, "normal(B, latent_channels, F, H, W) if video else normal(B, latent_channels, H, W)"),
    "x": ("several(B, in_channels, 1, H, W)",),
    "t": "full(0.5, B)",
    "cap_feats": "several(B, T, cap_feat_dim)",
    "timestep": "full(500, B) if unet else full(500.0, B)",
    "timesteps": "full(500.0, B)",
    "encoder_hidden_states": tuple(f"normal(B, T, {width})" for width in _TEXT_WIDTHS),
    "encoder_attention_mask": "None if unet else mask(B, T)",  # Pipelines with a UNet pass none.
    "encoder_hidden_states_mask": "mask(B, T)",
    "encoder_hidden_states_image": ("normal(B, 257, image_dim)",),
    "pooled_projections": ("normal(B, pooled_projection_dim)", "normal(B, in_text_dim2)"),
    "guidance": "full(3.5, B) if guidance_embeds else full(1.0, missing)",
    "img_ids": ("grid(len(axes_dims_rope), N)", "grid(3, N)"),
    "txt_ids": ("grid(len(axes_dims_rope), T)", "grid(3, T)"),
    "img_shapes": "[[(1, side, side)]] * B",
    "class_labels": ("ids(num_class_embeds, B)", "ids(num_embeds_ada_norm, B)"),
    "fps": "full(16, B)",
    "added_cond_kwargs": (
        "{'text_embeds': normal(B, projection_class_embeddings_input_dim - 6 * addition_time_embed_dim), "
        "'time_ids': full(64.0, B, 6)}"
    ),
    "num_frames": "1",
    "height": "side",
    "width": "side",
    "original_size": "full(64.0, B, 2)",
    "target_size": "full(64.0, B, 2)",
    "crop_coords": "full(0.0, B, 2)",
    "padding_mask": "zeros(1, 1, 8 * H, 8 * W)",
    "encoder_hidden_states_2": "normal(B, T, text_embed_2_dim)",
    "encoder_attention_mask_2": "mask(B, T)",
    "image_embeds": "normal(B, T, image_embed_dim)",
    "encoder_mask": "mask(B, T)",
    "audio_hidden_states": "normal(B, T, audio_in_channels)",
    "audio_encoder_hidden_states": "normal(B, T, caption_channels)",
    "audio_num_frames": "T",
    "controlnet_cond": ("normal(B, N, in_channels) if packed else normal(B, conditioning_channels, 8 * H, 8 * W)",),
}

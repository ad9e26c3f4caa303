"""Inputs of a model of diffusers, by the names in the signature of its forward and the fields of its configuration.

Rules say what inputs look like by the name of the parameter: expressions over sizes, kinds and these fields.

B is the batch, T tokens of text, N tokens of an image, H and W its height and width, F frames of a video, L the length
of a sound. `normal` draws, `full` repeats its first argument, `ids` draws whole numbers below its first.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

from dynalyze.capture.inputs import Inputs
from dynalyze.capture.libraries.diffusers.configs import LATENT
from dynalyze.capture.libraries.diffusers.odd import INPUTS

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


def make_inputs(model: Any, *, batch: int, size: int | None, seed: int) -> Inputs:
    """One call's: of each parameter that a rule names, the first of its expressions whose names are all there."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    name, parameters = type(model).__name__, inspect.signature(model.forward).parameters
    kinds = kinds_of(name, parameters)
    own = INPUTS.get(name, {})
    sizes = {**SIZES["pixels" if kinds["autoencoder"] else "latents"], "B": batch, "T": 8, "side": 4}
    if size is not None:
        sizes.update(H=size, W=size, side=size // 4, L=sizes["L"] * size // sizes["H"])
    sizes.update({name: value for name, value in own.items() if isinstance(value, int)}, N=sizes["side"] ** 2)
    several = getattr(model, "nets", None) or getattr(model, "adapters", None)  # Models that hold others have none.
    config = dict((several[0] if several else model).config)
    scope = _Scope({**_makers(generator), **sizes, **kinds}, config)
    kwargs: dict[str, Any] = {}
    for each in parameters:
        expressions = own.get(each, RULES.get(each, ()))
        for expression in (expressions,) if isinstance(expressions, str) else expressions:
            try:
                kwargs[each] = eval(expression, {"__builtins__": _BUILTINS}, scope)
                break
            except _Lacking:
                continue
    return Inputs((), kwargs)


_BUILTINS = {"len": len, "sum": sum, "range": range, "max": max}


class _Lacking(Exception):
    """The configuration has no such field, or None in it."""


class _Scope(Mapping[str, Any]):
    """What an expression may name: helpers, sizes and kinds, and the fields of the configuration."""

    def __init__(self, *layers: Mapping[str, Any]) -> None:
        self._layers = layers

    def __getitem__(self, name: str) -> Any:
        if name in _BUILTINS:
            raise KeyError(name)
        for layer in self._layers:
            if layer.get(name) is not None:
                return layer[name]
        raise _Lacking(name)

    def __iter__(self) -> Any:
        return iter(())

    def __len__(self) -> int:
        return 0


def _makers(generator: Any) -> dict[str, Any]:
    """What expressions call to make tensors; all sizes are whole numbers."""
    import torch

    def normal(*shape: int) -> Any:
        return torch.randn(*shape, generator=generator)

    def ids(count: int, *shape: int) -> Any:
        return torch.randint(0, count, shape, generator=generator)

    def full(value: float, *shape: int) -> Any:
        """A float where the value is one, else a whole number."""
        return torch.full(shape, value, dtype=torch.float32 if isinstance(value, float) else torch.int64)

    def grid(columns: int, tokens: int) -> Any:
        """Places of tokens in a square, in the last two columns."""
        places = torch.zeros(tokens, columns)
        places[:, -2], places[:, -1] = torch.arange(tokens) // 4, torch.arange(tokens) % 4
        return places

    def mask(*shape: int) -> Any:
        return torch.ones(*shape, dtype=torch.bool)

    def several(count: int, *shape: int) -> list[Any]:
        return [normal(*shape) for _ in range(count)]

    from_torch = {"ones": torch.ones, "zeros": torch.zeros, "arange": torch.arange}
    return {"normal": normal, "several": several, "ids": ids, "full": full, "grid": grid, "mask": mask, **from_torch}

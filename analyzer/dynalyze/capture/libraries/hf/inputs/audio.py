"""Sound: raw waveforms, spectrogram features, and their placeholders in a text."""

from __future__ import annotations

from typing import Any

import torch

from dynalyze.capture.libraries.hf import parts, quirks
from dynalyze.capture.libraries.hf.inputs.input_builder import InputBuilder, Placeholder, features_per_sample

# How configurations call the part that reads sound.
_PARTS = (
    "audio_config", "speech_config", "encoder_config", "audio_encoder_config",
    "acoustic_tokenizer_encoder_config", "audio_encoder", "encoder",
)  # fmt: skip
_FEATURE_SIZES = (
    "input_size", "num_mel_bins", "feature_projection_input_dim", "input_feat_per_channel", "input_feat_size",
    "feature_size", "input_dim", "num_chroma", "audio_embed_dim",
)  # fmt: skip
_LENGTHS = "_get_feat_extract_output_lengths"
_FEATURE_MASKS = ("input_features_mask", "feature_attention_mask")
_DEFAULT_RATE = 16_000
_DEFAULT_HOP = 320
# Frames of a spectrogram where the model has no length of its own: about a second.
_DEFAULT_FRAMES = 128


def add(builder: InputBuilder) -> None:
    """`input_values` or `input_features`, their masks, and as many placeholders as the model makes of them."""
    quirks.makes_sounds.apply(builder.config, builder)
    if builder.wants("input_values"):
        _add_waveform(builder)
    if builder.wants("input_features"):
        _add_features(builder)
    _add_placeholders(builder)


def audio_part(config: Any) -> Any:
    """The sub-configuration for sound, the whole one where it is about nothing else."""
    found = (getattr(config, name, None) for name in _PARTS)
    return next((part for part in found if hasattr(part, "to_dict")), config)


def hop_length(part: Any) -> int:
    """Samples between two frames that the model makes of a waveform."""
    hops = (getattr(part, name, None) for name in ("inputs_to_logits_ratio", "hop_length"))
    return next((hop for hop in hops if isinstance(hop, int)), _DEFAULT_HOP)


def _add_waveform(builder: InputBuilder) -> None:
    part = audio_part(builder.config)
    if hasattr(part, "num_mel_bins") and hasattr(part, "max_length"):
        builder.inputs["input_values"] = builder.floats((builder.batch, part.max_length, part.num_mel_bins))
        return
    # Half a second, or what makes as many frames as the request's sequence: a window more than the hops, because
    # convolutions without padding lose it.
    hop = hop_length(part)
    rate = parts.first(part, "sampling_rate", "sample_rate", default=_DEFAULT_RATE)
    asked = builder.request.sequence
    length = max(int(rate) // 2 // hop, 1) * hop if asked is None else int(asked * hop) + hop
    builder.inputs["input_values"] = builder.floats((builder.batch, *_channels(builder), length), scale=0.1)
    if builder.wants("padding_mask"):
        builder.inputs["padding_mask"] = builder.ones((builder.batch, length))
    # The extractors return no mask for models whose convolutions normalise over the whole sound.
    is_masked = builder.wants("attention_mask") and getattr(part, "feat_extract_norm", None) == "layer"
    if builder.needs("attention_mask") or is_masked:
        builder.inputs["attention_mask"] = builder.ones((builder.batch, length))


def _channels(builder: InputBuilder) -> tuple[int, ...]:
    """The channels of a codec's waveform; none for models of speech, whose extractors return one row a sample."""
    for part in parts.sub_configs(builder.config):
        default = 1 if hasattr(part, "codebook_size") else None
        if (channels := parts.first(part, "audio_channels", "channels", default=default)) is not None:
            return (int(channels),)
    return ()


def _add_features(builder: InputBuilder) -> None:
    part = audio_part(builder.config)
    # Mel bins or what stands for them, where the configuration tells.
    size = parts.first_number(parts.sub_configs(part), *_FEATURE_SIZES)
    if size is None:
        return
    convolution = _first_convolution(builder.model, size)
    positions = parts.first(part, "max_source_positions")
    frames, fixed = _DEFAULT_FRAMES, positions is not None and convolution is not None
    if fixed:
        # The only length that a Whisper-like encoder accepts: its positions before its strided convolutions.
        beside = next(parent for parent in builder.model.modules() if convolution in parent.children())
        following = getattr(beside, "conv2", None)
        frames = int(positions * convolution.stride[0] * (following.stride[0] if following is not None else 1))
    elif builder.request.sequence is not None:
        frames = int(builder.request.sequence * parts.first(part, "subsampling_factor", default=1))
    shape = (builder.batch, frames, size) if convolution is None else (builder.batch, size, frames)
    builder.inputs["input_features"] = builder.floats(shape)
    masks = [name for name in _FEATURE_MASKS if builder.wants(name)]
    # Beside text, `attention_mask` is the text's; extractors that pad to one fixed length return none.
    if builder.wants("attention_mask") and "input_ids" not in builder.takes and not fixed:
        masks.append("attention_mask")
    for name in masks:
        builder.inputs[name] = builder.ones((builder.batch, frames))


def _first_convolution(model: Any, size: int) -> Any:
    """The convolution over time that takes the features as its channels, as Whisper's encoder begins."""
    named = (module for name, module in model.named_modules() if name.endswith("conv1"))
    return next((each for each in named if isinstance(each, torch.nn.Conv1d) and each.in_channels == size), None)


def _add_placeholders(builder: InputBuilder) -> None:
    token = parts.first(builder.config, "audio_token_id", "audio_token_index", "sound_token_id")
    if token is None or "input_ids" not in builder.takes or any(each.kind == "audio" for each in builder.placeholders):
        return
    count = features_per_sample(builder, "audio") or _reported_length(builder)
    if count is not None:
        builder.placeholders.append(Placeholder(int(token), count, "audio"))


def _reported_length(builder: InputBuilder) -> int | None:
    """What the encoder itself says that it makes of the frames, where features cannot be had without the text."""
    mask = next((builder.inputs[name] for name in _FEATURE_MASKS if name in builder.inputs), None)
    tell = next((getattr(each, _LENGTHS) for each in builder.model.modules() if hasattr(each, _LENGTHS)), None)
    if mask is None or tell is None:
        return None
    lengths = tell(mask.sum(-1))
    return int((lengths[-1] if isinstance(lengths, tuple) else lengths)[0])

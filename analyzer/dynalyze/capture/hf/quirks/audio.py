"""Quirks of models that hear or write sound of any kind: encoders, codecs, music."""

from __future__ import annotations

from typing import Any

import torch

from dynalyze.capture.hf.inputs.audio import audio_part, hop_length
from dynalyze.capture.hf.inputs.input_builder import InputBuilder
from dynalyze.capture.hf.quirks import changes_inputs, completes, keep_equal, makes_sounds, set_small, shrinks

set_small(
    {
        # Each stage but the last doubles the width.
        "clap_audio_model": {"hidden_size": lambda c: c.patch_embeds_hidden_size * 2 ** (len(c.depths) - 1)},
        # Three convolutions halve the mel bins, for each of their channels.
        "dots3_note_audio_encoder": {"conv_output_size": lambda c: c.downsample_hidden_size * -(-c.feature_size // 8)},
        # One layer a width: its pyramid is not cut.
        "muse_spark_audio": {"num_hidden_layers": lambda c: len(c.hidden_sizes)},
    }
)
keep_equal(
    {
        # Both halves are projected to one width.
        "clap": {"text_config.projection_dim": "projection_dim", "audio_config.projection_dim": "projection_dim"},
        # Each channel is upsampled by itself, in as many groups, and latents have the width of the codebooks.
        "mimi": {"upsample_groups": "hidden_size", "codebook_dim": "vector_quantization_hidden_dimension"},
        "mimi_decoder": {"upsample_groups": "hidden_size", "codebook_dim": "vector_quantization_hidden_dimension"},
        "pocket_tts_audio_tokenizer": {"upsample_groups": "hidden_size"},
        "pocket_tts_audio_tokenizer_decoder": {"upsample_groups": "hidden_size"},
        # Its audio states are turned by rotary embeddings of their time, over a part of their width.
        "musicflamingo": {"head_dim": "audio_config.hidden_size"},
        # The convolutions keep the width.
        "phi4_multimodal_audio": {
            "ext_pw_out_channel": "hidden_size",
            "depthwise_separable_out_channel": "hidden_size",
            "nemo_conv_channels": "hidden_size",
        },
    },
    shrinks,
)


@makes_sounds("clap_audio_model", "clap")
def clap_sounds(builder: InputBuilder) -> None:
    """Images of spectrograms, one a sample or, with fusion, four crops of it; `is_longer`: than ten seconds."""
    part = audio_part(builder.config)
    crops = 4 if part.enable_fusion else 1
    # Ten seconds, as its feature extractor cuts or repeats every sound to.
    frames = min(1001, part.spec_size * (part.spec_size // part.num_mel_bins))
    builder.inputs["input_features"] = builder.floats((builder.batch, crops, frames, part.num_mel_bins))
    builder.inputs["is_longer"] = builder.full((builder.batch, 1), 0, dtype=torch.bool)


@makes_sounds("dots3_note_audio_encoder", "dots3_note")
def dots3_note_sounds(builder: InputBuilder) -> None:
    """One chunk a sample, mel bins first, with its length in samples; eight frames become a token."""
    part = audio_part(builder.config)
    frames = builder.sequence * 8
    builder.inputs["input_features"] = builder.floats((builder.batch, part.feature_size, frames))
    builder.inputs["chunk_sample_lengths"] = builder.full((builder.batch,), frames * part.hop_length)


@makes_sounds("gemma4_audio", "gemma4", "gemma3n", "embedding_gemma2")
def gemma4_sounds(builder: InputBuilder) -> None:
    """The encoder has its number of mel bins in its code alone; the mask stands beside the text's in a larger model."""
    if not builder.wants("input_features"):
        return
    # The encoder makes one token of four frames.
    frames = builder.request.sequence * 4 if builder.request.sequence else 128
    builder.inputs["input_features"] = builder.floats((builder.batch, frames, 128))
    mask = "input_features_mask" if "input_features_mask" in builder.takes else "attention_mask"
    builder.inputs[mask] = builder.ones((builder.batch, frames), dtype=torch.bool)


@changes_inputs("gemma4_unified")
def gemma4_unified(builder: InputBuilder) -> None:
    """The mask of the sounds picks features by it, and so has to be one of truth values."""
    if "input_features_mask" in builder.inputs:
        builder.inputs["input_features_mask"] = builder.inputs["input_features_mask"].bool()


@makes_sounds("inkling_audio", "inkling_mm_model")
def inkling_sounds(builder: InputBuilder) -> None:
    """Spectrograms whose values are quantised: one code a mel bin and frame, with their mask beside text."""
    if not builder.wants("audio_input_ids"):
        return
    part = audio_part(builder.config)
    shape = (builder.batch, builder.sequence, part.num_codebooks)
    builder.inputs["audio_input_ids"] = builder.integers(shape, 0, part.codebook_size)
    if builder.wants("audio_input_ids_mask"):
        builder.inputs["audio_input_ids_mask"] = builder.ones(shape[:2])


@makes_sounds("muse_spark_audio", "muse_spark")
def muse_spark_sounds(builder: InputBuilder) -> None:
    """Whole patches of samples, with the mask that a larger model takes."""
    if not builder.wants("input_values"):
        return
    samples = builder.sequence * audio_part(builder.config).samples_per_token
    builder.inputs["input_values"] = builder.floats((builder.batch, samples), scale=0.1)
    if builder.wants("input_values_mask"):
        builder.inputs["input_values_mask"] = builder.ones((builder.batch, samples))


@changes_inputs("phi4_multimodal_audio")
def phi4_multimodal_audio(builder: InputBuilder) -> None:
    """The encoder alone calls its spectrogram `hidden_states`."""
    frames = builder.request.sequence or 128
    builder.inputs["hidden_states"] = builder.floats((builder.batch, frames, builder.config.input_size))
    builder.inputs["mask"] = builder.ones((builder.batch, frames), dtype=torch.bool)


@makes_sounds("pe_audio")
def pe_audio(builder: InputBuilder) -> None:
    """Waveforms of whole frames of its codec, with a mask of samples."""
    samples = (builder.request.sequence or 8) * hop_length(audio_part(builder.config).dac_config)
    builder.inputs["input_values"] = builder.floats((builder.batch, 1, samples), scale=0.1)
    builder.inputs["padding_mask"] = builder.ones((builder.batch, samples), dtype=torch.bool)


@shrinks("xcodec")
def xcodec(config: Any) -> None:
    """It quantises acoustic and semantic states side by side."""
    config.codebook_dim = config.acoustic_model_config.hidden_size + config.semantic_model_config.hidden_size


@shrinks("xcodec2", "neucodec")
def xcodec2(config: Any) -> None:
    """It quantises acoustic and semantic states side by side."""
    config.quantization_dim = config.hidden_size + config.semantic_model_config.hidden_size


@makes_sounds("xcodec2", "neucodec")
def xcodec2_sounds(builder: InputBuilder) -> None:
    """A sound is heard twice: its waveform, and a spectrogram of pairs of frames for the semantic encoder."""
    frames = builder.request.sequence or 25
    samples = frames * hop_length(builder.config)
    bins = builder.config.semantic_model_config.feature_projection_input_dim
    builder.inputs["input_values"] = builder.floats((builder.batch, 1, samples), scale=0.1)
    builder.inputs["padding_mask"] = builder.ones((builder.batch, samples))
    builder.inputs["input_features"] = builder.floats((builder.batch, frames, bins))
    builder.inputs["input_features_mask"] = builder.ones((builder.batch, frames))


@changes_inputs("vibevoice_acoustic_tokenizer_encoder")
def vibevoice_encoder(builder: InputBuilder) -> None:
    """The encoder calls its waveform `hidden_states`; each frame is thousands of samples."""
    shape = (builder.batch, builder.config.channels, (builder.request.sequence or 2) * builder.config.hop_length)
    builder.inputs = {"hidden_states": builder.floats(shape, scale=0.1)}


@changes_inputs("vibevoice_acoustic_tokenizer_decoder")
def vibevoice_decoder(builder: InputBuilder) -> None:
    """The decoder makes a waveform of latents whose width comes first; each frame becomes thousands of samples."""
    shape = (builder.batch, builder.config.hidden_size, builder.request.sequence or 2)
    builder.inputs = {"hidden_states": builder.floats(shape)}


@completes("musicgen")
def musicgen(config: Any) -> None:
    """The codec's bandwidth is that of as many codebooks as the decoder reads."""
    codec = config.audio_encoder
    bits = config.decoder.num_codebooks * codec.frame_rate * codec.codebook_nbits
    codec.target_bandwidths = [bits / 1000]


@changes_inputs("musicgen")
def musicgen_inputs(builder: InputBuilder) -> None:
    """It continues a sound as a text describes it: the model makes the decoder's codes of the waveform.

    In training they are given, as its trainers do.
    """
    if not builder.train:
        del builder.inputs["decoder_input_ids"]
        return
    del builder.inputs["input_values"], builder.inputs["padding_mask"]
    musicgen_codes(builder)


@changes_inputs("musicgen_melody")
def musicgen_codes(builder: InputBuilder) -> None:
    """One row a codebook of the codes that were written so far, and in training those that come next."""
    decoder = builder.config.decoder
    codes = (builder.batch * decoder.num_codebooks, builder.sequence)
    builder.inputs["decoder_input_ids"] = builder.integers(codes, 0, decoder.vocab_size)
    if builder.train:
        labels = (builder.batch, builder.sequence, decoder.num_codebooks)
        builder.inputs["labels"] = builder.integers(labels, 0, decoder.vocab_size)


@makes_sounds("musicgen_melody")
def musicgen_melody(builder: InputBuilder) -> None:
    """A chroma of the melody, each frame of one pitch."""
    config = builder.config
    pitches = builder.integers((builder.batch, config.chroma_length), 0, config.num_chroma)
    builder.inputs["input_features"] = torch.nn.functional.one_hot(pitches, config.num_chroma).to(builder.dtype)


@changes_inputs("musicgen_decoder", "musicgen_melody_decoder")
def musicgen_decoder(builder: InputBuilder) -> None:
    """The decoder alone reads one row of tokens a codebook."""
    codebooks, vocabulary = builder.config.num_codebooks, builder.config.vocab_size
    builder.inputs["input_ids"] = builder.integers((builder.batch * codebooks, builder.sequence), 0, vocabulary)
    builder.inputs["attention_mask"] = builder.ones((builder.batch, builder.sequence))
    if builder.train:
        labels = (builder.batch, builder.sequence, codebooks)
        builder.inputs["labels"] = builder.integers(labels, 0, vocabulary)


@changes_inputs("pop2piano")
def pop2piano(builder: InputBuilder) -> None:
    """Its encoder reads spectrograms as embeddings of its own width, in place of tokens."""
    builder.inputs.pop("input_ids", None)
    builder.inputs["input_features"] = builder.floats((builder.batch, builder.sequence, builder.config.d_model))
    builder.inputs["attention_mask"] = builder.ones((builder.batch, builder.sequence))

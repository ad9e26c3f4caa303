"""Quirks of models that hear or write sound of any kind: encoders, codecs, music."""

from __future__ import annotations

import torch

from dynalyze.capture.hf import quirks
from dynalyze.capture.hf.inputs.audio import audio_part, hop_length
from dynalyze.capture.hf.inputs.input_builder import InputBuilder

COMPLETE: quirks.Table = {
    # The codec's bandwidth is that of as many codebooks as the decoder reads.
    "musicgen": {
        "audio_encoder.target_bandwidths": lambda c: [
            c.decoder.num_codebooks * c.audio_encoder.frame_rate * c.audio_encoder.codebook_nbits / 1000
        ]
    },
}
SMALL: quirks.Table = {
    # Each stage but the last doubles the width.
    "clap_audio_model": {"hidden_size": lambda c: c.patch_embeds_hidden_size * 2 ** (len(c.depths) - 1)},
    # Three convolutions halve the mel bins, for each of their channels.
    "dots3_note_audio_encoder": {"conv_output_size": lambda c: c.downsample_hidden_size * -(-c.feature_size // 8)},
    # One layer a width: its pyramid is not cut.
    "muse_spark_audio": {"num_hidden_layers": lambda c: len(c.hidden_sizes)},
    # They quantise acoustic and semantic states side by side.
    "xcodec": {"codebook_dim": lambda c: c.acoustic_model_config.hidden_size + c.semantic_model_config.hidden_size},
    "xcodec2 neucodec": {"quantization_dim": lambda c: c.hidden_size + c.semantic_model_config.hidden_size},
    # Both halves are projected to one width.
    "clap": {"text_config.projection_dim": "projection_dim", "audio_config.projection_dim": "projection_dim"},
    # Each channel is upsampled by itself, in as many groups, and latents have the width of the codebooks.
    "mimi mimi_decoder": {"upsample_groups": "hidden_size", "codebook_dim": "vector_quantization_hidden_dimension"},
    "pocket_tts_audio_tokenizer pocket_tts_audio_tokenizer_decoder": {"upsample_groups": "hidden_size"},
    # Its audio states are turned by rotary embeddings of their time, over a part of their width.
    "musicflamingo": {"head_dim": "audio_config.hidden_size"},
    # The convolutions keep the width.
    "phi4_multimodal_audio": {
        "ext_pw_out_channel": "hidden_size",
        "depthwise_separable_out_channel": "hidden_size",
        "nemo_conv_channels": "hidden_size",
    },
}
SOUNDS: quirks.Table = {
    # One chunk a sample, mel bins first, with its length in samples; eight frames become a token.
    "dots3_note_audio_encoder dots3_note": {
        "input_features": lambda b: b.floats((b.batch, audio_part(b.config).feature_size, b.sequence * 8)),
        "chunk_sample_lengths": lambda b: b.full((b.batch,), b.sequence * 8 * audio_part(b.config).hop_length),
    },
    # Spectrograms whose values are quantised: one code a mel bin and frame, with their mask beside text.
    "inkling_audio inkling_mm_model": {
        "audio_input_ids": lambda b: b.integers(
            (b.batch, b.sequence, audio_part(b.config).num_codebooks), 0, audio_part(b.config).codebook_size
        ),
        "audio_input_ids_mask": lambda b: b.ones((b.batch, b.sequence)),
    },
    # Whole patches of samples, with the mask that a larger model takes.
    "muse_spark_audio muse_spark": {
        "input_values": lambda b: b.floats((b.batch, b.sequence * audio_part(b.config).samples_per_token), 0.1),
        "input_values_mask": lambda b: b.ones(b.inputs["input_values"].shape),
    },
}
INPUTS: quirks.Table = {
    # The encoder alone calls its spectrogram `hidden_states`.
    "phi4_multimodal_audio": {
        "hidden_states": lambda b: b.floats((b.batch, b.request.sequence or 128, b.config.input_size)),
        "mask": lambda b: b.ones((b.batch, b.request.sequence or 128), dtype=torch.bool),
    },
    # Encoder and decoder call waveform and latents `hidden_states`; each frame is thousands of samples.
    "vibevoice_acoustic_tokenizer_encoder": {
        "hidden_states": lambda b: b.floats(
            (b.batch, b.config.channels, (b.request.sequence or 2) * b.config.hop_length), scale=0.1
        )
    },
    "vibevoice_acoustic_tokenizer_decoder": {
        "hidden_states": lambda b: b.floats((b.batch, b.config.hidden_size, b.request.sequence or 2))
    },
}


@quirks.makes_sounds("clap_audio_model", "clap")
def clap_sounds(builder: InputBuilder) -> None:
    """Images of spectrograms, one a sample or, with fusion, four crops of it; `is_longer`: than ten seconds."""
    part = audio_part(builder.config)
    crops = 4 if part.enable_fusion else 1
    # Ten seconds, as its feature extractor cuts or repeats every sound to.
    frames = min(1001, part.spec_size * (part.spec_size // part.num_mel_bins))
    builder.inputs["input_features"] = builder.floats((builder.batch, crops, frames, part.num_mel_bins))
    builder.inputs["is_longer"] = builder.full((builder.batch, 1), 0, dtype=torch.bool)


@quirks.makes_sounds("gemma4_audio", "gemma4", "gemma3n", "embedding_gemma2")
def gemma4_sounds(builder: InputBuilder) -> None:
    """The encoder has its number of mel bins in its code alone; the mask stands beside the text's in a larger model."""
    if not builder.wants("input_features"):
        return
    # The encoder makes one token of four frames.
    frames = builder.request.sequence * 4 if builder.request.sequence else 128
    builder.inputs["input_features"] = builder.floats((builder.batch, frames, 128))
    mask = "input_features_mask" if "input_features_mask" in builder.takes else "attention_mask"
    builder.inputs[mask] = builder.ones((builder.batch, frames), dtype=torch.bool)


@quirks.changes_inputs("gemma4_unified")
def gemma4_unified(builder: InputBuilder) -> None:
    """The mask of the sounds picks features by it, and so has to be one of truth values."""
    if "input_features_mask" in builder.inputs:
        builder.inputs["input_features_mask"] = builder.inputs["input_features_mask"].bool()


@quirks.makes_sounds("pe_audio")
def pe_audio(builder: InputBuilder) -> None:
    """Waveforms of whole frames of its codec, with a mask of samples."""
    samples = (builder.request.sequence or 8) * hop_length(audio_part(builder.config).dac_config)
    builder.inputs["input_values"] = builder.floats((builder.batch, 1, samples), scale=0.1)
    builder.inputs["padding_mask"] = builder.ones((builder.batch, samples), dtype=torch.bool)


@quirks.makes_sounds("xcodec2", "neucodec")
def xcodec2_sounds(builder: InputBuilder) -> None:
    """A sound is heard twice: its waveform, and a spectrogram of pairs of frames for the semantic encoder."""
    frames = builder.request.sequence or 25
    samples = frames * hop_length(builder.config)
    bins = builder.config.semantic_model_config.feature_projection_input_dim
    builder.inputs["input_values"] = builder.floats((builder.batch, 1, samples), scale=0.1)
    builder.inputs["padding_mask"] = builder.ones((builder.batch, samples))
    builder.inputs["input_features"] = builder.floats((builder.batch, frames, bins))
    builder.inputs["input_features_mask"] = builder.ones((builder.batch, frames))


@quirks.changes_inputs("musicgen")
def musicgen_inputs(builder: InputBuilder) -> None:
    """It continues a sound as a text describes it: the model makes the decoder's codes of the waveform.

    In training they are given, as its trainers do.
    """
    if not builder.train:
        del builder.inputs["decoder_input_ids"]
        return
    del builder.inputs["input_values"], builder.inputs["padding_mask"]
    musicgen_codes(builder)


@quirks.changes_inputs("musicgen_melody", "musicgen_decoder", "musicgen_melody_decoder")
def musicgen_codes(builder: InputBuilder) -> None:
    """One row a codebook of the codes that were written so far, and in training those that come next."""
    decoder = getattr(builder.config, "decoder", builder.config)
    codes = builder.integers((builder.batch * decoder.num_codebooks, builder.sequence), 0, decoder.vocab_size)
    if decoder is builder.config:  # The decoder alone.
        builder.inputs["input_ids"] = codes
        builder.inputs["attention_mask"] = builder.ones((builder.batch, builder.sequence))
    else:
        builder.inputs["decoder_input_ids"] = codes
    if builder.train:
        labels = (builder.batch, builder.sequence, decoder.num_codebooks)
        builder.inputs["labels"] = builder.integers(labels, 0, decoder.vocab_size)


@quirks.makes_sounds("musicgen_melody")
def musicgen_melody(builder: InputBuilder) -> None:
    """A chroma of the melody, each frame of one pitch."""
    config = builder.config
    pitches = builder.integers((builder.batch, config.chroma_length), 0, config.num_chroma)
    builder.inputs["input_features"] = torch.nn.functional.one_hot(pitches, config.num_chroma).to(builder.dtype)


@quirks.changes_inputs("pop2piano")
def pop2piano(builder: InputBuilder) -> None:
    """Its encoder reads spectrograms as embeddings of its own width, in place of tokens."""
    builder.inputs.pop("input_ids", None)
    builder.inputs["input_features"] = builder.floats((builder.batch, builder.sequence, builder.config.d_model))
    builder.inputs["attention_mask"] = builder.ones((builder.batch, builder.sequence))

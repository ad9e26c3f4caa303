"""Quirks of models that hear or write sound of any kind: encoders, codecs, music."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.inputs import values
from dynalyze.capture.hf.inputs.audio import audio_part, hop_length
from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.quirks import changes_inputs, completes, keep_equal, makes_sounds, shrinks

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


@shrinks("clap_audio_model")
def clap_audio_model(config: Any) -> None:
    """Each stage but the last doubles the width."""
    config.hidden_size = config.patch_embeds_hidden_size * 2 ** (len(config.depths) - 1)


@makes_sounds("clap_audio_model", "clap")
def clap_sounds(made: Made) -> None:
    """Images of spectrograms, one a sample or, with fusion, four crops of it; `is_longer`: than ten seconds."""
    import torch

    part = audio_part(made.config)
    crops = 4 if part.enable_fusion else 1
    # Ten seconds, as its feature extractor cuts or repeats every sound to.
    frames = min(1001, part.spec_size * (part.spec_size // part.num_mel_bins))
    made.inputs["input_features"] = values.floats(made, (made.batch, crops, frames, part.num_mel_bins))
    made.inputs["is_longer"] = values.zeros(made, (made.batch, 1), dtype=torch.bool)


@shrinks("dots3_note_audio_encoder")
def dots3_note_audio_encoder(config: Any) -> None:
    """Three convolutions halve the mel bins, for each of their channels."""
    config.conv_output_size = config.downsample_hidden_size * -(-config.feature_size // 8)


@makes_sounds("dots3_note_audio_encoder", "dots3_note")
def dots3_note_sounds(made: Made) -> None:
    """One chunk a sample, mel bins first, with its length in samples; eight frames become a token."""
    part = audio_part(made.config)
    frames = made.sequence * 8
    made.inputs["input_features"] = values.floats(made, (made.batch, part.feature_size, frames))
    made.inputs["chunk_sample_lengths"] = values.full(made, (made.batch,), frames * part.hop_length)


@makes_sounds("gemma4_audio", "gemma4", "gemma3n", "embedding_gemma2")
def gemma4_sounds(made: Made) -> None:
    """The encoder has its number of mel bins in its code alone; the mask stands beside the text's in a larger model."""
    import torch

    if not made.wants("input_features"):
        return
    # The encoder makes one token of four frames.
    frames = made.request.sequence * 4 if made.request.sequence else 128
    made.inputs["input_features"] = values.floats(made, (made.batch, frames, 128))
    mask = "input_features_mask" if "input_features_mask" in made.takes else "attention_mask"
    made.inputs[mask] = values.ones(made, (made.batch, frames), dtype=torch.bool)


@changes_inputs("gemma4_unified")
def gemma4_unified(made: Made) -> None:
    """The mask of the sounds picks features by it, and so has to be one of truth values."""
    if "input_features_mask" in made.inputs:
        made.inputs["input_features_mask"] = made.inputs["input_features_mask"].bool()


@makes_sounds("inkling_audio", "inkling_mm_model")
def inkling_sounds(made: Made) -> None:
    """Spectrograms whose values are quantised: one code a mel bin and frame, with their mask beside text."""
    if not made.wants("audio_input_ids"):
        return
    part = audio_part(made.config)
    shape = (made.batch, made.sequence, part.num_codebooks)
    made.inputs["audio_input_ids"] = values.integers(made, shape, 0, part.codebook_size)
    if made.wants("audio_input_ids_mask"):
        made.inputs["audio_input_ids_mask"] = values.ones(made, shape[:2])


@shrinks("muse_spark_audio")
def muse_spark_audio(config: Any) -> None:
    """One layer a width: its pyramid is not cut."""
    config.num_hidden_layers = len(config.hidden_sizes)


@makes_sounds("muse_spark_audio", "muse_spark")
def muse_spark_sounds(made: Made) -> None:
    """Whole patches of samples, with the mask that a larger model takes."""
    if not made.wants("input_values"):
        return
    samples = made.sequence * audio_part(made.config).samples_per_token
    made.inputs["input_values"] = values.floats(made, (made.batch, samples), scale=0.1)
    if made.wants("input_values_mask"):
        made.inputs["input_values_mask"] = values.ones(made, (made.batch, samples))


@changes_inputs("phi4_multimodal_audio")
def phi4_multimodal_audio(made: Made) -> None:
    """The encoder alone calls its spectrogram `hidden_states`."""
    import torch

    frames = made.request.sequence or 128
    made.inputs["hidden_states"] = values.floats(made, (made.batch, frames, made.config.input_size))
    made.inputs["mask"] = values.ones(made, (made.batch, frames), dtype=torch.bool)


@makes_sounds("pe_audio")
def pe_audio(made: Made) -> None:
    """Waveforms of whole frames of its codec, with a mask of samples."""
    import torch

    samples = (made.request.sequence or 8) * hop_length(audio_part(made.config).dac_config)
    made.inputs["input_values"] = values.floats(made, (made.batch, 1, samples), scale=0.1)
    made.inputs["padding_mask"] = values.ones(made, (made.batch, samples), dtype=torch.bool)


@shrinks("xcodec")
def xcodec(config: Any) -> None:
    """It quantises acoustic and semantic states side by side."""
    config.codebook_dim = config.acoustic_model_config.hidden_size + config.semantic_model_config.hidden_size


@shrinks("xcodec2", "neucodec")
def xcodec2(config: Any) -> None:
    """It quantises acoustic and semantic states side by side."""
    config.quantization_dim = config.hidden_size + config.semantic_model_config.hidden_size


@makes_sounds("xcodec2", "neucodec")
def xcodec2_sounds(made: Made) -> None:
    """A sound is heard twice: its waveform, and a spectrogram of pairs of frames for the semantic encoder."""
    frames = made.request.sequence or 25
    samples = frames * hop_length(made.config)
    bins = made.config.semantic_model_config.feature_projection_input_dim
    made.inputs["input_values"] = values.floats(made, (made.batch, 1, samples), scale=0.1)
    made.inputs["padding_mask"] = values.ones(made, (made.batch, samples))
    made.inputs["input_features"] = values.floats(made, (made.batch, frames, bins))
    made.inputs["input_features_mask"] = values.ones(made, (made.batch, frames))


@changes_inputs("vibevoice_acoustic_tokenizer_encoder")
def vibevoice_encoder(made: Made) -> None:
    """The encoder calls its waveform `hidden_states`; each frame is thousands of samples."""
    shape = (made.batch, made.config.channels, (made.request.sequence or 2) * made.config.hop_length)
    made.inputs = {"hidden_states": values.floats(made, shape, scale=0.1)}


@changes_inputs("vibevoice_acoustic_tokenizer_decoder")
def vibevoice_decoder(made: Made) -> None:
    """The decoder makes a waveform of latents whose width comes first; each frame becomes thousands of samples."""
    shape = (made.batch, made.config.hidden_size, made.request.sequence or 2)
    made.inputs = {"hidden_states": values.floats(made, shape)}


@completes("musicgen")
def musicgen(config: Any) -> None:
    """The codec's bandwidth is that of as many codebooks as the decoder reads."""
    codec = config.audio_encoder
    bits = config.decoder.num_codebooks * codec.frame_rate * codec.codebook_nbits
    codec.target_bandwidths = [bits / 1000]


@changes_inputs("musicgen")
def musicgen_inputs(made: Made) -> None:
    """It continues a sound as a text describes it: the model makes the decoder's codes of the waveform.

    In training they are given, as its trainers do.
    """
    if not made.train:
        del made.inputs["decoder_input_ids"]
        return
    del made.inputs["input_values"], made.inputs["padding_mask"]
    musicgen_codes(made)


@changes_inputs("musicgen_melody")
def musicgen_codes(made: Made) -> None:
    """One row a codebook of the codes that were written so far, and in training those that come next."""
    decoder = made.config.decoder
    codes = (made.batch * decoder.num_codebooks, made.sequence)
    made.inputs["decoder_input_ids"] = values.integers(made, codes, 0, decoder.vocab_size)
    if made.train:
        labels = (made.batch, made.sequence, decoder.num_codebooks)
        made.inputs["labels"] = values.integers(made, labels, 0, decoder.vocab_size)


@makes_sounds("musicgen_melody")
def musicgen_melody(made: Made) -> None:
    """A chroma of the melody, each frame of one pitch."""
    import torch

    config = made.config
    pitches = values.integers(made, (made.batch, config.chroma_length), 0, config.num_chroma)
    made.inputs["input_features"] = torch.nn.functional.one_hot(pitches, config.num_chroma).to(made.dtype)


@changes_inputs("musicgen_decoder", "musicgen_melody_decoder")
def musicgen_decoder(made: Made) -> None:
    """The decoder alone reads one row of tokens a codebook."""
    codebooks, vocabulary = made.config.num_codebooks, made.config.vocab_size
    made.inputs["input_ids"] = values.integers(made, (made.batch * codebooks, made.sequence), 0, vocabulary)
    made.inputs["attention_mask"] = values.ones(made, (made.batch, made.sequence))
    if made.train:
        labels = (made.batch, made.sequence, codebooks)
        made.inputs["labels"] = values.integers(made, labels, 0, vocabulary)


@changes_inputs("pop2piano")
def pop2piano(made: Made) -> None:
    """Its encoder reads spectrograms as embeddings of its own width, in place of tokens."""
    made.inputs.pop("input_ids", None)
    made.inputs["input_features"] = values.floats(made, (made.batch, made.sequence, made.config.d_model))
    made.inputs["attention_mask"] = values.ones(made, (made.batch, made.sequence))

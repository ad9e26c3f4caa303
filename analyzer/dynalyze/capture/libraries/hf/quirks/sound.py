"""Quirks of models that hear or write sound of any kind: speech, music, encoders, codecs."""

from __future__ import annotations

from typing import Any

import torch

from dynalyze.capture.libraries.hf import parts, quirks
from dynalyze.capture.libraries.hf.inputs.audio import audio_part, hop_length
from dynalyze.capture.libraries.hf.inputs.input_builder import InputBuilder, Placeholder, features_per_sample


def _frame(codec: Any) -> int:
    """Samples in a frame of codes."""
    return int(codec.sampling_rate / codec.frame_rate)


def _few(b: InputBuilder, otherwise: int) -> int:
    """The request's length, in frames rather than tokens of text."""
    return b.request.sequence or otherwise


OPEN: quirks.Table = {
    # The side of the image patches that are one token, which it leaves to the thinker's configuration.
    "Qwen3OmniMoeTalkerConfig": {"spatial_merge_size": 2},
    # The token that stands for audio; its checkpoints use 24.
    "voxtral": {"audio_token_id": 24},
    # The alphabet of transcripts; that of other wav2vec 2.0 models has 32 letters.
    "wav2vec2-bert wav2vec2-conformer": {"vocab_size": 32},
    # Its experts share one more, whose size the configuration does not name; its checkpoints have 768.
    "qwen3_omni_moe_talker_text": {"shared_expert_intermediate_size": lambda c: 2 * c.moe_intermediate_size},
}
COMPLETE: quirks.Table = {
    # The speech encoder reads the tokens that the decoder writes; its default knows fewer.
    "clvp": {"speech_config.vocab_size": lambda c: max(c.speech_config.vocab_size, c.decoder_config.vocab_size)},
    # The codec's bandwidth is that of as many codebooks as the decoder reads.
    "musicgen": {
        "audio_encoder.target_bandwidths": lambda c: [
            c.decoder.num_codebooks * c.audio_encoder.frame_rate * c.audio_encoder.codebook_nbits / 1000
        ]
    },
    # The audio encoder gives states of the text's width. Images begin with a token that the defaults do not name and
    # the positions ask for.
    "qwen2_5_omni_thinker qwen3_omni_moe_thinker": {
        "audio_config.output_dim": "text_config.hidden_size",
        "vision_start_token_id": lambda c: getattr(c, "vision_start_token_id", 151652),
    },
}
SMALL: quirks.Table = {
    # Each stage but the last doubles the width.
    "clap_audio_model": {"hidden_size": lambda c: c.patch_embeds_hidden_size * 2 ** (len(c.depths) - 1)},
    # Three convolutions halve the mel bins, for each of their channels.
    "dots3_note_audio_encoder": {"conv_output_size": lambda c: c.downsample_hidden_size * -(-c.feature_size // 8)},
    # A conformer whose heads share its width: two heads of the size they have.
    "granite_speech_encoder granite_speech_plus_encoder": {
        "num_heads": lambda c: min(c.num_heads, 2),
        "hidden_dim": lambda c: c.num_heads * c.dim_head,
    },
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
    "phi4_multimodal_audio": dict.fromkeys(
        ("ext_pw_out_channel", "depthwise_separable_out_channel", "nemo_conv_channels"), "hidden_size"
    ),
    # The audio encoder gives states of the text's width.
    "qwen2_5_omni_thinker qwen3_omni_moe_thinker": {"audio_config.output_dim": "text_config.hidden_size"},
}
EQUAL: quirks.Table = {
    # The projector's default reads the width of another encoder.
    "granite_speech granite_speech_plus": {
        "projector_config.encoder_hidden_size": lambda c: (
            c.encoder_config.hidden_dim * (1 + len(getattr(c.encoder_config, "cat_hidden_layers", None) or ()))
        )
    },
    # Its decoder asks for its key and value heads, which its configuration does not name.
    "moonshine_streaming": {"num_key_value_heads": "num_attention_heads"},
    # The vocabulary of codes is that of the codec, where none is told. The depth decoder reads the states of the main
    # one, and the same tokens.
    "moshi": {
        "audio_vocab_size": lambda c: parts.first(c, "audio_vocab_size", default=c.audio_encoder_config.codebook_size),
        "depth_decoder_config.input_size": "hidden_size",
        "depth_decoder_config.vocab_size": "vocab_size",
        "depth_decoder_config.audio_vocab_size": "audio_vocab_size",
    },
    # The projector gives the text's width.
    "qwen3_asr": {"audio_config.output_dim": "text_config.hidden_size"},
}
SOUNDS: quirks.Table = {
    # Images of spectrograms, one a sample or, with fusion, four crops of it, of ten seconds, as its feature extractor
    # cuts or repeats every sound to; `is_longer`: than these.
    "clap_audio_model clap": {
        "input_features": lambda b, c: _clap_images(b, audio_part(c)),
        "is_longer": lambda b, c: b.full((b.batch, 1), 0, dtype=torch.bool),
    },
    # The text is conditioned on a spectrogram whose mel bins come first.
    "clvp": {"input_features": lambda b, c: b.floats((b.batch, c.decoder_config.feature_size, 128))},
    # One sound a sample, of eight frames of the codec; the processor tells where each sound ends in the waveform.
    "csm": {
        "input_values_cutoffs": lambda b, c: b.full((b.batch, 1), 8 * _frame(c.codec_config)),
        "input_values": lambda b, c: b.floats((b.batch, 1, 8 * _frame(c.codec_config)), 0.1),
        "placeholder": lambda b, c: Placeholder(c.audio_token_id, 8, "audio", end=c.audio_eos_token_id),
    },
    # One chunk a sample, mel bins first, with its length in samples; eight frames become a token.
    "dots3_note_audio_encoder dots3_note": {
        "input_features": lambda b, c: b.floats((b.batch, audio_part(c).feature_size, b.sequence * 8)),
        "chunk_sample_lengths": lambda b, c: b.full((b.batch,), b.sequence * 8 * audio_part(c).hop_length),
    },
    # The encoder makes a token of four frames, and has its number of mel bins in its code alone. Its own mask is
    # called as the text's, which in a larger model stands beside it.
    "gemma4_audio gemma4 gemma3n embedding_gemma2": {
        "input_features": lambda b, c: b.floats((b.batch, 4 * _few(b, 32), 128)),
        "input_features_mask": lambda b, c: b.ones((b.batch, 4 * _few(b, 32)), dtype=torch.bool),
        "attention_mask": lambda b, c: (
            None if "input_features_mask" in b.takes else b.ones((b.batch, 4 * _few(b, 32)), dtype=torch.bool)
        ),
    },
    # Windows of the encoder's states are projected to a few tokens, and the processor's mask is that of these.
    "granite_speech granite_speech_plus": {
        "input_features": lambda b, c: b.floats((b.batch, _few(b, 128), c.encoder_config.input_dim)),
        "input_features_mask": lambda b, c: b.ones((b.batch, features_per_sample(b, "audio") or 0), dtype=torch.bool),
        "placeholder": lambda b, c: Placeholder(c.audio_token_id, b.inputs["input_features_mask"].shape[1], "audio"),
    },
    # It stacks two frames of mel bins and their changes.
    "granite_speech5_ctc granite_speech5_encoder": {
        "input_features": lambda b, c: b.floats((b.batch, _few(b, 64), 4 * audio_part(c).num_mel_bins)),
        "attention_mask": lambda b, c: b.ones((b.batch, _few(b, 64))),
    },
    # It reads the codes of a reference sound, a placeholder in the text for each of its frames.
    "higgs_audio_v2": {
        "audio_input_ids": lambda b, c: b.integers((b.batch, 16, c.num_codebooks), 0, c.codebook_size),
        "audio_input_ids_mask": lambda b, c: b.ones((b.batch, 16), dtype=torch.bool),
        "placeholder": lambda b, c: Placeholder(c.audio_token_id, 16, "audio", c.audio_bos_token_id),
    },
    # Spectrograms whose values are quantised: one code a mel bin and frame, with their mask beside text.
    "inkling_audio inkling_mm_model": {
        "audio_input_ids": lambda b, c: b.integers(
            (b.batch, b.sequence, audio_part(c).num_codebooks), 0, audio_part(c).codebook_size
        ),
        "audio_input_ids_mask": lambda b, c: b.ones((b.batch, b.sequence)),
    },
    # It tells the length of each sound in samples beside its chunks of features: one whole chunk a sample.
    "moss_transcribe_diarize": {"padding_mask": lambda b, c: b.ones((b.batch, c.audio_chunk_size))},
    # Whole patches of samples, with the mask that a larger model takes.
    "muse_spark_audio muse_spark": {
        "input_values": lambda b, c: b.floats((b.batch, b.sequence * audio_part(c).samples_per_token), 0.1),
        "input_values_mask": lambda b, c: b.ones(b.inputs["input_values"].shape),
    },
    # A chroma of the melody, each frame of one pitch.
    "musicgen_melody": {
        "input_features": lambda b, c: torch.nn.functional.one_hot(
            b.integers((b.batch, c.chroma_length), 0, c.num_chroma), c.num_chroma
        ).to(b.dtype)
    },
    # Waveforms of whole frames of its codec, with a mask of samples.
    "pe_audio": {
        "input_values": lambda b, c: b.floats((b.batch, 1, _few(b, 8) * hop_length(audio_part(c).dac_config)), 0.1),
        "padding_mask": lambda b, c: b.ones((b.batch, b.inputs["input_values"].shape[-1]), dtype=torch.bool),
    },
    # It speaks a text with the voice of a prompt: latents of its audio tokenizer, a placeholder for each.
    "pocket_tts gradium_phonon_tts": {
        "audio_prompt_latents": lambda b, c: b.floats((b.batch, 8, parts.first(c, "audio_prompt_dim", "latent_dim"))),
        "audio_prompt_latents_mask": lambda b, c: b.ones((b.batch, 8)),
        "placeholder": lambda b, c: Placeholder(
            c.audio_prompt_token_id, 8, "audio", getattr(c, "audio_prompt_bos_token_id", None)
        ),
    },
    # Its encoder takes whole windows of frames, here one.
    "qwen3_asr": {
        "input_features": lambda b, c: b.floats((b.batch, audio_part(c).num_mel_bins, 2 * audio_part(c).n_window)),
        "input_features_mask": lambda b, c: b.ones((b.batch, 2 * audio_part(c).n_window)),
    },
    # It adds an embedding of audio to each token of text, so both have one length; its processor returns the delay.
    "voxtral_realtime": {
        "input_features": lambda b, c: b.floats(
            (b.batch, c.audio_config.num_mel_bins, b.sequence * c.audio_length_per_tok)
        ),
        "num_delay_tokens": lambda b, c: c.default_num_delay_tokens,
    },
    # A sound is heard twice: its waveform, and a spectrogram of pairs of frames for the semantic encoder.
    "xcodec2 neucodec": {
        "input_values": lambda b, c: b.floats((b.batch, 1, _few(b, 25) * hop_length(c)), 0.1),
        "padding_mask": lambda b, c: b.ones((b.batch, _few(b, 25) * hop_length(c))),
        "input_features": lambda b, c: b.floats(
            (b.batch, _few(b, 25), c.semantic_model_config.feature_projection_input_dim)
        ),
        "input_features_mask": lambda b, c: b.ones((b.batch, _few(b, 25))),
    },
}
_EMBEDDINGS = {"input_ids": None, "inputs_embeds": lambda b, c: b.floats((b.batch, b.sequence, c.hidden_size))}
INPUTS: quirks.Table = {
    # The backbone alone reads frames of codes.
    "csm": {
        "input_ids": lambda b, c: (
            b.inputs["input_ids"]
            if "input_values_cutoffs" in b.inputs
            else b.integers((b.batch, b.sequence, c.num_codebooks), 0, c.codebook_size)
        )
    },
    # Its decoder reads the codes of several channels of sound.
    "dia": {
        "input_ids": lambda b, c: b.tokens(b.inputs["input_ids"].shape, c.encoder_config.vocab_size),
        "decoder_input_ids": lambda b, c: b.tokens(
            (b.batch, b.sequence, c.decoder_config.num_channels), c.decoder_config.vocab_size
        ),
        "labels": lambda b, c: (
            b.tokens((b.batch * c.decoder_config.num_channels, b.sequence), c.decoder_config.vocab_size)
            if b.train
            else None
        ),
    },
    # Bark's fine model reads all codebooks of a sound and foretells one of them.
    "fine_acoustics": {
        "input_ids": lambda b, c: b.integers((b.batch, b.sequence, c.n_codes_total), 0, c.input_vocab_size),
        "attention_mask": lambda b, c: b.ones((b.batch, b.sequence)),
        "codebook_idx": lambda b, c: c.n_codes_given,
    },
    # The mask of the sounds picks features by it, and so has to be one of truth values.
    "gemma4_unified": {"input_features_mask": lambda b, c: b.inputs["input_features_mask"].bool()},
    # It reads, for each frame, a token of text and the codes of the sound.
    "kyutai_speech_to_text": {
        "input_ids": lambda b, c: torch.cat(
            [
                b.tokens((b.batch, b.sequence, 1), c.vocab_size),
                b.integers((b.batch, b.sequence, c.num_codebooks), 0, c.codebook_vocab_size),
            ],
            dim=-1,
        ),
        "attention_mask": lambda b, c: b.ones((b.batch, b.sequence)),
        "labels": lambda b, c: b.inputs["input_ids"][..., 0].clone() if b.train else None,
    },
    # It hears its user and itself: a waveform of each, and a token of text for every frame of them.
    "moshi": {
        "user_input_values": lambda b, c: b.floats(
            (b.batch, c.audio_encoder_config.audio_channels, b.sequence * _frame(c.audio_encoder_config)), 0.1
        ),
        "moshi_input_values": lambda b, c: b.floats(b.inputs["user_input_values"].shape, 0.1),
        "text_labels": lambda b, c: b.inputs["input_ids"].clone() if b.train else None,
    },
    # The encoder alone calls its spectrogram `hidden_states`.
    "phi4_multimodal_audio": {
        "hidden_states": lambda b, c: b.floats((b.batch, _few(b, 128), c.input_size)),
        "mask": lambda b, c: b.ones((b.batch, _few(b, 128)), dtype=torch.bool),
    },
    # Its labels are latents of a recording with placeholders of their own, which no token ids stand for.
    "pocket_tts gradium_phonon_tts": {"labels": None},
    # Its encoder reads spectrograms as embeddings of its own width, in place of tokens.
    "pop2piano": {
        "input_ids": None,
        "input_features": lambda b, c: b.floats((b.batch, b.sequence, c.d_model)),
        "attention_mask": lambda b, c: b.ones((b.batch, b.sequence)),
    },
    # The diffusion step of Qwen2.5-Omni's speech: noisy mel frames, the speaker, and codes of the speech.
    "qwen2_5_omni_dit": {
        "hidden_states": lambda b, c: b.floats((b.batch, b.sequence * c.repeats, c.mel_dim)),
        "condition_vector": lambda b, c: b.floats((b.batch, b.sequence * c.repeats, c.mel_dim)),
        "speaker_embedding": lambda b, c: b.floats((b.batch, b.sequence * c.repeats, c.enc_emb_dim)),
        "quantized_code": lambda b, c: b.integers((b.batch, b.sequence), 0, c.num_embeds),
        "time_step": lambda b, c: b.floats((b.batch,)).abs(),
    },
    # The vocoder of Qwen2.5-Omni: a mel spectrogram to a waveform.
    "qwen2_5_omni_bigvgan": {"mel_spectrogram": lambda b, c: b.floats((b.batch, c.mel_dim, b.sequence))},
    # It continues codes of speech, led by the hidden states of the thinker's reply; its decoder reads embeddings.
    "qwen2_5_omni_talker": {
        "thinker_reply_part": lambda b, c: b.floats((b.batch, b.sequence, c.embedding_size)),
        "input_text_ids": lambda b, c: b.tokens((b.batch, b.sequence)),
        "input_ids": lambda b, c: b.inputs["input_ids"] if "input_text_ids" in b.takes else None,
        "inputs_embeds": lambda b, c: (
            None if "input_text_ids" in b.takes else b.floats((b.batch, b.sequence, c.hidden_size))
        ),
    },
    # Codes of speech and the voice of a reference to a waveform; its sampler takes one sample at a time.
    "qwen2_5_omni_token2wav": {
        "code": lambda b, c: b.integers((1, b.sequence), 0, c.dit_config.num_embeds),
        "conditioning": lambda b, c: b.floats((1, c.dit_config.enc_emb_dim)),
        "reference_mel": lambda b, c: b.floats((1, b.sequence * c.dit_config.repeats, c.dit_config.mel_dim)),
        "num_steps": 2,
    },
    # The vocoder reads codes; the decoders in it and in the talker read embeddings of codes.
    "Qwen3OmniMoeCode2WavConfig": {
        "codes": lambda b, c: b.integers((b.batch, c.num_quantizers, b.sequence), 0, c.codebook_size),
        **_EMBEDDINGS,
    },
    "qwen3_omni_moe_talker_text": _EMBEDDINGS,
    # It starts from embeddings made of the thinker's; the thinker's tokens tell the positions.
    "Qwen3OmniMoeTalkerConfig": {
        "talker_input_ids": lambda b, c: b.inputs["input_ids"],
        "input_ids": None,
        "inputs_embeds": lambda b, c: b.floats((b.batch, b.sequence, c.text_config.hidden_size)),
    },
    # It starts from the talker's hidden state and the first code's embedding.
    "qwen3_omni_moe_talker_code_predictor": {
        "input_ids": None,
        "attention_mask": None,
        "inputs_embeds": lambda b, c: b.floats((b.batch, 2, c.hidden_size)),
    },
    # Encoder and decoder call waveform and latents `hidden_states`; each frame is thousands of samples.
    "vibevoice_acoustic_tokenizer_encoder": {
        "hidden_states": lambda b, c: b.floats((b.batch, c.channels, _few(b, 2) * c.hop_length), 0.1)
    },
    "vibevoice_acoustic_tokenizer_decoder": {
        "hidden_states": lambda b, c: b.floats((b.batch, c.hidden_size, _few(b, 2)))
    },
}


def _clap_images(b: InputBuilder, c: Any) -> torch.Tensor:
    frames = min(1001, c.spec_size * (c.spec_size // c.num_mel_bins))
    return b.floats((b.batch, 4 if c.enable_fusion else 1, frames, c.num_mel_bins))


@quirks.changes_inputs("musicgen")
def musicgen(b: InputBuilder, c: Any) -> None:
    """It continues a sound as a text describes it: the model makes the decoder's codes of the waveform.

    In training they are given, as its trainers do.
    """
    if not b.train:
        del b.inputs["decoder_input_ids"]
        return
    del b.inputs["input_values"], b.inputs["padding_mask"]
    musicgen_codes(b, c)


@quirks.changes_inputs("musicgen_melody", "musicgen_decoder", "musicgen_melody_decoder")
def musicgen_codes(b: InputBuilder, c: Any) -> None:
    """One row a codebook of the codes that were written so far, and in training those that come next."""
    decoder = getattr(c, "decoder", c)
    codes = b.integers((b.batch * decoder.num_codebooks, b.sequence), 0, decoder.vocab_size)
    if decoder is c:  # The decoder alone.
        b.inputs |= {"input_ids": codes, "attention_mask": b.ones((b.batch, b.sequence))}
    else:
        b.inputs["decoder_input_ids"] = codes
    if b.train:
        b.inputs["labels"] = b.integers((b.batch, b.sequence, decoder.num_codebooks), 0, decoder.vocab_size)


@quirks.changes_inputs("seamless_m4t", "seamless_m4t_v2")
def seamless_m4t(b: InputBuilder, c: Any) -> None:
    """It reads speech or text, never both: the bare model is given speech, its heads for text show the text."""
    if "input_features" in b.inputs and "input_ids" in b.inputs:
        del b.inputs["input_ids"]
        b.inputs["attention_mask"] = b.ones(b.inputs["input_features"].shape[:2])
    if "TextToUnit" in b.name:  # The units are made of the text decoder's states.
        del b.inputs["input_ids"]
        b.inputs["inputs_embeds"] = b.floats((b.batch, b.sequence, c.hidden_size))


@quirks.changes_inputs("speecht5")
def speecht5(b: InputBuilder, c: Any) -> None:
    """Its heads read and write speech or text; the bare model reads what their prenets would give it."""
    frames, spoken = 16, "decoder_input_values"
    if spoken not in b.takes:
        return
    if "speaker_embeddings" in b.takes:
        b.inputs["speaker_embeddings"] = b.floats((b.batch, c.speaker_embedding_dim))
    if getattr(b.model, "base_model", None) is b.model:
        b.inputs["input_values"] = b.floats((b.batch, b.sequence, c.hidden_size))
        b.inputs[spoken] = b.floats((b.batch, frames, c.hidden_size))
        return
    b.inputs[spoken] = b.floats((b.batch, frames, c.num_mel_bins))
    if b.train:
        b.inputs["labels"] = b.floats((b.batch, frames * c.reduction_factor, c.num_mel_bins))

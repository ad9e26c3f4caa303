"""Quirks of models that hear speech or speak."""

from __future__ import annotations

import torch

from dynalyze.capture.hf import parts, quirks
from dynalyze.capture.hf.inputs.audio import audio_part
from dynalyze.capture.hf.inputs.features import features_per_sample
from dynalyze.capture.hf.inputs.input_builder import InputBuilder, Placeholder

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
    # The audio encoder gives states of the text's width. Images begin with a token that the defaults do not name and
    # the positions ask for.
    "qwen2_5_omni_thinker qwen3_omni_moe_thinker": {
        "audio_config.output_dim": "text_config.hidden_size",
        "vision_start_token_id": lambda c: getattr(c, "vision_start_token_id", 151652),
    },
}
SMALL: quirks.Table = {
    # A conformer whose heads share its width: two heads of the size they have.
    "granite_speech_encoder granite_speech_plus_encoder": {
        "num_heads": lambda c: min(c.num_heads, 2),
        "hidden_dim": lambda c: c.num_heads * c.dim_head,
    },
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
    # The text is conditioned on a spectrogram whose mel bins come first.
    "clvp": {"input_features": lambda b: b.floats((b.batch, b.config.decoder_config.feature_size, 128))},
    # It stacks two frames of mel bins and their changes.
    "granite_speech5_ctc granite_speech5_encoder": {
        "input_features": lambda b: b.floats(
            (b.batch, b.request.sequence or 64, 4 * audio_part(b.config).num_mel_bins)
        ),
        "attention_mask": lambda b: b.ones((b.batch, b.request.sequence or 64)),
    },
    # It tells the length of each sound in samples beside its chunks of features: one whole chunk a sample.
    "moss_transcribe_diarize": {"padding_mask": lambda b: b.ones((b.batch, b.config.audio_chunk_size))},
    # Its encoder takes whole windows of frames, here one.
    "qwen3_asr": {
        "input_features": lambda b: b.floats(
            (b.batch, audio_part(b.config).num_mel_bins, 2 * audio_part(b.config).n_window)
        ),
        "input_features_mask": lambda b: b.ones((b.batch, 2 * audio_part(b.config).n_window)),
    },
    # It adds an embedding of audio to each token of text, so both have one length; its processor returns the delay.
    "voxtral_realtime": {
        "input_features": lambda b: b.floats(
            (b.batch, b.config.audio_config.num_mel_bins, b.sequence * b.config.audio_length_per_tok)
        ),
        "num_delay_tokens": lambda b: b.config.default_num_delay_tokens,
    },
}
INPUTS: quirks.Table = {
    # Bark's fine model reads all codebooks of a sound and foretells one of them.
    "fine_acoustics": {
        "input_ids": lambda b: b.integers((b.batch, b.sequence, b.config.n_codes_total), 0, b.config.input_vocab_size),
        "attention_mask": lambda b: b.ones((b.batch, b.sequence)),
        "codebook_idx": lambda b: b.config.n_codes_given,
    },
    # The diffusion step of Qwen2.5-Omni's speech: noisy mel frames, the speaker, and codes of the speech.
    "qwen2_5_omni_dit": {
        "hidden_states": lambda b: b.floats((b.batch, b.sequence * b.config.repeats, b.config.mel_dim)),
        "condition_vector": lambda b: b.floats((b.batch, b.sequence * b.config.repeats, b.config.mel_dim)),
        "speaker_embedding": lambda b: b.floats((b.batch, b.sequence * b.config.repeats, b.config.enc_emb_dim)),
        "quantized_code": lambda b: b.integers((b.batch, b.sequence), 0, b.config.num_embeds),
        "time_step": lambda b: b.floats((b.batch,)).abs(),
    },
    # The vocoder of Qwen2.5-Omni: a mel spectrogram to a waveform.
    "qwen2_5_omni_bigvgan": {"mel_spectrogram": lambda b: b.floats((b.batch, b.config.mel_dim, b.sequence))},
    # Codes of speech and the voice of a reference to a waveform; its sampler takes one sample at a time.
    "qwen2_5_omni_token2wav": {
        "code": lambda b: b.integers((1, b.sequence), 0, b.config.dit_config.num_embeds),
        "conditioning": lambda b: b.floats((1, b.config.dit_config.enc_emb_dim)),
        "reference_mel": lambda b: b.floats((1, b.sequence * b.config.dit_config.repeats, b.config.dit_config.mel_dim)),
        "num_steps": 2,
    },
}


@quirks.makes_sounds("csm")
def csm_sounds(builder: InputBuilder) -> None:
    """One sound a sample, of whole frames of the codec, and a placeholder for each frame.

    The processor tells where in a sample's waveform each sound ends.
    """
    if not builder.wants("input_values_cutoffs"):
        return
    frames, codec = 8, builder.config.codec_config
    samples = frames * int(codec.sampling_rate / codec.frame_rate)
    builder.inputs["input_values"] = builder.floats((builder.batch, 1, samples), scale=0.1)
    builder.inputs["input_values_cutoffs"] = builder.full((builder.batch, 1), samples)
    end = builder.config.audio_eos_token_id
    builder.placeholders.append(Placeholder(builder.config.audio_token_id, frames, "audio", end=end))


@quirks.changes_inputs("csm")
def csm_inputs(builder: InputBuilder) -> None:
    """The backbone alone reads frames of codes."""
    if "input_values_cutoffs" not in builder.inputs:
        shape = (builder.batch, builder.sequence, builder.config.num_codebooks)
        builder.inputs["input_ids"] = builder.integers(shape, 0, builder.config.codebook_size)


@quirks.changes_inputs("dia")
def dia(builder: InputBuilder) -> None:
    """Its decoder reads the codes of several channels of sound."""
    encoder, decoder = builder.config.encoder_config, builder.config.decoder_config
    texts = builder.inputs["input_ids"].shape
    builder.inputs["input_ids"] = builder.tokens(texts, vocabulary=encoder.vocab_size)
    codes = (builder.batch, builder.sequence, decoder.num_channels)
    builder.inputs["decoder_input_ids"] = builder.tokens(codes, vocabulary=decoder.vocab_size)
    if builder.train:
        labels = (builder.batch * decoder.num_channels, builder.sequence)
        builder.inputs["labels"] = builder.tokens(labels, vocabulary=decoder.vocab_size)


@quirks.makes_sounds("granite_speech", "granite_speech_plus")
def granite_speech_sounds(builder: InputBuilder) -> None:
    """Windows of the encoder's states are projected to a few tokens, and the processor's mask is that of these."""
    if not builder.wants("input_features"):
        return
    frames, bins = builder.request.sequence or 128, builder.config.encoder_config.input_dim
    builder.inputs["input_features"] = builder.floats((builder.batch, frames, bins))
    tokens = features_per_sample(builder, "audio")
    if tokens is not None:
        builder.inputs["input_features_mask"] = builder.ones((builder.batch, tokens), dtype=torch.bool)
        builder.placeholders.append(Placeholder(builder.config.audio_token_id, tokens, "audio"))


@quirks.makes_sounds("higgs_audio_v2")
def higgs_audio_v2(builder: InputBuilder) -> None:
    """It reads the codes of a reference sound, a placeholder in the text for each of its frames."""
    frames, config = 16, builder.config
    shape = (builder.batch, frames, config.num_codebooks)
    builder.inputs["audio_input_ids"] = builder.integers(shape, 0, config.codebook_size)
    builder.inputs["audio_input_ids_mask"] = builder.ones(shape[:2], dtype=torch.bool)
    begin = config.audio_bos_token_id
    builder.placeholders.append(Placeholder(config.audio_token_id, frames, "audio", begin=begin))


@quirks.changes_inputs("kyutai_speech_to_text")
def kyutai_speech_to_text(builder: InputBuilder) -> None:
    """It reads, for each frame, a token of text and the codes of the sound."""
    config = builder.config
    text = builder.tokens((builder.batch, builder.sequence, 1), vocabulary=config.vocab_size)
    codes = (builder.batch, builder.sequence, config.num_codebooks)
    sound = builder.integers(codes, 0, config.codebook_vocab_size)
    builder.inputs["input_ids"] = torch.cat([text, sound], dim=-1)
    builder.inputs["attention_mask"] = builder.ones(codes[:2])
    if builder.train and "labels" in builder.takes:
        builder.inputs["labels"] = text.squeeze(-1)


@quirks.changes_inputs("moshi")
def moshi_inputs(builder: InputBuilder) -> None:
    """It hears its user and itself: a waveform of each, and a token of text for every frame of them."""
    if not builder.wants("user_input_values"):
        return
    codec = builder.config.audio_encoder_config
    samples = builder.sequence * int(codec.sampling_rate / codec.frame_rate)
    for name in ("user_input_values", "moshi_input_values"):
        builder.inputs[name] = builder.floats((builder.batch, codec.audio_channels, samples), scale=0.1)
    if builder.train:
        builder.inputs["text_labels"] = builder.inputs["input_ids"].clone()


@quirks.makes_sounds("pocket_tts", "gradium_phonon_tts")
def pocket_tts_sounds(builder: InputBuilder) -> None:
    """It speaks a text with the voice of a prompt: latents of its audio tokenizer, a placeholder for each."""
    config = builder.config
    shape = (builder.batch, 8, parts.first(config, "audio_prompt_dim", "latent_dim"))
    builder.inputs["audio_prompt_latents"] = builder.floats(shape)
    builder.inputs["audio_prompt_latents_mask"] = builder.ones(shape[:2])
    begin = getattr(config, "audio_prompt_bos_token_id", None)
    builder.placeholders.append(Placeholder(config.audio_prompt_token_id, shape[1], "audio", begin=begin))


@quirks.changes_inputs("pocket_tts", "gradium_phonon_tts")
def pocket_tts_inputs(builder: InputBuilder) -> None:
    """Its labels are latents of a recording with placeholders of their own, which no token ids stand for."""
    builder.inputs.pop("labels", None)


@quirks.changes_inputs("qwen2_5_omni_talker", "qwen3_omni_moe_talker_text", "Qwen3OmniMoeCode2WavConfig")
def qwen_omni_speakers(builder: InputBuilder) -> None:
    """The talker continues codes of speech, led by the hidden states of the thinker's reply; the vocoder reads codes.

    The decoders in them read embeddings of codes.
    """
    config = builder.config
    if "thinker_reply_part" in builder.takes:
        shape = (builder.batch, builder.sequence, config.embedding_size)
        builder.inputs["thinker_reply_part"] = builder.floats(shape)
        builder.inputs["input_text_ids"] = builder.tokens(shape[:2])
    elif "codes" in builder.takes:
        codes = (builder.batch, config.num_quantizers, builder.sequence)
        builder.inputs = {"codes": builder.integers(codes, 0, config.codebook_size)}
    else:
        _embeddings_for_tokens(builder, config.hidden_size)


@quirks.changes_inputs("Qwen3OmniMoeTalkerConfig")
def qwen3_omni_talker(builder: InputBuilder) -> None:
    """It starts from embeddings made of the thinker's; the thinker's tokens tell the positions."""
    if "talker_input_ids" in builder.takes:
        builder.inputs["talker_input_ids"] = builder.inputs["input_ids"]
        _embeddings_for_tokens(builder, builder.config.text_config.hidden_size)


@quirks.changes_inputs("qwen3_omni_moe_talker_code_predictor")
def qwen3_omni_code_predictor(builder: InputBuilder) -> None:
    """It starts from the talker's hidden state and the first code's embedding."""
    del builder.inputs["input_ids"], builder.inputs["attention_mask"]
    builder.inputs["inputs_embeds"] = builder.floats((builder.batch, 2, builder.config.hidden_size))


def _embeddings_for_tokens(builder: InputBuilder, width: int) -> None:
    del builder.inputs["input_ids"]
    builder.inputs["inputs_embeds"] = builder.floats((builder.batch, builder.sequence, width))


@quirks.changes_inputs("seamless_m4t", "seamless_m4t_v2")
def seamless_m4t(builder: InputBuilder) -> None:
    """It reads speech or text, never both: the bare model is given speech, its heads for text show the text."""
    if "input_features" in builder.inputs and "input_ids" in builder.inputs:
        del builder.inputs["input_ids"]
        builder.inputs["attention_mask"] = builder.ones(builder.inputs["input_features"].shape[:2])
    if "TextToUnit" in builder.name:
        # The units are made of the text decoder's states.
        _embeddings_for_tokens(builder, builder.config.hidden_size)


@quirks.changes_inputs("speecht5")
def speecht5(builder: InputBuilder) -> None:
    """Its heads read and write speech or text; the bare model reads what their prenets would give it."""
    config, frames, spoken = builder.config, 16, "decoder_input_values"
    if spoken not in builder.takes:
        return
    if "speaker_embeddings" in builder.takes:
        builder.inputs["speaker_embeddings"] = builder.floats((builder.batch, config.speaker_embedding_dim))
    if getattr(builder.model, "base_model", None) is builder.model:
        builder.inputs["input_values"] = builder.floats((builder.batch, builder.sequence, config.hidden_size))
        builder.inputs[spoken] = builder.floats((builder.batch, frames, config.hidden_size))
        return
    builder.inputs[spoken] = builder.floats((builder.batch, frames, config.num_mel_bins))
    if builder.train:
        written = frames * config.reduction_factor
        builder.inputs["labels"] = builder.floats((builder.batch, written, config.num_mel_bins))

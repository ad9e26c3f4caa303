"""What single classes need beside the rules: arguments of constructors; inputs as in `inputs.RULES`, or a size."""

from __future__ import annotations

from typing import Any

# Arguments without a default, or whose default no checkpoint has; they become small like all others. A model that
# holds others holds so many.
CONFIGS: dict[str, dict[str, Any]] = {
    "StableDiffusionPipeline": {"cross_attention_dim": 768},
    "StableDiffusionXLPipeline": {
        "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
        "cross_attention_dim": 2048,
        "up_block_types": ("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"), "use_linear_projection": True,
        "block_out_channels": (320, 640, 1280), "transformer_layers_per_block": (1, 2, 10),
        "attention_head_dim": (5, 10, 20), "addition_embed_type": "text_time", "addition_time_embed_dim": 256,
        "projection_class_embeddings_input_dim": 2816,
    },
    "AutoencoderKLHunyuanImage": {
        "in_channels": 3, "out_channels": 3, "latent_channels": 8, "block_out_channels": (32, 64),
        "layers_per_block": 1, "spatial_compression_ratio": 2, "sample_size": 64,
    },
    "BriaFibo2Transformer2DModel": {"injection_layer_ids": (1,), "gist_min_text_len": 4, "min_num_gist_tokens": 4},
    "ControlNetUnionModel": {"addition_time_embed_dim": 256},
    "DreamLiteTransformer2DModel": {"in_channels": 64, "cross_attention_dim": 32},
    "EasyAnimateTransformer3DModel": {"in_channels": 16, "out_channels": 16, "patch_size": 2},
    "HiDreamImageTransformer2DModel": {
        "patch_size": 2, "in_channels": 16, "caption_channels": [64, 32], "llama_layers": [0, 1, 2, 3],
        "axes_dims_rope": [64, 32, 32],
    },
    "HunyuanDiT2DControlNetModel": {"in_channels": 4, "patch_size": 2},
    "HunyuanDiT2DModel": {"in_channels": 4, "patch_size": 2},
    "HunyuanVideoFramepackTransformer3DModel": {"has_clean_x_embedder": True, "has_image_proj": True},
    "LatteTransformer3DModel": {
        "in_channels": 4, "patch_size": 2, "cross_attention_dim": 1408, "caption_channels": 32, "video_length": 3,
        "num_embeds_ada_norm": 1000, "norm_type": "ada_norm_single", "attention_bias": True,
    },
    "OmniGenTransformer2DModel": {"rope_scaling": {"long_factor": [1.0] * 48, "short_factor": [1.0] * 48}},
    "QwenImageMultiControlNetModel": {"controlnets": 1},
    "Transformer2DModel": {"in_channels": 64, "cross_attention_dim": 32},
    "TransformerTemporalModel": {"in_channels": 64},
    "UNetSpatioTemporalConditionModel": {"num_attention_heads": (2, 4, 4, 4)},
    "UNet1DModel": {"extra_in_channels": 64},
    "WanVACETransformer3DModel": {"vace_layers": [0, 1]},
    "ZImageControlNetModel": {
        "control_layers_places": [0, 1], "control_refiner_layers_places": [0, 1], "control_in_dim": 16,
    },
}  # fmt: skip

# Several ControlNets run on one input, each with its own condition.
_TWO = {"conditioning_scale": "[1.0, 1.0]", "controlnet_mode": "[full(0, B), full(0, B)]"}
_FRAMES_FIRST = "normal(B, F, in_channels, H, W)"
_ANY_FLOW = {"hidden_states": _FRAMES_FIRST, "timestep": "full(500.0, B, F)", "r_timestep": "full(400.0, B, F)"}
_PLANES = {"hidden_states": "normal(B, in_channels, H, W)", "controlnet_cond": "normal(B, in_channels, H, W)"}
_HUNYUAN_DIT = {
    "encoder_hidden_states": "normal(B, text_len, cross_attention_dim)", "text_embedding_mask": "mask(B, text_len)",
    "encoder_hidden_states_t5": "normal(B, text_len_t5, cross_attention_dim_t5)",
    "text_embedding_mask_t5": "mask(B, text_len_t5)", "image_meta_size": "ids(1000, B, 6)", "style": "full(0, B)",
    "image_rotary_emb": "(zeros(H * W // 4, attention_head_dim), ones(H * W // 4, attention_head_dim))",
    "controlnet_cond": "normal(B, in_channels, H, W)",
}  # fmt: skip

INPUTS: dict[str, dict[str, Any]] = {
    "AceStepTransformer1DModel": {
        "timestep_r": "full(400.0, B)",
        "hidden_states": "normal(B, L, audio_acoustic_hidden_dim)",
        "context_latents": "normal(B, L, in_channels - audio_acoustic_hidden_dim)",
        "encoder_hidden_states": ("normal(B, T, encoder_hidden_size)", "normal(B, T, hidden_size)"),
    },
    "AnimaTextConditioner": {
        "source_hidden_states": "normal(B, T, source_dim)", "target_input_ids": "ids(target_vocab_size, B, T)",
    },
    "AnyFlowFARTransformer3DModel": {**_ANY_FLOW, "chunk_partition": "[1, F - 1]"},
    "AnyFlowTransformer3DModel": _ANY_FLOW,
    "AutoencoderKLHunyuanVideo15": {"B": 1},
    "AutoencoderKLLTX2Audio": {"sample": "normal(B, in_channels, L // 128, mel_bins)"},
    "AutoencoderKLMiniMaxH3": {"F": 33},
    "AutoencoderKLMiniMaxH3Audio": {"sample": "normal(B, 1, L)"},
    "AutoencoderKLMochi": {"sample": "normal(B, 3, F, H, W)"},
    "AutoencoderKLQwenImage21": {"F": 1},
    "AutoencoderKLTemporalDecoder": {"num_frames": "B"},
    "AutoencoderRAE": {"sample": "normal(B, num_channels, encoder_input_size, encoder_input_size)"},
    "BriaFibo2Transformer2DModel": {"encoder_hidden_states": "normal(B, 1+len(injection_layer_ids), T, cap_feat_dim)"},
    "BriaFiboTransformer2DModel": {
        "text_encoder_layers": "several(num_layers + num_single_layers, B, T, text_encoder_dim)",
    },
    "CogVideoXTransformer3DModel": {"hidden_states": _FRAMES_FIRST, "T": 226},
    "ConsisIDTransformer3DModel": {"hidden_states": _FRAMES_FIRST, "T": 226},
    "ConsistencyDecoderVAE": {"sample": "normal(B, encoder_in_channels, H, W)"},
    "Cosmos3AVAEAudioTokenizer": {"sample": "normal(B, dec_out_channels, L)"},
    "ControlNetUnionModel": {
        "controlnet_cond": "several(1, B, conditioning_channels, 8 * H, 8 * W)", "control_type_idx": "[0]",
        "control_type": "full(1.0, B, num_control_type)",
    },
    "CosmosControlNetModel": {
        "controls_latents": "normal(B, 16, F, H, W)", "latents": "normal(B, latent_channels - 2, F, H, W)",
        "condition_mask": "ones(B, 1, F, H, W)", "fps": "16",
    },
    "CosmosTransformer3DModel": {"fps": "16"},
    "ErnieImageTransformer2DModel": {"text_bth": "normal(B, T, text_in_dim)", "text_lens": "full(T, B)"},
    "FluxMultiControlNetModel": {**_TWO, "controlnet_cond": "several(2, B, N, in_channels)"},
    "GlmImageTransformer2DModel": {
        "prior_token_id": "ids(prior_vq_quantizer_codebook_size, B, H * W // 4)",
        "prior_token_drop": "mask(B, H * W // 4)",
    },
    "HiDreamImageTransformer2DModel": {
        "encoder_hidden_states_t5": "normal(B, T, caption_channels[0])", "pooled_embeds": "normal(B, text_emb_dim)",
        "encoder_hidden_states_llama3": "normal(4, B, T, caption_channels[1])",
        "hidden_states": _PLANES["hidden_states"],
    },
    "HunyuanDiT2DControlNetModel": _HUNYUAN_DIT,
    "HunyuanDiT2DModel": _HUNYUAN_DIT,
    "HunyuanDiT2DMultiControlNetModel": {**_HUNYUAN_DIT, **_TWO, "controlnet_cond": "several(2, B, in_channels, H, W)"},
    "HunyuanVideoFramepackTransformer3DModel": {
        "image_embeds": "normal(B, T, image_proj_dim)", "indices_latents": "arange(F)",
        "latents_clean": "normal(B, in_channels, 1, H, W)", "indices_latents_clean": "arange(1)",
        "latents_history_2x": "normal(B, in_channels, 2, H, W)", "indices_latents_history_2x": "arange(2)",
        "latents_history_4x": "normal(B, in_channels, 4, H, W)", "indices_latents_history_4x": "arange(4)",
    },
    "I2VGenXLUNet": {
        "image_latents": "normal(B, in_channels, F, H, W)", "image_embeddings": "normal(B, cross_attention_dim)",
    },
    "Ideogram4Transformer2DModel": {
        "hidden_states": "normal(B, N, in_channels)", "encoder_hidden_states": "normal(B, N, llm_features_dim)",
        "position_ids": "full(1, B, N, 3)", "segment_ids": "full(0, B, N)", "indicator": "ids(4, B, N)",
    },
    "JoyImageEditPlusTransformer3DModel": {
        "hidden_states": "normal(B, N, in_channels, *patch_size)", "shape_list": "[[(1, side, side)]] * B",
    },
    "Kandinsky5Transformer3DModel": {
        "hidden_states": "normal(B, F, H, W, in_visual_dim)", "text_rope_pos": "arange(T)",
        "visual_rope_pos": "[arange(F), arange(H // 2), arange(W // 2)]",
    },
    "Kandinsky6SRLatentUpscalerBank": {"latents": "normal(B, in_channels, F, 4, 4)", "scale": "scales[0]"},
    "Kandinsky6SRTransformer3DModel": {"hidden_states": "normal(B, F, H, W, 2 * in_visual_dim + 1)"},
    "Kandinsky6Transformer3DModel": {"hidden_states": "normal(B, F, H, W, 2 * in_visual_dim + 1)"},
    "Krea2Transformer2DModel": {
        "hidden_states": "normal(B, N, in_channels)", "position_ids": "full(1.0, T + N, 3)",
        "encoder_hidden_states": "normal(B, T, num_text_layers, text_hidden_dim)",
    },
    "LTX2VideoDiffusionDecoderModel": {"z": "normal(1, latent_channels, F, 8, 8)"},
    "LatteTransformer3DModel": {"encoder_attention_mask": ()},
    "LongCatAudioDiTTransformer": {"hidden_states": "normal(B, L, latent_dim)"},
    "MMAudioVAE": {"sample": "normal(B, 2 * L)"},
    "MMAudioVocoder": {"mel": "normal(B, num_mels, 16)"},
    "MiniMaxMusic3ConditionEncoder": {"hidden_states": "normal(B, T, num_condition_layers * condition_hidden_dim)"},
    "MiniMaxMusic3RVQDepthDecoder": {"inputs_embeds": "normal(B, T, hidden_size)"},
    "MiniMaxMusic3Transformer1DModel": {"encoder_hidden_states": "normal(B, L, condition_dim)"},
    "MiniMaxMusic3Vocoder": {"latents": "normal(B, latent_channels, 16)"},
    "MultiAdapter": {"xs": "several(2, B, in_channels, H * 8, W * 8)"},
    "MultiControlNetModel": {**_TWO, "controlnet_cond": "several(2, B, conditioning_channels, 8 * H, 8 * W)"},
    "OmniGenTransformer2DModel": {
        "input_ids": "ids(vocab_size, B, T)", "input_img_latents": "[]", "input_image_sizes": "{}",
        "attention_mask": "ones(B, T + 1 + H * W // 4, T + 1 + H * W // 4)",
        "position_ids": "arange(T + 1 + H * W // 4).expand(B, T + 1 + H * W // 4)",
    },
    "PriorTransformer": {
        "hidden_states": "normal(B, embedding_dim)", "proj_embedding": "normal(B, embedding_dim)",
        "encoder_hidden_states": "normal(B, num_embeddings, embedding_dim)",
    },
    "QwenImage21Transformer2DModel": {"img_mask": "arange(T + N // 4).expand(B, T + N // 4) >= T"},
    "QwenImageMultiControlNetModel": {
        "controlnet_cond": "several(1, B, N, in_channels)", "conditioning_scale": "[1.0]",
    },
    "SD3ControlNetModel": _PLANES,
    "SD3MultiControlNetModel": {**_PLANES, **_TWO, "controlnet_cond": "several(2, B, in_channels, H, W)"},
    "SanaControlNetModel": _PLANES,
    "SparseControlNetModel": {
        "controlnet_cond": "normal(B, conditioning_channels, F, H, W)", "conditioning_mask": "ones(B, 1, F, H, W)",
        "encoder_hidden_states": "normal(B * F, T, cross_attention_dim)",
    },
    "StableAudio3DiTModel": {
        "hidden_states": "normal(B, io_channels, L)", "global_hidden_states": "normal(B, global_cond_dim)",
    },
    "StableAudioDiTModel": {
        "global_hidden_states": "normal(B, 1, global_states_input_dim)",
        "rotary_embedding": "(zeros(L + 1, attention_head_dim // 2), ones(L + 1, attention_head_dim // 2))",
    },
    "StableCascadeUNet": {
        "timestep_ratio": "full(0.5, B)", "clip_text_pooled": "normal(B, 1, clip_text_pooled_in_channels)",
    },
    "T2IAdapter": {"x": "normal(B, in_channels, H, W)"},
    "T5FilmDecoder": {
        "encodings_and_masks": "[(normal(B, T, d_model), ones(B, T))]", "decoder_noise_time": "full(0.5, B)",
        "decoder_input_tokens": "normal(B, targets_length, input_dims)",
    },
    "TransformerTemporalModel": {"num_frames": "B"},
    "UNet1DModel": {"L": 256},
    "UNetControlNetXSModel": {"sample": "normal(B, 4, H, W)", "controlnet_cond": "normal(B, 3, 8 * H, 8 * W)"},
    "UNetMotionModel": {"encoder_hidden_states": "normal(B * F, T, cross_attention_dim)"},
    "UNetSpatioTemporalConditionModel": {
        "sample": _FRAMES_FIRST, "added_time_ids": "normal(B, 3)",
        "encoder_hidden_states": "normal(B, 1, cross_attention_dim)",
    },
    "UVit2DModel": {
        "input_ids": "ids(codebook_size, B, H, W)", "pooled_text_emb": "normal(B, cond_embed_dim)",
        "micro_conds": "normal(B, 5)",
    },
    "WanAnimateTransformer3DModel": {
        "pose_hidden_states": "normal(B, latent_channels, F - 1, H, W)", "motion_encode_batch_size": "8",
        "face_pixel_values": "normal(B, 3, 4 * (F - 1), motion_encoder_size, motion_encoder_size)",
    },
    "WanVACETransformer3DModel": {"control_hidden_states": "normal(B, vace_in_channels, F, H, W)"},
    "ZImageControlNetModel": {"control_context": "several(B, control_in_dim, 1, H, W)"},
}  # fmt: skip

"""Quirks of models that see images or videos: backbones, detectors, readers of pages, pairs of image and text.

Language models that see have a file of their own.
"""

from __future__ import annotations

import importlib.util
from typing import Any

import torch

from dynalyze.capture.libraries.hf import quirks
from dynalyze.capture.libraries.hf.inputs import pixels, vision
from dynalyze.capture.libraries.hf.inputs.input_builder import InputBuilder

OPEN: quirks.Table = {
    # The decoder that it is pretrained with comes with a checkpoint.
    "hiera": {"decoder_hidden_size": 512, "decoder_depth": 8, "decoder_num_heads": 16},
    # How sure it has to be of each class, and the classes' order, come with a checkpoint.
    "pp_doclayout_v2": {
        "class_thresholds": lambda c: [0.5] * c.num_labels,
        "class_order": lambda c: list(range(c.num_labels)),
    },
    # What its contrastive heads are made with comes with a checkpoint.
    "bridgetower": {"contrastive_hidden_size": 512, "logit_scale_init_value": 2.6592},
    # Pix2Struct's decoder asks for a range of its initial weights that only the whole model names.
    "pix2struct_text_model": {"initializer_range": 0.02},
    # The shapes of its convolutions come with a checkpoint.
    "pp_ocrv5_server_det": {
        "intraclass_block_config": lambda c: _kernels(),
        "scale_factor_list": [1, 2, 4, 8],
        "kernel_list": [3, 2, 2],
    },
}
COMPLETE: quirks.Table = {
    # It sees an image with its trimap as a fourth channel; its code adds two lists, which are tuples by default.
    "vitmatte": {
        "convstream_hidden_sizes": lambda c: list(c.convstream_hidden_sizes),
        "fusion_hidden_sizes": lambda c: list(c.fusion_hidden_sizes),
        "backbone_config.num_channels": 4,
        "hidden_size": "backbone_config.hidden_size",
    },
    # Its head reads all stages of its backbone, which hands out one by default.
    "uvdoc": {"backbone_config.out_features": lambda c: c.backbone_config.stage_names[1:]},
    # Its segmentation reads four layers, and its pretraining needs a token for what is masked: neither by default.
    "beit": {
        "use_mask_token": lambda c: c.use_mask_token or "ForMaskedImageModeling" in str(c.architectures),
        "out_indices": lambda c: (
            [(n := c.num_hidden_layers) // 4, n // 2 - 1, n * 2 // 3 - 1, n - 1]
            if "ForSemanticSegmentation" in str(c.architectures)
            else c.out_indices
        ),
    },
    # Its defaults lead no feature map to the decoder; the released models lead one.
    "lw_detr": {
        "num_feature_levels": lambda c: c.num_feature_levels if c.projector_scale_factors else 1,
        "projector_in_channels": lambda c: c.projector_in_channels if c.projector_scale_factors else [c.d_model],
        "projector_scale_factors": lambda c: c.projector_scale_factors or [1.0],
    },
    # Its windows have to cut the patches evenly, and the default image has a prime number of them along an edge.
    "rf_detr_dinov2": {
        "image_size": lambda c: 40 * c.patch_size if c.image_size // c.patch_size % c.num_windows else c.image_size
    },
}
SMALL: quirks.Table = {
    # That decoder.
    "hiera": {"decoder_hidden_size": 128, "decoder_depth": 2, "decoder_num_heads": 4},
    # Its decoder reads three layers of the vision part, which a small one has not: as many, some of them twice.
    "clipseg": {
        "extract_layers": lambda c: [
            place * c.vision_config.num_hidden_layers // len(c.extract_layers) for place in range(len(c.extract_layers))
        ]
    },
    # Its list of blocks tells the depths too, and holds the strides. All blocks: without one of them the image
    # keeps the size that it would halve.
    "pp_lcnet_v3 pp_lcnet_v4": {"depths": lambda c: [len(blocks) for blocks in c.block_configs]},
    # Attention is global inside stages, never where one begins: in one block, the last of the third stage.
    "sam2_hiera_det_model": {"global_attention_blocks": lambda c: [sum(c.blocks_per_stage[:3]) - 1]},
    # Videos of fewer frames.
    "vjepa2": {"frames_per_clip": lambda c: 4 * c.tubelet_size, "crop_size": lambda c: 4 * c.patch_size},
    # The decoder reads what the backbone gives.
    "vitmatte": {"hidden_size": "backbone_config.hidden_size"},
    # What its decoder fuses and what its head reads have one width.
    "zoedepth": {"bottleneck_features": "fusion_hidden_size"},
    # The vision part hands features to the detector, or to the mask decoder, in the width of that.
    "sam3 sam3_lite_text": {"vision_config.fpn_hidden_size": "detr_encoder_config.hidden_size"},
    "sam3_tracker": {"vision_config.fpn_hidden_size": "mask_decoder_config.hidden_size"},
    # Texts are projected to the width that the image encoder's last stage has, a multiple of eight.
    "align": {
        "projection_dim": lambda c: round(c.vision_config.out_channels[-1] * c.vision_config.width_coefficient / 8) * 8
    },
    # Prompts are drawn around the frames of a video, whose size it names in its own way.
    "tvp": {
        "max_img_size": lambda c: min(c.max_img_size, 128),
        "visual_prompt_size": lambda c: min(c.visual_prompt_size, 16),
    },
    # Its queries stand beside the features of SAM's encoder, in one width.
    "deepseek_ocr2_vision": {
        "sam_config.downsample_channels": lambda c: [
            *c.sam_config.downsample_channels[:-1],
            c.encoder_config.hidden_size,
        ]
    },
    # The embeddings of a box's corners, height and width fill the hidden size together.
    "layoutlmv3": {
        "shape_size": lambda c: c.hidden_size // 12 * 2,
        "coordinate_size": lambda c: (c.hidden_size - 2 * c.shape_size) // 4,
    },
    # Its list of stages tells the depths too, and holds the widths.
    "uvdoc_backbone": {"depths": lambda c: [len(stages) for stages in c.stage_configs]},
    # Its segmentation reads four layers, counted from one.
    "data2vec-vision": {
        "out_indices": lambda c: (
            list(range(1, len(c.out_indices) + 1)) if c.num_hidden_layers >= len(c.out_indices) else c.out_indices
        )
    },
    # Patches of an image in several resolutions, the smallest of which is a single patch.
    "depth_pro": {
        "patch_size": 64,
        "image_model_config.image_size": 64,
        "patch_model_config.image_size": 64,
        "fov_model_config.image_size": 64,
        "intermediate_hook_ids": lambda c: [
            c.patch_model_config.num_hidden_layers - 1 - hook % c.patch_model_config.num_hidden_layers
            for hook in range(len(c.intermediate_hook_ids))
        ],
    },
    # Each of six numbers of a box is embedded in an equal share of the width.
    "lilt": {
        "hidden_size": lambda c: (
            (step := 6 * c.num_attention_heads * c.channel_shrink_ratio) * max(c.hidden_size // step, 1)
        )
    },
    "rf_detr_dinov2": {
        "image_size": lambda c: (
            4 * c.num_windows * c.patch_size
            if c.image_size // c.patch_size % c.num_windows or 4 * c.num_windows < 40
            else c.image_size
        )
    },
}
PIXELS: quirks.Table = {
    # It reads pairs of images, its base model too.
    "efficientloftr": {"pixel_values": lambda b, c: pixels.images(b, 2)},
    # ModernVBERT's images in a row, without the mask that its own processor makes.
    "colmodernvbert": {"pixel_values": lambda b, c: pixels.images(b, 1)},
    # The vision part of X-CLIP alone: the frames of all clips are one batch of images.
    "xclip_vision_model": {"pixel_values": lambda b, c: vision.clips(b).flatten(0, 1)},
    # An image is a row of tiles, and the mask tells which of them are real.
    "granite_docling": {
        "pixel_values": lambda b, c: pixels.images(b, 2),
        "pixel_attention_mask": lambda b, c: b.ones((b.batch, 2), dtype=torch.bool),
    },
    # PP-OCR's mobile text detector: the bare model calls its image `hidden_states`.
    "pp_ocrv5_mobile_det": {"hidden_states": lambda b, c: b.floats((b.batch, 3, *pixels.image_size(c)))},
    # The smallest resolution of an image is one patch.
    "depth_pro": {
        "pixel_values": lambda b, c: b.floats((b.batch, 3, *[int(c.patch_size / min(c.scaled_images_ratios))] * 2))
    },
    # An image to segment beside an example with its mask, each half of what the encoder sees.
    "seggpt": dict.fromkeys(
        ("pixel_values", "prompt_pixel_values", "prompt_masks"),
        lambda b, c: b.floats((b.batch, c.num_channels, pixels.image_size(c)[0] // 2, pixels.image_size(c)[1])),
    ),
    # One of its heads compares several images.
    "vilt": {
        "pixel_values": lambda b, c: (
            pixels.images(b, c.num_images) if b.name == "ViltForImagesAndTextClassification" else None
        )
    },
    # PP-OCR's readers see one line of text, 48 pixels high as their processors make it. The default backbone of the
    # mobile one has strides that need twice that.
    "pp_ocrv5_mobile_rec": {"pixel_values": lambda b, c: b.floats((b.batch, 3, 96, 320))},
    "pp_ocrv5_server_rec pp_ocrv6_small_rec pp_ocrv6_tiny_rec": {
        "pixel_values": lambda b, c: b.floats((b.batch, 3, 48, 320))
    },
}
INPUTS: quirks.Table = {
    # A sentence tells which of its tasks is asked for; texts of what may be seen are for training alone.
    "oneformer": {"task_inputs": lambda b, c: b.tokens((b.batch, c.task_seq_len), c.text_encoder_vocab_size)},
    # Qwen2-VL's patches, a padded row of them for each image. After the placeholders were counted on the patches of
    # all images in one list.
    "colqwen2": {"pixel_values": lambda b, c: b.inputs["pixel_values"].unflatten(0, (b.batch, -1))},
    # To learn from an image it also sees it in the size of its codebook, and to learn from a text also masked.
    "flava": {
        "codebook_pixel_values": lambda b, c: b.floats((b.batch, pixels.channels(c.image_codebook_config), 112, 112)),
        "input_ids_masked": lambda b, c: b.inputs["input_ids"].clone(),
    },
    # It reads features and boxes of the ten regions that a detector found in an image.
    "lxmert": {
        "visual_feats": lambda b, c: b.floats((b.batch, 10, c.visual_feat_dim)),
        "visual_pos": lambda b, c: b.floats((b.batch, 10, c.visual_pos_dim)).sigmoid(),
        "visual_attention_mask": lambda b, c: b.ones((b.batch, 10)),
    },
    # It reads embeddings of the ten regions that a detector found in an image, beside the text: one more dimension
    # where several choices are scored.
    "visual_bert": {
        "visual_embeds": lambda b, c: b.floats((*b.inputs["input_ids"].shape[:-1], 10, c.visual_embedding_dim)),
        "visual_attention_mask": lambda b, c: b.ones(b.inputs["visual_embeds"].shape[:-1]),
        "visual_token_type_ids": lambda b, c: b.ones(b.inputs["visual_embeds"].shape[:-1]),
        "region_to_phrase_position": lambda b, c: b.integers((b.batch, 10), 0, b.sequence),
    },
    # It reads for each token the path of its node in the document: tags and their places among siblings.
    "markuplm": {
        "xpath_tags_seq": lambda b, c: b.integers((*b.inputs["input_ids"].shape, c.max_depth), 0, c.tag_pad_id),
        "xpath_subs_seq": lambda b, c: b.integers(b.inputs["xpath_tags_seq"].shape, 0, c.subs_pad_id),
    },
    # It reads for each token its segment, column, row and ranks in a table, which its tokenizer returns as types.
    "tapas": {
        "token_type_ids": lambda b, c: torch.stack(
            [b.integers(b.inputs["input_ids"].shape, 0, size) for size in c.type_vocab_sizes], dim=-1
        )
    },
}


@quirks.completes("sapiens2")
def sapiens2(config: Any) -> None:
    """The layers of its heads come with a checkpoint: two steps of enlarging and a convolution."""
    head = config.head_config
    if head is None or head.upsample_out_channels is not None:
        return
    width = config.hidden_size // 2
    head.upsample_out_channels, head.upsample_kernel_sizes = [width, width], [head.upsample_kernel_size] * 2
    head.conv_out_channels, head.conv_kernel_sizes = [width], [head.conv_kernel_size]


@quirks.shrinks("detr", "conditional_detr", "dab-detr", "deformable_detr", "table-transformer")
def detr(config: Any) -> None:
    """Its ResNet comes from timm by default; without timm, transformers' own ResNet takes its place."""
    backbone = getattr(config, "backbone_config", None)
    if backbone is None or backbone.model_type != "timm_backbone" or importlib.util.find_spec("timm"):
        return
    from transformers import ResNetConfig

    config.backbone_config = ResNetConfig(depths=[1, 1, 1, 1], out_indices=list(backbone.out_indices))


@quirks.completes("vilt")
def vilt(config: Any) -> None:
    """One of its heads compares several images, here two; how many comes with a checkpoint."""
    if "ForImagesAndTextClassification" in str(config.architectures) and config.num_images < 1:
        config.num_images = 2
        config.modality_type_vocab_size = 1 + config.num_images


@quirks.makes_pixels("tvp")
def tvp_pixels(b: InputBuilder, c: Any) -> None:
    """One video where nobody asks for more: the positions of its frames' columns fit a batch of one alone."""
    b.batch = b.request.batch or 1
    frames, edge = pixels.frames_or_few(c), c.max_img_size
    b.inputs["pixel_values"] = b.floats((b.batch, frames, 3, edge, edge))


@quirks.changes_inputs("kosmos-2")
def kosmos_2(b: InputBuilder, c: Any) -> None:
    """A mask, not a token, tells where in the text the features of the image go.

    As many tokens for the image as it is resampled to, after the first token of the text.
    """
    count = getattr(c, "latent_query_num", None)
    if count is None or "input_ids" not in b.inputs:
        return
    ids = b.inputs["input_ids"]
    mask = b.full((b.batch, count + ids.shape[1]), 0)
    mask[:, 1 : count + 1] = 1
    image = b.tokens((b.batch, count))
    b.inputs["input_ids"] = torch.cat([ids[:, :1], image, ids[:, 1:]], dim=1)
    b.inputs["attention_mask"] = b.ones(mask.shape)
    b.inputs["image_embeds_position_mask"] = mask


@quirks.changes_inputs("kosmos-2.5")
def kosmos_2_5(b: InputBuilder, c: Any) -> None:
    """Patches with their places, their rows and columns counted, and Kosmos-2's mask in the text."""
    for name in ("width", "height"):
        b.inputs[name] = b.full((b.batch,), pixels.grid_side(b))
    kosmos_2(b, c)


@quirks.completes("pp_ocrv6_small_det")
def pp_ocrv6_small_det(config: Any) -> None:
    """PP-OCRv6's text detectors read all stages of their backbone, each half the size of the one before.

    By default they have the backbone of the readers: it hands out its last stage, and keeps the width of the line.
    """
    backbone = config.backbone_config
    # A block is told as kernel, channels in and out, stride, and whether it squeezes.
    stride = 3
    for stage in backbone.block_configs[1:]:
        stage[0][stride] = 2
    backbone.out_features = backbone.stage_names[1:]
    if hasattr(config, "layer_list_out_channels"):
        config.layer_list_out_channels = list(backbone.stage_out_channels)


@quirks.completes("pp_ocrv6_medium_det")
def pp_ocrv6_medium_det(config: Any) -> None:
    """The convolutions of PP-OCRv5's detector, the backbone of the small one."""
    quirks.fill(config, OPEN["pp_ocrv5_server_det"])
    pp_ocrv6_small_det(config)


def _kernels() -> dict[str, Any]:
    """Upright, lying and square kernels of three lengths, as the released detectors have them."""
    kernels: dict[str, Any] = {"reduce_channel": [1, 1, 0], "return_channel": [1, 1, 0]}
    for name, length in {"long": 7, "mid": 5, "short": 3}.items():
        half = length // 2
        kernels[f"vertical_long_to_small_conv_{name}ratio"] = [[length, 1], [1, 1], [half, 0]]
        kernels[f"horizontal_small_to_long_conv_{name}ratio"] = [[1, length], [1, 1], [0, half]]
        kernels[f"symmetric_conv_long_{name}ratio"] = [[length, length], [1, 1], [half, half]]
    return kernels

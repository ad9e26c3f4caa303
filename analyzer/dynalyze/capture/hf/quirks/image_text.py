"""Quirks of models that read images with text, without being language models: pages, and pairs of the two."""

from __future__ import annotations

from typing import Any

import torch

from dynalyze.capture.hf import quirks
from dynalyze.capture.hf.inputs import geometry, pixels, vision
from dynalyze.capture.hf.inputs.input_builder import InputBuilder

OPEN: quirks.Table = {
    # What its contrastive heads are made with comes with a checkpoint.
    "bridgetower": {"contrastive_hidden_size": 512, "logit_scale_init_value": 2.6592},
    # Pix2Struct's decoder asks for a range of its initial weights that only the whole model names.
    "pix2struct_text_model": {"initializer_range": 0.02},
}
COMPLETE: quirks.Table = {
    # Its head reads all stages of its backbone, which hands out one by default.
    "uvdoc": {"backbone_config.out_features": lambda c: c.backbone_config.stage_names[1:]},
}
SMALL: quirks.Table = {
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
}
PIXELS: quirks.Table = {
    # ModernVBERT's images in a row, without the mask that its own processor makes.
    "colmodernvbert": {"pixel_values": lambda b: pixels.images(b, 1)},
    # The vision part of X-CLIP alone: the frames of all clips are one batch of images.
    "xclip_vision_model": {"pixel_values": lambda b: vision.clips(b).flatten(0, 1)},
    # An image is a row of tiles, and the mask tells which of them are real.
    "granite_docling": {
        "pixel_values": lambda b: pixels.images(b, 2),
        "pixel_attention_mask": lambda b: b.ones((b.batch, 2), dtype=torch.bool),
    },
    # PP-OCR's mobile text detector: the bare model calls its image `hidden_states`.
    "pp_ocrv5_mobile_det": {"hidden_states": lambda b: b.floats((b.batch, 3, *geometry.image_size(b.config)))},
}
INPUTS: quirks.Table = {
    # Qwen2-VL's patches, a padded row of them for each image. After the placeholders were counted on the patches of
    # all images in one list.
    "colqwen2": {"pixel_values": lambda b: b.inputs["pixel_values"].unflatten(0, (b.batch, -1))},
    # To learn from an image it also sees it in the size of its codebook, and to learn from a text also masked.
    "flava": {
        "codebook_pixel_values": lambda b: b.floats(
            (b.batch, geometry.channels(b.config.image_codebook_config), 112, 112)
        ),
        "input_ids_masked": lambda b: b.inputs["input_ids"].clone(),
    },
    # It reads features and boxes of the ten regions that a detector found in an image.
    "lxmert": {
        "visual_feats": lambda b: b.floats((b.batch, 10, b.config.visual_feat_dim)),
        "visual_pos": lambda b: b.floats((b.batch, 10, b.config.visual_pos_dim)).sigmoid(),
        "visual_attention_mask": lambda b: b.ones((b.batch, 10)),
    },
    # It reads embeddings of the ten regions that a detector found in an image, beside the text: one more dimension
    # where several choices are scored.
    "visual_bert": {
        "visual_embeds": lambda b: b.floats((*b.inputs["input_ids"].shape[:-1], 10, b.config.visual_embedding_dim)),
        "visual_attention_mask": lambda b: b.ones(b.inputs["visual_embeds"].shape[:-1]),
        "visual_token_type_ids": lambda b: b.ones(b.inputs["visual_embeds"].shape[:-1]),
        "region_to_phrase_position": lambda b: b.integers((b.batch, 10), 0, b.sequence),
    },
    # It reads for each token the path of its node in the document: tags and their places among siblings.
    "markuplm": {
        "xpath_tags_seq": lambda b: b.integers(
            (*b.inputs["input_ids"].shape, b.config.max_depth), 0, b.config.tag_pad_id
        ),
        "xpath_subs_seq": lambda b: b.integers(b.inputs["xpath_tags_seq"].shape, 0, b.config.subs_pad_id),
    },
}


@quirks.completes("vilt")
def vilt(config: Any) -> None:
    """One of its heads compares several images, here two; how many comes with a checkpoint."""
    if "ForImagesAndTextClassification" in str(config.architectures) and config.num_images < 1:
        config.num_images = 2
        config.modality_type_vocab_size = 1 + config.num_images


@quirks.makes_pixels("vilt")
def vilt_pixels(builder: InputBuilder) -> None:
    if builder.name == "ViltForImagesAndTextClassification":
        builder.inputs["pixel_values"] = pixels.images(builder, builder.config.num_images)


@quirks.makes_pixels("tvp")
def tvp_pixels(builder: InputBuilder) -> None:
    """One video where nobody asks for more: the positions of its frames' columns fit a batch of one alone."""
    builder.batch = builder.request.batch or 1
    frames, edge = geometry.frames_or_few(builder.config), builder.config.max_img_size
    builder.inputs["pixel_values"] = builder.floats((builder.batch, frames, 3, edge, edge))


@quirks.shrinks("lilt")
def lilt(config: Any) -> None:
    """LiLT embeds each of six numbers of a box in an equal share of its width."""
    step = 6 * config.num_attention_heads * config.channel_shrink_ratio
    config.hidden_size = max(config.hidden_size // step, 1) * step


@quirks.changes_inputs("tapas")
def tapas(builder: InputBuilder) -> None:
    """It reads for each token its segment, column, row and ranks in a table, which its tokenizer returns as types."""
    shape = builder.inputs["input_ids"].shape
    kinds = [builder.integers(shape, 0, size) for size in builder.config.type_vocab_sizes]
    builder.inputs["token_type_ids"] = torch.stack(kinds, dim=-1)


@quirks.changes_inputs("kosmos-2")
def kosmos_2(builder: InputBuilder) -> None:
    """A mask, not a token, tells where in the text the features of the image go.

    As many tokens for the image as it is resampled to, after the first token of the text.
    """
    count = getattr(builder.config, "latent_query_num", None)
    if count is None or "input_ids" not in builder.inputs:
        return
    ids = builder.inputs["input_ids"]
    mask = builder.full((builder.batch, count + ids.shape[1]), 0)
    mask[:, 1 : count + 1] = 1
    image = builder.tokens((builder.batch, count))
    builder.inputs["input_ids"] = torch.cat([ids[:, :1], image, ids[:, 1:]], dim=1)
    builder.inputs["attention_mask"] = builder.ones(mask.shape)
    builder.inputs["image_embeds_position_mask"] = mask


@quirks.changes_inputs("kosmos-2.5")
def kosmos_2_5(builder: InputBuilder) -> None:
    """Patches with their places, their rows and columns counted, and Kosmos-2's mask in the text."""
    for name in ("width", "height"):
        builder.inputs[name] = builder.full((builder.batch,), pixels.grid_side(builder))
    kosmos_2(builder)


@quirks.makes_pixels("pp_ocrv5_mobile_rec", "pp_ocrv5_server_rec", "pp_ocrv6_small_rec", "pp_ocrv6_tiny_rec")
def pp_ocr_line(builder: InputBuilder) -> None:
    """PP-OCR's readers see one line of text, 48 pixels high as their processors make it.

    The default backbone of the mobile one has strides that need twice that.
    """
    height = 96 if builder.config.model_type == "pp_ocrv5_mobile_rec" else 48
    builder.inputs["pixel_values"] = builder.floats((builder.batch, 3, height, 320))


@quirks.completes("pp_ocrv5_server_det")
def pp_ocrv5_server_det(config: Any) -> None:
    """The shapes of its convolutions come with a checkpoint.

    The kernels of the released detectors are upright, lying and square ones of three lengths.
    """
    kernels: dict[str, Any] = {"reduce_channel": [1, 1, 0], "return_channel": [1, 1, 0]}
    for name, length in {"long": 7, "mid": 5, "short": 3}.items():
        half = length // 2
        kernels[f"vertical_long_to_small_conv_{name}ratio"] = [[length, 1], [1, 1], [half, 0]]
        kernels[f"horizontal_small_to_long_conv_{name}ratio"] = [[1, length], [1, 1], [0, half]]
        kernels[f"symmetric_conv_long_{name}ratio"] = [[length, length], [1, 1], [half, half]]
    shapes = {"scale_factor_list": [1, 2, 4, 8], "kernel_list": [3, 2, 2]}
    quirks.fill(config, {"intraclass_block_config": kernels, **shapes})


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
    pp_ocrv5_server_det(config)
    pp_ocrv6_small_det(config)

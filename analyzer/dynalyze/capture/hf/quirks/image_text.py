"""Quirks of models that match, rank or answer about images and text without being language models."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf import quirks
from dynalyze.capture.hf.inputs import geometry, tiles, vision
from dynalyze.capture.hf.inputs.input_builder import InputBuilder

OPEN: quirks.Table = {
    # What its contrastive heads are made with comes with a checkpoint.
    "bridgetower": {"contrastive_hidden_size": 512, "logit_scale_init_value": 2.6592},
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
}
PIXELS: quirks.Table = {
    # ModernVBERT's images in a row, without the mask that its own processor makes.
    "colmodernvbert": {"pixel_values": lambda b: tiles.images(b, 1)},
    # The vision part of X-CLIP alone: the frames of all clips are one batch of images.
    "xclip_vision_model": {"pixel_values": lambda b: vision.clips(b).flatten(0, 1)},
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
        builder.inputs["pixel_values"] = tiles.images(builder, builder.config.num_images)


@quirks.makes_pixels("tvp")
def tvp_pixels(builder: InputBuilder) -> None:
    """One video where nobody asks for more: the positions of its frames' columns fit a batch of one alone."""
    builder.batch = builder.request.batch or 1
    frames, edge = geometry.frames_or_few(builder.config), builder.config.max_img_size
    builder.inputs["pixel_values"] = builder.floats((builder.batch, frames, 3, edge, edge))

"""Quirks of models that match, rank or answer about images and text without being language models."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.inputs import geometry, tiles, vision
from dynalyze.capture.hf.inputs.input_builder import InputBuilder
from dynalyze.capture.hf.quirks import changes_inputs, completes, fill_open, makes_pixels, set_small

fill_open(
    {
        # What its contrastive heads are made with comes with a checkpoint.
        "bridgetower": {"contrastive_hidden_size": 512, "logit_scale_init_value": 2.6592},
    }
)
set_small(
    {
        # Texts are projected to the width that the image encoder's last stage has, a multiple of eight.
        "align": {
            "projection_dim": lambda c: (
                round(c.vision_config.out_channels[-1] * c.vision_config.width_coefficient / 8) * 8
            )
        },
        # Prompts are drawn around the frames of a video, whose size it names in its own way.
        "tvp": {
            "max_img_size": lambda c: min(c.max_img_size, 128),
            "visual_prompt_size": lambda c: min(c.visual_prompt_size, 16),
        },
    }
)


@makes_pixels("colmodernvbert")
def colmodernvbert(builder: InputBuilder) -> None:
    """ModernVBERT's images in a row, without the mask that its own processor makes."""
    builder.inputs["pixel_values"] = tiles.images(builder, 1)


@changes_inputs("colqwen2")
def colqwen2(builder: InputBuilder) -> None:
    """Qwen2-VL's patches, a padded row of them for each image.

    After the placeholders were counted on the patches of all images in one list.
    """
    pixels = builder.inputs["pixel_values"]
    builder.inputs["pixel_values"] = pixels.view(builder.batch, -1, pixels.shape[-1])


@changes_inputs("flava")
def flava(builder: InputBuilder) -> None:
    """To learn from an image it also sees it in the size of its codebook, and to learn from a text also masked."""
    if "codebook_pixel_values" in builder.takes:
        edge = 112
        shape = (builder.batch, geometry.channels(builder.config.image_codebook_config), edge, edge)
        builder.inputs["codebook_pixel_values"] = builder.floats(shape)
        builder.inputs["input_ids_masked"] = builder.inputs["input_ids"].clone()


@changes_inputs("lxmert")
def lxmert(builder: InputBuilder) -> None:
    """It reads features and boxes of the ten regions that a detector found in an image."""
    shape = (builder.batch, 10)
    builder.inputs["visual_feats"] = builder.floats((*shape, builder.config.visual_feat_dim))
    builder.inputs["visual_pos"] = builder.floats((*shape, builder.config.visual_pos_dim)).sigmoid()
    builder.inputs["visual_attention_mask"] = builder.ones(shape)


@changes_inputs("visual_bert")
def visual_bert(builder: InputBuilder) -> None:
    """It reads embeddings of the ten regions that a detector found in an image, beside the text."""
    # One more dimension where several choices are scored.
    shape = (*builder.inputs["input_ids"].shape[:-1], 10)
    builder.inputs["visual_embeds"] = builder.floats((*shape, builder.config.visual_embedding_dim))
    builder.inputs["visual_attention_mask"] = builder.ones(shape)
    builder.inputs["visual_token_type_ids"] = builder.ones(shape)
    if "region_to_phrase_position" in builder.takes:
        builder.inputs["region_to_phrase_position"] = builder.integers((builder.batch, 10), 0, builder.sequence)


@completes("vilt")
def vilt(config: Any) -> None:
    """One of its heads compares several images, here two; how many comes with a checkpoint."""
    if "ForImagesAndTextClassification" in str(config.architectures) and config.num_images < 1:
        config.num_images = 2
        config.modality_type_vocab_size = 1 + config.num_images


@makes_pixels("vilt")
def vilt_pixels(builder: InputBuilder) -> None:
    if builder.name == "ViltForImagesAndTextClassification":
        builder.inputs["pixel_values"] = tiles.images(builder, builder.config.num_images)


@makes_pixels("tvp")
def tvp_pixels(builder: InputBuilder) -> None:
    """One video where nobody asks for more: the positions of its frames' columns fit a batch of one alone."""
    builder.batch = builder.request.batch or 1
    frames, edge = geometry.frames_or_few(builder.config), builder.config.max_img_size
    builder.inputs["pixel_values"] = builder.floats((builder.batch, frames, 3, edge, edge))


@makes_pixels("xclip_vision_model")
def xclip_vision_model(builder: InputBuilder) -> None:
    """The vision part of X-CLIP alone: the frames of all clips are one batch of images."""
    builder.inputs["pixel_values"] = vision.clips(builder).flatten(0, 1)

"""Quirks of language models that see: images and videos become tokens among those of a text."""

from __future__ import annotations

import math
from typing import Any

import torch

from dynalyze.capture.hf import parts, quirks
from dynalyze.capture.hf.inputs import geometry, pixels
from dynalyze.capture.hf.inputs.features import count, extractor, untouched
from dynalyze.capture.hf.inputs.input_builder import InputBuilder, Placeholder


def _quarter_of_patches(config: Any) -> int:
    """A quarter of the patches along each edge, as at full size."""
    return int(config.vision_config.image_size // config.vision_config.patch_size // 4) ** 2


OPEN: quirks.Table = {
    # A Q-Former turns an image of any size into a fixed number of tokens; which token comes with a checkpoint.
    "blip-2 instructblip": {"image_token_index": lambda c: c.text_config.vocab_size - 1},
    "instructblipvideo": {"video_token_index": lambda c: c.text_config.vocab_size - 1},
    # MiniCPM-V: which tokens stand for images and videos comes with a checkpoint.
    "minicpmv4_6 minicpmv4_7 minicpm_ocr": {
        "image_token_id": lambda c: c.text_config.vocab_size - 1,
        "video_token_id": lambda c: c.text_config.vocab_size - 2,
    },
}
SMALL: quirks.Table = {
    "aria": {
        "vision_config.image_size": lambda c: 8 * c.vision_config.patch_size,
        "projector_patch_to_query_dict": {64: 16},
        "max_value_projector_patch_to_query_dict": 16,
    },
    "gemma3 t5gemma2_encoder": {"mm_tokens_per_image": _quarter_of_patches},
    # Codes of images are tokens: no more of them than the small vocabulary has.
    "glm_image": {"vq_config.num_embeddings": lambda c: min(c.vq_config.num_embeddings, c.text_config.vocab_size // 2)},
    # Each layer folds neighbouring pixels, one for each prime factor of the sizes of a patch. As many layers as
    # folds: fewer would have to leave some out, which transformers does with scipy.
    "inkling_vision": {
        "num_hidden_layers": lambda c: 1 + _prime_factors(c.patch_size) + _prime_factors(c.temporal_patch_size)
    },
    # The adapter reads the last layers of the vision part, as many as before.
    "molmo2": {
        "adapter_config.vision_feature_layer": lambda c: [
            max(0, c.vision_config.num_hidden_layers - 1 - place)
            for place in range(len(c.adapter_config.vision_feature_layer))
        ]
    },
    # A Gemma 3 that answers with one of two tokens, which its configuration does not always name.
    "shieldgemma2": {
        "mm_tokens_per_image": _quarter_of_patches,
        "yes_token_index": lambda c: (c.text_config.vocab_size - 1) // 2,
        "no_token_index": lambda c: (c.text_config.vocab_size - 1) // 2 - 1,
    },
    # It reads as many layers of its vision part as it names, which a small one has not: as many, some of them
    # twice, since the projector's width depends on it.
    "vipllava": {
        "vision_feature_layers": lambda c: [
            -1 - place % c.vision_config.num_hidden_layers for place in range(len(c.vision_feature_layers))
        ]
    },
}
EQUAL: quirks.Table = {
    # The projector ends in the width that the vision part names.
    "florence2": {"vision_config.projection_dim": "text_config.d_model"},
    "janus": {"vision_config.projection_dim": "text_config.hidden_size"},
    # Four neighbours are folded into one, and three projections follow one another.
    "llama4_vision_model": {
        "intermediate_size": lambda c: int(c.hidden_size // c.pixel_shuffle_ratio**2),
        "projector_input_dim": "vision_output_dim",
        "projector_output_dim": "vision_output_dim",
    },
    # Its table of visual words has the width of the text part.
    "ovis2": {"hidden_size": "text_config.hidden_size"},
    # What its vision part calls its hidden size is the width that the text part reads.
    "qwen2_vl": {"vision_config.hidden_size": "text_config.hidden_size"},
}
PIXELS: quirks.Table = {
    # Each image in two resolutions, one for each of its encoders.
    "deepseek_vl_hybrid": {
        "pixel_values": pixels.images,
        "high_res_pixel_values": lambda b: b.floats(
            (
                b.batch,
                geometry.channels(b.config.high_res_vision_config),
                *geometry.image_size(b.config.high_res_vision_config),
            )
        ),
    },
    # No encoder; the patches of an image go straight into the text.
    "fuyu": {
        "pixel_values": lambda b: b.floats(
            (b.batch, pixels.grid_side(b) ** 2, b.config.num_channels * b.config.patch_size**2)
        )
    },
    # No encoder; the patches of all images are one list, and each becomes a token.
    "neomme": {"pixel_values": lambda b: b.floats((b.batch * pixels.grid_side(b) ** 2, b.config.patch_dim))},
    # Several images a sample.
    "idefics": {"pixel_values": lambda b: pixels.images(b, 1)},
    # The vision part alone: crops, each a row of patches.
    "molmo2_vision": {
        "pixel_values": lambda b: b.floats(
            (b.batch, b.config.num_position_embeddings, b.config.num_channels * b.config.patch_size**2)
        )
    },
}
INPUTS: quirks.Table = {
    # The retrieval model matches each text with its image, as its documentation shows first.
    "blip-2": {"use_image_text_matching_head": True},
    # A mask tells which token attends to which image: each to the one.
    "idefics": {"image_attention_mask": lambda b: b.ones((*b.inputs["input_ids"].shape, 1))},
    # The instruction once more for the Q-Former.
    "instructblip instructblipvideo": {
        "qformer_input_ids": lambda b: b.tokens((b.batch, b.sequence), b.config.qformer_config.vocab_size),
        "qformer_attention_mask": lambda b: b.ones((b.batch, b.sequence)),
    },
}


@quirks.completes("aria")
def aria(config: Any) -> None:
    """How many tokens an image becomes is told for each number of patches, none of which the default images have."""
    vision = config.vision_config
    if (vision.image_size // vision.patch_size) ** 2 not in config.projector_patch_to_query_dict:
        vision.image_size, vision.patch_size = 490, 14


@quirks.completes("aya_vision")
def aya_vision(config: Any) -> None:
    """Its connector folds squares of patches, which the default image does not divide into."""
    vision = config.vision_config
    odd = vision.image_size // vision.patch_size % config.downsample_factor
    vision.image_size -= odd * vision.patch_size
    vision.image_size -= vision.image_size % vision.patch_size


@quirks.completes("idefics3", "smolvlm", "modernvbert", "ultravbert")
def idefics3(config: Any) -> None:
    """Its connector folds squares of patches, which the default image does not divide into."""
    vision, factor = config.vision_config, parts.first(config, "scale_factor", "pixel_shuffle_factor")
    if vision.image_size // vision.patch_size % factor:
        vision.image_size = vision.patch_size * 4 * factor


@quirks.completes("gemma3", "t5gemma2_encoder", "shieldgemma2")
def gemma3(config: Any) -> None:
    """The features of an image are pooled to a square number, which the default vision part has too few for."""
    vision = config.vision_config
    if vision.image_size // vision.patch_size < math.isqrt(config.mm_tokens_per_image):
        vision.image_size, vision.patch_size = 896, 14


@quirks.completes("chameleon", "emu3")
def chameleon(config: Any) -> None:
    """Images become tokens of the vocabulary by a map that only checkpoints bring."""
    if config.vocabulary_map is None:
        _number_codes(config)


@quirks.shrinks("chameleon", "emu3")
def small_chameleon(config: Any) -> None:
    name = "num_embeddings" if config.model_type == "chameleon" else "codebook_size"
    setattr(config.vq_config, name, 256)
    _number_codes(config)


def _number_codes(config: Any) -> None:
    """A map with a name for each entry of the codebook: its number, which Chameleon writes in letters."""
    if config.model_type == "chameleon":
        letters = str.maketrans("0123456789", "ABCDEFGHIJ")
        codes = [f"IMGIMG{str(code).translate(letters)}Z" for code in range(config.vq_config.num_embeddings)]
        others = ["<image>"]
    else:
        codes = [f"<|visual token {code:06d}|>" for code in range(config.vq_config.codebook_size)]
        others = ["<image>", "<|extra_200|>"]  # The latter is the end of a line of them.
    first = 4
    config.vocabulary_map = {name: first + place for place, name in enumerate([*codes, *others])}
    config.image_token_id = first + len(codes)


@quirks.makes_pixels("blip-2", "instructblip")
def blip_2_pixels(builder: InputBuilder) -> None:
    """Placeholders where a language model reads them; the retrieval model has none."""
    if hasattr(builder.model, "language_model"):
        builder.placeholders.append(Placeholder(builder.config.image_token_index, builder.config.num_query_tokens))


@quirks.makes_pixels("instructblipvideo")
def instructblipvideo_pixels(builder: InputBuilder) -> None:
    """Four frames a video, each as many tokens as an image."""
    frames = 4
    builder.inputs["pixel_values"] = pixels.images(builder, frames)
    tokens = frames * builder.config.num_query_tokens
    builder.placeholders.append(Placeholder(builder.config.video_token_index, tokens, "video"))


@quirks.makes_pixels("glm_image")
def glm_image_pixels(builder: InputBuilder) -> None:
    """One image to read a sample, each of its patches a token.

    After the images that it reads stands the grid of the image that it is to draw, still without pixels.
    """
    pixels.add_grid(builder, "pixel_values", "image_grid_thw")
    builder.inputs["image_grid_thw"] = builder.inputs["image_grid_thw"].repeat_interleave(2, dim=0)
    builder.inputs["images_per_sample"] = builder.full((builder.batch,), 2)
    config = builder.config
    tokens = pixels.grid_side(builder) ** 2
    builder.placeholders.append(
        Placeholder(config.image_token_id, tokens, "image", config.image_start_token_id, config.image_end_token_id)
    )


@quirks.completes("granite4_vision")
def granite4_vision(config: Any) -> None:
    """Which layers feed which, and how much is folded, comes with a checkpoint.

    Windows of eight patches become four tokens; the last layer of the vision part feeds the first of the text's.
    """
    window, vision = 8, config.vision_config
    quirks.fill(config, {"downsample_rate": "4/8", "deepstack_layer_map": [(-1, 0)]})
    if vision.image_size // vision.patch_size % window:
        vision.image_size = edge = window * vision.patch_size
        config.image_grid_pinpoints = [[edge, 2 * edge], [2 * edge, edge], [2 * edge, 2 * edge]]


@quirks.shrinks("granite4_vision")
def small_granite4_vision(config: Any) -> None:
    last = config.text_config.num_hidden_layers - 1
    config.deepstack_layer_map = [(-1, min(layer, last)) for _, layer in config.deepstack_layer_map[:1]]
    config.spatial_target_layers = [min(layer, last) for layer in config.spatial_target_layers]
    config.qformer_config.hidden_size = config.qformer_config.encoder_hidden_size = config.vision_config.hidden_size
    config.qformer_config.num_attention_heads = config.vision_config.num_attention_heads


@quirks.makes_pixels("granite4_vision")
def granite4_vision_pixels(builder: InputBuilder) -> None:
    """Images in tiles; a placeholder for each feature, of which each layer that is fed gets its own set."""
    pixels.add_sized(builder)
    with untouched(builder.model):
        output = extractor(builder.model, "image")(builder.inputs["pixel_values"], builder.inputs["image_sizes"])
    _, features = output.deepstack_features[0]
    builder.placeholders.append(Placeholder(builder.config.image_token_index, count(features) // builder.batch))


@quirks.changes_inputs("mllama")
def mllama(builder: InputBuilder) -> None:
    """Text attends to the tiles of its images through a mask of its own: each token to each tile of each image."""
    if "input_ids" in builder.inputs and "aspect_ratio_mask" in builder.inputs:
        batch, *images = builder.inputs["aspect_ratio_mask"].shape
        shape = (batch, builder.inputs["input_ids"].shape[-1], *images)
        builder.inputs["cross_attention_mask"] = builder.ones(shape)


@quirks.makes_pixels("inkling2", "inkling2_vision")
def inkling2(builder: InputBuilder) -> None:
    """An image is a row of squares, one a token, each of several patches, its channels last."""
    if not builder.wants("pixel_values"):
        return
    side = 4
    edge = geometry.patch_size(builder.config) * geometry.merge_size(builder.config)
    shape = (builder.batch * side * side, edge, edge, geometry.channels(builder.config))
    builder.inputs["pixel_values"] = builder.floats(shape)
    builder.inputs["image_grid_thw"] = torch.tensor([[1, side, side]] * builder.batch, device=builder.device)


def _prime_factors(number: int) -> int:
    found, divisor = 0, 2
    while number > 1:
        if number % divisor == 0:
            number //= divisor
            found += 1
        else:
            divisor += 1
    return found


@quirks.makes_pixels("inkling_vision", "inkling_mm_model")
def inkling_pixels(builder: InputBuilder) -> None:
    """The patches of all images in one list, 16 an image, each a short film of one picture, its channels last."""
    vision = getattr(builder.config, "vision_config", builder.config)
    edge = vision.patch_size
    shape = (builder.batch * 16, vision.temporal_patch_size, edge, edge, vision.num_channels)
    builder.inputs["pixel_values"] = builder.floats(shape)


@quirks.makes_pixels("molmo2")
def molmo2_pixels(builder: InputBuilder) -> None:
    """Crops of patches, and for each token of text the two by two patches of the image that are pooled for it.

    An image is a small whole and one crop, both of the encoder's size. What is left over at the edge of a crop belongs
    to no token.
    """
    vision = builder.config.vision_config
    side = vision.image_size[0] // vision.patch_size
    pool, crops, width = 2, 2 * builder.batch, vision.num_channels * vision.patch_size**2
    builder.inputs["pixel_values"] = builder.floats((crops, side * side, width))
    squares = side // pool
    numbers = torch.arange(side * side).view(side, side)[: squares * pool, : squares * pool]
    pooled = numbers.view(squares, pool, squares, pool).transpose(1, 2).reshape(squares * squares, pool * pool)
    starts = torch.arange(crops) * side * side
    builder.inputs["image_token_pooling"] = (starts[:, None, None] + pooled).flatten(0, 1).to(builder.device)
    builder.inputs["image_grids"] = builder.full((builder.batch, 4), squares)
    builder.inputs["image_num_crops"] = builder.full((builder.batch,), 2)


@quirks.makes_pixels("phi4_multimodal")
def phi4_multimodal_pixels(builder: InputBuilder) -> None:
    """An image is a small whole and its crops, here exactly one, with a mask of patches for each."""
    if not builder.wants("image_pixel_values"):
        return
    vision = builder.config.vision_config
    edge = vision.image_size
    side = edge // vision.patch_size
    builder.inputs["image_pixel_values"] = builder.floats((builder.batch, 2, 3, edge, edge))
    builder.inputs["image_sizes"] = builder.full((builder.batch, 2), vision.crop_size)
    builder.inputs["image_attention_mask"] = builder.ones((builder.batch, 2, side, side))
    # Both views are pooled by two; a separator ends each of their rows, and one stands between them.
    pooled = math.ceil(side / 2)
    builder.placeholders.append(Placeholder(vision.image_token_id, 2 * pooled * (pooled + 1) + 1))


@quirks.makes_sounds("phi4_multimodal")
def phi4_multimodal_sounds(builder: InputBuilder) -> None:
    """A spectrogram, whose frames the encoder makes a token of by eights; its length in tokens stands beside it."""
    if not builder.wants("audio_input_features"):
        return
    frames, audio = 128, builder.config.audio_config
    tokens = -(-frames // (audio.time_reduction * audio.downsample_rate))
    builder.inputs["audio_input_features"] = builder.floats((builder.batch, frames, audio.input_size))
    builder.inputs["audio_embed_sizes"] = builder.full((builder.batch,), tokens)
    builder.inputs["audio_attention_mask"] = builder.ones((builder.batch, frames), dtype=torch.bool)
    builder.placeholders.append(Placeholder(audio.audio_token_id, tokens, "audio"))

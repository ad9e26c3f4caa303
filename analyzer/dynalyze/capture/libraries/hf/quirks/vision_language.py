"""Quirks of language models that see: images and videos become tokens among those of a text."""

from __future__ import annotations

import math
from typing import Any

import torch

from dynalyze.capture.libraries.hf import parts, quirks
from dynalyze.capture.libraries.hf.inputs import pixels
from dynalyze.capture.libraries.hf.inputs.input_builder import InputBuilder, Placeholder, count, extractor, untouched


def _prime_factors(number: int, divisor: int = 2) -> int:
    """How many there are, those of one prime counted each."""
    if number < divisor:
        return 0
    if number % divisor:
        return _prime_factors(number, divisor + 1)
    return 1 + _prime_factors(number // divisor, divisor)


def _number_codes(config: Any) -> dict[str, int]:
    """A number for each code's name, in which Chameleon writes letters for digits; sets the token of an image too."""
    if config.model_type == "chameleon":
        letters = str.maketrans("0123456789", "ABCDEFGHIJ")
        codes = [f"IMGIMG{str(code).translate(letters)}Z" for code in range(config.vq_config.num_embeddings)]
        others = ["<image>"]
    else:
        codes = [f"<|visual token {code:06d}|>" for code in range(config.vq_config.codebook_size)]
        others = ["<image>", "<|extra_200|>"]  # The latter is the end of a line of them.
    first = 4
    config.image_token_id = first + len(codes)
    return {name: first + place for place, name in enumerate([*codes, *others])}


def _quarter_of_patches(config: Any) -> int:
    """A quarter of the patches along each edge, as at full size."""
    return int(config.vision_config.image_size // config.vision_config.patch_size // 4) ** 2


OPEN: quirks.Table = {
    # A Q-Former turns an image of any size into a fixed number of tokens; which token comes with a checkpoint.
    "blip-2 instructblip": {"image_token_index": lambda c: c.text_config.vocab_size - 1},
    "instructblipvideo": {"video_token_index": lambda c: c.text_config.vocab_size - 1},
    # Images become tokens of the vocabulary by a map that only checkpoints bring.
    "chameleon emu3": {"vocabulary_map": _number_codes},
    # MiniCPM-V: which tokens stand for images and videos comes with a checkpoint.
    "minicpmv4_6 minicpmv4_7 minicpm_ocr": {
        "image_token_id": lambda c: c.text_config.vocab_size - 1,
        "video_token_id": lambda c: c.text_config.vocab_size - 2,
    },
}
COMPLETE: quirks.Table = {
    # Its connector folds squares of patches, which the default image does not divide into.
    "aya_vision": {
        "vision_config.image_size": lambda c: (
            (fold := c.vision_config.patch_size * c.downsample_factor) * (c.vision_config.image_size // fold)
        )
    }
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
    # A small codebook, with a map of as many codes.
    "chameleon": {"vq_config.num_embeddings": 256, "vocabulary_map": _number_codes},
    "emu3": {"vq_config.codebook_size": 256, "vocabulary_map": _number_codes},
    # Layers that the small text part has; the Q-Former is as wide as what it reads.
    "granite4_vision": {
        "deepstack_layer_map": lambda c: [
            (-1, min(layer, c.text_config.num_hidden_layers - 1)) for _, layer in c.deepstack_layer_map[:1]
        ],
        "spatial_target_layers": lambda c: [
            min(layer, c.text_config.num_hidden_layers - 1) for layer in c.spatial_target_layers
        ],
        "qformer_config.hidden_size": "vision_config.hidden_size",
        "qformer_config.encoder_hidden_size": "vision_config.hidden_size",
        "qformer_config.num_attention_heads": "vision_config.num_attention_heads",
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
        "pixel_values": lambda b, c: pixels.images(b),
        "high_res_pixel_values": lambda b, c: b.floats(
            (b.batch, pixels.channels(c.high_res_vision_config), *pixels.image_size(c.high_res_vision_config))
        ),
    },
    # No encoder; the patches of an image go straight into the text.
    "fuyu": {
        "pixel_values": lambda b, c: b.floats((b.batch, pixels.grid_side(b) ** 2, c.num_channels * c.patch_size**2))
    },
    # No encoder; the patches of all images are one list, and each becomes a token.
    "neomme": {"pixel_values": lambda b, c: b.floats((b.batch * pixels.grid_side(b) ** 2, c.patch_dim))},
    # Several images a sample.
    "idefics": {"pixel_values": lambda b, c: pixels.images(b, 1)},
    # The vision part alone: crops, each a row of patches.
    "molmo2_vision": {
        "pixel_values": lambda b, c: b.floats((b.batch, c.num_position_embeddings, c.num_channels * c.patch_size**2))
    },
    # An image is a row of squares, one a token, each of several patches, its channels last.
    "inkling2 inkling2_vision": {
        "pixel_values": lambda b, c: b.floats(
            (16 * b.batch, *[pixels.patch_size(c) * pixels.merge_size(c)] * 2, pixels.channels(c))
        ),
        "image_grid_thw": lambda b, c: torch.tensor([[1, 4, 4]] * b.batch, device=b.device),
    },
    # The patches of all images in one list, 16 an image, each a short film of one picture, its channels last.
    "inkling_vision inkling_mm_model": {
        "pixel_values": lambda b, c: b.floats(
            (
                16 * b.batch,
                (vision := pixels.parts_that_see(c)[-1]).temporal_patch_size,
                *[vision.patch_size] * 2,
                vision.num_channels,
            )
        )
    },
    # Four frames a video, each as many tokens as an image.
    "instructblipvideo": {
        "pixel_values": lambda b, c: pixels.images(b, 4),
        "placeholder": lambda b, c: Placeholder(c.video_token_index, 4 * c.num_query_tokens, "video"),
    },
    # An image is a small whole and its crops, here exactly one, with a mask of patches for each. Both views are pooled
    # by two; a separator ends each of their rows, and one stands between them.
    "phi4_multimodal": {
        "image_pixel_values": lambda b, c: b.floats((b.batch, 2, 3, *[c.vision_config.image_size] * 2)),
        "image_sizes": lambda b, c: b.full((b.batch, 2), c.vision_config.crop_size),
        "image_attention_mask": lambda b, c: b.ones(
            (b.batch, 2, *[c.vision_config.image_size // c.vision_config.patch_size] * 2)
        ),
        "placeholder": lambda b, c: Placeholder(
            c.vision_config.image_token_id,
            2 * (pooled := -(-b.inputs["image_attention_mask"].shape[-1] // 2)) * (pooled + 1) + 1,
        ),
    },
}
SOUNDS: quirks.Table = {
    # A spectrogram, whose frames the encoder makes a token of by eights; its length in tokens stands beside it.
    "phi4_multimodal": {
        "audio_input_features": lambda b, c: b.floats((b.batch, 128, c.audio_config.input_size)),
        "audio_embed_sizes": lambda b, c: b.full(
            (b.batch,), -(-128 // (c.audio_config.time_reduction * c.audio_config.downsample_rate))
        ),
        "audio_attention_mask": lambda b, c: b.ones((b.batch, 128), dtype=torch.bool),
        "placeholder": lambda b, c: Placeholder(
            c.audio_config.audio_token_id, int(b.inputs["audio_embed_sizes"][0]), "audio"
        ),
    }
}
INPUTS: quirks.Table = {
    # The retrieval model matches each text with its image, as its documentation shows first.
    "blip-2": {"use_image_text_matching_head": True},
    # A mask tells which token attends to which image: each to the one.
    "idefics": {"image_attention_mask": lambda b, c: b.ones((*b.inputs["input_ids"].shape, 1))},
    # The instruction once more for the Q-Former.
    "instructblip instructblipvideo": {
        "qformer_input_ids": lambda b, c: b.tokens((b.batch, b.sequence), c.qformer_config.vocab_size),
        "qformer_attention_mask": lambda b, c: b.ones((b.batch, b.sequence)),
    },
    # Text attends to the tiles of its images through a mask of its own: each token to each tile of each image.
    "mllama": {
        "cross_attention_mask": lambda b, c: b.ones(
            (*b.inputs["input_ids"].shape, *b.inputs["aspect_ratio_mask"].shape[1:])
        )
    },
}


@quirks.completes("aria")
def aria(config: Any) -> None:
    """How many tokens an image becomes is told for each number of patches, none of which the default images have."""
    vision = config.vision_config
    if (vision.image_size // vision.patch_size) ** 2 not in config.projector_patch_to_query_dict:
        vision.image_size, vision.patch_size = 490, 14


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


@quirks.makes_pixels("blip-2", "instructblip")
def blip_2_pixels(b: InputBuilder, c: Any) -> None:
    """Placeholders where a language model reads them; the retrieval model has none."""
    if hasattr(b.model, "language_model"):
        b.placeholders.append(Placeholder(c.image_token_index, c.num_query_tokens))


@quirks.makes_pixels("glm_image")
def glm_image_pixels(b: InputBuilder, c: Any) -> None:
    """One image to read a sample, each of its patches a token.

    After the images that it reads stands the grid of the image that it is to draw, still without pixels.
    """
    pixels.add_grid(b, "pixel_values", "image_grid_thw")
    b.inputs["image_grid_thw"] = b.inputs["image_grid_thw"].repeat_interleave(2, dim=0)
    b.inputs["images_per_sample"] = b.full((b.batch,), 2)
    around = (c.image_start_token_id, c.image_end_token_id)
    b.placeholders.append(Placeholder(c.image_token_id, pixels.grid_side(b) ** 2, "image", *around))


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


@quirks.makes_pixels("granite4_vision")
def granite4_vision_pixels(b: InputBuilder, c: Any) -> None:
    """Images in tiles; a placeholder for each feature, of which each layer that is fed gets its own set."""
    pixels.add_sized(b)
    with untouched(b.model):
        output = extractor(b.model, "image")(b.inputs["pixel_values"], b.inputs["image_sizes"])
    _, features = output.deepstack_features[0]
    b.placeholders.append(Placeholder(c.image_token_index, count(features) // b.batch))


@quirks.makes_pixels("molmo2")
def molmo2_pixels(b: InputBuilder, c: Any) -> None:
    """Crops of patches, and for each token of text the two by two patches of the image that are pooled for it.

    An image is a small whole and one crop, both of the encoder's size. What is left over at the edge of a crop belongs
    to no token.
    """
    vision = c.vision_config
    side = vision.image_size[0] // vision.patch_size
    pool, crops, width = 2, 2 * b.batch, vision.num_channels * vision.patch_size**2
    b.inputs["pixel_values"] = b.floats((crops, side * side, width))
    squares = side // pool
    numbers = torch.arange(side * side).view(side, side)[: squares * pool, : squares * pool]
    pooled = numbers.view(squares, pool, squares, pool).transpose(1, 2).reshape(squares * squares, pool * pool)
    starts = torch.arange(crops) * side * side
    b.inputs["image_token_pooling"] = (starts[:, None, None] + pooled).flatten(0, 1).to(b.device)
    b.inputs["image_grids"] = b.full((b.batch, 4), squares)
    b.inputs["image_num_crops"] = b.full((b.batch,), 2)

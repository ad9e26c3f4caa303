"""Quirks of models that see images or videos alone: backbones, detectors, segmentation, depth."""

from __future__ import annotations

import importlib.util
from typing import Any

from dynalyze.capture.hf import quirks
from dynalyze.capture.hf.inputs import geometry, pixels
from dynalyze.capture.hf.inputs.input_builder import InputBuilder

OPEN: quirks.Table = {
    # The decoder that it is pretrained with comes with a checkpoint.
    "hiera": {"decoder_hidden_size": 512, "decoder_depth": 8, "decoder_num_heads": 16},
    # How sure it has to be of each class, and the classes' order, come with a checkpoint.
    "pp_doclayout_v2": {
        "class_thresholds": lambda c: [0.5] * c.num_labels,
        "class_order": lambda c: list(range(c.num_labels)),
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
}
PIXELS: quirks.Table = {
    # It reads pairs of images, its base model too.
    "efficientloftr": {"pixel_values": lambda b: pixels.images(b, 2)},
}
INPUTS: quirks.Table = {
    # A sentence tells which of its tasks is asked for; texts of what may be seen are for training alone.
    "oneformer": {
        "task_inputs": lambda b: b.tokens((b.batch, b.config.task_seq_len), b.config.text_encoder_vocab_size)
    },
}


@quirks.completes("beit")
def beit(config: Any) -> None:
    """Its segmentation reads four layers, and its pretraining needs a token for what is masked: neither by default."""
    if "ForMaskedImageModeling" in str(config.architectures):
        config.use_mask_token = True
    if "ForSemanticSegmentation" in str(config.architectures):
        layers = config.num_hidden_layers
        config.out_indices = [layers // 4, layers // 2 - 1, layers * 2 // 3 - 1, layers - 1]


@quirks.shrinks("data2vec-vision")
def data2vec_vision(config: Any) -> None:
    """Its segmentation reads four layers, counted from one."""
    if config.num_hidden_layers >= len(config.out_indices):
        config.out_indices = list(range(1, len(config.out_indices) + 1))


@quirks.shrinks("depth_pro")
def depth_pro(config: Any) -> None:
    """Patches of an image in several resolutions, the smallest of which is a single patch."""
    edge = 64
    config.patch_size = edge
    for encoder in (config.image_model_config, config.patch_model_config, config.fov_model_config):
        encoder.image_size = edge
    layers = config.patch_model_config.num_hidden_layers
    config.intermediate_hook_ids = [layers - 1 - hook % layers for hook in range(len(config.intermediate_hook_ids))]


@quirks.makes_pixels("depth_pro")
def depth_pro_pixels(builder: InputBuilder) -> None:
    edge = int(builder.config.patch_size / min(builder.config.scaled_images_ratios))
    builder.inputs["pixel_values"] = builder.floats((builder.batch, 3, edge, edge))


@quirks.makes_pixels("seggpt")
def seggpt(builder: InputBuilder) -> None:
    """An image to segment beside an example with its mask, each half of what the encoder sees."""
    height, width = geometry.image_size(builder.config)
    for name in ("pixel_values", "prompt_pixel_values", "prompt_masks"):
        builder.inputs[name] = builder.floats((builder.batch, builder.config.num_channels, height // 2, width))


@quirks.completes("sapiens2")
def sapiens2(config: Any) -> None:
    """The layers of its heads come with a checkpoint: two steps of enlarging and a convolution."""
    head = config.head_config
    if head is None or head.upsample_out_channels is not None:
        return
    width = config.hidden_size // 2
    head.upsample_out_channels, head.upsample_kernel_sizes = [width, width], [head.upsample_kernel_size] * 2
    head.conv_out_channels, head.conv_kernel_sizes = [width], [head.conv_kernel_size]


@quirks.shrinks("sapiens2")
def small_sapiens2(config: Any) -> None:
    head, width = config.head_config, 64
    if head is not None and head.upsample_out_channels is not None:
        head.upsample_out_channels = [width] * len(head.upsample_out_channels)
        head.conv_out_channels = [width] * len(head.conv_out_channels or [])


@quirks.shrinks("detr", "conditional_detr", "dab-detr", "deformable_detr", "table-transformer")
def detr(config: Any) -> None:
    """Its ResNet comes from timm by default; without timm, transformers' own ResNet takes its place."""
    backbone = getattr(config, "backbone_config", None)
    if backbone is None or backbone.model_type != "timm_backbone" or importlib.util.find_spec("timm"):
        return
    from transformers import ResNetConfig

    config.backbone_config = ResNetConfig(depths=[1, 1, 1, 1], out_indices=list(backbone.out_indices))


@quirks.completes("lw_detr")
def lw_detr(config: Any) -> None:
    """Its defaults lead no feature map to the decoder; the released models lead one."""
    if not config.projector_scale_factors:
        config.projector_scale_factors = [1.0]
        config.projector_in_channels = [config.d_model]
        config.num_feature_levels = 1


@quirks.completes("rf_detr_dinov2")
def rf_detr_backbone(config: Any) -> None:
    """Its windows have to cut the patches evenly, and the default image has a prime number of them along an edge."""
    if config.image_size // config.patch_size % config.num_windows:
        config.image_size = 40 * config.patch_size


@quirks.shrinks("rf_detr_dinov2")
def small_rf_detr_backbone(config: Any) -> None:
    patches = 4 * config.num_windows
    if config.image_size // config.patch_size % config.num_windows or patches < 40:
        config.image_size = patches * config.patch_size

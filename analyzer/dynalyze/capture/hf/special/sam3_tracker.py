"""The tracker of SAM 3: its vision part hands features to the mask decoder in the decoder's width."""

from __future__ import annotations

from typing import Any


def shrink(config: Any) -> None:
    config.vision_config.fpn_hidden_size = config.mask_decoder_config.hidden_size

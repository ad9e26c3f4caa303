"""Sapiens 2: the layers of its heads come with a checkpoint."""

from __future__ import annotations

from typing import Any

_SMALL = 64


def complete(config: Any) -> None:
    """Two steps of enlarging and a convolution, where a head says nothing."""
    head = config.head_config
    if head is None or head.upsample_out_channels is not None:
        return
    width = config.hidden_size // 2
    head.upsample_out_channels, head.upsample_kernel_sizes = [width, width], [head.upsample_kernel_size] * 2
    head.conv_out_channels, head.conv_kernel_sizes = [width], [head.conv_kernel_size]


def shrink(config: Any) -> None:
    head = config.head_config
    if head is not None and head.upsample_out_channels is not None:
        head.upsample_out_channels = [_SMALL] * len(head.upsample_out_channels)
        head.conv_out_channels = [_SMALL] * len(head.conv_out_channels or [])

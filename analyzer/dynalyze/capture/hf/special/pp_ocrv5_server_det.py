"""PP-OCR's text detector: the shapes of its convolutions come with a checkpoint."""

from __future__ import annotations

from typing import Any

_LENGTHS = {"long": 7, "mid": 5, "short": 3}


def complete(config: Any) -> None:
    """The kernels of the released detectors: upright, lying and square ones of three lengths."""
    if config.intraclass_block_config is None:
        config.intraclass_block_config = _kernels()
    if config.scale_factor_list is None:
        config.scale_factor_list = [1, 2, 4, 8]
    if config.kernel_list is None:
        config.kernel_list = [3, 2, 2]


def _kernels() -> dict[str, Any]:
    kernels: dict[str, Any] = {"reduce_channel": [1, 1, 0], "return_channel": [1, 1, 0]}
    for name, length in _LENGTHS.items():
        half = length // 2
        kernels[f"vertical_long_to_small_conv_{name}ratio"] = [[length, 1], [1, 1], [half, 0]]
        kernels[f"horizontal_small_to_long_conv_{name}ratio"] = [[1, length], [1, 1], [0, half]]
        kernels[f"symmetric_conv_long_{name}ratio"] = [[length, length], [1, 1], [half, half]]
    return kernels

"""Stand-in for a device library: all it does is to answer that a device is there.

transformers takes flash-attn only where it finds a device that it is made for. It asks `torch.musa.is_available()`
once this package can be found; so it takes the stand-in for flash-attn beside it on a machine without a GPU.
"""

import sys

import torch


def is_available() -> bool:
    return True


def device_count() -> int:
    return 0


torch.musa = sys.modules[__name__]  # type: ignore[attr-defined]

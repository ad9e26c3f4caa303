"""Hiera in SAM 2: attention is global inside stages, never where one begins."""

from __future__ import annotations

from itertools import accumulate
from typing import Any


def shrink(config: Any) -> None:
    """One block with global attention, the last of the third stage."""
    ends = list(accumulate(config.blocks_per_stage))
    config.global_attention_blocks = [ends[2] - 1]

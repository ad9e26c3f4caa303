"""Nemotron-H shares the states of its Mamba heads in groups, of which there are no more than heads."""

from __future__ import annotations

from typing import Any


def shrink(config: Any) -> None:
    config.n_groups = min(config.n_groups, config.mamba_num_heads)

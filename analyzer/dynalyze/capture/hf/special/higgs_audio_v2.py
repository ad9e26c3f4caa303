"""Higgs Audio reads the codes of a reference sound, a placeholder in the text for each of its frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynalyze.capture.hf.inputs import values
from dynalyze.capture.hf.inputs.made import Placeholder

if TYPE_CHECKING:
    from dynalyze.capture.hf.inputs.made import Made

_FRAMES = 16


def sounds(made: Made) -> None:
    """`audio_input_ids` of (batch, frames, codebooks) and their mask."""
    import torch

    config = made.config
    shape = (made.batch, _FRAMES, config.num_codebooks)
    made.inputs["audio_input_ids"] = values.integers(made, shape, 0, config.codebook_size)
    made.inputs["audio_input_ids_mask"] = values.ones(made, shape[:2], dtype=torch.bool)
    begin = config.audio_bos_token_id
    made.placeholders.append(Placeholder(config.audio_token_id, _FRAMES, "audio", begin=begin))

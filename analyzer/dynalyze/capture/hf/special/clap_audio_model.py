"""CLAP's features are images of spectrograms, one a sample or, with fusion, four crops of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynalyze.capture.hf.inputs import values
from dynalyze.capture.hf.inputs.audio import audio_part

if TYPE_CHECKING:
    from dynalyze.capture.hf.inputs.made import Made

# Ten seconds, as its feature extractor cuts or repeats every sound to.
_FRAMES = 1001
_CROPS = 4


def shrink(config: Any) -> None:
    """Each stage but the last doubles the width."""
    config.hidden_size = config.patch_embeds_hidden_size * 2 ** (len(config.depths) - 1)


def sounds(made: Made) -> None:
    """`input_features` of (batch, crops, frames, mel bins), and whether each sound was longer than ten seconds."""
    import torch

    part = audio_part(made.config)
    crops = _CROPS if part.enable_fusion else 1
    frames = min(_FRAMES, part.spec_size * (part.spec_size // part.num_mel_bins))
    made.inputs["input_features"] = values.floats(made, (made.batch, crops, frames, part.num_mel_bins))
    made.inputs["is_longer"] = values.zeros(made, (made.batch, 1), dtype=torch.bool)

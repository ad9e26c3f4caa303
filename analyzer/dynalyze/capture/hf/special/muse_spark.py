"""The audio of Muse Spark is that of its encoder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynalyze.capture.hf.special import muse_spark_audio

if TYPE_CHECKING:
    from dynalyze.capture.hf.inputs.made import Made


def sounds(made: Made) -> None:
    if made.wants("input_values"):
        muse_spark_audio.sounds(made)

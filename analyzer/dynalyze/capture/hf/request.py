"""What `hf:NAME` asks for, and what is made of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from dynalyze.capture.inputs import Inputs
from dynalyze.capture.settings import ModelBuild, Placement


@dataclass(frozen=True)
class ModelRequest(ModelBuild, Placement):
    """A model of transformers: a class of the installed package, a local folder, or a hub id.

    `batch` and `sequence` (tokens of text, or the closest thing the modality has) are chosen where None.
    """

    name: str
    batch: int | None = None
    sequence: int | None = None
    seed: int = 0


@dataclass
class Built:
    """A model in its mode, dtype and place, with the inputs of one call."""

    model: Any
    inputs: Inputs
    class_name: str
    # transformers' model_type, e.g. "llama": what the architecture family is called.
    family: str
    parameters: int


class CannotBuild(Exception):
    """The architecture cannot be had; `stage` says whether its configuration, its weights or its inputs failed.

    The exception that the target's own code raised is its cause, where there is one.
    """

    def __init__(self, stage: Literal["config", "model", "weights", "inputs"], message: str) -> None:
        super().__init__(message)
        self.stage = stage

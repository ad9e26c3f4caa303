"""What a target of a library asks for, and what is made of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from dynalyze.capture.inputs import Inputs
from dynalyze.capture.settings import ModelBuild, Placement

Stage = Literal["config", "model", "weights", "inputs"]


@dataclass(frozen=True)
class ModelRequest(ModelBuild, Placement):
    """A model of a library by its name there.

    `batch` and `sequence` (tokens of text, or the closest thing the modality has) are chosen where None.
    """

    name: str
    library: str = "hf"
    batch: int | None = None
    sequence: int | None = None
    seed: int = 0


@dataclass
class Built:
    """A model in its mode, dtype and place, with the calls that are made to it."""

    model: Any
    calls: list[Inputs]
    class_name: str
    # What the library calls the architecture's family: transformers' model_type, e.g. "llama"; the module of another.
    family: str
    parameters: int


class CannotBuild(Exception):
    """The architecture cannot be had; `stage` says whether its configuration, its weights or its inputs failed.

    The exception that the target's own code raised is its cause, where there is one.
    """

    def __init__(self, stage: Stage, message: str) -> None:
        super().__init__(message)
        self.stage = stage

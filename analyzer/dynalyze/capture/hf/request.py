"""What `hf:NAME` asks for, and what is made of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from dynalyze.capture.inputs import Inputs

Init = Literal["fast", "real"]


@dataclass(frozen=True)
class ModelRequest:
    """A model of transformers: a class of the installed package, a local folder, or a hub id.

    Without `full_size` its configuration is made small. `init` "fast" fills the weights with cheap values of a sane
    scale, "real" lets transformers initialise them; `weights` loads the checkpoint's own. `batch` and `sequence`
    (tokens of text, or the closest thing the modality has) are chosen where None.
    """

    name: str
    full_size: bool = False
    weights: bool = False
    trust_remote_code: bool = False
    init: Init = "fast"
    attn_implementation: str | None = None
    dtype: str | None = None
    device: str | None = None
    batch: int | None = None
    sequence: int | None = None
    train: bool = False
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
    notes: list[str] = field(default_factory=list)


class CannotBuild(Exception):
    """The architecture cannot be had; `stage` says whether its configuration, its weights or its inputs failed.

    The exception that the target's own code raised is its cause, where there is one.
    """

    def __init__(self, stage: Literal["config", "model", "weights", "inputs"], message: str) -> None:
        super().__init__(message)
        self.stage = stage

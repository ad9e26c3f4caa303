"""What is known of a model while its inputs are made, and the inputs made so far."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from dynalyze.capture.hf.request import ModelRequest

if TYPE_CHECKING:
    import torch

Kind = Literal["text", "image", "video", "audio"]

DEFAULT_BATCH = 2
DEFAULT_SEQUENCE = 16


@dataclass(frozen=True)
class Placeholder:
    """A run of `count` tokens in each sample's text, whose embeddings the features of another modality replace."""

    token_id: int
    count: int
    kind: Kind = "image"
    # Tokens that the processor writes around the run.
    begin: int | None = None
    end: int | None = None


@dataclass
class InputBuilder:
    """One model's inputs on their way: each contributor adds what it knows, and none overwrites another's."""

    model: Any
    request: ModelRequest
    inputs: dict[str, Any] = field(default_factory=dict)
    placeholders: list[Placeholder] = field(default_factory=list)

    def __post_init__(self) -> None:
        import torch

        self.config: Any = self.model.config
        self.batch: int = self.request.batch or DEFAULT_BATCH
        self.train = bool(self.request.train)
        self.takes, self.requires = forward_parameters(self.model)
        weights = list(self.model.parameters())
        floating = (weight.dtype for weight in weights if weight.is_floating_point())
        self.dtype: torch.dtype = next(floating, torch.get_default_dtype())
        self.device: torch.device = weights[0].device if weights else torch.device("cpu")
        # On the CPU whatever the model's device, so that a seed means the same inputs everywhere.
        self.generator = torch.Generator().manual_seed(self.request.seed)

    @property
    def text_config(self) -> Any:
        """The configuration of the part that reads tokens; the whole one where there is no such part."""
        return text_part(self.config)

    @property
    def sequence(self) -> int:
        """Tokens of text, before any placeholders."""
        return self.request.sequence or DEFAULT_SEQUENCE

    @property
    def name(self) -> str:
        return type(self.model).__name__

    def wants(self, name: str) -> bool:
        """Whether forward takes `name` and nobody has made it yet."""
        return name in self.takes and name not in self.inputs

    def needs(self, name: str) -> bool:
        """Whether forward cannot be called without `name`, and nobody has made it yet."""
        return name in self.requires and name not in self.inputs


def forward_parameters(model: Any) -> tuple[frozenset[str], frozenset[str]]:
    """The names that forward takes, and those among them without a default."""
    parameters = [
        parameter
        for parameter in inspect.signature(model.forward).parameters.values()
        if parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    ]
    required = (parameter.name for parameter in parameters if parameter.default is parameter.empty)
    return frozenset(parameter.name for parameter in parameters), frozenset(required)


def text_part(config: Any) -> Any:
    """The sub-configuration for text, by transformers' own rule where there is exactly one."""
    try:
        return config.get_text_config()
    except (AttributeError, ValueError):
        return config

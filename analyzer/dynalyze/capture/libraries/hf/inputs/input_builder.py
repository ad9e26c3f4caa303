"""What is known of a model while its inputs are made, and the inputs made so far."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from dynalyze.capture.libraries.hf.parts import first, special_ids
from dynalyze.capture.libraries.request import ModelRequest

Kind = Literal["text", "image", "video", "audio"]

DEFAULT_BATCH = 2
DEFAULT_SEQUENCE = 16
# The vocabulary of models that read characters as they are: those of ASCII.
_CHARACTERS = 128


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
        self.config: Any = self.model.config
        self.batch: int = self.request.batch or DEFAULT_BATCH
        # Tokens of text, before any placeholders.
        self.sequence: int = self.request.sequence or DEFAULT_SEQUENCE
        self.train = bool(self.request.train)
        self.name = type(self.model).__name__
        self.takes = parameters_of(self.model.forward)
        weights = list(self.model.parameters())
        floating = (weight.dtype for weight in weights if weight.is_floating_point())
        self.dtype: torch.dtype = next(floating, torch.get_default_dtype())
        self.device: torch.device = weights[0].device if weights else torch.device("cpu")
        # On the CPU whatever the model's device, so that a seed means the same inputs everywhere.
        self.generator = torch.Generator().manual_seed(self.request.seed)

    @property
    def text_config(self) -> Any:
        """The part for text, by transformers' own rule where there is exactly one, else the whole configuration."""
        try:
            return self.config.get_text_config()
        except (AttributeError, ValueError):
            return self.config

    def wants(self, name: str) -> bool:
        return name in self.takes and name not in self.inputs

    def needs(self, name: str) -> bool:
        """`wants` it, and cannot be called without."""
        return self.takes.get(name, False) and name not in self.inputs

    def tokens(self, shape: Sequence[int], vocabulary: int | None = None) -> torch.Tensor:
        """Token ids inside the vocabulary, none of which has a special meaning where others are left."""
        size = vocabulary if vocabulary is not None else self.vocabulary_size()
        special = special_ids(self.config)
        usable = [token for token in range(size) if token not in special] or list(range(size))
        drawn = torch.randint(len(usable), tuple(shape), generator=self.generator)
        return torch.tensor(usable)[drawn].to(self.device)

    def vocabulary_size(self) -> int:
        """How many tokens the model can embed: its own table tells, the configuration may count other tokens."""
        told = first(self.text_config, "vocab_size") or first(self.config, "vocab_size")
        table = None
        with contextlib.suppress(AttributeError, NotImplementedError):  # What a model without one raises.
            table = getattr(self.model.get_input_embeddings(), "num_embeddings", None)
        known = [size for size in (told, table) if isinstance(size, int) and size > 0]
        return min(known, default=_CHARACTERS)

    def integers(self, shape: Sequence[int], low: int, high: int) -> torch.Tensor:
        return torch.randint(low, high, tuple(shape), generator=self.generator).to(self.device)

    def floats(self, shape: Sequence[int], scale: float = 1.0) -> torch.Tensor:
        """Normally distributed values in the model's dtype."""
        drawn = torch.randn(tuple(shape), generator=self.generator) * scale
        return drawn.to(device=self.device, dtype=self.dtype)

    def full(self, shape: Sequence[int], value: float, dtype: torch.dtype = torch.long) -> torch.Tensor:
        return torch.full(tuple(shape), value, dtype=dtype, device=self.device)

    def ones(self, shape: Sequence[int], dtype: torch.dtype = torch.long) -> torch.Tensor:
        """A mask that hides nothing, as a tokenizer returns it for texts of one length."""
        return self.full(shape, 1, dtype)


def parameters_of(method: Any) -> dict[str, bool]:
    """The names that a method takes, and of each whether it is required."""
    parameters = inspect.signature(method).parameters.values()
    named = (each for each in parameters if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL))
    return {each.name: each.default is each.empty for each in named}

"""What is known of a model while its inputs are made, the inputs made so far, and what the model itself tells:
how many features it makes of an image, a video or a sound, in calls that leave no trace.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from dynalyze.capture.libraries.building import ModelRequest
from dynalyze.capture.libraries.hf.parts import first, special_ids, sub_configs

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
        configured = first(self.text_config, "vocab_size") or first(self.config, "vocab_size")
        table = None
        with contextlib.suppress(AttributeError, NotImplementedError):  # What a model without one raises.
            table = getattr(self.model.get_input_embeddings(), "num_embeddings", None)
        known = [size for size in (configured, table) if isinstance(size, int) and size > 0]
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


def features_per_sample(builder: InputBuilder, kind: str) -> int | None:
    """Features that `get_<kind>_features` gives for the inputs made so far, divided by the batch.

    None where the model has no such method or it lacks an input.
    """
    extract = extractor(builder.model, kind)
    if extract is None or any(
        required and name not in builder.inputs for name, required in parameters_of(extract).items()
    ):
        return None
    parameters = inspect.signature(extract).parameters.values()
    more = {"return_dict": True} if any(each.kind is each.VAR_KEYWORD for each in parameters) else {}
    with untouched(builder.model):
        given = extract(**{**taken_by(extract, builder.inputs), **more})
    return count(given) // builder.batch


def extractor(model: Any, kind: str) -> Any:
    """The bound method `get_<kind>_features` of the innermost module that has one with named parameters."""
    name = f"get_{kind}_features"
    found = [getattr(module, name) for module in model.modules() if hasattr(module, name)]
    named = [method for method in found if parameters_of(method)]
    return named[-1] if named else None


def count(given: Any) -> int:
    """Rows in what a feature extractor returned: an output with a pooler, a tensor, or one tensor an image."""
    features = given[0] if isinstance(given, tuple) and len(given) == 1 else given
    for name in ("last_hidden_state", "pooler_output"):
        if getattr(given, name, None) is not None:
            features = getattr(given, name)
    if isinstance(features, (list, tuple)):
        return sum(count(each) for each in features)
    return int(features.numel()) // int(features.shape[-1])


def taken_by(method: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Those of the inputs that a method, or the forward of a module, has parameters for."""
    return {name: inputs[name] for name in parameters_of(getattr(method, "forward", method)) if name in inputs}


@contextmanager
def untouched(model: Any) -> Iterator[None]:
    """Inside: no gradients and no dropout. Afterwards the random state, and the attributes and buffers of every
    module and configuration are those from before.
    """
    kept = [(vars(each), dict(vars(each))) for each in [*model.modules(), *sub_configs(model.config)]]
    # Registering a buffer or a submodule changes these, and others may hold the very dicts.
    kept += [(value, dict(value)) for _, before in kept for value in before.values() if isinstance(value, dict)]
    random = torch.get_rng_state()
    try:
        model.eval()
        with torch.no_grad():
            yield
    finally:
        torch.set_rng_state(random)
        for attributes, before in kept:
            attributes.clear()
            attributes.update(before)

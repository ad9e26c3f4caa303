"""Tensors for inputs: tokens, masks, features. All random ones come from the generator of `InputBuilder`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from dynalyze.capture.hf.inputs.input_builder import InputBuilder

# The vocabulary of models that read characters as they are: those of ASCII.
_CHARACTERS = 128
# How the fields of a configuration that hold a token's id end.
_ID_ENDINGS = ("_token_id", "_token_ids", "_token_index", "_code_id")


def first(config: Any, *names: str, default: Any = None) -> Any:
    """The first of these fields of a configuration that is there and not None."""
    for name in names:
        value = getattr(config, name, None)
        if value is not None:
            return value
    return default


def sub_configs(config: Any) -> Iterator[Any]:
    """The configuration and all configurations inside it."""
    yield config
    for name, value in vars(config).items():
        if not name.startswith("_") and hasattr(value, "model_type") and hasattr(value, "to_dict"):
            yield from sub_configs(value)


def special_ids(config: Any) -> frozenset[int]:
    """Every token id that the configuration gives a meaning: padding, begin and end, placeholders."""
    found: set[int] = set()
    for part in sub_configs(config):
        for name, value in vars(part).items():
            if name.endswith(_ID_ENDINGS):
                found.update(_integers_in(value))
    return frozenset(found)


def tokens(builder: InputBuilder, shape: Sequence[int], vocabulary: int | None = None) -> torch.Tensor:
    """Token ids inside the vocabulary, none of which has a special meaning where others are left."""
    import torch

    size = vocabulary if vocabulary is not None else vocabulary_size(builder)
    special = special_ids(builder.config)
    usable = [token for token in range(size) if token not in special] or list(range(size))
    drawn = torch.randint(len(usable), tuple(shape), generator=builder.generator)
    return torch.tensor(usable)[drawn].to(builder.device)


def vocabulary_size(builder: InputBuilder) -> int:
    """How many tokens the model can embed: its own table tells, the configuration may count other tokens."""
    told = first(builder.text_config, "vocab_size") or first(builder.config, "vocab_size")
    table = None
    with contextlib.suppress(AttributeError, NotImplementedError):  # What a model without one raises.
        table = getattr(builder.model.get_input_embeddings(), "num_embeddings", None)
    known = [size for size in (told, table) if isinstance(size, int) and size > 0]
    return min(known, default=_CHARACTERS)


def integers(builder: InputBuilder, shape: Sequence[int], low: int, high: int) -> torch.Tensor:
    """Whole numbers from `low` to `high` - 1."""
    import torch

    return torch.randint(low, high, tuple(shape), generator=builder.generator).to(builder.device)


def floats(builder: InputBuilder, shape: Sequence[int], scale: float = 1.0) -> torch.Tensor:
    """Normally distributed values in the model's dtype."""
    import torch

    drawn = torch.randn(tuple(shape), generator=builder.generator) * scale
    return drawn.to(device=builder.device, dtype=builder.dtype)


def ones(builder: InputBuilder, shape: Sequence[int], dtype: torch.dtype | None = None) -> torch.Tensor:
    """A mask that hides nothing, as a tokenizer returns it for texts of one length."""
    import torch

    return torch.ones(tuple(shape), dtype=dtype or torch.long, device=builder.device)


def zeros(builder: InputBuilder, shape: Sequence[int], dtype: torch.dtype | None = None) -> torch.Tensor:
    import torch

    return torch.zeros(tuple(shape), dtype=dtype or torch.long, device=builder.device)


def full(builder: InputBuilder, shape: Sequence[int], value: float, dtype: torch.dtype | None = None) -> torch.Tensor:
    import torch

    return torch.full(tuple(shape), value, dtype=dtype or torch.long, device=builder.device)


def arange(builder: InputBuilder, batch: int, length: int) -> torch.Tensor:
    """Positions counted from zero, the same for each sample."""
    import torch

    return torch.arange(length, device=builder.device).repeat(batch, 1)


def _integers_in(value: Any) -> Iterator[int]:
    if isinstance(value, bool):
        return
    if isinstance(value, int):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _integers_in(each)

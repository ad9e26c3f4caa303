"""The options of an `hf:` target, as they travel from the command line to the child. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

Phase = Literal["forward", "train", "prefill", "decode", "generate"]
PHASES: tuple[Phase, ...] = ("forward", "train", "prefill", "decode", "generate")


@dataclass(frozen=True)
class ModelOptions:
    """How the model is built (`ModelRequest` has the meanings), and what is done with it.

    `batch` and `sequence` are chosen where None. Unless `cold`, it runs once in eager before it is compiled.
    """

    full_size: bool = False
    weights: bool = False
    trust_remote_code: bool = False
    init: Literal["fast", "real"] = "fast"
    attn_implementation: str | None = None
    batch: int | None = None
    sequence: int | None = None
    phase: Phase = "forward"
    static_cache: bool = False
    new_tokens: int = 16
    cold: bool = False

    def building(self) -> dict[str, Any]:
        """What `ModelRequest` takes of it, but for the sizes: a benchmark varies them."""
        return {name: getattr(self, name) for name in BUILDING}


BUILDING = ("full_size", "weights", "trust_remote_code", "init", "attn_implementation")
"""The names of what decides how the model is built."""
OPTION_NAMES = tuple(each.name for each in fields(ModelOptions))

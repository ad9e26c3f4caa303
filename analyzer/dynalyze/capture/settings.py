"""How something is compiled, where its model runs and how it is built: each one record, which child and parent share.

What needs several of them extends these. Standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

Dynamic = Literal["auto", "on", "off", "mark"]
Phase = Literal["forward", "train", "prefill", "decode", "generate"]
PHASES: tuple[Phase, ...] = get_args(Phase)
LANGUAGE_PHASES: tuple[Phase, ...] = ("prefill", "decode", "generate")


@dataclass(frozen=True, kw_only=True)
class CompileArguments:
    """The arguments of torch.compile. `dynamic` "mark" marks the first dimension of every input instead."""

    backend: str = "inductor"
    mode: str | None = None
    dynamic: Dynamic = "auto"
    fullgraph: bool = False


@dataclass(frozen=True, kw_only=True)
class Placement:
    """The mode, device and dtype of a model and its inputs; None leaves what they have."""

    train: bool | None = None
    device: str | None = None
    dtype: str | None = None


@dataclass(frozen=True, kw_only=True)
class Generation:
    """How a language model generates: with a key-value cache of a fixed size or not, and how many tokens."""

    static_cache: bool = False
    new_tokens: int = 16


@dataclass(frozen=True, kw_only=True)
class ModelBuild:
    """How a model of a library is built.

    Without `full_size` it is made small. `init` "fast" fills the weights with cheap values of a sane scale, "real" lets
    the library initialise them; `weights` loads the checkpoint's own. `features` are what timm calls features_only.
    Each of `size`, the height and width of images, is a call. A pipeline of diffusers runs for `steps`, and with `lora`
    it switches adapters between its calls.
    """

    full_size: bool = False
    weights: bool = False
    trust_remote_code: bool = False
    init: Literal["fast", "real"] = "fast"
    attn_implementation: str | None = None
    features: bool = False
    size: tuple[int, ...] = ()
    steps: int = 8
    lora: bool = False


@dataclass(frozen=True, kw_only=True)
class CompileOptions(Placement, CompileArguments):
    """How dynalyze compiles what it compiles itself; `given` names the options on the command line."""

    given: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ModelOptions(Generation, ModelBuild):
    """The options of a model of a library: how the model is built, and what is done with it.

    `batch` and `sequence` (tokens of text, or the closest thing the modality has) are chosen where None. Unless `cold`,
    it runs once in eager before it is compiled.
    """

    batch: int | None = None
    sequence: int | None = None
    phase: Phase = "forward"
    cold: bool = False


def names_of(kind: type[Any]) -> tuple[str, ...]:
    """The names of a record's fields."""
    return tuple(each.name for each in fields(kind))


def settings_of(record: Any, kind: type[Any]) -> dict[str, Any]:
    """What a record has of another one that it extends, by name."""
    return {name: getattr(record, name) for name in names_of(kind)}


COMPILE_OPTIONS = tuple(name for name in names_of(CompileOptions) if name != "given")
MODEL_OPTIONS = names_of(ModelOptions)
"""The names of the options on the command line."""

"""What transformers says of attention: which implementations a model's class supports, and which can be had here.

The class says the former in flags. The latter is decided by a private check that transformers makes when a model is
built; where this version has none, nothing is refused before a model is tried.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dynalyze.capture.bench.commands import AttentionChoices
from dynalyze.capture.inputs import Misuse

# The flags of a class, those of earlier versions of transformers too.
_FLAGS: dict[str, tuple[str, ...]] = {
    "sdpa": ("_supports_sdpa",),
    "flash_attention_2": ("_supports_flash_attn", "_supports_flash_attn_2"),
    "flash_attention_3": ("_supports_flash_attn", "_supports_flash_attn_3"),
    "flex_attention": ("_supports_flex_attn",),
}
NAMES = ("eager", *_FLAGS)
"""The implementations that are tried unless others are named."""

_LONGEST = 300


def switch(model: Any, name: str) -> None:
    """Let a model of transformers compute its attention in this way from here on. Raises Misuse where it is no such
    model, or its class is not made for that.
    """
    change = getattr(model, "set_attn_implementation", None)
    if not callable(change):
        raise Misuse(
            f"the attention of a {type(model).__name__} cannot be switched: it is no model of transformers "
            "(a PreTrainedModel with set_attn_implementation)"
        )
    before = implementation(model)
    change(name)
    if name != before and implementation(model) == before:
        raise Misuse(
            f"{type(model).__name__} cannot switch its attention once it is made; name the architecture as hf:NAME"
        )


def implementation(model: Any) -> str:
    """The name of what a model computes its attention with; empty for what has none."""
    return str(getattr(getattr(model, "config", None), "_attn_implementation", None) or "")


def supported(model: Any) -> list[str]:
    """Those of NAMES that the class of a model supports, as its flags say; every model has eager."""
    return ["eager", *(name for name, flags in _FLAGS.items() if any(getattr(model, flag, False) for flag in flags))]


def unknown_names(wanted: Iterable[str]) -> list[str]:
    """The names in `wanted` that transformers does not know."""
    try:
        from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

        known = {*NAMES, *ALL_ATTENTION_FUNCTIONS.valid_keys()}
    except (ImportError, AttributeError):
        return []
    return [name for name in wanted if name not in known and "/" not in name]


def availability(model: Any, names: Iterable[str]) -> dict[str, dict[str, str]]:
    """For each name what transformers takes for it (`used`), or why it cannot be had here (`refused`)."""
    check = getattr(model, "_check_and_adjust_attn_implementation", None)
    found = {}
    for name in names:
        used, refused = name, ""
        try:
            used = check(name) if callable(check) else name
        except TypeError:  # Of another version, with other arguments.
            pass
        except Exception as error:
            used, refused = "", " ".join(str(error).split())[:_LONGEST] or type(error).__name__
        found[name] = {"used": used if isinstance(used, str) else name, "refused": refused}
    return found


def choices(model: Any, names: list[str], dtypes: list[str]) -> AttentionChoices:
    """Raises Misuse where it is no model of transformers, or nobody knows such a name or dtype."""
    import torch

    kind = type(model).__name__
    if not hasattr(model, "config") or not hasattr(model, "_supports_sdpa"):
        raise Misuse(
            f"--attention-matrix needs a model of transformers, whose attention can be chosen: {kind} is none. Name an "
            "architecture (hf:NAME), or a FILE:NAME whose model is a PreTrainedModel"
        )
    for name in unknown_names(names):
        raise Misuse(f"transformers knows no attention implementation {name!r}; for example {', '.join(NAMES)}")
    for name in dtypes:
        dtype = getattr(torch, name, None)
        if not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
            raise Misuse(f"{name!r} is no floating dtype of torch; for example float32, bfloat16, float16")
    own = supported(model)
    others = [name for name in NAMES if name not in own]
    return AttentionChoices(kind, implementation(model), others, availability(model, names or own))

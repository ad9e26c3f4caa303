"""The LoRA and other PEFT adapters in a module, and how often the active ones changed between two looks at it."""

from __future__ import annotations

import contextlib
import sys
import weakref
from typing import Any

Facts = dict[str, Any]
_State = tuple[tuple[str, ...], bool]

# What was active at the last look at a module, and how often that had changed until then.
_seen: weakref.WeakKeyDictionary[Any, tuple[_State, int]] = weakref.WeakKeyDictionary()


def contribute(module: Any) -> Facts:
    """The `adapters` of ModuleFacts; empty where there is none."""
    layers = _layers(module)
    if not layers:
        return {}
    first = layers[0]
    active, disabled = tuple(_active(first)), _disabled(module, first)
    return {
        "adapters": {
            "library": "peft",
            "names": sorted({name for layer in layers for name in _names(layer)}),
            "active": list(active),
            "merged": all(_merged(layer) for layer in layers),
            "disabled": disabled,
            "ranks": _ranks(layers),
            "prepared_for_hotswap": any(_is_prepared(layer) for layer in layers),
            "switches": _switches(module, (active, disabled)),
            "layers": len(layers),
        }
    }


def _layers(module: Any) -> list[Any]:
    """The layers that PEFT put in the place of others, where the program has imported PEFT at all."""
    tuners = sys.modules.get("peft.tuners.tuners_utils")
    kind = getattr(tuners, "BaseTunerLayer", None)
    if kind is None:
        return []
    torch = sys.modules["torch"]
    return [layer for layer in torch.nn.Module.modules(module) if isinstance(layer, kind)]


def _names(layer: Any) -> set[str]:
    """The adapters of one layer: the keys of the dictionaries that hold their weights."""
    kept = (layer._modules.get(name) for name in getattr(layer, "adapter_layer_names", ()))
    held = {str(name) for one in kept if hasattr(one, "keys") for name in one}
    return held | {str(name) for name in vars(layer).get("r") or ()}


def _active(layer: Any) -> list[str]:
    active = getattr(layer, "_active_adapter", None) or []
    return [active] if isinstance(active, str) else [str(name) for name in active]


def _disabled(module: Any, layer: Any) -> bool:
    """In the layers for good, or for a while, which the model around them alone knows."""
    torch = sys.modules["torch"]
    for_a_while = any(vars(part).get("_adapters_disabled") is True for part in torch.nn.Module.modules(module))
    return bool(getattr(layer, "_disable_adapters", False)) or for_a_while


def _merged(layer: Any) -> bool:
    return bool(getattr(layer, "merged_adapters", None))


def _ranks(layers: list[Any]) -> dict[str, int]:
    """The highest rank of each adapter; layers may have ranks of their own."""
    found: dict[str, int] = {}
    for layer in layers:
        for name, rank in (vars(layer).get("r") or {}).items():
            if isinstance(rank, int):
                found[str(name)] = max(_held_rank(layer, name) or rank, found.get(str(name), 0))
    return found


def _held_rank(layer: Any, name: str) -> int | None:
    """The rank of the weights: a swapped-in adapter leaves the declared one as it was. None without such weights."""
    torch = sys.modules["torch"]
    held = layer._modules.get("lora_A")
    weight = getattr(held[name], "weight", None) if held is not None and name in held else None
    return int(weight.shape[0]) if isinstance(weight, torch.Tensor) and weight.dim() > 1 else None


def _is_prepared(layer: Any) -> bool:
    """`prepare_model_for_compiled_hotswap` makes tensors of the scalings."""
    torch = sys.modules["torch"]
    return any(isinstance(value, torch.Tensor) for value in (vars(layer).get("scaling") or {}).values())


def _switches(module: Any, state: _State) -> int:
    last, count = _seen.get(module, (state, 0))
    count += last != state
    with contextlib.suppress(TypeError):  # A class with slots of its own cannot be held weakly.
        _seen[module] = (state, count)
    return count

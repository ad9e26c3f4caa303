"""The layers that libraries put in the place of torch's: LoRA and other PEFT adapters, and those of quantisers.

A quantised layer is known by the package that its class comes from, so nothing is imported that the program has not
imported. The packages are those that transformers' own integrations replace layers by.
"""

from __future__ import annotations

import contextlib
import json
import sys
import weakref
from collections.abc import Iterator
from typing import Any

Facts = dict[str, Any]
# What was active at the last look at a module, whether it was disabled, and how often that had changed until then.
_seen: weakref.WeakKeyDictionary[Any, tuple[tuple[tuple[str, ...], bool], int]] = weakref.WeakKeyDictionary()
# Where a package has quantised layers and others too, the words that names of quantised ones hold.
_PACKAGES: dict[str, tuple[str, ...]] = {
    "bitsandbytes": ("4bit", "8bit"), "gptqmodel": ("Linear",), "auto_gptq": ("Linear",), "awq": ("WQLinear",),
    "hqq": ("Linear",), "optimum": ("QLinear", "QConv", "QLayerNorm", "QEmbedding", "QuantLinear"),
    "compressed_tensors": ("Linear",), "aqlm": ("Linear",), "vptq": ("Linear",), "spqr_quant": ("Linear",),
    "fp_quant": ("Linear",), "sinq": ("Linear",), "quark": ("QParams", "Quant"), "auto_round": ("QuantLinear",),
    "auto_round_extension": ("QuantLinear",), "eetq": ("Linear",), "fbgemm_gpu": ("Linear",), "torchao": ("Linear",),
    "fouroversix": ("Quantized", "Linear"),
}  # fmt: skip
# Modules of transformers' integrations whose every layer is a quantised one, and the name of the quantiser.
_INTEGRATIONS = {
    "bitnet": "bitnet", "compressed_tensors": "compressed_tensors", "eetq": "eetq", "fbgemm_fp8": "fbgemm",
    "finegrained_fp8": "fp8", "gemma_quant": "gemma", "higgs": "higgs", "metal_quantization": "metal",
    "mxfp4": "mxfp4", "nvfp4": "nvfp4",
}  # fmt: skip
_INTEGRATION = "transformers.integrations."
_SETTINGS = ("bits", "w_bit", "nbits", "group_size", "desc_act", "sym", "compute_dtype", "block_size")
_OF_STATE = {"quant_type": "quant_type", "blocksize": "block_size", "nested": "nested"}
_MOST_GROUPS = 40


def adapters(module: Any) -> Facts:
    """The `adapters` of ModuleFacts; empty where there is none."""
    kind = getattr(sys.modules.get("peft.tuners.tuners_utils"), "BaseTunerLayer", None)
    if kind is None:  # The program has not imported PEFT.
        return {}
    torch = sys.modules["torch"]
    parts = list(torch.nn.Module.modules(module))
    layers = [layer for layer in parts if isinstance(layer, kind)]
    if not layers:
        return {}
    named = getattr(layers[0], "_active_adapter", None) or []
    active = (named,) if isinstance(named, str) else tuple(str(name) for name in named)
    # In the layers for good, or for a while, which the model around them alone knows.
    disabled = bool(getattr(layers[0], "_disable_adapters", False))
    disabled = disabled or any(vars(part).get("_adapters_disabled") is True for part in parts)
    last, switches = _seen.get(module, ((active, disabled), 0))
    switches += last != (active, disabled)
    with contextlib.suppress(TypeError):  # A class with slots of its own cannot be held weakly.
        _seen[module] = ((active, disabled), switches)
    # `prepare_model_for_compiled_hotswap` makes tensors of the scalings.
    scalings = [value for layer in layers for value in (vars(layer).get("scaling") or {}).values()]
    return {
        "adapters": {
            "library": "peft",
            "names": sorted({name for layer in layers for name in _adapter_names(layer)}),
            "active": list(active),
            "merged": all(getattr(layer, "merged_adapters", None) for layer in layers),
            "disabled": disabled,
            "ranks": _ranks(layers),
            "prepared_for_hotswap": any(isinstance(value, torch.Tensor) for value in scalings),
            "switches": switches,
            "layers": len(layers),
        }
    }


def _adapter_names(layer: Any) -> set[str]:
    """The adapters of one layer: the keys of the dictionaries that hold their weights."""
    kept = (layer._modules.get(name) for name in getattr(layer, "adapter_layer_names", ()))
    held = {str(name) for one in kept if hasattr(one, "keys") for name in one}
    return held | {str(name) for name in vars(layer).get("r") or ()}


def _ranks(layers: list[Any]) -> dict[str, int]:
    """The highest rank of each adapter; layers may have ranks of their own."""
    torch = sys.modules["torch"]
    found: dict[str, int] = {}
    for layer in layers:
        held = layer._modules.get("lora_A")
        for name, rank in (vars(layer).get("r") or {}).items():
            if not isinstance(rank, int):
                continue
            # That of the weights, where it has them: a swapped-in adapter leaves the declared one as it was.
            weight = getattr(held[name], "weight", None) if held is not None and name in held else None
            if isinstance(weight, torch.Tensor) and weight.dim() > 1:
                rank = int(weight.shape[0]) or rank
            found[str(name)] = max(rank, found.get(str(name), 0))
    return found


def quantised(module: Any) -> Facts:
    """The `layers` of ModuleFacts; empty where nothing is quantised."""
    groups: dict[str, Facts] = {}
    named = list(sys.modules["torch"].nn.Module.named_modules(module))
    # Whether transformers' `generate` compiles a model with this quantiser by itself; None where it does not say.
    quantiser = next((each for _, part in named if (each := vars(part).get("hf_quantizer")) is not None), None)
    by_generate = getattr(quantiser, "is_compileable", None)
    for path, layer in named:
        for library, kind, facts in _quantised(layer):
            if isinstance(by_generate, bool):
                facts["compiled_by_generate"] = by_generate
            key = json.dumps([library, kind, facts], sort_keys=True, default=str)
            new = {"library": library, "kind": kind, "count": 0, "first": path, "facts": facts}
            groups.setdefault(key, new)["count"] += 1
    return {"layers": list(groups.values())[:_MOST_GROUPS]} if groups else {}


def _quantised(layer: Any) -> Iterator[tuple[str, str, Facts]]:
    """What is quantised of one layer: itself by its class, else its parameters by theirs."""
    known = _by_class(type(layer))
    if known is not None:
        library, kind = known
        yield library, kind, _bitsandbytes(layer) if library == "bitsandbytes" else _settings(layer)
        return
    scheme = vars(layer).get("quantization_scheme")
    if scheme is not None and _package(type(scheme)) == "compressed_tensors":
        yield "compressed_tensors", type(layer).__name__, {}
    for parameter in layer._parameters.values():
        if parameter is not None and _package(type(parameter)) == "torchao":
            yield "torchao", type(parameter).__name__, _torchao(parameter)


def _by_class(kind: type) -> tuple[str, str] | None:
    """The quantiser that a class, or one that it is derived from, belongs to."""
    for base in kind.__mro__:
        integration = base.__module__.removeprefix(_INTEGRATION)
        if integration != base.__module__ and integration in _INTEGRATIONS:
            return _INTEGRATIONS[integration], base.__name__
        words = _PACKAGES.get(_package(base), ())
        if any(word in base.__name__ for word in words):
            return _package(base), base.__name__
    return None


def _package(kind: type) -> str:
    return str(kind.__module__).partition(".")[0]


def _bitsandbytes(layer: Any) -> Facts:
    """Of 4 bits the dtypes that it computes in and is unpacked to; of 8 bits how outliers are treated."""
    facts = _settings(layer)
    weight = layer._parameters.get("weight")
    quantised = getattr(weight, "quant_state", None) or vars(layer).get("quant_state")
    if quantised is not None:
        facts["quantised_from"] = _shown(getattr(quantised, "dtype", None))
        facts.update({name: _shown(getattr(quantised, of, None)) for of, name in _OF_STATE.items()})
    elif (kind := getattr(weight, "quant_type", None)) is not None:
        facts["quant_type"] = _shown(kind)
    state = getattr(vars(layer).get("state"), "__dict__", {})
    facts.update({name: _shown(state[name]) for name in ("threshold", "has_fp16_weights") if name in state})
    return {name: value for name, value in facts.items() if value is not None}


def _torchao(parameter: Any) -> Facts:
    """How the weight is stored, and whether torchao could load its kernels, in its own words."""
    facts = {"dtype": _shown(parameter.dtype), "block_size": _shown(getattr(parameter, "block_size", None))}
    facts["dynamic_activations"] = getattr(parameter, "act_quant_kwargs", None) is not None
    library = sys.modules.get("torchao")
    if getattr(library, "skip_loading_so_files", False):
        facts["kernels_skipped"] = _shown(getattr(library, "_skip_reason", None)) or "not loaded"
    return {name: value for name, value in facts.items() if value is not None}


def _settings(layer: Any) -> Facts:
    """Plain values among a layer's own attributes that quantisers call by these names."""
    found = {name: _shown(vars(layer).get(name)) for name in _SETTINGS}
    return {name: value for name, value in found.items() if value is not None}


def _shown(value: Any) -> Any:
    """A value as JSON has it: dtypes by their names, tuples as lists; None for anything else."""
    if isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple) and all(isinstance(each, int) for each in value):
        return [int(each) for each in value]
    torch = sys.modules["torch"]
    return str(value).removeprefix("torch.") if isinstance(value, torch.dtype) else None

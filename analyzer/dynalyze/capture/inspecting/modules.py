"""The facts of one module: fields of ModuleFacts, from a single walk over it.

No value of a tensor is read, so parameters on the meta device, sharded ones and those of another device are as good as
any. Nothing raises: what cannot be read becomes a note.
"""

from __future__ import annotations

import contextlib
import gc
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from dynalyze.capture.inspecting import library_layers
from dynalyze.capture.torch_private import runtime

Facts = dict[str, Any]
_LONGEST_NOTE = 200

_NAMES = ("DistributedDataParallel", "DataParallel", "FullyShardedDataParallel", "FSDPModule")
_HOLD_A_MODULE = ("module", "_fsdp_wrapped_module")
_DEEPEST = 8
# Of the configuration that transformers gives a model: the few values that rules ask for.
_VALUES = (
    "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim",
    "sliding_window", "max_position_embeddings", "vocab_size", "num_local_experts", "num_experts", "use_cache",
    "cache_implementation", "tie_word_embeddings", "attention_dropout", "is_decoder", "is_encoder_decoder",
)  # fmt: skip
_OF_GENERATION = ("cache_implementation", "use_cache", "max_length", "max_new_tokens")
# Names of implementations, quantisers and families: nothing that could be a sentence or a path of the user's.
_WORD = re.compile(r"[A-Za-z0-9_][\w.+:|@/-]{0,79}")
_HOLDERS = "transformers.cache_utils"
_STATIC = ("static", "hybrid", "sliding_window")


def inspected(module: Any, holders: list[Any] | None = None) -> Facts:
    """The fields of ModuleFacts, but for the id and the place of the call. Never raises.

    `holders` are the living wrappers of distributed training, where the caller has looked for them already.
    """
    facts: Facts = {"notes": []}
    readers: dict[str, Callable[[Any], Facts]] = {"modules": partial(_own, holders=holders), **CONTRIBUTORS}
    with runtime.plain_tensors():
        for name, read in readers.items():
            try:
                facts.update(read(module))
            except Exception as error:
                note = f"Not all could be read ({name}): {type(error).__name__}: {error}"
                facts["notes"].append(note[:_LONGEST_NOTE])
    return facts


def _own(module: Any, holders: list[Any] | None) -> Facts:
    model = innermost(module)
    walked = list(sys.modules["torch"].nn.Module.modules(module))  # A class may override the method.
    around = wrappers_around(module, living_wrappers() if holders is None else holders)
    parameters, devices = _counted(walked)
    inside = filter(None, map(wrapper_kind, dict.fromkeys(map(type, walked))))
    parts = [each for each in walked if each is not module and each is not model]
    compiled = [each for each in parts if runtime.compiled_in_place(each) or each._modules.get("_orig_mod") is not None]
    cls = type(model)
    if runtime.is_sharded_in_place(cls) and len(cls.__mro__) > 2:
        cls = cls.__mro__[2]  # As the program wrote it: `fully_shard` puts a class of its own in front.
    return {
        "class_name": cls.__qualname__,
        "training": bool(getattr(module, "training", False)),
        "parameters": parameters,
        "devices": devices,
        "wrappers": around or list(dict.fromkeys(inside)),
        "inside_wrapper": bool(around),
        "compiled_parts": len(compiled),
    }


def _counted(modules: list[Any]) -> tuple[dict[str, int], dict[str, int]]:
    """Elements of parameters by dtype and by device; one that several modules share counts once."""
    dtypes: Counter[str] = Counter()
    devices: Counter[str] = Counter()
    seen: set[int] = set()
    for module in modules:
        for parameter in list(module._parameters.values()):
            if parameter is None or id(parameter) in seen:
                continue
            seen.add(id(parameter))
            number = 0
            with contextlib.suppress(Exception):  # A lazy one has none before its first call.
                number = int(parameter.numel())
            dtypes[str(parameter.dtype).removeprefix("torch.")] += number
            devices[str(parameter.device)] += number
    return dict(dtypes), dict(devices)


def wrapper_kind(cls: type) -> str:
    """The wrapper that a class is, by the name of torch's own; "" where it is none."""
    if not issubclass(cls, runtime.wrapper_classes()):
        return ""
    return next((base.__name__ for base in cls.__mro__ if base.__name__ in _NAMES), cls.__name__)


def innermost(module: Any) -> Any:
    """The model itself, below torch.compile's own module and the wrappers that hold another module."""
    for _ in range(_DEEPEST):
        held = module._modules.get("_orig_mod")
        if held is None and wrapper_kind(type(module)) not in ("", "FSDPModule"):
            held = next((found for name in _HOLD_A_MODULE if (found := module._modules.get(name)) is not None), None)
        if held is None:
            return module
        module = held
    return module


def wrappers_around(module: Any, holders: Iterable[Any]) -> list[str]:
    """The wrappers that hold `module`, outermost first."""
    walk = sys.modules["torch"].nn.Module.modules
    walked = [(list(walk(holder)), wrapper_kind(type(holder))) for holder in holders if holder is not module]
    sizes = [(len(held), kind) for held, kind in walked if any(each is module for each in held)]
    return list(dict.fromkeys(kind for _, kind in sorted(sizes, reverse=True)))


def living_wrappers(*, always: bool = False) -> list[Any]:
    """Every living wrapper of this process: a module does not know what holds it.

    That is a look at every object: left out where there is no distributed job, but for `always`. At the end of a
    program its process group may be gone already.
    """
    torch = sys.modules["torch"]
    group = torch.distributed.is_available() and torch.distributed.is_initialized()
    if not (always or group or (torch.cuda.is_initialized() and torch.cuda.device_count() > 1)):
        return []
    classes = runtime.wrapper_classes()
    return [each for each in gc.get_objects() if issubclass(type(each), classes)]


def _configuration(model: Any) -> dict[str, Any]:
    """Fields of ModuleFacts that a model's configuration tells; empty for a model that has none."""
    config = getattr(model, "config", None)
    if config is None or not isinstance(getattr(config, "model_type", None), str):
        return {}
    find = getattr(config, "get_text_config", None)
    try:  # That of the language model in a composite one.
        text = find() if find is not None else config
    except Exception:  # Some families have several and refuse to choose.
        text = config
    # A composite model may name an implementation for each of its parts: that of the language model.
    attention = getattr(config, "_attn_implementation", None)
    if isinstance(attention, dict):
        attention = attention.get("") or attention.get("text_config") or next(iter(attention.values()), None)
    quantised = getattr(config, "quantization_config", None)
    method = quantised.get("quant_method") if isinstance(quantised, dict) else getattr(quantised, "quant_method", None)
    # What `generate` does by default goes before the model's own configuration.
    generation = getattr(model, "generation_config", None)
    own = {name: getattr(text, name, getattr(config, name, None)) for name in _VALUES}
    asked = {name: getattr(generation, name, None) for name in _OF_GENERATION}
    shown = [pair for pair in [*own.items(), *asked.items()] if isinstance(pair[1], int | float) or _word(pair[1])]
    return {
        "family": _word(config.model_type),
        "attention": _word(attention or getattr(text, "_attn_implementation", None)),
        "quantization": _word(getattr(method, "value", method)),  # An enum of words, or the word itself.
        "config": dict(shown),
    }


def _word(value: Any) -> str:
    return value if isinstance(value, str) and _WORD.fullmatch(value) else ""


def cache(module: Any) -> Facts:
    """The `cache` of ModuleFacts: "static", "dynamic", or another name of transformers'; empty where there is none."""
    # The model inside of wrappers that has a configuration and can generate.
    parts = (part for part in [module, *module._modules.values()] if part is not None and hasattr(part, "config"))
    model = next((part for part in parts if callable(getattr(part, "generate", None))), None)
    kind = "" if model is None else _kind_of_cache(model)
    return {"cache": kind} if kind else {}


def _kind_of_cache(model: Any) -> str:
    for value in vars(model).values():  # A cache that the model keeps as an attribute.
        if type(value).__module__ == _HOLDERS and hasattr(value, "layers"):
            return type(value).__name__.removesuffix("Cache").lower()
    settings = (getattr(model, "generation_config", None), getattr(model, "config", None))
    for each in settings:
        named = getattr(each, "cache_implementation", None)
        if isinstance(named, str):
            return "static" if named.startswith(_STATIC) else named
    length = vars(model).get("_previous_max_cache_length")  # Of a static cache that `generate` made.
    if isinstance(length, int) and length > 0:
        return "static"
    # What transformers makes by default.
    return "dynamic" if any(getattr(each, "use_cache", None) is True for each in settings) else ""


# Each gives some fields of ModuleFacts of a module; its name is what a note calls it.
CONTRIBUTORS: dict[str, Callable[[Any], Facts]] = {
    "configuration": lambda module: _configuration(innermost(module)),
    "adapters": library_layers.adapters, "caches": cache, "quantised": library_layers.quantised,
}  # fmt: skip

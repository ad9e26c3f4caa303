"""Prefill, decode and generate of transformers' language models: the phases of serving, measured apart.

All of it goes by what such a model has (a config with a vocabulary, `generate`), so nothing of transformers is imported
before the model itself came from it. Tokens are drawn once from a seed; decoding feeds these same tokens whatever the
model outputs, so eager and compiled do equal work even where their logits differ.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from dynalyze.capture.bench.workload import Step, Workload
from dynalyze.capture.inputs import Inputs, Misuse
from dynalyze.capture.settings import LANGUAGE_PHASES

_SEQUENCE = 128
# Inputs that each phase makes by itself, and those that only a forward pass takes.
_OWN = ("input_ids", "attention_mask", "position_ids", "cache_position", "past_key_values", "use_cache", "labels")
_FORWARD_ONLY = ("labels", "use_cache", "past_key_values", "cache_position", "position_ids")


class LanguageWorkload(Workload):
    """One phase of a language model of transformers; one that encodes before it decodes has `generate` alone.

    `batch` and `sequence` (tokens of the prompt) are those of the model's own example inputs where not given, else 1
    and 128. A decode pass is `new_tokens` steps of one token, from a cache that holds the prompt. What else the model
    takes in its example call (an image, a sound) goes with a prompt of that size. Raises Misuse: the model cannot
    generate, or the phase is unknown.
    """

    def __init__(
        self, model: Any, phase: str, *, calls: list[Inputs] | None = None, batch: int | None = None,
        sequence: int | None = None, new_tokens: int = 16, static_cache: bool = False, seed: int = 0,
    ) -> None:  # fmt: skip
        encodes = bool(getattr(getattr(model, "config", None), "is_encoder_decoder", False))
        _check(model, phase, encodes)
        own = _own_tokens(calls)
        shape = tuple(own.shape) if own is not None else (1, _SEQUENCE)
        batch, sequence = batch or shape[0], sequence or shape[1]
        self.new_tokens, self.static_cache = new_tokens, static_cache
        random = torch.Generator().manual_seed(seed)
        drawn = torch.randint(0, _config(model).vocab_size, (batch, sequence + new_tokens), generator=random)
        device = next(model.parameters()).device
        self.prompt, self.following = drawn[:, :sequence].to(device), drawn[:, sequence:].to(device)
        self.beside: dict[str, Any] = {}  # What goes with the whole prompt beside its tokens.
        if calls and own is not None and shape == (batch, sequence):
            self.prompt = own.to(device)
            self.beside = {name: value for name, value in calls[0].kwargs.items() if name not in _OWN}
        # The inputs of an encoder are the prompt, of their batch.
        self.encoded: dict[str, Any] = dict(calls[0].kwargs) if encodes and calls else {}
        batch = next((len(value) for value in self.encoded.values() if getattr(value, "ndim", 0)), batch)
        tokens = batch * (sequence if phase == "prefill" else new_tokens)
        self._past = sequence
        super().__init__(model, phase, batch, None if self.encoded else sequence, items=batch, tokens=tokens)
        if phase == "decode" or (phase == "prefill" and static_cache):
            # While nothing of the model is compiled yet: a static cache takes its tensors at its first use, and marks
            # their addresses as fixed only outside of tracing.
            self._filled = self._new_cache()
            with torch.no_grad():
                model(**self.arguments(self.prompt, self._filled, 0))
        kind = "static" if static_cache else "dynamic"
        size = "as encoded" if self.encoded else f"{sequence} tokens"
        self.notes.append(f"{phase}: batch {batch}, prompt {size}, {kind} cache.")

    def generate_arguments(self) -> dict[str, Any]:
        """Keyword arguments of `generate`, greedy, that give it the prompt."""
        prompt = {"input_ids": self.prompt, **self.beside} if self.beside else {"inputs": self.prompt}
        if self.encoded:
            own = {name: value for name, value in self.encoded.items() if name not in _FORWARD_ONLY}
            prompt = {name: value for name, value in own.items() if not name.startswith("decoder_")}
        return {
            **prompt,
            "max_new_tokens": self.new_tokens,
            "min_new_tokens": self.new_tokens,
            "do_sample": False,
            "disable_compile": True,
            "pad_token_id": 0,
            **({"cache_implementation": "static"} if self.static_cache else {}),
        }

    def _new_cache(self) -> Any:
        """An empty cache with room for the prompt and all new tokens."""
        import transformers

        config = _config(self.model)
        if self.static_cache:
            return transformers.StaticCache(config=config, max_cache_len=self._past + self.new_tokens)
        try:
            return transformers.DynamicCache(config=config)
        except TypeError:  # Before transformers 4.56 it takes none.
            return transformers.DynamicCache()

    def arguments(self, tokens: Any, cache: Any, past: int) -> dict[str, Any]:
        arguments = {"input_ids": tokens, "past_key_values": cache, "use_cache": True, **({} if past else self.beside)}
        model: Any = self.model
        if "cache_position" in inspect.signature(model.forward).parameters:  # Transformers 4.
            arguments["cache_position"] = torch.arange(past, past + tokens.shape[1], device=tokens.device)
        return arguments

    def steps(self, target: Callable[..., Any]) -> list[Step]:
        if self.phase == "generate":
            return [_GenerateStep(target, self.model, self.generate_arguments())]
        if self.phase == "prefill":
            # A server keeps its static cache and empties it: new tensors would be new addresses to CUDA graphs.
            kept = copy.deepcopy(self._filled) if self.static_cache else None

            def prefill() -> dict[str, Any]:
                if kept is not None:
                    kept.reset()
                return self.arguments(self.prompt, self._new_cache() if kept is None else kept, 0)

            return [_ForwardStep(target, prefill)]
        cache = copy.deepcopy(self._filled)

        def decode(number: int) -> dict[str, Any]:
            nonlocal cache
            if number == 0 and self.static_cache:
                _restore(cache, self._filled)
            elif number == 0:  # Every pass has its own dynamic cache.
                cache = copy.deepcopy(self._filled)
            tokens = self.following[:, number : number + 1].contiguous()
            return self.arguments(tokens, cache, self._past + number)

        return [_ForwardStep(target, functools.partial(decode, number)) for number in range(self.new_tokens)]


def _check(model: Any, phase: str, encodes: bool) -> None:
    if phase not in LANGUAGE_PHASES:
        raise Misuse(f"unknown phase {phase!r}; a language model has {', '.join(LANGUAGE_PHASES)}")
    if not _generates(model):
        raise Misuse(
            f"--phase {phase} needs a language model of transformers: {type(model).__name__} has no generate()"
        )
    if encodes and phase != "generate":
        raise Misuse(
            f"--phase {phase} is for models that only decode: {type(model).__name__} has an encoder; --phase generate "
            "is for it"
        )


@dataclass(eq=False)
class _ForwardStep(Step):
    """A call of the model with the keyword arguments that `arguments` makes, untimed."""

    target: Callable[..., Any]
    arguments: Callable[[], dict[str, Any]]

    def prepare(self) -> None:
        self._made = self.arguments()

    def run(self) -> Any:
        with torch.no_grad():
            return self.target(**self._made)


def _restore(cache: Any, filled: Any) -> None:
    """Bring a static cache to where another stands; it keeps its tensors, whose addresses are compiled in."""
    for layer, other in zip(cache.layers, filled.layers, strict=True):
        for name, value in vars(other).items():
            if isinstance(value, torch.Tensor):
                getattr(layer, name).copy_(value)
            else:
                setattr(layer, name, value)


@dataclass(eq=False)
class _GenerateStep(Step):
    """`generate` end to end. It must not compile by itself, as it does on a GPU with a static cache."""

    target: Callable[..., Any]
    model: Any
    arguments: dict[str, Any]

    def run(self) -> Any:
        with torch.no_grad():
            if _generates(self.target) and not hasattr(self.target, "_orig_mod"):
                generate: Callable[..., Any] = getattr(self.target, "generate")  # noqa: B009 - a callable of any kind
                return generate(**self.arguments)
            return _through(self.model, self.target, self.arguments)


def _through(model: Any, target: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    """`model.generate` with every forward call made by `target`, which may end in the model's forward itself."""
    original = model.forward
    inside = False

    @functools.wraps(original)
    def forward(*args: Any, **kwargs: Any) -> Any:
        nonlocal inside
        if inside:
            return original(*args, **kwargs)
        inside = True
        try:
            return target(*args, **kwargs)
        finally:
            inside = False

    model.forward = forward
    try:
        return model.generate(**arguments)
    finally:
        del model.forward


def _own_tokens(calls: list[Inputs] | None) -> Any:
    """The token ids of the first example call, a matrix of integers; None where there is none."""
    for call in calls or ():
        for value in (call.kwargs.get("input_ids"), *call.args[:1]):
            if isinstance(value, torch.Tensor) and value.dim() == 2 and value.dtype in (torch.int64, torch.int32):
                return value
    return None


def _generates(model: Any) -> bool:
    return callable(getattr(model, "generate", None)) and hasattr(_config(model), "vocab_size")


def _config(model: Any) -> Any:
    """The configuration of the text part, where a model has several."""
    config = getattr(model, "config", None)
    get = getattr(config, "get_text_config", None)
    return get() if callable(get) else config

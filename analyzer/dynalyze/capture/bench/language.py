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

from dynalyze.capture.bench.workload import Step, Workload
from dynalyze.capture.inputs import Inputs, Misuse
from dynalyze.capture.settings import LANGUAGE_PHASES

_SEQUENCE = 128
# Inputs that each phase makes by itself, and those that only a forward pass takes.
_OWN = ("input_ids", "attention_mask", "position_ids", "cache_position", "past_key_values", "use_cache", "labels")
_FORWARD_ONLY = ("labels", "use_cache", "past_key_values", "cache_position", "position_ids")


def language_workload(
    model: Any,
    phase: str,
    *,
    calls: list[Inputs] | None = None,
    batch: int | None = None,
    sequence: int | None = None,
    new_tokens: int = 16,
    static_cache: bool = False,
    seed: int = 0,
) -> Workload:
    """One phase of a language model of transformers; one that encodes before it decodes has `generate` alone.

    `batch` and `sequence` (tokens of the prompt) are those of the model's own example inputs where not given, else 1
    and 128. A decode pass is `new_tokens` steps of one token, from a cache that holds the prompt. What else the model
    takes in its example call (an image, a sound) goes with a prompt of that size.

    Raises:
        Misuse: the model cannot generate, or the phase is unknown.
    """
    if phase not in LANGUAGE_PHASES:
        raise Misuse(f"unknown phase {phase!r}; a language model has {', '.join(LANGUAGE_PHASES)}")
    if not _generates(model):
        raise Misuse(
            f"--phase {phase} needs a language model of transformers: {type(model).__name__} has no generate()"
        )
    encodes = bool(getattr(getattr(model, "config", None), "is_encoder_decoder", False))
    if encodes and phase != "generate":
        raise Misuse(
            f"--phase {phase} is for models that only decode: {type(model).__name__} has an encoder; --phase generate "
            "is for it"
        )
    own = _own_tokens(calls)
    shape = tuple(own.shape) if own is not None else (1, _SEQUENCE)
    prompt = _Prompt(model, batch or shape[0], sequence or shape[1], new_tokens, static_cache, seed)
    if own is not None and shape == (prompt.batch, prompt.sequence):
        prompt.tokens = own.to(prompt.tokens.device)
        # The arguments of the first example call beside the tokens and what follows from them.
        prompt.beside = {name: value for name, value in calls[0].kwargs.items() if name not in _OWN} if calls else {}
    if encodes and calls and calls[0].kwargs:  # These inputs of an encoder are the prompt, of their batch.
        prompt.encoded = dict(calls[0].kwargs)
        sizes = (len(value) for value in prompt.encoded.values() if getattr(value, "ndim", 0))
        prompt.batch = next(sizes, prompt.batch)
    return LanguageWorkload(model, prompt, phase)


class _Prompt:
    """The tokens of all phases, and the caches they fill."""

    def __init__(self, model: Any, batch: int, sequence: int, new_tokens: int, static_cache: bool, seed: int) -> None:
        import torch

        self.model = model
        self.batch = batch
        self.sequence = sequence
        self.new_tokens = new_tokens
        self.static_cache = static_cache
        random = torch.Generator().manual_seed(seed)
        device = next(model.parameters()).device
        vocabulary = _config(model).vocab_size
        drawn = torch.randint(0, vocabulary, (batch, sequence + new_tokens), generator=random)
        self.tokens = drawn[:, :sequence].to(device)
        self.following = drawn[:, sequence:].to(device)
        # What goes with the whole prompt beside its tokens, and everything that an encoder takes.
        self.beside: dict[str, Any] = {}
        self.encoded: dict[str, Any] = {}

    def generated(self) -> dict[str, Any]:
        """Keyword arguments of `generate` that give it the prompt."""
        if self.encoded:
            own = {name: value for name, value in self.encoded.items() if name not in _FORWARD_ONLY}
            return {name: value for name, value in own.items() if not name.startswith("decoder_")}
        return {"input_ids": self.tokens, **self.beside} if self.beside else {"inputs": self.tokens}

    def fill(self) -> None:
        """Make the cache that holds the prompt, while nothing of the model is compiled yet.

        A static cache takes its tensors at its first use, and marks their addresses as fixed only outside of tracing.
        """
        import torch

        self._filled = self.new_cache()
        with torch.no_grad():
            self.model(**self.arguments(self.tokens, self._filled, 0))

    def filled(self) -> Any:
        """A cache of its own that holds the prompt."""
        return copy.deepcopy(self._filled)

    def new_cache(self) -> Any:
        """An empty cache with room for the prompt and all new tokens."""
        import transformers

        config = _config(self.model)
        if self.static_cache:
            return transformers.StaticCache(config=config, max_cache_len=self.sequence + self.new_tokens)
        try:
            return transformers.DynamicCache(config=config)
        except TypeError:  # Before transformers 4.56 it takes none.
            return transformers.DynamicCache()

    def arguments(self, tokens: Any, cache: Any, past: int) -> dict[str, Any]:
        """Keyword arguments of one forward call."""
        import torch

        arguments = {"input_ids": tokens, "past_key_values": cache, "use_cache": True, **({} if past else self.beside)}
        if "cache_position" in inspect.signature(self.model.forward).parameters:  # Transformers 4.
            arguments["cache_position"] = torch.arange(past, past + tokens.shape[1], device=tokens.device)
        return arguments


class LanguageWorkload(Workload):
    """One phase of a language model over a prompt."""

    def __init__(self, model: Any, prompt: _Prompt, phase: str) -> None:
        tokens = prompt.batch * (prompt.sequence if phase == "prefill" else prompt.new_tokens)
        sequence = None if prompt.encoded else prompt.sequence
        super().__init__(model, phase, prompt.batch, sequence, items=prompt.batch, tokens=tokens)
        self.prompt = prompt
        if phase == "decode" or (phase == "prefill" and prompt.static_cache):
            prompt.fill()
        kind = "static" if prompt.static_cache else "dynamic"
        size = "as encoded" if prompt.encoded else f"{prompt.sequence} tokens"
        self.notes.append(f"{phase}: batch {prompt.batch}, prompt {size}, {kind} cache.")

    def steps(self, target: Callable[..., Any]) -> list[Step]:
        prompt = self.prompt
        if self.phase == "generate":
            return [_GenerateStep(target, self.model, prompt)]
        if self.phase == "prefill":
            # A server keeps its static cache and empties it: new tensors would be new addresses to CUDA graphs.
            kept = prompt.filled() if prompt.static_cache else None

            def prefill() -> dict[str, Any]:
                if kept is not None:
                    kept.reset()
                return prompt.arguments(prompt.tokens, prompt.new_cache() if kept is None else kept, 0)

            return [_ForwardStep(target, prefill)]
        cache = _DecodeCache(prompt)

        def decode(number: int) -> dict[str, Any]:
            if number == 0:
                cache.restore()
            tokens = prompt.following[:, number : number + 1].contiguous()
            return prompt.arguments(tokens, cache.cache, prompt.sequence + number)

        return [_ForwardStep(target, functools.partial(decode, number)) for number in range(prompt.new_tokens)]


@dataclass(eq=False)
class _ForwardStep(Step):
    """A call of the model with the keyword arguments that `arguments` makes, untimed."""

    target: Callable[..., Any]
    arguments: Callable[[], dict[str, Any]]

    def prepare(self) -> None:
        self._made = self.arguments()

    def run(self) -> Any:
        import torch

        with torch.no_grad():
            return self.target(**self._made)


class _DecodeCache:
    """The cache of one pass; the first step of every pass finds it as the prompt left it."""

    def __init__(self, prompt: _Prompt) -> None:
        import torch

        self._prompt = prompt
        self.cache = prompt.filled()
        self._layers = [
            {name: value.clone() if isinstance(value, torch.Tensor) else value for name, value in vars(layer).items()}
            for layer in (self.cache.layers if prompt.static_cache else ())
        ]

    def restore(self) -> None:
        """Static caches keep their tensors, whose addresses are compiled in; a dynamic one is made anew."""
        import torch

        if not self._prompt.static_cache:
            self.cache = self._prompt.filled()
            return
        for layer, state in zip(self.cache.layers, self._layers, strict=True):
            for name, value in state.items():
                if isinstance(value, torch.Tensor):
                    getattr(layer, name).copy_(value)
                else:
                    setattr(layer, name, value)


@dataclass(eq=False)
class _GenerateStep(Step):
    """`generate` end to end, greedy. It must not compile by itself, as it does on a GPU with a static cache."""

    target: Callable[..., Any]
    model: Any
    prompt: _Prompt

    def run(self) -> Any:
        import torch

        arguments = {
            **self.prompt.generated(),
            "max_new_tokens": self.prompt.new_tokens,
            "min_new_tokens": self.prompt.new_tokens,
            "do_sample": False,
            "disable_compile": True,
            "pad_token_id": 0,
            **({"cache_implementation": "static"} if self.prompt.static_cache else {}),
        }
        with torch.no_grad():
            if _generates(self.target) and not hasattr(self.target, "_orig_mod"):
                generate: Callable[..., Any] = getattr(self.target, "generate")  # noqa: B009 - a callable of any kind
                return generate(**arguments)
            return _through(self.model, self.target, arguments)


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
    import torch

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

"""Inputs of a model of diffusers, by the names in the signature of its forward and the fields of its configuration."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from dynalyze.capture.inputs import Inputs
from dynalyze.capture.libraries.diffusers.odd import INPUTS
from dynalyze.capture.libraries.diffusers.rules import RULES, SIZES, kinds_of


def make_inputs(model: Any, *, batch: int, size: int | None, seed: int) -> Inputs:
    """One call's: of each parameter that a rule names, the first of its expressions whose names are all there."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    name, parameters = type(model).__name__, inspect.signature(model.forward).parameters
    kinds = kinds_of(name, parameters)
    own = INPUTS.get(name, {})
    sizes = {**SIZES["pixels" if kinds["autoencoder"] else "latents"], "B": batch, "T": 8, "side": 4}
    if size is not None:
        sizes.update(H=size, W=size, side=size // 4, L=sizes["L"] * size // sizes["H"])
    sizes.update({name: value for name, value in own.items() if isinstance(value, int)}, N=sizes["side"] ** 2)
    several = getattr(model, "nets", None) or getattr(model, "adapters", None)  # Models that hold others have none.
    config = dict((several[0] if several else model).config)
    scope = _Scope({**_makers(generator), **sizes, **kinds}, config)
    kwargs: dict[str, Any] = {}
    for each in parameters:
        expressions = own.get(each, RULES.get(each, ()))
        for expression in (expressions,) if isinstance(expressions, str) else expressions:
            try:
                kwargs[each] = eval(expression, {"__builtins__": _BUILTINS}, scope)
                break
            except _Lacking:
                continue
    return Inputs((), kwargs)


_BUILTINS = {"len": len, "sum": sum, "range": range, "max": max}


class _Lacking(Exception):
    """The configuration has no such field, or None in it."""


class _Scope(Mapping[str, Any]):
    """What an expression may name: helpers, sizes and kinds, and the fields of the configuration."""

    def __init__(self, *layers: Mapping[str, Any]) -> None:
        self._layers = layers

    def __getitem__(self, name: str) -> Any:
        if name in _BUILTINS:
            raise KeyError(name)
        for layer in self._layers:
            if layer.get(name) is not None:
                return layer[name]
        raise _Lacking(name)

    def __iter__(self) -> Any:
        return iter(())

    def __len__(self) -> int:
        return 0


def _makers(generator: Any) -> dict[str, Any]:
    """What expressions call to make tensors; all sizes are whole numbers."""
    import torch

    def normal(*shape: int) -> Any:
        return torch.randn(*shape, generator=generator)

    def ids(count: int, *shape: int) -> Any:
        return torch.randint(0, count, shape, generator=generator)

    def full(value: float, *shape: int) -> Any:
        """A float where the value is one, else a whole number."""
        return torch.full(shape, value, dtype=torch.float32 if isinstance(value, float) else torch.int64)

    def grid(columns: int, tokens: int) -> Any:
        """Places of tokens in a square, in the last two columns."""
        places = torch.zeros(tokens, columns)
        places[:, -2], places[:, -1] = torch.arange(tokens) // 4, torch.arange(tokens) % 4
        return places

    def mask(*shape: int) -> Any:
        return torch.ones(*shape, dtype=torch.bool)

    def several(count: int, *shape: int) -> list[Any]:
        return [normal(*shape) for _ in range(count)]

    from_torch = {"ones": torch.ones, "zeros": torch.zeros, "arange": torch.arange}
    return {"normal": normal, "several": several, "ids": ids, "full": full, "grid": grid, "mask": mask, **from_torch}

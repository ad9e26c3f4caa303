"""Asking a model itself: calls that leave no trace in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dynalyze.capture.hf.inputs.values import sub_configs


@contextmanager
def untouched(model: Any) -> Iterator[None]:
    """Inside: no gradients and no dropout. Afterwards the random state, and the attributes and buffers of every
    module and configuration are those from before.
    """
    import torch

    kept = [(vars(each), _copy(vars(each))) for each in [*model.modules(), *sub_configs(model.config)]]
    random = torch.get_rng_state()
    try:
        model.eval()
        with torch.no_grad():
            yield
    finally:
        torch.set_rng_state(random)
        for attributes, before in kept:
            _restore(attributes, before)


def _copy(attributes: dict[str, Any]) -> dict[str, Any]:
    """The attributes, with copies of the dicts that registering a buffer or a submodule changes."""
    return {name: dict(value) if isinstance(value, dict) else value for name, value in attributes.items()}


def _restore(attributes: dict[str, Any], before: dict[str, Any]) -> None:
    """Put values back into the very dicts that were there, since others may hold them."""
    dicts = {name: value for name, value in attributes.items() if isinstance(value, dict)}
    attributes.clear()
    for name, value in before.items():
        if isinstance(value, dict) and name in dicts:
            dicts[name].clear()
            dicts[name].update(value)
            attributes[name] = dicts[name]
        else:
            attributes[name] = value

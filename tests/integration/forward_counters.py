"""Calls a model that was built for a test, and counts which of its modules ran."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch

from dynalyze.capture.libraries.building import Built


def run(built: Built, *paths: str) -> tuple[Any, Counter[str]]:
    """One call in eager, and how often each of the named modules ran."""
    counts: Counter[str] = Counter()
    hooks = [
        built.model.get_submodule(path).register_forward_hook(lambda *_, path=path: counts.update([path]))
        for path in paths
    ]
    with torch.no_grad():
        output = built.model(**built.calls[0].kwargs)
    for hook in hooks:
        hook.remove()
    return output, counts

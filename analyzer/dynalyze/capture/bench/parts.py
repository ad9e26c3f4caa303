"""Several callables of one program that are measured together, as a generator and its discriminator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Target = Callable[..., Any]


class Parts(torch.nn.Module):  # type: ignore[misc]
    """Stands for the model of a program that calls several; the modules among them are its own children."""

    def __init__(self, callables: list[Target]) -> None:
        super().__init__()
        self.callables = list(callables)
        self.children_of_parts = torch.nn.ModuleList([c for c in callables if isinstance(c, torch.nn.Module)])

    def each(self, make: Callable[[Target], Target]) -> Parts:
        """The same with every part replaced by what `make` returns for it; one that stands twice is made once."""
        made: dict[int, Target] = {}
        for part in self.callables:
            if id(part) not in made:
                made[id(part)] = make(part)
        return Parts([made[id(part)] for part in self.callables])

    def forward(self, index: int, *args: Any, **kwargs: Any) -> Any:
        return self.callables[index](*args, **kwargs)

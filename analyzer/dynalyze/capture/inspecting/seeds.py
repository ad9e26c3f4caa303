"""Whether a program sets the seeds of random numbers: those of Python, NumPy and torch.

Without a seed each run has other numbers, so where they stand in the end tells nothing. But what a Mersenne twister
holds in the end is what it held when the program began, drawn from forward, unless somebody has set a seed since.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from dynalyze.capture.hooks import after_import

_WORDS = 624
"""Of 32 bits, that a Mersenne twister makes at a time: drawing as many brings it to its next block."""
_MOST_BLOCKS = 10_000
"""Six million numbers, 0.2 s. Who draws more than these counts as seeded, with every change alike."""


class SeedWatch:
    """Made before the program's first line."""

    def __init__(self) -> None:
        self._python: Sequence[int] = random.getstate()[1]
        self._numpy: Sequence[int] = ()
        self._torch: int | None = None
        after_import("numpy.random", self._numpy_loaded)
        after_import("torch", self._torch_loaded)

    def _numpy_loaded(self, numpy_random: ModuleType) -> None:
        self._numpy = _numpy_state(numpy_random)

    def _torch_loaded(self, torch: ModuleType) -> None:
        self._torch = torch.initial_seed()

    def set_by_program(self, modules: dict[str, Any]) -> dict[str, bool]:
        """By the name of the function that sets a seed, whether one was set; for the libraries in `modules`."""
        found = {"random.seed": not _follows(random.getstate()[1], self._python)}
        if self._numpy:
            found["numpy.random.seed"] = not _follows(_numpy_state(modules["numpy.random"]), self._numpy)
        if self._torch is not None:
            found["torch.manual_seed"] = modules["torch"].initial_seed() != self._torch
        return found


def _numpy_state(numpy_random: Any) -> Sequence[int]:
    """The words and the position of NumPy's global generator, as Python has them; empty for one of another kind."""
    kind, *state = numpy_random.get_state()
    return (*state[0].tolist(), int(state[1])) if kind == "MT19937" else ()


def _follows(now: Sequence[int], begun: Sequence[int]) -> bool:
    """Whether a twister comes from one state to another by being drawn from."""
    twister = random.Random()
    twister.setstate((3, tuple(begun), None))
    for _ in range(_MOST_BLOCKS):
        if twister.getstate()[1][:-1] == tuple(now[:-1]):
            return True
        twister.getrandbits(32 * _WORDS)
    return False

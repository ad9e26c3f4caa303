"""Random generators: processes that build apart get the same weights."""

from __future__ import annotations

import random
import sys


def seed(number: int) -> None:
    """Set every random generator that is in use; those of modules not yet imported are left alone."""
    random.seed(number)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(number)
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed(number)

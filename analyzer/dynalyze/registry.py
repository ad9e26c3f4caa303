"""The features that can be taken out: a folder each, and its name here. Nothing else of the spine names one.

What the spine asks a feature for, by the module of its folder (what it does not have is not asked):

    child     in the user's interpreter: commands of a measuring process (capture/bench/protocol.py `Command`)
    records   the types of its fields of a `Measurement`, in FIELDS
    run       EXTRA, its part of a benchmark (bench/extras.py)
    rules     its rules; `break_impact` and `costliest_break`, what graph breaks take of a call; `setting_fails`
    view      ANCHORS and `sections` of the page; `graph_times`: what each graph takes of a call
    words     `tried_words`, beside a finding
"""

from __future__ import annotations

import importlib
import importlib.util
from functools import cache
from types import ModuleType
from typing import Any

FEATURES: dict[str, tuple[str, ...]] = {"break_cost": ("prices",)}
"""By the name of the folder: the fields of a `Measurement` that are the feature's own."""


@cache
def modules(place: str) -> tuple[ModuleType, ...]:
    """The modules of this name that features have."""
    names = [f"{__package__}.{feature}.{place}" for feature in FEATURES]
    return tuple(importlib.import_module(name) for name in names if importlib.util.find_spec(name) is not None)


def part(field: str) -> Any:
    """The type of a feature's field."""
    return next(module.FIELDS[field] for module in modules("records") if field in module.FIELDS)

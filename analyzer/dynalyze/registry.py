"""The features that can be taken out: a folder each, and its name here. Nothing else of the spine names one.

What the spine asks a feature for, by the module of its folder (what it does not have is not asked):

    child     in the user's interpreter: commands of a measuring process (capture/bench/protocol.py `Command`)
    records   the types of its fields of a `Measurement` or of the `Report`, in FIELDS
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

FEATURES: dict[str, dict[str, str]] = {"break_cost": {"Measurement": "prices"}, "watch": {"Report": "job"}}
"""By the name of the folder: the field of a record that is the feature's own."""


@cache
def modules(place: str) -> tuple[ModuleType, ...]:
    """The modules of this name that features have."""
    names = [f"{__package__}.{feature}.{place}" for feature in FEATURES]
    return tuple(importlib.import_module(name) for name in names if importlib.util.find_spec(name) is not None)


def part(field: str) -> Any:
    """The type of a feature's field."""
    return next(module.FIELDS[field] for module in modules("records") if field in module.FIELDS)


def fields_of(record: str) -> list[tuple[str, str, None]]:
    """The fields that features add to a record, for `msgspec.defstruct`: None where the feature has nothing to say."""
    names = [own[record] for own in FEATURES.values() if record in own]
    return [(name, f"registry.part({name!r}) | None", None) for name in names]

"""The features that can be taken out: a folder each, its commands, and its line here.

Nothing else of the spine names one. What the spine asks a feature for, by the module of its folder, its slot:

    child     in the user's interpreter: commands of a measuring process (capture/bench/protocol.py `Command`)
    records   the types of its fields of a `Measurement` or of the `Report`, in FIELDS
    run       EXTRA, its part of a benchmark (bench/extras.py)
    rules     its rules; `break_impact` and `costliest_break`, what graph breaks take of a call
    settings  `setting_fails` and `tried_words`, beside a finding: what came of settings that were tried; and
              `recompiled_instead`, for what functions compile again with them
    explain   `go_on`, once `explain` has measured the speed of a program
    view      ANCHORS and `sections` of the page; `graph_times`: what each graph takes of a call
    report    `report_in`: the report that a folder given to `dynalyze report` holds
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType, ModuleType
from typing import Any, NamedTuple


class Feature(NamedTuple):
    """`slots` are what the spine asks it for, `fields` its own fields of records, by the record's name; `commands` its
    commands, by the section of `--help` that lists each, with what it says there.
    """

    slots: tuple[str, ...] = ()
    fields: Mapping[str, str] = MappingProxyType({})
    commands: Mapping[tuple[str, str], str] = MappingProxyType({})


FEATURES: dict[str, Feature] = {
    "audit": Feature(commands={("Diagnose", "audit"): "Decide whether a model may ship."}),
    "break_cost": Feature(("child", "records", "run", "rules", "settings", "view"), {"Measurement": "prices"}),
    "cache": Feature(commands={("Diagnose", "cache"): "Explain cold starts."}),
    "doctor": Feature(commands={("Reference", "doctor"): "Check what this environment can compile."}),
    "fix": Feature(
        commands={
            ("Change", "fix"): "Find and verify changes that end breaks.",
            ("Change", "verify"): "Verify a change of yours, or an agent's.",
        }
    ),
    "trials": Feature(("child", "explain", "records", "settings", "view"), {"Report": "trials"}),
    "upgrade": Feature(commands={("Change", "upgrade"): "Compare two versions of torch."}),
    "watch": Feature(
        ("records", "report", "view"),
        {"Report": "job"},
        {
            ("Jobs", "watch"): "Tell recompiles of a long job as they happen.",
            ("Jobs", "attach"): "Watch a process that runs already.",
        },
    ),
}
"""By the name of the folder."""


@cache
def modules(place: str) -> tuple[ModuleType, ...]:
    """The modules of features for one slot."""
    names = (name for name, feature in FEATURES.items() if place in feature.slots)
    return tuple(importlib.import_module(f"{__package__}.{name}.{place}") for name in names)


def part(field: str) -> Any:
    """The type of a feature's field."""
    return next(module.FIELDS[field] for module in modules("records") if field in module.FIELDS)


def fields_of(record: str) -> list[tuple[str, str, None]]:
    """The fields that features add to a record, for `msgspec.defstruct`: None where the feature has nothing to say."""
    names = [own.fields[record] for own in FEATURES.values() if record in own.fields]
    return [(name, f"registry.part({name!r}) | None", None) for name in names]


def commands_in(section: str) -> dict[str, str]:
    """The commands of features that a section of `--help` lists, and what it says of each."""
    own = (each for feature in FEATURES.values() for each in feature.commands.items())
    return {name: says for (place, name), says in own if place == section}

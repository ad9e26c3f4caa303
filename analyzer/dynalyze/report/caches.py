"""What torch's compile caches were asked for and gave, and how two starts differ in it."""

from __future__ import annotations

from typing import Literal

import msgspec

from dynalyze.report.code import Location
from dynalyze.report.sensitivity import Argument, Message, Name, Quote, Settings, Word

CacheName = Literal["autograd", "fx_graph"]
UsedCache = Literal["autograd", "fx_graph", "kernels", "triton", "autotune", "pgo"]
"""Graphs of AOTAutograd and of Inductor, C++ kernels, Triton kernels, what autotuning chose, Dynamo's profile."""

DifferenceKind = Literal[
    "torch", "device", "variable", "setting", "path", "order", "state", "threads", "pass", "tag", "inputs", "constant",
    "graph", "kernel", "arguments", "names", "new", "not_kept", "other",
]  # fmt: skip
Way = Literal["again", "home", "working_folder", "program", "cache_folder", "container", "artifacts"]


class KeyComponent(msgspec.Struct):
    """A part of a cache key, under torch's own name. Values may be cut short: `digest` tells two apart."""

    name: Name
    digest: Word
    value: Quote = ""


class CacheKey(msgspec.Struct):
    """One look-up of a graph. `detail` is torch's word for how it was missed, `settings` number those of `Caches`.

    `seconds` is what compiling it took, `saved_seconds` what a hit saved, by torch's own clock.
    """

    cache: CacheName
    state: Literal["hit", "miss"]
    compile_id: Word
    process: int = 0
    epoch: int = 0
    key: Word = ""
    detail: Word = ""
    components: list[KeyComponent] = []
    settings: list[int] = []
    seconds: float | None = None
    saved_seconds: float | None = None


class SettingBlock(msgspec.Struct):
    """Settings that are part of keys, under their names in torch's module of settings."""

    of: Word
    values: Settings


class CacheUse(msgspec.Struct):
    """What a cache did for a run; None what is not known. `made` counts the entries that the run added to its folder.

    `reasons` are torch's words for what it bypassed, `places` the lines of the operations that it refused.
    """

    cache: UsedCache
    hits: int | None = None
    misses: int | None = None
    bypasses: int | None = None
    reasons: list[Quote] = []
    places: list[Location] = []
    seconds: float | None = None
    saved_seconds: float | None = None
    made: int | None = None


class Caches(msgspec.Struct):
    """All look-ups of a run. `variables` are those of the environment that components have their values from."""

    keys: list[CacheKey] = []
    settings: list[SettingBlock] = []
    variables: Settings = {}
    uses: list[CacheUse] = []


class CacheDifference(msgspec.Struct):
    """A component of a key that is not the same in two starts; None where one has no such component.

    `compile_ids` and `caches` are all that it concerns, `compile_id` and `cache` the first of each.
    """

    compile_id: Word
    cache: UsedCache
    component: Name
    before: Quote | None
    after: Quote | None
    kind: DifferenceKind
    says: Message = ""
    function: Name = ""
    location: Location | None = None
    compile_ids: list[Word] = []
    caches: list[Word] = []


class Start(msgspec.Struct):
    """One run of a target: how long it took, what it spent on compiling, and what the caches did."""

    target: Argument
    created: Word
    status: Word
    seconds: float
    compile_seconds: float
    uses: list[CacheUse] = []


class Move(msgspec.Struct):
    """A start somewhere else with a cache that was filled here. `survives` is None where it was not tried: `reason`."""

    way: Way
    survives: bool | None
    start: Start | None = None
    differences: list[CacheDifference] = []
    reason: Message = ""
    advice: Message = ""


SCHEMA_VERSION = 1


class CacheComparison(msgspec.Struct):
    """Two starts, what differs in what their caches were asked for, and where a filled cache can be taken."""

    before: Start | None
    after: Start | None
    verdict: Message = ""
    cold: bool = False
    differences: list[CacheDifference] = []
    portability: list[Move] = []
    notes: list[Message] = []

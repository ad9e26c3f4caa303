"""What the compile caches of a run were asked for, key by key, and what each cache did in all."""

from __future__ import annotations

import json
from collections.abc import Iterable

from dynalyze.capture.events import CacheBypassed, CacheLooked, CacheVariables
from dynalyze.events.log import RunLog
from dynalyze.facts.sources import Sources
from dynalyze.report import BypassReason, CacheBypass, Compilation
from dynalyze.report.caches import CacheKey, CacheName, Caches, CacheUse, KeyComponent, SettingBlock

_NAMES: dict[str, CacheName] = {"autograd": "autograd", "fx_graph": "fx_graph"}


def caches(run: RunLog, compiled: Iterable[Compilation]) -> Caches | None:
    """None where no cache told anything."""
    found, blocks = Caches(), dict[str, int]()
    looked = [(process, event) for process, event in run.all() if isinstance(event, CacheLooked)]
    for process, event in looked:
        if (cache := _NAMES.get(event.cache)) is None:
            continue
        settings = [number for name in event.settings if (number := _block(run, name, blocks, found)) is not None]
        key = CacheKey(cache, "hit" if event.state == "hit" else "miss", event.id, process, event.epoch, event.digest)
        key.components, key.settings = [KeyComponent(*parts) for parts in event.components], settings
        key.detail, key.seconds, key.saved_seconds = event.detail, event.taken, event.saved
        found.keys.append(key)
    for _, variables in run.all():
        if isinstance(variables, CacheVariables):
            found.variables.update(variables.values)
    kept = list(compiled)
    found.uses = [use for cache in _NAMES.values() if (use := _use(cache, found.keys, kept)) is not None]
    profile = [event.state for _, event in looked if event.cache == "pgo"]
    if profile:
        hits, stored = profile.count("hit"), bool(profile.count("stored"))
        found.uses.append(CacheUse("pgo", hits=hits, misses=int(stored and not hits)))
    return found if found.uses else None


# Torch's words, in part, in lower case; the first that fits counts.
_KINDS: dict[BypassReason, tuple[str, ...]] = {
    "custom_pass": ("custom_pass", "custom pass", "communication_pass", "raw callable", "uuid()"),
    "autograd_function": ("autograd_function_apply", "functionctx"),
    "checkpoint": ("context_fn",),
    "higher_order": ("higherorderoperator", "torch.ops.higher_order"),
    "autocast": ("_enter_autocast", "_exit_autocast"),
    "function": ("unsupported call_",),
    "frozen": ("freezing", "frozen", "constant folding"),
    "switched_off": ("not enabled",),
    "version": ("requires triton",),
    "not_storable": ("pickl", "serialize", "torchbind"),
}
# As the counts of hits and misses are called.
_COUNTS: dict[CacheName, str] = {"autograd": "aotautograd_cache_bypass", "fx_graph": "inductor_fx_cache_bypass"}


def add_bypasses(run: RunLog, compiled: Iterable[Compilation], sources: Sources) -> None:
    """Give each compilation what went past a cache, once for each cache and reason, and their number."""
    by_key = {each.key: each for each in compiled}
    for process, event in run.all():
        if not isinstance(event, CacheBypassed):
            continue
        compilation = by_key.get((process, event.epoch, event.id))
        cache = _NAMES.get(event.cache)
        if compilation is None or cache is None:
            continue
        count, said = _COUNTS[cache], event.reason
        if not event.further:
            compilation.cache[count] = compilation.cache.get(count, 0) + 1
        known = next((each for each in compilation.cache_bypasses if (each.cache, each.said) == (cache, said)), None)
        if known is not None:
            known.count += not event.further
            continue
        kinds = (kind for kind, words in _KINDS.items() if any(each in said.lower() for each in words))
        place, line = event.place, None
        if place is not None:
            number = sources.context(place.file, place.line) if event.next_one else place.line
            line = sources.location(place.file, number, place.name)
        found = CacheBypass(cache, next(kinds, "other"), said, int(not event.further), line)
        compilation.cache_bypasses.append(found)


def _block(run: RunLog, name: str, known: dict[str, int], found: Caches) -> int | None:
    """The number of a block of settings, which is read from its text once."""
    if name not in known:
        try:
            ((of, values),) = json.loads(run.read_text(name)).items()
            found.settings.append(SettingBlock(str(of), {str(key): str(value) for key, value in values.items()}))
        except (ValueError, AttributeError, RecursionError):
            return None
        known[name] = len(found.settings) - 1
    return known[name]


def _use(cache: CacheName, keys: Iterable[CacheKey], compiled: Iterable[Compilation]) -> CacheUse | None:
    own = [key for key in keys if key.cache == cache]
    past = [each for item in compiled for each in item.cache_bypasses if each.cache == cache]
    if not own and not past:
        return None
    hits = [key for key in own if key.state == "hit"]
    misses = [key for key in own if key.state == "miss"]
    use = CacheUse(cache, len(hits), len(misses), sum(each.count for each in past))
    said = (" ".join(each.said.split()) for each in past if each.said)
    use.reasons = list(dict.fromkeys(said))
    for each in past:
        if each.location is not None and each.location not in use.places:
            use.places.append(each.location)
    use.seconds, use.saved_seconds = _sum(key.seconds for key in misses), _sum(key.saved_seconds for key in hits)
    return use


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(sum(known), 6) if known else None

"""What the compile caches of a run were asked for, key by key, and what each cache did in all."""

from __future__ import annotations

import json
from collections.abc import Iterable

from dynalyze.capture.events import CacheLooked, CacheVariables
from dynalyze.events.log import RunLog
from dynalyze.report import Compilation
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
    for _, told in run.all():
        if isinstance(told, CacheVariables):
            found.variables.update(told.values)
    kept = list(compiled)
    found.uses = [use for cache in _NAMES.values() if (use := _use(cache, found.keys, kept)) is not None]
    profile = [event.state for _, event in looked if event.cache == "pgo"]
    if profile:
        hits, stored = profile.count("hit"), bool(profile.count("stored"))
        found.uses.append(CacheUse("pgo", hits=hits, misses=int(stored and not hits)))
    return found if found.uses else None


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

"""Graphs that torch's caches on disk neither looked up nor kept, and why."""

from __future__ import annotations

from collections.abc import Iterable

from dynalyze.events.log import RunLog
from dynalyze.events.types import CacheBypassed
from dynalyze.report import BypassReason, CacheBypass, CacheName, Compilation

# Torch's words, in part, in lower case; the first that fits counts.
_KINDS: tuple[tuple[str, BypassReason], ...] = (
    ("custom_pass", "custom_pass"),
    ("custom pass", "custom_pass"),
    ("communication_pass", "custom_pass"),
    ("raw callable", "custom_pass"),
    ("uuid()", "custom_pass"),
    ("autograd_function_apply", "autograd_function"),
    ("functionctx", "autograd_function"),
    ("context_fn", "checkpoint"),
    ("higherorderoperator", "higher_order"),
    ("torch.ops.higher_order", "higher_order"),
    ("unsupported call_", "function"),
    ("freezing", "frozen"),
    ("frozen", "frozen"),
    ("constant folding", "frozen"),
    ("not enabled", "switched_off"),
    ("requires triton", "version"),
    ("pickl", "not_storable"),
    ("serialize", "not_storable"),
    ("torchbind", "not_storable"),
)
# As the counts of hits and misses are called.
_COUNTS: dict[CacheName, str] = {"autograd": "aotautograd_cache_bypass", "fx_graph": "inductor_fx_cache_bypass"}


def add_bypasses(run: RunLog, compiled: Iterable[Compilation]) -> None:
    """Give each compilation what went past a cache, once for each cache and reason, and their number."""
    by_key = {(each.process, each.epoch, each.compile_id): each for each in compiled}
    for process, event in run.all():
        if isinstance(event, CacheBypassed):
            compilation = by_key.get((process, event.epoch, event.id))
            cache = next((name for name in _COUNTS if name == event.cache), None)
            if compilation is not None and cache is not None:
                _add(compilation, cache, event.reason)


def _add(compilation: Compilation, cache: CacheName, said: str) -> None:
    name = _COUNTS[cache]
    compilation.cache[name] = compilation.cache.get(name, 0) + 1
    for known in compilation.cache_bypasses:
        if (known.cache, known.said) == (cache, said):
            known.count += 1
            return
    compilation.cache_bypasses.append(CacheBypass(cache, _kind(said), said))


def _kind(said: str) -> BypassReason:
    lower = said.lower()
    return next((kind for words, kind in _KINDS if words in lower), "other")

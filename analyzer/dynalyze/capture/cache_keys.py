"""The keys that torch's compile caches were asked for, taken apart into their components as torch logs them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from dynalyze.capture.events import CacheLooked, CacheVariables, Event
from dynalyze.capture.torch_private import cache_keys
from dynalyze.capture.trace_records import cut, without_addresses

SETTINGS = ("inductor_config", "inductor_config_comms", "autograd_config", "custom_backend_codegen_configs")
"""Components that are hundreds of settings each, alike in almost all keys of a process."""

RECORDS = {
    "fx_graph_cache_hit": ("fx_graph", "hit"),
    "fx_graph_cache_miss": ("fx_graph", "miss"),
    "aotautograd_cache_hit": ("autograd", "hit"),
    "aotautograd_cache_miss": ("autograd", "miss"),
    "get_local_code_state": ("pgo", "hit"),
    "put_local_code_state": ("pgo", "stored"),
}
_LINE = re.compile(r"\[(\w+)\] (\w+)(?:\[(.*?)\])?: (.*)", re.DOTALL)
# What almost every input has; there are thousands of inputs.
_PLAIN = re.compile(r", (?:storage_offset=0|storage_bytes=None|(?:is|dense|has)_\w+=(?:False|None)|\w+=None)(?=[,)])")
_DIGEST, _LONGEST = 16, 400


class CacheKeys:
    """Reads the records of the caches. Settings go to a text of their own, once."""

    def __init__(self, write_text: Callable[[str], str], emit: Callable[[Event], None] | None = None) -> None:
        """`emit` takes what is known of the variables that this process has set; a log knows nothing of these."""
        self.readers = dict.fromkeys(RECORDS, self._read)
        self._write_text = write_text
        self._emit = emit
        self._blocks: dict[str, str] = {}
        self._told = False

    def _read(self, name: str, content: Any, text: str) -> CacheLooked:
        cache, state = RECORDS[name]
        if cache == "pgo":
            return CacheLooked(cache=cache, state=state)
        try:
            found = json.loads(text)
        except ValueError:  # A log whose texts were cut short still says what was asked, and how it ended.
            found = {}
        lines = [str(line) for line in found.get("components") or ()]
        event = CacheLooked(
            cache=cache, state=state, digest=str(found.get("key") or ""),
            detail=str(found.get("cache_status_detailed") or ""), taken=_seconds(found, "time_taken_ns", 1e9),
            saved=_seconds(found, "time_saved_ns", 1e9) or _seconds(found, "time_saved_ms", 1e3),
        )  # fmt: skip
        self._take_apart(event, [*lines, *cache_keys.more_lines(lines)])
        if self._emit is not None and not self._told:
            self._told = True
            self._emit(CacheVariables(cache_keys.variables_of_settings()))
        return event

    def _take_apart(self, event: CacheLooked, lines: list[str]) -> None:
        settings: dict[str, dict[str, str]] = {}
        for head, item, digest, shown in filter(None, map(_component, lines)):
            if head not in SETTINGS:
                event.components.append((head if item is None else f"{head}[{item}]", digest, shown))
            elif item is not None:  # Else it is the bytes of them all.
                settings.setdefault(head, {})[item] = shown
        for head, values in settings.items():
            block = json.dumps({head: values})
            if block not in self._blocks:
                self._blocks[block] = self._write_text(block)
            event.settings.append(self._blocks[block])


@lru_cache(maxsize=2048)
def _component(line: str) -> tuple[str, str | None, str, str] | None:
    """What a line of a key says: head, item, digest and the value as it is shown. Most stand in every key alike."""
    if (parts := _LINE.match(line)) is None:
        return None
    digest, head, item, value = parts.groups()
    shown = without_addresses(value)
    if head in SETTINGS:
        return head, item, "", shown[:_LONGEST]
    shown = digest if head == "torch_version" else cut(shown)  # A digest of its source, as bytes.
    return head, item, digest[:_DIGEST], _PLAIN.sub("", shown) if head == "example_inputs" else shown


def _seconds(found: dict[str, Any], name: str, parts: float) -> float | None:
    value = found.get(name)
    return round(value / parts, 6) if isinstance(value, int | float) and value >= 0 else None

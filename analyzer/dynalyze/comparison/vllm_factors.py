"""What vLLM names its compile cache after: `cache_key_factors.json` of two of its folders, compared.

vLLM writes `env` (raw values), `config_hash`, `compiler_hash` and `code_hash`, and later versions `config`, `compiler`
and `code` with the values behind them; any that is missing in a file is passed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dynalyze.report.caches import CacheDifference, DifferenceKind

FILE = "cache_key_factors.json"
_PARTS = {
    "env": "an environment variable of vLLM", "config": "vLLM's configuration", "compiler": "the compiler",
    "code": "the source of the model",
}  # fmt: skip
_PATHS = ("VLLM_XLA_CACHE_PATH", "VLLM_CONFIG_ROOT", "VLLM_CACHE_ROOT", "VLLM_ASSETS_CACHE", "VLLM_RPC_BASE_PATH")
_LONGEST = 300


def is_factors(content: Any) -> bool:
    """Whether a JSON document is such a file."""
    return isinstance(content, dict) and any(name in content for name in ("env", "config_hash", "code_hash"))


def factor_differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[CacheDifference]:
    """Every factor that differs; only its hash where the values behind it are missing or equal."""
    found = []
    for part, what in _PARTS.items():
        one, other = before.get(part), after.get(part)
        values = [_difference_of(part, what, *each) for each in _changed(one, other, "")]
        found += values
        hashes = before.get(f"{part}_hash"), after.get(f"{part}_hash")
        if not values and hashes[0] != hashes[1] and None not in hashes:
            says = f"{what}: the file holds its hash alone"
            found.append(
                _difference(f"{part}_hash", *hashes, kind="setting" if part == "config" else "other", says=says)
            )
    return found


def _changed(one: Any, other: Any, name: str) -> Iterator[tuple[str, Any, Any]]:
    """The leaves of two documents that differ, by dotted names."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in dict.fromkeys((*one, *other)):
            yield from _changed(one.get(key), other.get(key), f"{name}.{key}" if name else str(key))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from _changed(left, right, f"{name}[{number}]")
    elif one != other and not (one is None and other is None):
        yield name, one, other


def _difference_of(part: str, what: str, name: str, before: Any, after: Any) -> CacheDifference:
    component = f"{part}.{name}" if name else part
    paths = [isinstance(value, str) and value.startswith(("/", "~")) for value in (before, after)]
    kind: DifferenceKind = "path" if any(paths) else "variable" if part == "env" else "setting"
    says = f"{what}: {name or part}"
    if kind == "path" and part == "env":
        says += (
            " names a path, which says nothing about what was compiled: set it to the same value in both places"
            if name in _PATHS
            else " names a path: set it to the same value in both places"
        )
    return _difference(component, before, after, kind=kind, says=says)


def _difference(component: str, before: Any, after: Any, *, kind: DifferenceKind, says: str) -> CacheDifference:
    shown = [None if value is None else str(value)[:_LONGEST] for value in (before, after)]
    return CacheDifference("", "fx_graph", component, shown[0], shown[1], kind, says)

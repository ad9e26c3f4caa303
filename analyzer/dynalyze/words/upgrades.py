"""The sentences about what another torch changes."""

from __future__ import annotations

from collections import Counter

from dynalyze.comparison.types import Direction
from dynalyze.comparison.upgrades import Change, ChangeKind, Measure, MeasureName, Tried, Upgrade
from dynalyze.text.amounts import count_of, duration, listed
from dynalyze.words.bench import no_difference, ratio_words
from dynalyze.words.comparison import ARROW
from dynalyze.words.report import EFFECTS, STATUS_WORDS

_TITLES: dict[ChangeKind, tuple[str, str, str]] = {
    "ending": ("Ends worse", "Ends better", "Ends otherwise"),
    "break": ("New graph break", "Graph break gone", "Graph break"),
    "effect": ("Graph break with a worse effect", "Graph break with a better effect", "Graph break"),
    "recompile": ("More recompiles", "Fewer recompiles", "Recompile"),
    "limit": ("The recompile limit is reached now", "The recompile limit is not reached any more", "Recompile limit"),
    "compilation": ("Compiled worse", "Compiled better", "Compiled otherwise"),
    "graphs": ("More graphs", "Fewer graphs", "Graphs"),
    "kernels": ("More kernels", "Fewer kernels", "Kernels"),
    "compile_time": ("Longer compiles", "Shorter compiles", "Compiles"),
    "speed": ("Slower", "Faster", "Speed"),
    "memory": ("More memory", "Less memory", "Memory"),
    "outputs": ("Other answers", "Better answers", "Answers"),
}
_WAYS: tuple[Direction, ...] = ("worse", "better", "same")
TITLES: dict[tuple[ChangeKind, Direction], str] = {
    (kind, way): title for kind, titles in _TITLES.items() for way, title in zip(_WAYS, titles, strict=True)
}
MEASURES: dict[MeasureName, str] = {
    "graph_breaks": "graph breaks", "recompiles": "recompiles", "graphs": "graphs", "operations": "operations",
    "kernels": "kernels, calls", "guards": "guards", "compile_seconds": "compiling", "latency_ms": "a call, median",
    "memory": "memory, peak",
}  # fmt: skip


def verdict(found: Upgrade) -> str:
    """What became worse and better, in one sentence."""
    versions = f"torch {found.before.torch or 'not known'} {ARROW} {found.after.torch or 'not known'}"
    if found.first_worse:
        versions = f"torch {found.first_worse} is the first that is worse; {versions}"
    counts = Counter(each.direction for each in found.changes)
    told = [f"{count_of(counts[way], 'thing')} {way}" for way in _WAYS if counts[way]]
    return f"{versions}: {listed(told) if told else 'nothing is worse or better'}."


def notes(found: Upgrade) -> list[str]:
    """How far to trust it, one sentence each."""
    runs = (("first", found.comparison.before), ("second", found.comparison.after))
    ended = [
        f"The {which} run ended: {STATUS_WORDS[run.status].lower()}."
        for which, run in runs
        if run.status in ("failed", "timed_out", "interrupted")
    ]
    told = any(change.kind == "outputs" for change in found.changes)  # With the note as its advice.
    return [*ended, *([found.outputs.note] if found.outputs.note and not told else [])]


def values(change: Change) -> str:
    """Both values of a change: "3 -> 5"."""
    if change.kind == "effect":
        names = {name: words[0] for name, words in EFFECTS.items()}
        return f"{names[change.before]} {ARROW} {names[change.after]}"  # type: ignore[index]
    return f"{change.before} {ARROW} {change.after}"


def amount(name: MeasureName, value: float | None) -> str:
    """An amount for people; "" where it is not known."""
    if value is None:
        return ""
    if name == "compile_seconds":
        return duration(value)
    if name == "latency_ms":
        return f"{value:.4g} ms"
    return f"{value / 2**20:,.0f} MiB" if name == "memory" else f"{value:,.0f}"


def measure_verdict(measure: Measure, found: Upgrade) -> str:
    """Worse, better, same or changed; of speed with the ratio and its interval."""
    if measure.name != "latency_ms":
        return measure.verdict
    if found.speed is None:
        return "not judged: only one pair of processes"
    shown = found.speed.verdict != "no difference shown"
    return f"{measure.verdict}: {ratio_words(found.speed) if shown else no_difference(found.speed)}"


def version_words(tried: Tried) -> str:
    """What came of one version in a search."""
    if tried.note:
        return tried.note
    ways = {True: "worse than the first", False: "not worse than the first", None: "not held against the first"}
    return f"torch {tried.version}: {ways[tried.worse]}"

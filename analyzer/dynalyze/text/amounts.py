"""Amounts as people write them: counts, times, shares, sizes."""

from __future__ import annotations

from collections.abc import Sequence

_MOST_DIGITS = 18


def count_of(number: int, singular: str, plural: str = "") -> str:
    """A counted noun: "1 graph break", "1,200 graph breaks"."""
    noun = singular if number == 1 else plural or f"{singular}s"
    return f"{number:,} {noun}"


def lookups(hits: int | None, misses: int | None, bypasses: int | None) -> str:
    """What a cache was asked: "2 hits, 1 miss"; "" for nothing."""
    counts = ((hits, "hit", ""), (misses, "miss", "misses"), (bypasses, "bypass", "bypasses"))
    return ", ".join(count_of(number, one, several) for number, one, several in counts if number)


def how_often(number: int) -> str:
    """ "once", "1,200 times"."""
    return "once" if number == 1 else f"{number:,} times"


def duration(seconds: float) -> str:
    """A time for people: "35 ms", "1.2 s", "3 min 5 s"."""
    if seconds < 0.0995:
        return f"{seconds * 1000:.{0 if seconds >= 0.00095 or seconds == 0 else 1}f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s" if seconds >= 0.995 else f"{seconds:.2f} s"
    if round(seconds) < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if rest else f"{minutes} min"


def milliseconds(value: float) -> str:
    """A measured time, with three digits: "812 µs", "36.6 ms", "1.24 s"."""
    for factor, unit in ((1e-3, "s"), (1.0, "ms")):
        if value * factor >= 0.9995:
            return f"{three_digits(value * factor)} {unit}"
    return f"{three_digits(value * 1e3)} µs"


def three_digits(value: float) -> str:
    """A number with three digits, or all of those before the point: "1.24", "36.6", "1,204"."""
    if value >= 99.95 or value == 0:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def whole_number(text: str | None) -> int | None:
    """The number that a text of digits says; None for another text, and for one of more digits than a count has."""
    return int(text) if text and text.isdecimal() and len(text) <= _MOST_DIGITS else None


def listed(names: Sequence[str], most: int | None = None) -> str:
    """Names in a row: "a", "a and b", "a, b and c"; past `most` of them "a, b and 7 more"."""
    if most is not None and len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most:,} more"
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)


def percent(share: float) -> str:
    """A share: "4%", "0.4%"."""
    return f"{100 * share:.{0 if share >= 0.0095 or share == 0 else 1}f}%"


def size(number: float) -> str:
    """Bytes for people: "200 MB", "1.4 GB"."""
    for factor, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        value = number / factor
        if value >= 0.9995:
            return f"{value:.{1 if unit == 'GB' and value < 9.95 else 0}f} {unit}"
    return count_of(int(number), "byte")


def exact_size(number: float) -> str:
    """Bytes with three digits, where sizes are set beside each other: "918 kB", "4.19 MB"."""
    for factor, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if number / factor >= 0.9995:
            return f"{three_digits(number / factor)} {unit}"
    return count_of(int(number), "byte")

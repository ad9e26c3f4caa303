"""Sizes between those that the warm-up knows: held out, to see whether production may send them too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from dynalyze.bench.plan import Work

MOST_BETWEEN = 8


def between_works(works: Sequence[Work], most: int = MOST_BETWEEN) -> tuple[Work, ...]:
    """Works with a size in the middle of two neighbouring ones, one name at a time; the others have their largest."""
    return tuple(dict.fromkeys(_between(works)))[:most]


def _between(works: Sequence[Work]) -> Iterator[Work]:
    names = list(works[0].sizes) if works else []
    largest = max(works, key=lambda work: tuple(work.sizes.values())) if works else Work()
    for name in names:
        sizes = sorted({work.sizes[name] for work in works})
        for low, high in pairwise(sizes):
            if high - low > 1:
                yield _with(largest, name, (low + high) // 2)


def _with(work: Work, name: str, size: int) -> Work:
    if name in dict(work.shape):
        return replace(work, shape=tuple((each, size if each == name else own) for each, own in work.shape))
    return replace(work, **{name: size})  # type: ignore[arg-type]

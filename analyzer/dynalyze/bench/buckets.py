"""Which sizes to pad to, so that few compiled versions serve every shape.

Names whose sizes were each compiled anew are grouped, the others are left as they are. A bucket is one of the given
sizes, so the warm-up has compiled it, and every size goes up to the next bucket. Of all choices that number of buckets
is taken which is the smallest whose padding stays below a quarter of the elements, and whose versions stay within the
recompile limit; where both cannot be had, the least padding within the limit. For a given number of buckets the best
ones are found exactly, by dynamic programming over the sorted sizes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, product

from dynalyze.report.audit import Bucket

MOST_PADDING = 0.25  # What padding may add to the elements of all shapes together.
_DEFAULT_LIMIT = 8
_MOST_BUCKETS = 16  # Of one name: who raised the recompile limit to hundreds still pads to a handful of sizes.


@dataclass(frozen=True)
class Bucketed:
    """Buckets by name, the largest size always among them, and what they add to the elements of all shapes."""

    sizes: dict[str, tuple[int, ...]]
    padding: float

    @property
    def count(self) -> int:
        return math.prod(map(len, self.sizes.values()))

    def merges(self, shapes: Sequence[Mapping[str, int]]) -> bool:
        """Whether any size is padded at all."""
        return any(len(own) < len({shape[name] for shape in shapes}) for name, own in self.sizes.items())

    def padded(self, shape: Mapping[str, int]) -> dict[str, int]:
        """The bucket of a shape."""
        return {name: min(size for size in sizes if size >= shape[name]) for name, sizes in self.sizes.items()}

    def records(self, shapes: Iterable[Mapping[str, int]]) -> list[Bucket]:
        """Each bucket with the number of shapes that it serves."""
        counts = Counter(tuple(self.padded(shape).items()) for shape in shapes)
        every = (tuple(zip(self.sizes, each, strict=True)) for each in product(*self.sizes.values()))
        return [Bucket(dict(key), counts[key]) for key in every if counts[key]]


def choose(sizes: Mapping[str, Mapping[int, int]], most_versions: int, most_padding: float = MOST_PADDING) -> Bucketed:
    """The fewest buckets within both bounds, else within the first. `sizes` says how often each comes."""
    most = max(1, min(most_versions, _MOST_BUCKETS))
    ladders = [ladder(counts, most) for counts in sizes.values()]
    exact = math.prod(sum(size * count for size, count in counts.items()) for counts in sizes.values())
    # Of shapes that are all combinations the elements of all of them are the product of the sums of the names.
    choices = [
        Bucketed(
            dict(zip(sizes, (buckets for _, buckets in rungs), strict=True)),
            math.prod(total for total, _ in rungs) / exact - 1 if exact else 0.0,
        )
        for rungs in product(*ladders)
    ]
    allowed = [each for each in choices if each.count <= max(1, most_versions)]
    if good := [each for each in allowed if each.padding <= most_padding]:
        return min(good, key=lambda each: (each.count, each.padding))
    return min(allowed, key=lambda each: (each.padding, each.count))


def bucketed(shapes: Sequence[Mapping[str, int]], versions: Sequence[Sequence[int]], limit: int) -> Bucketed | None:
    """Buckets for the names that cost versions; None where none does. A shape that runs in eager has no `versions`."""
    costly = [name for name in (shapes[0] if shapes else ()) if _costs(name, shapes, versions)]
    sizes = {name: dict.fromkeys((shape[name] for shape in shapes), 1) for name in costly}
    return choose(sizes, limit or _DEFAULT_LIMIT) if sizes else None


Rung = tuple[int, tuple[int, ...]]  # The sum of padded sizes, and the buckets that have it.


def ladder(sizes: Mapping[int, int], most: int) -> list[Rung]:
    """For one bucket, two, and so on: the rung with the least sum over all calls; `sizes` says how often each comes."""
    ordered = sorted(sizes)
    upto = [0, *accumulate(sizes[size] for size in ordered)]  # Calls with one of the first so many sizes.
    # Of the sizes up to each, with its own as the last bucket; and where the bucket before it stands.
    best = [upto[end + 1] * size for end, size in enumerate(ordered)]
    cuts: list[list[int]] = [[-1] * len(ordered)]
    found: list[Rung] = [(best[-1], (ordered[-1],))]
    for count in range(2, min(most, len(ordered)) + 1):
        best, cut = _one_more(ordered, upto, best, count)
        cuts.append(cut)
        found.append((best[-1], _buckets(ordered, cuts)))
    return found


def _one_more(ordered: list[int], upto: list[int], best: list[int], count: int) -> tuple[list[int], list[int]]:
    """The least sums with `count` buckets, from those with one less, and where the bucket before the last stands."""
    sums, where = list(best), [-1] * len(ordered)

    def fill(low: int, high: int, first: int, last: int) -> None:
        """For ends from `low` to `high`; the later an end, the later its best cut, from `first` to `last`."""
        if low > high:
            return
        end = (low + high) // 2
        size, cuts = ordered[end], range(first, min(last, end - 1) + 1)
        sums[end], where[end] = min((best[cut] + (upto[end + 1] - upto[cut + 1]) * size, cut) for cut in cuts)
        fill(low, end - 1, first, where[end])
        fill(end + 1, high, where[end], last)

    fill(count - 1, len(ordered) - 1, count - 2, len(ordered) - 2)
    return sums, where


def _buckets(ordered: list[int], cuts: list[list[int]]) -> tuple[int, ...]:
    end, found = len(ordered) - 1, []
    for cut in reversed(cuts):
        found.append(ordered[end])
        end = cut[end]
    return tuple(reversed(found))


def _costs(name: str, shapes: Sequence[Mapping[str, int]], versions: Sequence[Sequence[int]]) -> bool:
    """Whether somewhere along it every size has a version of its own, or more than two do."""
    lines: dict[tuple[tuple[str, int], ...], list[tuple[int, ...]]] = {}
    for number, (shape, used) in enumerate(zip(shapes, versions, strict=True)):
        rest = tuple((other, size) for other, size in shape.items() if other != name)
        # What runs in eager would need a version of its own.
        lines.setdefault(rest, []).append(tuple(used) or (-1 - number,))
    return any(len(set(line)) > 2 or 1 < len(set(line)) == len(line) for line in lines.values())

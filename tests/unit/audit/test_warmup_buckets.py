"""Buckets: every shape fits one, there are no more than needed, and padding stays within its bound."""

from __future__ import annotations

from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynalyze.bench.shapes import Bucketed, choose, costly_buckets

SIZES = st.lists(st.integers(1, 40), min_size=1, max_size=6, unique=True)


def shapes_of(sizes: dict[str, list[int]]) -> list[dict[str, int]]:
    return [dict(zip(sizes, values, strict=True)) for values in product(*sizes.values())]


def padding_of(sizes: dict[str, list[int]], buckets: dict[str, tuple[int, ...]]) -> float:
    """By going through every shape: the method knows a shorter way."""
    exact = more = 0
    for shape in shapes_of(sizes):
        own, grown = 1, 1
        for name, size in shape.items():
            own *= size
            grown *= min(bucket for bucket in buckets[name] if bucket >= size)
        exact, more = exact + own, more + grown
    return more / exact - 1


def every_choice(sizes: dict[str, list[int]]) -> list[Bucketed]:
    """All subsets that hold the largest size, by brute force."""
    ways = []
    for values in sizes.values():
        rest = sorted(values)[:-1]
        ways.append(
            [(*own, max(values)) for count in range(len(rest) + 1) for own in combinations(rest, count)]
        )  # fmt: skip
    made = [dict(zip(sizes, way, strict=True)) for way in product(*ways)]
    return [Bucketed(buckets, padding_of(sizes, buckets)) for buckets in made]


@given(SIZES, SIZES, st.integers(1, 9), st.sampled_from([0.0, 0.1, 0.25, 1.0]))
def test_the_fewest_buckets_that_keep_both_bounds(
    batches: list[int], lengths: list[int], versions: int, padding: float
) -> None:
    sizes = {"batch": batches, "sequence": lengths}
    chosen = choose({name: dict.fromkeys(own, 1) for name, own in sizes.items()}, versions, padding)
    assert chosen.padding == pytest.approx(padding_of(sizes, chosen.sizes))
    assert chosen.count <= versions
    allowed = [each for each in every_choice(sizes) if each.count <= versions]
    good = [each.count for each in allowed if each.padding <= padding]
    if good:
        assert chosen.padding <= padding
        assert chosen.count == min(good)
    else:
        assert chosen.padding == pytest.approx(min(each.padding for each in allowed))


@given(SIZES, SIZES, st.integers(1, 9))
def test_every_shape_fits_a_bucket_and_is_counted_once(batches: list[int], lengths: list[int], versions: int) -> None:
    shapes = shapes_of({"batch": batches, "sequence": lengths})
    chosen = choose({"batch": dict.fromkeys(batches, 1), "sequence": dict.fromkeys(lengths, 1)}, versions)
    for shape in shapes:
        target = chosen.padded(shape)
        assert all(shape[name] <= target[name] for name in shape)
        assert all(target[name] in chosen.sizes[name] for name in shape)
    assert sum(bucket.shapes for bucket in chosen.records(shapes)) == len(shapes)


def test_only_names_that_cost_versions_are_padded() -> None:
    shapes = shapes_of({"batch": [1, 2, 4], "sequence": [128, 256, 512, 1024]})
    # Each length is a version of its own; the batch is dynamic.
    versions = [[{128: 1, 256: 2, 512: 3, 1024: 4}[shape["sequence"]]] for shape in shapes]
    chosen = costly_buckets(shapes, versions, 8)
    assert chosen is not None and list(chosen.sizes) == ["sequence"]


def test_where_one_version_serves_all_there_are_no_buckets() -> None:
    shapes = shapes_of({"batch": [1, 2, 4]})
    assert costly_buckets(shapes, [[1], [2], [2]], 8) is None
    assert costly_buckets(shapes, [[1], [1], [1]], 8) is None
    assert costly_buckets([], [], 8) is None


def test_shapes_in_eager_need_a_version_each() -> None:
    shapes = shapes_of({"sequence": [16, 32, 48, 64]})
    chosen = costly_buckets(shapes, [[1], [2], [], []], 2)
    assert chosen is not None and chosen.count == 2
    assert chosen.merges(shapes)

"""The search over a tree of modules: whichever is planted is found, in few compiles."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from dynalyze.bench.bisect import first_wrong, smallest_wrong


def _children(path: str) -> list[str]:
    """A tree of three levels: 2 parts, 40 layers in each, 5 modules in each of these."""
    count = {0: 2, 1: 40, 2: 5}.get(path.count(".") + 1 if path else 0, 0)
    return [f"{path}.{number}".lstrip(".") for number in range(count)]


def _holds(path: str, planted: str) -> bool:
    return path == "" or planted == path or planted.startswith(f"{path}.")


@given(st.integers(0, 1), st.none() | st.integers(0, 39), st.none() | st.integers(0, 4))
def test_the_planted_module_is_found_wherever_it_is(part: int, layer: int | None, module: int | None) -> None:
    steps = [part] + ([layer] if layer is not None else []) + ([module] if None not in (layer, module) else [])
    planted = ".".join(map(str, steps))
    asked: list[Sequence[str]] = []

    def is_wrong(paths: Sequence[str]) -> bool:
        asked.append(paths)
        return any(_holds(path, planted) for path in paths)

    assert smallest_wrong(is_wrong, _children) == planted
    assert len(asked) < 25


def test_what_is_wrong_only_together_is_left_to_the_module_around_it() -> None:
    together = ["a", "b", "c", "d", "e"]
    assert first_wrong(lambda paths: {"b", "d"} <= set(paths), together) is None
    assert smallest_wrong(lambda paths: {"b", "d"} <= set(paths), lambda path: [] if path else together) == ""


def test_nothing_wrong_below_is_the_model_itself() -> None:
    assert smallest_wrong(lambda paths: False, _children) == ""

"""Finds the smallest submodule whose compile alone makes the answers wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence

_FEW = 3

IsWrong = Callable[[Sequence[str]], bool]
"""Whether the answers are wrong when these submodules are compiled, and all else runs in eager."""


def smallest_wrong(is_wrong: IsWrong, children: Callable[[str], Sequence[str]]) -> str:
    """The path of the deepest module that is wrong by itself, and of whose children none is; "" is the model."""
    path = ""
    while (below := first_wrong(is_wrong, children(path))) is not None:
        path = below
    return path


def first_wrong(is_wrong: IsWrong, paths: Sequence[str]) -> str | None:
    """The first of these that is wrong when it is compiled alone; None where only several together are, or none.

    Of many, ever more are compiled together until the answers are wrong: the number is found by halving.
    """
    if len(paths) <= _FEW:
        return next((path for path in paths if is_wrong([path])), None)
    if not is_wrong(paths):
        return None
    right, wrong = 0, len(paths)
    while wrong - right > 1:
        middle = (right + wrong) // 2
        if is_wrong(paths[:middle]):
            wrong = middle
        else:
            right = middle
    found = paths[wrong - 1]
    return found if is_wrong([found]) else None

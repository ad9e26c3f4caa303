"""Checks the operators that a change makes of native kernels, on what the program gives them, as torch itself does."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from dynalyze.capture.bench.failures import one_line

_TESTS = ("test_schema", "test_faketensor")
"""That nothing is changed in place or aliased which is not said to be, and that the fake gives the same outlines."""


@contextlib.contextmanager
def calls_noted(spaces: Sequence[tuple[dict[str, Any], str]], seen: dict[str, Callable[[], str]]) -> Iterator[None]:
    """Note for each of these globals that is an operator, by its name, a function that checks it on its first call's
    arguments: it returns what is wrong with it, or nothing.
    """
    kind = getattr(torch.library, "CustomOpDef", None)
    made = [(space, name, space[name]) for space, name in spaces if kind is not None and type(space.get(name)) is kind]
    for space, name, operator in made:
        space[name] = _noting(name, operator, seen)
    try:
        yield
    finally:
        for space, name, operator in made:
            space[name] = operator


def _noting(name: str, operator: Any, seen: dict[str, Callable[[], str]]) -> Callable[..., Any]:
    def called(*args: Any, **kwargs: Any) -> Any:
        given = tuple(each.clone() if isinstance(each, torch.Tensor) else each for each in args)
        seen.setdefault(name, lambda: _checked(name, operator, given, kwargs))
        return operator(*args, **kwargs)

    return called


def _checked(name: str, operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    try:
        torch.library.opcheck(operator, args, kwargs, test_utils=_TESTS)
    except Exception as error:
        return f"torch.library.opcheck refuses the operator {name}: {one_line(error)}"
    return ""

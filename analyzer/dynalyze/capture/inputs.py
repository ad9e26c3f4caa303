"""The inputs of a callable, in the forms the contract allows, as a list of calls."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple


class Inputs(NamedTuple):
    """Arguments of one call."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Misuse(Exception):
    """The user asked for something that cannot be; the message is the one line they read."""


def calls_from(value: Any) -> list[Inputs]:
    """A tuple of positional inputs, a dict of keyword inputs, a list of several of these, a function that
    returns one of them, or a single value for a single positional input.
    """
    if inspect.isfunction(value) or inspect.ismethod(value):
        value = value()
    if isinstance(value, list):
        return [_one(each) for each in value]
    return [_one(value)]


def calls_from_expressions(expressions: list[str], target: Callable[..., Any]) -> list[Inputs]:
    """Evaluate `--input` expressions with `torch` in scope.

    Each expression is one call. Where no single one fits the signature but all of them in a row do, they are the
    positional inputs of one call. Raises Misuse for an expression that cannot be evaluated.
    """
    import torch

    values = []
    for expression in expressions:
        try:
            values.append(eval(expression, {"torch": torch}))
        except Exception as error:
            raise Misuse(f"--input {expression!r} cannot be evaluated: {type(error).__name__}: {error}") from error
    calls = [call for value in values for call in calls_from(value)]
    together = Inputs(tuple(values), {})
    if len(values) > 1 and not all(_fits(target, call) for call in calls) and _fits(target, together):
        return [together]
    return calls


def signature_of(target: Callable[..., Any]) -> inspect.Signature:
    """The signature of a function, or of a module's forward. Raises TypeError or ValueError where there is none to be
    had.
    """
    forward = getattr(target, "forward", None)
    return inspect.signature(forward if callable(forward) else target)


def signature_text(target: Callable[..., Any]) -> str:
    """The parameters of a callable as the user wrote them, "(...)" where they are unknown."""
    try:
        return str(signature_of(target))
    except (TypeError, ValueError):
        return "(...)"


def needs_inputs(target: Callable[..., Any]) -> bool:
    """Whether a call without arguments cannot work."""
    return not _fits(target, Inputs((), {}))


def _one(value: Any) -> Inputs:
    if isinstance(value, tuple):
        return Inputs(value, {})
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return Inputs((), value)
    return Inputs((value,), {})


def _fits(target: Callable[..., Any], call: Inputs) -> bool:
    try:
        signature_of(target).bind(*call.args, **call.kwargs)
    except TypeError:
        return False
    except ValueError:  # No signature to be had: let the call itself tell.
        pass
    return True

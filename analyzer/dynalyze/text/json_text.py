"""JSON of ours, written safe to look at on a terminal, and JSON of anybody's, read within bounds."""

from __future__ import annotations

import json
import re
from typing import Any, TypeVar, overload

import msgspec

from dynalyze.text.escape import hidden

_Kind = TypeVar("_Kind")

# An escape in JSON; `lone` is half of a pair that stands for one character.
_ESCAPE = re.compile(rb"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|(?P<lone>\\u[dD][89a-fA-F]..)|\\.", re.DOTALL)
# All that is no bracket: texts, and what stands between.
_BETWEEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?|[^][{}"]+', re.DOTALL)
_DEEPEST = 100
# All but what is seen as it is, and ends of lines.
_UNUSUAL = re.compile(r"[^ -~\n]")


def json_text(document: Any, *, indent: int = 1) -> str:
    """The document, indented (-1: on one line), with a newline at its end."""
    try:
        encoded = msgspec.json.encode(document)
    except (UnicodeEncodeError, OverflowError):
        encoded = msgspec.json.encode(_as_text(msgspec.to_builtins(document)))
    encoded = msgspec.json.format(encoded, indent=indent)
    return _UNUSUAL.sub(_shown, encoded.decode()) + "\n"


@overload
def read_json(data: bytes) -> Any: ...
@overload
def read_json(data: bytes, kind: type[_Kind]) -> _Kind: ...
def read_json(data: bytes, kind: Any = Any) -> Any:
    """A `kind` from JSON; an escape for half of a surrogate pair becomes U+FFFD. Raises msgspec.DecodeError, with the
    place, where it is no UTF-8, no JSON, nested too deep, or no `kind`.
    """
    try:
        return _decoded(data, kind)
    except msgspec.DecodeError:
        return _decoded(_ESCAPE.sub(lambda found: b"\\ufffd" if found["lone"] else found[0], data), kind)


def is_deep(data: bytes) -> bool:
    """Whether JSON is nested deeper than any of ours, too deep for recursion."""
    if data.count(b"[") + data.count(b"{") <= _DEEPEST:
        return False
    depth = deepest = 0
    for bracket in _BETWEEN.sub(b"", data):
        depth += 1 if bracket in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest > _DEEPEST


def _decoded(data: bytes, kind: Any) -> Any:
    if is_deep(data):
        raise msgspec.DecodeError("JSON is nested too deep")
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeError):
        # msgspec 0.23 names no place in a file that is not UTF-8; before that it was a UnicodeDecodeError.
        try:
            data.decode()
        except UnicodeDecodeError as error:
            raise msgspec.DecodeError(str(error)) from None
        raise


def _as_text(value: Any) -> Any:
    """The value as JSON can hold it: "?" for half of a surrogate pair, a text for a number beyond 64 bits."""
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, list):
        return [_as_text(each) for each in value]
    if isinstance(value, dict):
        return {_as_text(key): _as_text(each) for key, each in value.items()}
    if isinstance(value, int) and value.bit_length() > 63:
        return str(value)
    return value


def _shown(found: re.Match[str]) -> str:
    """The character, or an escape where it is hidden: those are in strings only."""
    return json.dumps(found[0])[1:-1] if hidden(found[0]) else found[0]

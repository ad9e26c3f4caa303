"""Damages documents and lines of text as nobody would by hand: by type, by structure and by byte, from a seed."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

NUMBERS: tuple[Any, ...] = (
    0, 1, -1, 2, 3, 7, 2**31, 2**53, 2**63 - 1, 2**63, -(2**63), 2**64, 10**30, 10**400, True, False,
)  # fmt: skip
FLOATS = (
    0.0, -0.0, 0.5, -1.0, 1e-9, 5e-324, 1e-320, 1e18, 1e99, 1e100, 1e101, 1.7e308, -1.7e308, 0.1 + 0.2,
    float("inf"), float("-inf"), float("nan"),
)  # fmt: skip
TEXTS = (
    "", " ", "x", "0/0", "-1", "1e308", "a.py", "/", "//", ".", "..", "../../etc/passwd", "C:\\x\\y.py", "<string>",
    "~", "file://",
    "\x00", "\ud800", "\udcff\ud800", "\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "\x9b2J", "\r\n\x85\u2028",
    "\u202egnp.exe",
    "</script><script>alert(1)</script>", "]]>", "${x}", "%s%n", "{{7*7}}", "`", "```", "|", "[bold]x[/bold]", "\t",
    "\ufeff",
    "{", "[[[[[[[[", "(" * 300, "L['x'].size()[0] == 3", "x" * 3000, "🜁" * 50, "a\n" * 200, "'" * 99, '"' * 99,
    "\\" * 99,
    "compiled", "split", "error", "backward", "nan", "None", "https://[::1", "http://x/%zz", "g1", "b1", "r1", "f1",
    "1" * 5000,
)  # fmt: skip


def hostile(chance: random.Random) -> Any:
    """A value of any kind."""
    kind = chance.randrange(8)
    if kind < 3:
        return chance.choice((NUMBERS, FLOATS, TEXTS)[kind])
    nested: list[Any] = [chance.choice(TEXTS)]
    for _ in range(chance.choice((1, 5, 60, 200))):
        nested = [nested]
    return chance.choice((None, [], {}, [[]], {"": {}}, {"name": chance.choice(NUMBERS)}, nested))


def mutate(document: Any, chance: random.Random, changes: int) -> Any:
    """The document, changed in place at some of its values, keys and lists."""
    for _ in range(changes):
        holders = list(_holders(document))
        if not holders:
            return document
        holder = chance.choice(holders)
        if isinstance(holder, dict):
            _change_dict(holder, chance, document)
        else:
            _change_list(holder, chance)
    return document


def storm(document: Any, chance: random.Random) -> Any:
    """The document with one and the same odd value in the place of many of its kind: it adds up."""
    kind = chance.choice((int, float, float, str))
    odd = chance.choice(NUMBERS[:9] if kind is int else FLOATS[:13] if kind is float else TEXTS)
    share = chance.choice((0.05, 0.5))
    for holder in _holders(document):
        for key, value in list(holder.items() if isinstance(holder, dict) else enumerate(holder)):
            if type(value) is kind and chance.random() < share:
                holder[key] = odd
    return document


def as_json(document: Any) -> bytes:
    """JSON as Python writes it: with NaN, with Infinity, with half characters as escapes."""
    return json.dumps(document).encode()


def mutate_bytes(data: bytes, chance: random.Random) -> bytes:
    """Bits flipped, pieces cut out, doubled or moved, or the end left off."""
    work = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 8))):
        start = chance.randrange(len(work) + 1)
        end = min(len(work), start + chance.choice((1, 2, 10, 300)))
        kind = chance.randrange(6)
        if kind == 0 and work:
            work[start % len(work)] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del work[start:end]
        elif kind == 2:
            work[start:start] = work[start:end]
        elif kind == 3:
            piece = bytes(work[start:end])
            del work[start:end]
            at = chance.randrange(len(work) + 1)
            work[at:at] = piece
        elif kind == 4:
            work[start:start] = chance.choice(TEXTS).encode(errors="surrogatepass")
        elif chance.randrange(3) == 0:
            del work[start:]
    return bytes(work)


def mutate_lines(lines: list[bytes], chance: random.Random) -> list[bytes]:
    """Lines left out, doubled, swapped, joined or cut."""
    work = list(lines)
    for _ in range(chance.choice((0, 1, 2, 6))):
        if not work:
            break
        at = chance.randrange(len(work))
        kind = chance.randrange(5)
        if kind == 0:
            del work[at]
        elif kind == 1:
            work[at:at] = [work[chance.randrange(len(work))]] * chance.choice((1, 3))
        elif kind == 2:
            other = chance.randrange(len(work))
            work[at], work[other] = work[other], work[at]
        elif kind == 3:
            work[at] = work[at].rstrip(b"\n")
        else:
            work[at] = work[at][: chance.randrange(len(work[at]) + 1)] + b"\n"
    return work


def _holders(value: Any) -> Iterator[dict[str, Any] | list[Any]]:
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict | list) and each:
            yield each
            waiting += each.values() if isinstance(each, dict) else each


def _change_dict(holder: dict[str, Any], chance: random.Random, document: Any) -> None:
    key = chance.choice(list(holder))
    kind = chance.randrange(12)
    if kind == 0:
        del holder[key]
    elif kind == 1:
        holder[chance.choice((*holder, *TEXTS))] = holder[key]
    elif kind == 2:
        others = [each for each in _holders(document) if isinstance(each, dict)]
        other = chance.choice(others)
        holder[key] = json.loads(json.dumps(other[chance.choice(list(other))]))
    else:
        holder[key] = _changed(holder[key], chance)


def _change_list(holder: list[Any], chance: random.Random) -> None:
    at = chance.randrange(len(holder))
    kind = chance.randrange(6)
    if kind == 0:
        del holder[at]
    elif kind == 1 and len(holder) < 200:
        holder += [json.loads(json.dumps(holder[at]))] * chance.choice((1, 2, 30))
    elif kind == 2:
        chance.shuffle(holder)
    elif kind == 3:
        holder.clear()
    else:
        holder[at] = _changed(holder[at], chance)


def _changed(value: Any, chance: random.Random) -> Any:
    """Mostly another value of the same type, which a reader of typed records lets through."""
    if chance.randrange(4) == 0:
        return hostile(chance)
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return chance.choice((*NUMBERS[:8], value + 1, -value, value * 1000))
    if isinstance(value, float):
        return chance.choice((*FLOATS[:13], value * 1e6, -value))
    if isinstance(value, str):
        return chance.choice((*TEXTS, value[: len(value) // 2], value * 3))
    if isinstance(value, list):
        return chance.choice(([], value[:1] * 50, value[::-1]))
    return chance.choice((value, None, {}))

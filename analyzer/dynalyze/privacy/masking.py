"""Secrets in texts: by their shape, by the name that they stand under, or because they are known."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from urllib.parse import quote

from dynalyze.privacy.secret_shapes import JOINED, KEY_OF, LOWER_CASE, NO_TOKEN, PASS_OF, PREFIXES, SHAPES

MASK = "***"

# A body line of a PEM block by itself; a hash, which is hexadecimal, is none.
_PEM_LINE = re.compile(
    r"(?<![A-Za-z0-9+/])(?=[A-Za-z0-9+/]*[g-zG-Z])(?=[A-Za-z0-9+/]*[A-Z])(?=[A-Za-z0-9+/]*[a-z])(?=[A-Za-z0-9+/]*\d)"
    r"[A-Za-z0-9+/]{60,}={0,2}(?![A-Za-z0-9+/])"
)
# Who somebody is, in a URL: all of `user:password@`, and a bare token; a login by name alone stays.
_USER_INFO = re.compile(
    r"(?P<scheme>[A-Za-z][\w+.-]*)(?::|%3A)(?://|%2F%2F)"
    r"(?P<who>[^\s/?#'\"<>@:%]*(?::|%3A)(?!\d+/)[^\s'\"<>]*|[^\s/?#'\"<>:]+)(?:@|%40)(?=[\w.\[-])"
)
_LOGIN_SCHEMES = ("ssh", "git+ssh", "sftp", "rsync", "scp")
# One parameter of a URL; names are wider here than elsewhere.
_PARAMETER = re.compile(r"(?P<name>(?<=[?&;])[\w.%-]{1,80})=(?P<value>[^\s&;#'\"<>)\]}]+)")
_PARAMETERS = frozenset({"key", "sig", "signature", "auth", "code", "credential"})
_HEADER = re.compile(
    r"(?i)(?P<before>\bauthorization\b['\"\\]{0,3}\s*\]?\s*[:=,]\s*['\"\\]{0,3}\s*(?:[\w-]+(?:\s+|%20))?|\bbearer(?:\s+|%20)"
    r"|\b(?:set-)?cookie['\"\\]{0,3}\s*:\s*['\"\\]{0,3})(?P<value>[^\s'\"\\,;]{4,}(?:;[^'\"\r\n]*)?)"
)
_NAME = r"(?P<name>(?<![\w$])[A-Za-zÀ-ɏ_][\wÀ-ɏ]{0,80}(?:-\w{1,80}){0,8})"
_LITERAL = r"(?P<quote>\\?['\"`])(?P<text>(?:(?!(?P=quote))[^\r\n]){1,4000}?)(?:(?P=quote)|(?=[\r\n])|\Z)"
# `name = 'X'`, `"name": "X"`, `d['name'] == 'X'`, `name=ConstantVariable(str: 'X')`, `set_name('X')`.
_QUOTED = re.compile(
    rf"{_NAME}(?P<sep>\\?['\"`]?\]?(?:\s*:\s*[A-Za-z][\w.| ]*)?\s*(?::=|=>|={{1,3}}|!==?|:|%3D|\()\s*"
    rf"(?:\w+\((?:\w+:\s*)?)?(?:[bBrRuUfF]{{1,2}}(?=['\"]))?){_LITERAL}"
)
# `name=X` and `name: X`, as messages and configurations have it.
_BARE = re.compile(
    rf"{_NAME}(?P<sep>\\?['\"`]?\s*(?::=|=(?!=)|:(?!:)|%3D)\s*)(?P<text>(?!\\)[^\s'\"`,;&)\]}}<>(\[{{]+)"
    r"(?![\w(\[{.])"
)
# `--name X`, `"--name", "X"`.
_OPTION = re.compile(rf"(?<![\w-])--?{_NAME}(?P<sep>['\"]\s*,\s*['\"]|\s+)(?P<text>[^\s'\",\-\[(][^\s'\",]*)")
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-zÀ-ɏ]+|[A-Z]+|\d+")
_HINT = re.compile(r"pass|pwd|secret|token|key|cred|auth|bearer|cookie|jwt|kennwort|contrase|sig=|%3d")
_NUMBER = re.compile(r"-?\d{1,5}(?:\.\d*)?\Z")
_NO_VALUE = re.compile(
    r"(?i)(?:true|false|none|null|nil|auto|default|optional|required|str|int|bool|bytes|any|\*+|\.\.\.)\Z"
    r"|[<\[{].*[>\]}]\Z|\$\{?\w+\}?\Z|%\(?\w*\)?[sdr]\Z"
)
_LOOKS_MADE = re.compile(r"(?=.*\d)(?=.*[A-Za-z]).{8,}|(?=.*[a-z])(?=.*[A-Z]).{20,}")
_PASSWORDS = ("pass", "pwd", "secret", "cred", "kennwort", "contrase")
# Not secrets, though their names say so.
_ENVIRONMENT = frozenset({"PWD", "OLDPWD"})
# Shorter lines hold no line of a PEM block.
_LONG_LINE = 60
# A shorter value is a word that may stand anywhere.
_SHORTEST_QUOTED = 6


def is_secret(name: str) -> bool:
    """Whether this is the name of a secret: `hfToken`, `DB_PASSWORD`; not `pad_token`, `cache_key`."""
    words: list[str] = [word.lower() for word in _WORD.findall(name) if not word.isdigit()]
    if not words:
        return False
    *before, last = words
    previous = before[-1] if before else ""
    return (
        last in LOWER_CASE
        or (last.endswith(JOINED) and not last.endswith("oldpwd"))
        or last == "auth"
        or (last == "token" and previous not in NO_TOKEN)
        or (last == "key" and previous in KEY_OF)
        or (last == "pass" and previous in PASS_OF)
        or (last == "signature" and previous == "access")
    )


def masked_arguments(arguments: list[str]) -> list[str]:
    """The command line without the values of `--api-key=abc` and `--token abc`."""
    return [argument.removesuffix(part) + MASK if secret else argument for argument, part, secret in _parts(arguments)]


def secrets_of(lines: Iterable[list[str]]) -> set[str]:
    """Values in command lines whose option names a secret."""
    return {part for line in lines for _, part, secret in _parts(line) if secret and len(part) >= _SHORTEST_QUOTED}


def secrets_around(environment: Mapping[str, str] = os.environ) -> set[str]:
    """Values of environment variables that name a secret."""
    return {
        value
        for name, value in environment.items()
        if name not in _ENVIRONMENT
        and is_secret(name)
        and len(value) >= _SHORTEST_QUOTED
        and not _NO_VALUE.match(value)
        and not value.startswith("/")
    }


def secrets_in(text: str) -> Iterator[str]:
    """Quoted values under the name of a secret, without ordinary words."""
    for line in text.split("\n") if _hinted(text) else ():
        for found in _QUOTED.finditer(line) if _hinted(line) else ():
            value = found["text"]
            if is_secret(found["name"]) and _LOOKS_MADE.match(value) and not _NO_VALUE.match(value):
                yield value


def _hinted(text: str) -> bool:
    """Whether a text may name a secret; a search that ignores case takes thirty times as long."""
    return _HINT.search(text.lower()) is not None


class Masking:
    """Masks the texts of one document. It searches only for shapes whose hints are in one of them."""

    def __init__(self, texts: Iterable[str], known: Iterable[str] = ()) -> None:
        everything = "\n".join(set(texts))
        there = {rest: [each for each in prefixes if each in everything] for rest, prefixes in PREFIXES.items()}
        patterns = [rf"(?:{'|'.join(map(re.escape, found))}){rest}" for rest, found in there.items() if found]
        self._prefixed = re.compile(f"(?<![A-Za-z0-9])(?:{'|'.join(patterns)})") if patterns else None
        self._shapes = [
            re.compile(pattern) for pattern, hints in SHAPES.items() if any(hint in everything for hint in hints)
        ]
        # Also where a URL spells them.
        forms = sorted({form for secret in known for form in (secret, quote(secret, safe=""))}, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, forms))) if forms else None
        self.masked = cache(self._masked)

    def _masked(self, text: str, code: bool = False) -> str:
        """The text without secrets. In code, `name = value` is one only where the value is a string."""
        if self._known is not None:
            text = self._known.sub(MASK, text)
        for shape in self._shapes:
            text = shape.sub(lambda found: f"{found.groupdict().get('keep') or ''}{MASK}", text)
        if self._prefixed is not None:
            text = self._prefixed.sub(MASK, text)
        if "@" not in text and "%40" not in text and len(text) < _LONG_LINE and not _hinted(text):
            return text
        return "\n".join(_without_named(line, code) for line in text.split("\n"))


def _without_named(line: str, code: bool) -> str:
    """The line without secrets in a URL, in a header, or under a name."""
    if "@" in line or "%40" in line:
        line = _hide(_USER_INFO, "who", _is_more_than_a_name, line)
    if len(line) >= _LONG_LINE:
        line = _PEM_LINE.sub(MASK, line)
    if not _hinted(line):
        return line
    for pattern, group, reveals in _UNDER_A_NAME:
        line = _hide(pattern, group, reveals, line)
    return _hide(_BARE, "text", _in_string_under_a_name if code else _stands_under_a_name, line)


_Test = Callable[[re.Match[str]], bool]


def _hide(pattern: re.Pattern[str], group: str, reveals: _Test, line: str) -> str:
    """The line with the mask in place of the group, where the match reveals a secret."""

    def hidden(found: re.Match[str]) -> str:
        start, end = (at - found.start() for at in found.span(group))
        return found[0][:start] + MASK + found[0][end:] if reveals(found) else found[0]

    return pattern.sub(hidden, line)


def _is_more_than_a_name(found: re.Match[str]) -> bool:
    who = found["who"]
    return who not in (MASK, "git") and (found["scheme"].lower() not in _LOGIN_SCHEMES or ":" in who)


def _is_in_header(found: re.Match[str]) -> bool:
    value, bearer = found["value"], found["before"].lower().startswith("bearer")
    return not value.startswith(("{", "$", "<", "%")) and not (bearer and value.isalpha())


def _is_parameter(found: re.Match[str]) -> bool:
    return re.split(r"[-_.]", found["name"].lower())[-1] in _PARAMETERS or is_secret(found["name"])


def _is_quoted(found: re.Match[str]) -> bool:
    """Whether a secret is quoted; the argument of a call is one only where a password is set."""
    called = "(" in found["sep"][:1]
    return _tells(found["name"], found["text"]) and (not called or _is_password(found["name"]))


_UNDER_A_NAME: tuple[tuple[re.Pattern[str], str, _Test], ...] = (
    (_HEADER, "value", _is_in_header),
    (_PARAMETER, "value", _is_parameter),
    (_QUOTED, "text", _is_quoted),
    (_OPTION, "text", lambda found: _tells(found["name"], found["text"]) and not is_secret(found["text"])),
)


def _stands_under_a_name(found: re.Match[str]) -> bool:
    """Whether a value without quotes is a secret; not in `invalid token: unexpected end`."""
    name, value = found["name"], found["text"]
    sure = ":" not in found["sep"] or _is_password(name) or _LOOKS_MADE.match(value)
    return bool(sure) and _tells(name, value)


def _in_string_under_a_name(found: re.Match[str]) -> bool:
    before = found.string[found.string.rfind("\n", 0, found.start()) + 1 : found.start()]
    return bool(before.count("'") % 2 or before.count('"') % 2) and _stands_under_a_name(found)


def _tells(name: str, value: str) -> bool:
    """Whether this is the value of a secret; a small number is one only for a password."""
    return is_secret(name) and not _NO_VALUE.match(value) and (_is_password(name) or not _NUMBER.match(value))


def _is_password(name: str) -> bool:
    return any(word in name.lower() for word in _PASSWORDS)


def _parts(arguments: list[str]) -> Iterator[tuple[str, str, bool]]:
    """Each argument, its part that is a value, and whether the option names a secret."""
    follows = False
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if follows and not argument.startswith("-"):
            yield argument, argument, True
        elif equals and value and _names_secret(name):
            yield argument, value, True
        else:
            yield argument, "", False
        follows = argument.startswith("-") and not equals and _names_secret(argument)


def _names_secret(option: str) -> bool:
    """Whether an option names a secret, as `--pass` does; a word with blanks or slashes is no option."""
    bare = option.lstrip("-")
    return re.fullmatch(r"[\w.:@+-]{1,100}", bare) is not None and (is_secret(bare) or bare.lower() in ("pass", "pw"))

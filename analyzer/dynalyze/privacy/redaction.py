"""Whoever ran it, left out of a text: home folders, the user's and the machine's names, folders for temporary files.

A name is replaced where it stands by itself, or as a part of a word that `_`, `-`, `.`, a digit or an escape (%2F, \\n)
sets off: `torchinductor_ada`, `job_ada_1`, `~ada`, `ADA`; never inside of a word (`canada`, `adaptive`). A name that is
also an ordinary word here (`root`, `test`, `model`, or a single letter) is replaced in folders, in addresses and behind
`~` alone, where it can only be a name; code and sentences keep their word, as do libraries below site-packages.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import getpass
import keyword
import os
import re
import socket
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from urllib.parse import quote

try:
    import pwd
except ImportError:  # Windows has none.
    pwd = None  # type: ignore[assignment]

USER, HOST, HOME, TEMPORARY = "<user>", "<host>", "~", "<tmp>"

_VARIABLES = ("USER", "LOGNAME", "LNAME", "USERNAME", "SUDO_USER")
_HOMES_OF_ALL = frozenset({"home", "users", "user"})
_SHARED_TEMPORARY = frozenset({"/", "/tmp", "/var/tmp", "/usr/tmp", "/private/tmp", "/dev/shm"})
_SHORTEST = 3
_SHORTEST_IN_CAPITALS = 4
# What reports, programs and machines say anyway: accounts of no person, and words of torch and of ours that are also
# names. Those of Python come from Python.
_WORDS = """
    account adam admin administrator agent app aten auto autograd aws azure backend bench bert bin build builder cache
    call ci claude clip cloud code compile compiled compiler complete compose computer conda container corp cpu cuda
    daemon data debian default demo deploy dev device docker domain dot dynalyze dynamo eager effect env error
    events explain export file fix flash frame function fx gemma gpu grace graph guard guest hf home host http in
    inductor input jenkins jit job jupyter kernel lab lib library line linear linux list llama local localhost log
    logs machine main mark master math max me mean min mode model models module mps name net next nn nobody node
    none norm numpy ops optim output page pass path phi pip plain post press process prod profile proxy public py
    python pytorch rank raw ray reason recompile record region remote report result rich root rule run runner sample
    save school script seed server service shape shared site size source spark split stage start state status step
    storage store student sum sweep sys system target task team temp tensor test tester tests text the time tmp
    token tool torch trace train trainer transformers triton true ubuntu unknown usage user users val value var
    vector version view vm web will window work worker workspace x86 xpu you
"""
_ORDINARY = frozenset(_WORDS.split())
_SEPARATOR = r"(?:/|\\{1,4}|%2[Ff]|%5[Cc]|%252[Ff])"
# Letters that belong to an escape set a name off as well as a hyphen does.
_BEFORE = (
    r"(?:(?<![^\W\d_])|(?<=%[0-9A-Fa-f]{2})|(?<=%25[0-9A-Fa-f]{2})|(?<=\\[abfnrtv])|(?<=\\x[0-9A-Fa-f]{2})"
    r"|(?<=\\u[0-9A-Fa-f]{4})|(?<=\x1b\[[0-9]m)|(?<=\x1b\[[0-9]{2}m))"
)
_AFTER = r"(?![^\W\d_])"
# What may stand together as one path or address.
_TOKEN = re.compile(r"[^\s'\"`<>|;,()\[\]{}]+")
# One that begins where paths begin: `a/b` may be a division, and a page of the web is nobody's folder.
_ROOTED = re.compile(r"(?:\A|[=:@])(?:~?[/\\]|~\w|\.{1,2}[/\\]|[A-Za-z]:[/\\])|://|%2[Ff]|%5[Cc]")
_WEB = re.compile(r"https?://")
_FILE = re.compile(r"\.[A-Za-z]\w{0,5}\Z")
_LIBRARY = re.compile(r"(?:site-packages|dist-packages|/lib/python\d[\d.]*)/")

Redact = Callable[[str], str]


def redaction() -> Redact:
    """A function that removes the names of this user and machine from a text."""
    names = _names()
    plain = _longest_first(name for name in names if not _is_ordinary(name))
    words = _longest_first(name for name in names if _is_ordinary(name))
    machine = (socket.gethostname(), os.environ.get("HOSTNAME", ""), os.environ.get("COMPUTERNAME", ""))
    hosts = _longest_first({each for name in machine for each in (name, name.partition(".")[0]) if each})
    named = [host for host in hosts if _is_ordinary(host) and host.lower() != "localhost"]
    # Folders for temporary files that are not everybody's: macOS and clusters give each user their own.
    temporary = {os.environ.get(name, "") for name in ("TMPDIR", "TEMP", "TMP")} | {tempfile.gettempdir()}
    folders = [(folder, HOME) for folder in _longest_first(_homes(names))]
    folders += [(folder, TEMPORARY) for folder in _longest_first(_folders(temporary))]
    steps = [_replacing(_root(folder), mark, re.split(r"[/\\]", folder)[-1:]) for folder, mark in folders]
    if plain:  # An e-mail address in which one of the names is.
        own = "|".join(map(_part, plain))
        address = rf"(?<![\w.+-])(?=[\w.+-]*?(?:{own})[\w.+-]*@)[\w.+-]+@\w[\w-]*(?:\.[\w-]+)*\.[A-Za-z]{{2,}}(?![\w-])"
        steps.append(_replacing(address, USER, plain))
    steps += [_replacing(_part(host), HOST, [host]) for host in hosts if not _is_ordinary(host)]
    if plain:
        steps.append(_replacing("|".join(map(_part, plain)), USER, plain))
    if words:
        steps.append(_in_paths(words))
    if named:
        in_address = rf"(?<=[\w>]@){_any(named)}(?![\w-])|(?<=://){_any(named)}(?=[:/])"
        steps.append(_replacing(in_address, HOST, named))

    @functools.cache
    def redact(text: str) -> str:
        for step in steps:
            text = step(text)
        return text

    return redact


def _replacing(pattern: str, mark: str, names: Iterable[str]) -> Redact:
    """A function that puts the mark in place of the pattern, which contains one of the names."""
    compiled = re.compile(pattern, re.IGNORECASE)
    hints = [form.lower() for name in names for form in dict.fromkeys((name, quote(name, safe="")))]

    def replaced(text: str) -> str:
        lower = text.lower()  # To look closer takes a hundred times as long.
        return compiled.sub(mark, text) if any(hint in lower for hint in hints) else text

    return replaced


def _names() -> set[str]:
    """The user's names: by variables, by the account, and by the home folder."""
    home = Path.home()
    found = {os.environ.get(variable, "") for variable in _VARIABLES}
    with contextlib.suppress(KeyError, OSError, ImportError):
        found.add(getpass.getuser())
    if pwd is not None:
        with contextlib.suppress(KeyError, OSError):
            found.add(pwd.getpwuid(home.stat().st_uid).pw_name)
        with contextlib.suppress(KeyError):
            account = pwd.getpwuid(os.getuid())
            full = account.pw_gecos.partition(",")[0].strip()
            found |= {account.pw_name, full if " " in full and full.lower() != "root user" else ""}
    if home.parent.name.lower() in _HOMES_OF_ALL:
        found.add(home.name)
    # `CORP\ada` and `ada@corp` are ada.
    found |= {name.rpartition("\\")[2].partition("@")[0] for name in found}
    return {name for name in found if name.strip()}


def _homes(names: Iterable[str]) -> set[str]:
    """The home folders of these names, with their real paths."""
    found = {str(Path.home()), os.environ.get("USERPROFILE", "")}
    if pwd is not None:
        with contextlib.suppress(KeyError):
            found.add(pwd.getpwuid(os.getuid()).pw_dir)
        for name in names:
            with contextlib.suppress(KeyError):
                found.add(pwd.getpwnam(name).pw_dir)
    return _folders(found)


def _folders(found: Iterable[str]) -> set[str]:
    """The paths and real paths of folders, without the root and folders that everybody shares."""
    paths = {each.rstrip("/\\") for each in found if each}
    paths |= {os.path.realpath(each) for each in paths if each.startswith("/")}
    shared = _SHARED_TEMPORARY | {"/home", "/Users", "/usr", "/var", "/opt", "/mnt", "/data", "/nonexistent"}
    return {each for each in paths if len(each) > 2 and each not in shared}


def _longest_first(texts: Iterable[str]) -> list[str]:
    return sorted(texts, key=lambda text: (-len(text), text))


def _is_ordinary(name: str) -> bool:
    return (
        len(name) < _SHORTEST
        or name.isdigit()
        or name.lower() in _ORDINARY
        or keyword.iskeyword(name.lower())
        or hasattr(builtins, name.lower())
        or name.lower() in sys.stdlib_module_names
    )


def _spelled(name: str) -> str:
    return f"(?:{'|'.join(dict.fromkeys(map(re.escape, (name, quote(name, safe='')))))})"


def _any(names: Iterable[str]) -> str:
    return f"(?:{'|'.join(map(_spelled, names))})"


def _part(name: str) -> str:
    """A pattern for a name by itself or as part of a word; no further digit follows a digit at its edge."""
    before = r"(?<!\d)" if name[0].isdigit() else ""
    after = r"(?!\d)" if name[-1].isdigit() else ""
    alone = rf"{_BEFORE}{before}{_spelled(name)}{after}{_AFTER}"
    if len(name) < _SHORTEST_IN_CAPITALS or not name.isalpha():
        return alone
    # `AnnikaNet`, `annikaNet`, `netOfAnnika`: capitals set words off too.
    lower, capital = name.lower(), name.capitalize()
    return rf"{alone}|(?-i:(?:{_BEFORE}{lower}|(?<![A-Z]){capital})(?=[A-Z])|(?<=[a-z]){capital}(?![a-z]))"


def _root(folder: str) -> str:
    """A pattern for a folder at the beginning of a path, however its separators are written."""
    drive, *parts = re.split(r"[/\\]", folder)
    start = rf"(?:(?<![\w.\\-])|(?<=%[0-9A-Fa-f]{{2}})|(?<=\\[nrt])){_spelled(drive)}"
    return start + "".join(f"{_SEPARATOR}{_spelled(part)}" for part in parts) + r"(?![\w-]|\.\w)"


def _in_paths(names: list[str]) -> Redact:
    """A function that replaces ordinary words where they name a folder or somebody in an address."""
    part = re.compile("|".join(map(_part, names)), re.IGNORECASE)
    person = re.compile(rf"(?<![\w.-])~{_any(names)}(?![\w.-])|(?<![\w.+-]){_any(names)}(?=@[\w<])", re.IGNORECASE)

    def in_token(found: re.Match[str]) -> str:
        token = found[0]
        if _WEB.match(token) or not _ROOTED.search(token):
            return token
        library = _LIBRARY.search(token)
        own, rest = (token[: library.start()], token[library.start() :]) if library else (token, "")
        pieces = re.split(f"({_SEPARATOR})", own)
        if not rest and (_FILE.search(pieces[-1]) or ":" in pieces[-1]):
            return "".join(part.sub(USER, piece) for piece in pieces[:-1]) + pieces[-1]
        return "".join(part.sub(USER, piece) for piece in pieces) + rest

    return lambda text: _TOKEN.sub(
        in_token, person.sub(lambda found: found[0].replace(found[0].lstrip("~"), USER), text)
    )

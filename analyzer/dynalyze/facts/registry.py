"""PyTorch's registry of graph breaks: ids, explanations and hints, without importing torch.

Read from the installed torch where there is one; else from the copy in `data/`, which is torch 2.15's and the one id of
2.13 that it dropped (BSD-3-Clause, see LICENSES/PyTorch.txt).
"""

from __future__ import annotations

import functools
import importlib.util
import re
from pathlib import Path

import msgspec

_FILE = "graph_break_registry.json"
_COPY = Path(__file__).resolve().parents[1] / "data" / _FILE
_LINK = re.compile(r"/gb/gb(\d+)\.html")
_LITERALS = re.compile(r'"((?:[^"\\]|\\.)*)"')
_LITERAL_STARTS = ('f"', 'r"')
# What is left of an explanation that is a name or a call in PyTorch's source.
_EXPRESSION = re.compile(r"[a-z_]\w*(?:\([\w, ]*\))?")
SITE = "https://meta-pytorch.github.io/compile-graph-break-site/gb/"


class RegistryEntry(msgspec.Struct, frozen=True):
    """One id of the registry, in its newest wording; `former` are earlier gb_types of the same id."""

    gb_id: str
    gb_type: str
    explanation: str
    hints: tuple[str, ...]
    context: str = ""
    former: tuple[str, ...] = ()


class _RawEntry(
    msgspec.Struct, rename={"gb_type": "Gb_type", "context": "Context", "explanation": "Explanation", "hints": "Hints"}
):
    gb_type: str = ""
    context: str = ""
    explanation: str = ""
    hints: list[str] = []


class Registry:
    """Looks up graph breaks by id and by type."""

    def __init__(self, entries: dict[str, RegistryEntry]) -> None:
        self.entries = entries
        former = {kind: entry.gb_id for entry in entries.values() for kind in entry.former}
        self._by_type = former | {entry.gb_type: entry.gb_id for entry in entries.values()}

    def id_of(self, gb_type: str) -> str | None:
        """The id of a gb_type, former ones included; None where the registry has none."""
        return self._by_type.get(gb_type)

    def entry(self, gb_id: str) -> RegistryEntry | None:
        return self.entries.get(gb_id.upper())


@functools.cache
def newest() -> Registry:
    """The registry of the newest torch that we know."""
    return Registry(_read(_COPY))


@functools.cache
def registry(torch_folder: str = "") -> Registry:
    """The registry of the torch in `torch_folder`, of the installed one, or our copy, whichever is found first."""
    installed = importlib.util.find_spec("torch")
    folders = [Path(torch_folder)] if torch_folder else []
    folders += [Path(installed.origin).parent] if installed is not None and installed.origin else []
    for path in (*(folder / "_dynamo" / _FILE for folder in folders), _COPY):
        try:
            if path.is_file():
                return Registry(_read(path))
        except (OSError, ValueError):  # No such file, no name of a file, or no registry.
            continue
    return Registry({})


def url(gb_id: str) -> str:
    """The page of PyTorch's graph-break site on an id."""
    return f"{SITE}{gb_id.lower()}.html"


def id_in(text: str) -> str | None:
    """The id that a message of torch links to, the first one where there are several."""
    found = _LINK.search(text)
    return f"GB{found[1]}" if found else None


def _read(path: Path) -> dict[str, RegistryEntry]:
    raw = msgspec.json.decode(path.read_bytes(), type=dict[str, list[_RawEntry]])
    return {gb_id: _entry(gb_id, versions) for gb_id, versions in raw.items() if versions}


def _entry(gb_id: str, versions: list[_RawEntry]) -> RegistryEntry:
    newest = versions[0]
    former = tuple(dict.fromkeys(v.gb_type for v in versions[1:] if v.gb_type != newest.gb_type))
    hints = tuple(_text(hint) for hint in newest.hints if hint.strip())
    explanation = _text(newest.explanation)
    text = "" if _EXPRESSION.fullmatch(explanation) else explanation
    return RegistryEntry(gb_id, newest.gb_type, text, hints, newest.context, former)


def _text(scraped: str) -> str:
    """The registry is scraped from source: some texts are still Python literals in a row, with names between."""
    pieces = _LITERALS.findall(scraped) if scraped.lstrip()[:2] in _LITERAL_STARTS or scraped.startswith('"') else []
    return " ".join((" ".join(pieces) if pieces else scraped).split())

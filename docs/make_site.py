"""Writes a static site with a page for each finding, recipe and graph-break id: `make site`.

    python docs/make_site.py [FOLDER]        (default: site/)

A page says what `dynalyze rules ID` prints. Plain HTML, no script, nothing from the network.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from dynalyze.facts.registry import registry
from dynalyze.rules import catalogue
from dynalyze.rules.recipe import recipes
from dynalyze.rules.rule import rules

ROOT = Path(__file__).resolve().parents[1]
_UNWRAPPED = 1_000_000
_CODE = "    "
_LISTED = re.compile(r"  (\S+) +(.+)")
_MARKED = re.compile(r"(?P<code>`[^`]+`)|(?P<id>\bGB\d{4}\b)|(?P<url>https://\S+)")


class Block(NamedTuple):
    """A part of a page: `kind` is heading, text, code, list, or entries (of id and title)."""

    kind: str
    text: str = ""
    items: tuple[tuple[str, str], ...] = ()


def file_of(rule_id: str) -> str:
    return f"{rule_id.lower()}.html"


def blocks(text: str) -> Iterator[Block]:
    """What an entry of the catalogue is made of, but for its title."""
    lines = text.rstrip().splitlines()[1:]
    while lines:
        line = lines[0]
        starts = _CODE if line.startswith(_CODE) else "- " if line.startswith("- ") else "  "
        if not line or not line.startswith(starts):
            kind = "heading" if line.endswith(":") and len(line) < 40 else "text"
            if line:
                yield Block(kind, line.removesuffix(":") if kind == "heading" else line)
            lines.pop(0)
            continue
        end = next((at for at, each in enumerate(lines) if each and not each.startswith(starts)), len(lines))
        taken, lines = lines[:end], lines[end:]
        if starts == _CODE:
            yield Block("code", "\n".join(each.removeprefix(_CODE) for each in taken).rstrip())
        elif starts == "- ":
            yield Block("list", items=tuple(("", each.removeprefix("- ")) for each in taken if each))
        else:
            yield Block(
                "entries", items=tuple((found[1], found[2]) for each in taken if (found := _LISTED.match(each)))
            )


def linked(text: str) -> Markup:
    """A sentence with its code, ids and addresses marked."""

    def marked(found: re.Match[str]) -> str:
        if found["code"]:
            return str(Markup("<code>{}</code>").format(found["code"].strip("`")))
        if found["id"] and registry().entry(found["id"]) is None:
            return str(escape(found["id"]))
        if found["id"]:
            return str(Markup('<a href="{}">{}</a>').format(file_of(found["id"]), found["id"]))
        return str(Markup('<a href="{0}">{0}</a>').format(found["url"]))

    parts, last = [], 0
    for found in _MARKED.finditer(text):
        parts += [str(escape(text[last : found.start()])), marked(found)]
        last = found.end()
    return Markup("".join([*parts, str(escape(text[last:]))]))


def groups() -> list[tuple[str, list[tuple[str, str]]]]:
    """Everything that has a page: id and title."""
    return [
        ("Findings", [(rule_id, rule.title) for rule in rules() for rule_id in rule.ids]),
        ("Recipes", [(recipe.id, recipe.title) for recipe in recipes()]),
        ("PyTorch's graph breaks", sorted((each.gb_id, each.gb_type) for each in registry().entries.values())),
    ]


def write(folder: Path) -> None:
    """The whole site."""
    environment = Environment(
        loader=FileSystemLoader(ROOT / "reports" / "templates"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {"linked": linked, "file_of": file_of}
    template, listed = environment.get_template("site.html.jinja"), groups()
    folder.mkdir(parents=True, exist_ok=True)
    index = [
        block for title, entries in listed for block in (Block("heading", title), Block("entries", "", tuple(entries)))
    ]
    (folder / "index.html").write_text(template.render(title="What dynalyze finds", blocks=index), encoding="utf-8")
    for rule_id in {entry[0] for _, entries in listed for entry in entries}:
        text = catalogue.entry(rule_id, _UNWRAPPED)
        assert text is not None, rule_id
        page = template.render(title=text.partition("\n")[0], blocks=list(blocks(text)))
        (folder / file_of(rule_id)).write_text(page, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "site")

"""The static site of `make site`: a page for each id, complete, with links that lead somewhere."""

from __future__ import annotations

import html
import re
import runpy
from pathlib import Path

from dynalyze.rules.catalogue import entry, known_ids


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text))


def test_each_id_has_a_page_that_says_what_the_command_prints(tmp_path: Path) -> None:
    runpy.run_path(str(Path(__file__).resolve().parents[2] / "docs" / "make_site.py"))["write"](tmp_path)
    pages = {page.name: page.read_text(encoding="utf-8") for page in tmp_path.iterdir()}
    ids = set(known_ids())
    assert set(pages) == {"index.html", *(f"{rule_id.lower()}.html" for rule_id in ids)}
    for text in pages.values():
        local = [link for link in re.findall(r'href="([^"]+)"', text) if not link.startswith("https://")]
        assert set(local) <= set(pages)
    for rule_id in ids:
        shown = html.unescape(re.sub(r"<[^>]+>", " ", pages[f"{rule_id.lower()}.html"]))
        assert words(entry(rule_id) or "") <= words(shown), rule_id

"""The documents and the site: links lead somewhere, commands and options exist, generated pages are what the code says,
and they stay readable.
"""

from __future__ import annotations

import html
import json
import re
import runpy
import shlex
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from dynalyze.cli.group import group
from dynalyze.doctor.checks import CHECKS
from dynalyze.report.document import to_json
from dynalyze.rules.catalogue import entry, known_ids
from sample_reports import measured_report, rich_report

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
RESULTS = sorted((ROOT / "benchmarks" / "results").glob("*.md"))
MOST_WORDS = 26_000
# The package index shows the README, so its links name the repository.
_OURS = re.compile(r"https://(?:github.com/dynalyze/dynalyze/blob|raw.githubusercontent.com/dynalyze/dynalyze)/main/")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
# Prompts of YAML and of shells before a command, and a command over several lines, which a `>` folds.
_FOLDED = re.compile(r"run: >\n(?P<lines>(?: {10}.*\n)+)")
_COMMAND = re.compile(r"^\s*(?:- )*(?:run: |entry: |\$ )?(dynalyze (?!--)[a-z].*)$", re.MULTILINE)
_INLINE = re.compile(r"`(dynalyze [a-z]+ [^`]*[a-z0-9])`")
_BLOCK = re.compile(r"```\w*\n(.*?)```", re.DOTALL)


def links(page: Path) -> list[str]:
    return _LINK.findall(_CODE.sub("", page.read_text(encoding="utf-8")))


def leads_somewhere(link: str, page: Path) -> bool:
    below = ROOT if _OURS.match(link) else page.parent
    path, _, anchor = _OURS.sub("", link).partition("#")
    if path.startswith(("http:", "https:")):
        return True
    target = below / path if path else page
    if not anchor or not target.exists():
        return target.exists()
    headings = re.findall(r"^#+ (.+)$", target.read_text(encoding="utf-8"), re.MULTILINE)
    return anchor in {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}  # As GitHub does.


@pytest.mark.parametrize("page", [*PAGES, *RESULTS], ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    assert [link for link in links(page) if not leads_somewhere(link, page)] == []


def test_links_work_on_the_package_index_and_the_index_leads_to_every_page() -> None:
    assert all(link.startswith("https://") for link in links(ROOT / "README.md"))
    assert set(DOCS.glob("*/*.md")) <= {(DOCS / link).resolve() for link in links(DOCS / "README.md")}


def test_the_reference_is_what_the_code_says() -> None:
    """`make docs` writes it."""
    assert runpy.run_path(str(DOCS / "make_reference.py"))["stale"]() == []


def test_a_report_is_what_the_schema_says() -> None:
    schema = Draft202012Validator(json.loads((DOCS / "reference" / "report.schema.json").read_text()))
    for report in (rich_report(), measured_report()):
        assert [error.message for error in schema.iter_errors(json.loads(to_json(report)))] == []


def test_they_stay_readable() -> None:
    assert sum(len(page.read_text(encoding="utf-8").split()) for page in PAGES) <= MOST_WORDS


def commands(page: Path) -> list[str]:
    """Each command of a page, in a block or a sentence, on one line."""
    text = page.read_text(encoding="utf-8")
    blocks = "\n".join(_BLOCK.findall(text))
    folded = _FOLDED.sub(lambda found: f"run: {' '.join(found['lines'].split())}\n", blocks)
    return [*_COMMAND.findall(folded), *(" ".join(each.split()) for each in _INLINE.findall(_BLOCK.sub("", text)))]


def test_there_are_commands_of_each_kind() -> None:
    named = {command.split()[1] for page in PAGES for command in commands(page)}
    assert set(group.list_commands(group.make_context("dynalyze", [], resilient_parsing=True))) - {"mcp"} <= named


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_command_is_understood(page: Path) -> None:
    for command in commands(page):
        _, name, *arguments = shlex.split(command, comments=True)
        found = group.get_command(group.make_context("dynalyze", [], resilient_parsing=True), name)
        assert found is not None, command
        found.make_context(name, [each for each in arguments if each != "..."])  # Raises for an option not there.


def test_the_doctor_is_told_whole() -> None:
    text = (ROOT / "docs" / "how-to" / "ci.md").read_text(encoding="utf-8").partition("## dynalyze doctor")[2]
    assert set(CHECKS) <= set(re.findall(r"^\| ([^|]+?) \|", text, re.MULTILINE))


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

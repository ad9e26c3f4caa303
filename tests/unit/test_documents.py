"""The documents: every link leads somewhere, generated pages are what the code says, and they stay readable."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from dynalyze.report.document import to_json
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

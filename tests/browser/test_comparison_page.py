"""The page of `dynalyze diff` in a real browser: it is searched, stepped through, linked to and printed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

pytestmark = pytest.mark.browser

Opener = Callable[..., Page]


@pytest.fixture
def compared(quiet_page: Opener, saved: Callable[[str], str]) -> Opener:
    """Opens the comparison of two samples, at a fragment."""
    return lambda fragment="", **options: quiet_page(saved("compared") + fragment, **options)


def focused(page: Page) -> str:
    return str(page.evaluate("document.activeElement.id"))


def test_what_got_worse_leads_to_where_it_is_shown(compared: Opener) -> None:
    page = compared()
    worse = page.get_by_role("list", name="What got worse").get_by_role("link")
    anchors = worse.evaluate_all("links => links.map((link) => link.hash)")
    assert len(anchors) == len(set(anchors)) == 3
    worse.first.click()
    assert page.locator("article:target").get_attribute("aria-label") == "New: graph break at …/work/ranker/model.py:45"
    worse.last.click()
    assert "history" in page.locator("tr:target").inner_text()


def test_the_search_opens_what_is_folded_and_hides_the_rest(compared: Opener) -> None:
    page = compared()
    folded = page.locator("details.fold")
    assert not folded.locator(".break").first.is_visible()
    page.keyboard.press("/")
    page.keyboard.type("attention.py:217")
    assert page.locator(".break:visible").count() == 1
    assert folded.locator(".break:visible").count() == 1
    assert not page.locator("#recompiles").is_visible()
    page.keyboard.press("Escape")
    assert page.locator("#recompiles").is_visible()
    assert focused(page) != "filter"


def test_j_and_k_go_through_the_breaks_and_the_question_mark_tells(compared: Opener) -> None:
    page = compared()
    page.keyboard.press("j")
    assert focused(page).startswith("new-break")
    page.keyboard.press("j")
    assert focused(page).startswith("worse-break")
    page.keyboard.press("k")
    assert focused(page).startswith("new-break")
    page.keyboard.press("?")
    assert "next and previous graph break" in page.get_by_role("dialog", name="Keys").inner_text()


def test_every_row_and_break_has_a_link_of_its_own(compared: Opener) -> None:
    page = compared()
    parts = page.locator(".break, #recompiles tbody tr, #compilations tbody tr")
    links = parts.evaluate_all(
        "found => found.map((part) => part.querySelector('.permalink').hash.slice(1) === part.id)"
    )
    assert len(links) > 10 and all(links)


def test_a_link_to_a_folded_break_opens_it(compared: Opener) -> None:
    page = compared("#unchanged-break-attention-py-217")
    assert page.locator("article:target").is_visible()


def test_the_tables_sort(compared: Opener) -> None:
    page = compared()
    results = page.locator("#recompiles tbody tr td:first-child")
    before = results.all_inner_texts()
    page.locator("#recompiles").get_by_role("button", name="Result").click()
    assert results.all_inner_texts() == sorted(before, key=lambda text: text.split()[-1])


def test_paper_shows_what_is_folded_and_no_controls(compared: Opener) -> None:
    page = compared(color_scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.locator("details.fold .break").last.is_visible()
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(32, 36, 42)"
    for control in ("#filter", "#help", "#theme", ".contents", ".permalink", ".fold > summary"):
        assert not page.locator(control).first.is_visible()


def test_axe_finds_no_violation_in_what_is_folded_either(compared: Opener) -> None:
    page = compared(bypass_csp=True)
    page.evaluate("document.querySelectorAll('details').forEach((element) => { element.open = true; })")
    found = Axe().run(page).response["violations"]
    assert [(each["id"], each["nodes"][0]["html"][:200]) for each in found] == []

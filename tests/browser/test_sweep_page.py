"""The index of a sweep in a real browser: it sorts and filters, leads everywhere, and is whole without JavaScript."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page
from test_page import assert_fits, assert_readable, lost_links

import sample_sweeps
from dynalyze.sweep.pages import render_diff, render_sweep
from sample_sweeps import upgraded

pytestmark = pytest.mark.browser

SWEEPS = {
    "small": sample_sweeps.small_sweep,
    "matrix": sample_sweeps.matrix_sweep,
    "hostile": sample_sweeps.hostile_sweep,
    "empty": sample_sweeps.empty_sweep,
    "large": sample_sweeps.large_sweep,
}
NAMES = (*SWEEPS, "compared")

Opener = Callable[..., Page]


def html(name: str) -> str:
    if name == "compared":
        return render_diff(upgraded())
    return render_sweep(SWEEPS[name]())


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages of all sweeps, with the report that one of their rows leads to."""
    folder = tmp_path_factory.mktemp("sweeps")
    for name in NAMES:
        (folder / f"{name}.html").write_text(html(name), encoding="utf-8")
    (folder / "reports").mkdir()
    (folder / "reports" / "LlamaModel-default.html").write_text("<title>The report of LlamaModel</title>")
    return folder


@pytest.fixture
def open_page(quiet_page: Opener, pages: Path) -> Opener:
    """Opens the page of a sweep; it may ask for the report that it leads to."""
    return lambda name, **options: quiet_page((pages / f"{name}.html").as_uri(), pages.as_uri(), **options)


def targets(page: Page) -> list[str]:
    """The names in the table of items that can be seen, from top to bottom."""
    names = page.locator("#items-table tbody tr:visible th").all_inner_texts()
    return [name.removeprefix("hf:") for name in names]


def sort_by(page: Page, name: str) -> str | None:
    page.locator("#items-table").get_by_role("button", name=name).click()
    return page.locator("#items-table").get_by_role("columnheader", name=name).get_attribute("aria-sort")


@pytest.mark.parametrize("name", NAMES)
def test_a_page_is_quiet_and_as_wide_as_the_screen_and_its_links_lead_somewhere(open_page: Opener, name: str) -> None:
    page = open_page(name)
    assert lost_links(page) == []
    assert_fits(page, (1280, 375))


@pytest.mark.parametrize("name", ["small", "matrix", "compared"])
def test_all_text_has_enough_contrast(open_page: Opener, name: str) -> None:
    assert_readable(open_page(name))


def test_hostile_text_does_nothing(open_page: Opener) -> None:
    page = open_page("hostile")
    assert page.evaluate("window.pwned") is None
    assert page.locator("main img").count() == 0
    assert page.evaluate("document.querySelectorAll('script').length") == 2
    page.locator("#items-table").get_by_role("button", name="Status").click()
    page.locator("#items-filter").fill("<script>")
    assert page.locator("#items-table tbody tr:visible").count() == 2
    assert page.evaluate("window.pwned") is None


def test_everything_can_be_read_without_javascript(open_page: Opener) -> None:
    page = open_page("small", java_script_enabled=False)
    assert "2 of 8 models compiled as one graph" in page.locator("h1").inner_text()
    assert targets(page)[0] == "LlamaModel"
    assert len(targets(page)) == 8
    for control in ("#items-controls", "#items-filter", "#theme"):
        assert not page.locator(control).is_visible()
    assert page.locator("#items-table thead button").count() == 0
    more = page.locator("#item-LlamaModel summary")
    more.click()
    assert page.get_by_text("graph break in loop").last.is_visible()


def test_columns_sort_by_number_and_by_text(open_page: Opener) -> None:
    page = open_page("small")
    assert sort_by(page, "Breaks") == "descending"
    assert targets(page)[0] in ("LlamaModel", "ReformerModel")
    assert sort_by(page, "Recompiles") == "descending"
    assert targets(page)[0] == "GPT2Model"
    assert sort_by(page, "Recompiles") == "ascending"
    assert targets(page)[-1] == "GPT2Model"
    assert sort_by(page, "Target") == "ascending"
    assert targets(page) == sorted(targets(page), key=str.lower)
    assert page.locator("#items-table [aria-sort]").count() == 1
    assert sort_by(page, "Target") == "descending"
    assert targets(page) == sorted(targets(page), key=str.lower, reverse=True)


def test_times_sort_by_length_not_by_their_words(open_page: Opener) -> None:
    page = open_page("large")
    assert sort_by(page, "Time") == "descending"
    seconds = page.locator("#items-table tbody td:last-child").evaluate_all(
        "cells => cells.map((cell) => Number(cell.dataset.value))"
    )
    assert len(seconds) == 200
    assert seconds == sorted(seconds, reverse=True)


def test_what_has_no_speedup_sorts_last_either_way(open_page: Opener) -> None:
    page = open_page("matrix")
    cells = page.locator("#items-table tbody td[data-value]:has-text('default:'), #items-table td[data-value='']")
    for _ in range(2):
        sort_by(page, "Speedup")
        assert cells.last.get_attribute("data-value") == ""


def test_the_filter_counts_what_it_shows(open_page: Opener) -> None:
    page = open_page("small")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "items-filter"
    assert page.locator("#items-table").evaluate("table => table.getBoundingClientRect().top") < 400
    page.keyboard.type("llama")
    assert targets(page) == ["LlamaModel", "LlamaForCausalLM"]
    assert page.get_by_role("status").inner_text() == "2 of 8 shown"
    page.locator("#items-filter").fill("generic.py:123 reformer")
    assert targets(page) == ["ReformerModel"]
    page.locator("#items-filter").fill("no such thing")
    assert targets(page) == []
    assert page.locator("#items-none").is_visible()
    page.keyboard.press("Escape")
    assert len(targets(page)) == 8
    assert page.evaluate("document.activeElement.id") != "items-filter"


def test_statuses_are_buttons_that_add_up(open_page: Opener) -> None:
    page = open_page("small")
    statuses = page.get_by_role("group", name="Show only")
    compile_error = statuses.get_by_role("button", name="compile error")
    compile_error.click()
    assert compile_error.get_attribute("aria-pressed") == "true"
    assert targets(page) == ["UdopModel"]
    statuses.get_by_role("button", name="one graph").click()
    assert targets(page) == ["UdopModel", "BertModel", "GPT2Model"]
    assert page.get_by_role("status").inner_text() == "3 of 8 shown"
    page.locator("#items-filter").fill("bert")
    assert targets(page) == ["BertModel"]
    compile_error.click()
    assert compile_error.get_attribute("aria-pressed") == "false"
    assert targets(page) == ["BertModel"]


def test_sorting_keeps_what_is_filtered(open_page: Opener) -> None:
    page = open_page("small")
    page.locator("#items-filter").fill("llama")
    sort_by(page, "Target")
    assert targets(page) == ["LlamaForCausalLM", "LlamaModel"]


def test_a_line_leads_to_its_model_even_where_that_is_filtered(open_page: Opener) -> None:
    page = open_page("small")
    page.locator("#items-filter").fill("bert")
    page.locator("#lines").get_by_role("link", name="ReformerModel").first.click()
    page.locator("#item-ReformerModel").wait_for()
    assert page.locator("tr:target th").inner_text() == "hf:ReformerModel"
    assert page.locator("#item-ReformerModel").evaluate("row => row.getBoundingClientRect().top") < 800


def test_a_row_leads_to_its_line_and_opens_what_that_stands_in(open_page: Opener) -> None:
    page = open_page("small")
    page.locator("#item-ReformerModel summary").click()
    page.locator("#item-ReformerModel li").get_by_role("link").click()
    assert page.locator("tr:target").is_visible()
    assert "modeling_reformer.py:270" in page.locator("tr:target").inner_text()


def test_a_row_opens_its_own_report(open_page: Opener) -> None:
    page = open_page("small")
    page.locator("#item-LlamaModel th a").click()
    page.wait_for_url("**/reports/LlamaModel-default.html")
    assert page.title() == "The report of LlamaModel"


def test_every_row_has_a_link_of_its_own(open_page: Opener) -> None:
    for name, rows in (("small", "#items, #causes, #errors"), ("compared", "#lines, #items")):
        page = open_page(name)
        links = (
            page.locator(rows)
            .locator("tbody tr")
            .evaluate_all("found => found.map((row) => row.querySelector('.permalink').hash.slice(1) === row.id)")
        )
        assert len(links) > 5 and all(links)
    page.locator("#item-GPT2Model .permalink").click()
    assert page.locator("tr:target th").inner_text().startswith("hf:GPT2Model")


def test_j_and_k_go_through_the_lines_and_the_question_mark_tells(open_page: Opener) -> None:
    page = open_page("large")
    lines = page.locator("#lines .break").evaluate_all("found => found.map((line) => line.id)")
    for key, line in (("j", lines[0]), ("j", lines[1]), ("k", lines[0])):
        page.keyboard.press(key)
        assert page.evaluate("document.activeElement.id") == line
    page.keyboard.press("?")
    assert "search the models" in page.get_by_role("dialog", name="Keys").inner_text()


def test_a_comparison_is_searched_as_a_whole(open_page: Opener) -> None:
    page = open_page("compared")
    page.keyboard.press("/")
    page.keyboard.type("gpt2")
    assert page.locator("tbody tr:visible th").all_inner_texts() == ["hf:GPT2Model #"]
    assert not page.locator("#lines").is_visible()
    page.keyboard.press("Escape")
    assert page.locator("#lines").is_visible()
    page.locator("#new-lines + p + .scroll summary").click()
    page.locator("#lines").get_by_role("link", name="hf:BertModel").click()
    assert page.locator("tr:target th").inner_text().startswith("hf:BertModel")


@pytest.mark.parametrize("name, scheme", [("small", "dark"), ("compared", "light")])
def test_axe_finds_no_violation(open_page: Opener, name: str, scheme: str) -> None:
    page = open_page(name, color_scheme=scheme, bypass_csp=True)
    page.evaluate("document.querySelectorAll('details').forEach((element) => { element.open = true; })")
    found = Axe().run(page).response["violations"]
    assert [(each["id"], each["nodes"][0]["html"][:200]) for each in found] == []


def test_paper_shows_what_is_folded(open_page: Opener) -> None:
    page = open_page("small")
    folded = page.locator("#following-lines ~ details tbody tr, #item-LlamaModel li")
    assert not any(each.is_visible() for each in folded.all())
    page.emulate_media(media="print")
    assert folded.count() > 1 and all(each.is_visible() for each in folded.all())


def test_print_is_light_and_without_controls(open_page: Opener) -> None:
    page = open_page("small", color_scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(32, 36, 42)"
    for control in ("#items-controls", "#theme", ".contents"):
        assert not page.locator(control).is_visible()
    assert len(page.pdf()) > 10_000

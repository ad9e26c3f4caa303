"""The page inside of a notebook's: all of it works in its frame, and neither takes a key or a style from the other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import FrameLocator, Page

from dynalyze.recording.recorder import framed
from sample_reports import rich_report

pytestmark = pytest.mark.browser

NOTEBOOK = """<!DOCTYPE html><meta charset="utf-8"><title>A notebook</title><h1>A notebook</h1><div id="output">{}</div>
<script>window.keys = []; document.addEventListener("keydown", (event) => window.keys.push(event.key));</script>"""


@pytest.fixture
def notebook(quiet_page: Callable[..., Page], tmp_path: Path) -> Page:
    """A page with the report in it."""
    file = tmp_path / "notebook.html"
    file.write_text(NOTEBOOK.format(framed(rich_report())), encoding="utf-8")
    return quiet_page(file.as_uri(), viewport={"width": 1280, "height": 900})


def report(page: Page) -> FrameLocator:
    return page.frame_locator("iframe")


def focused(page: Page) -> str:
    return str(report(page).locator("body").evaluate("() => document.activeElement.id"))


def test_the_frame_shows_the_page_and_hides_the_summary(notebook: Page) -> None:
    assert "6 graph breaks" in report(notebook).locator("h1").inner_text()
    box = notebook.locator("iframe").bounding_box()
    assert box is not None and box["width"] > 1200 and 500 < box["height"] < 900
    assert not notebook.locator(".dynalyze-plain").is_visible()


def test_links_stay_in_the_frame(notebook: Page) -> None:
    address = notebook.url
    report(notebook).locator('.contents a[href="#recompiles"]').click()
    heading = report(notebook).locator("#recompiles-heading")
    heading.evaluate("(found) => new Promise((done) => setTimeout(done, 50))")
    assert 0 <= heading.evaluate("(found) => found.getBoundingClientRect().top") < 640
    assert notebook.url == address
    assert report(notebook).locator("h1").count() == 1


def test_keys_act_where_they_are_pressed(notebook: Page) -> None:
    notebook.locator("h1").first.click()
    for key in "/j?":
        notebook.keyboard.press(key)
    assert focused(notebook) == ""
    assert notebook.evaluate("window.keys") == ["/", "j", "?"]
    report(notebook).locator("h1").click()
    notebook.keyboard.press("/")
    assert focused(notebook) == "filter"
    notebook.keyboard.type("logger")
    assert report(notebook).locator(".break:visible").count() == 1
    notebook.keyboard.press("Escape")
    notebook.keyboard.press("j")
    assert focused(notebook) == "fix-1"
    assert notebook.evaluate("window.keys") == ["/", "j", "?"]


def test_the_theme_changes_the_frame_alone(notebook: Page) -> None:
    def colour(place: Page | FrameLocator) -> str:
        return str(place.locator("body").evaluate("(body) => getComputedStyle(body).backgroundColor"))

    outside, inside = colour(notebook), colour(report(notebook))
    report(notebook).get_by_role("button", name="Dark mode").click()
    assert colour(report(notebook)) != inside
    assert colour(notebook) == outside


def test_the_report_cannot_reach_the_notebook(notebook: Page) -> None:
    reached = (
        report(notebook)
        .locator("body")
        .evaluate("() => { try { return parent.document.title; } catch (error) { return error.name; } }")
    )
    assert reached == "SecurityError"

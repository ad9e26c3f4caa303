"""A real Chromium for the tests of the page."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))  # sample_reports, limits

from limits import WALL_SECONDS

_NAMES = ("chromium", "chromium-browser", "google-chrome")
SCREEN = {"width": 1280, "height": 720}
WATCH = """
window.violations = [];
addEventListener("securitypolicyviolation", (event) => window.violations.push(event.violatedDirective));
"""


@pytest.fixture(scope="session")
def browser() -> Iterator[object]:
    """The system's Chromium. Without one the tests are skipped, unless DYNALYZE_REQUIRE_BROWSER=1."""
    found = next((path for name in _NAMES if (path := shutil.which(name))), None)
    if found is None:
        reason = f"no Chromium found (looked for {', '.join(_NAMES)})"
        if os.environ.get("DYNALYZE_REQUIRE_BROWSER") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """The file address of a sample's page: a report, or a comparison of two."""
    import sample_reports
    from dynalyze.render import html

    def render(name: str) -> str:
        if name.startswith("compared"):
            return html.render_comparison(getattr(sample_reports, name)())
        return html.render(getattr(sample_reports, f"{name}_report")())

    folder = tmp_path_factory.mktemp("pages")

    def save(name: str) -> str:
        file = folder / f"{name}.html"
        if not file.exists():
            file.write_text(render(name), encoding="utf-8")
        return file.as_uri()

    return save


class Tab:
    """A page that stays open for the next test with its options: an address in it costs a quarter of a new page's."""

    def __init__(self, browser: Any, options: dict[str, Any]) -> None:
        self.context = browser.new_context(**options)
        self.context.set_default_timeout(WALL_SECONDS * 1000)
        self.context.add_init_script(WATCH)
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(f"console: {message.text}"))
        self.page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        self.page.on("request", lambda request: self.asked.append(request.url))

    def leave(self, allowed: tuple[str, ...]) -> list[str]:
        """Leave the page that is shown, and give what was wrong with it: said, asked for beside `allowed`, blocked."""
        blocked, kept = [], True
        try:
            blocked, kept = self.page.evaluate("[window.violations ?? [], localStorage.length]")
        finally:
            self.context.close() if kept else self.page.goto("about:blank")
        other = [url for url in self.asked if not url.startswith(allowed)]
        troubles = [*self.said, *other, *blocked]
        self.said.clear()
        self.asked.clear()
        return troubles


@pytest.fixture(scope="session")
def tabs(browser: Any) -> Callable[..., Tab]:
    """The tab with these options of a context: one that kept nothing of the page before."""
    opened: dict[str, Tab] = {}

    def tab(**options: Any) -> Tab:
        key = repr(options)
        if key not in opened or opened[key].page.is_closed():
            opened[key] = Tab(browser, options)
        return opened[key]

    return tab


@pytest.fixture
def quiet_page(tabs: Callable[..., Tab]) -> Iterator[Callable[..., Any]]:
    """Opens a file's address. Afterwards: it asked for nothing else, said nothing on the console, blocked nothing.

    `within` is what it may ask for beside itself. The page that was opened before in the same test is left.
    """
    open_now: list[tuple[Tab, str]] = []
    troubles: list[str] = []

    def leave() -> None:
        while open_now:
            tab, within = open_now.pop()
            troubles.extend(tab.leave((within, "data:", "blob:")))

    def open_it(
        address: str, within: str = "", *, viewport: Any = SCREEN, color_scheme: Any = "light",
        reduced_motion: Any = "reduce", **options: Any,
    ) -> Any:  # fmt: skip
        leave()
        tab = tabs(**options)
        tab.page.set_viewport_size(viewport)
        tab.page.emulate_media(media="screen", color_scheme=color_scheme, reduced_motion=reduced_motion)
        tab.page.mouse.move(0, 0)
        open_now.append((tab, within or address.partition("#")[0]))
        tab.page.goto(address)
        return tab.page

    yield open_it
    leave()
    assert troubles == []

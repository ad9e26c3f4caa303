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


@pytest.fixture
def quiet_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens a file's address in a new page. Afterwards: it asked for nothing else, and said nothing on the console."""
    contexts, troubles = [], []

    def open_it(address: str, **options: Any) -> Any:
        context = browser.new_context(reduced_motion="reduce", **options)
        context.set_default_timeout(WALL_SECONDS * 1000)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: troubles.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: troubles.append(f"error: {error}"))
        page.on("request", lambda request: troubles.append(request.url) if _is_other(request.url, address) else None)
        page.goto(address)
        return page

    yield open_it
    for context in contexts:
        context.close()
    assert troubles == []


def _is_other(url: str, address: str) -> bool:
    return not url.startswith((address.partition("#")[0], "data:", "blob:"))

"""How large the page of a big report is, and how long Chromium takes to show it.

    python benchmarks/page.py [--breaks 500] [--recompiles 2000] [--graphs 300]
    python benchmarks/page.py --page FILE.html

Without --page the report is made of hand-built facts with code, kernels and lines of source, as large as real ones are.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "unit"))

from dynalyze.render.html import render
from large_report import large_report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, number in (("breaks", 500), ("recompiles", 2000), ("graphs", 300)):
        parser.add_argument(f"--{name}", type=int, default=number)
    parser.add_argument("--page", type=Path, help="open this page instead")
    asked = parser.parse_args()
    if asked.page:
        print(f"page: {asked.page.stat().st_size / 1e6:.2f} MB")
        tell(opened(asked.page.resolve()))
        return
    report = large_report(asked.breaks, asked.recompiles, asked.graphs)
    began = time.perf_counter()
    html = render(report)
    print(f"page: {len(html.encode()) / 1e6:.2f} MB, written in {time.perf_counter() - began:.2f} s")
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        page.write_text(html, encoding="utf-8")
        tell(opened(page))


def tell(times: list[float]) -> None:
    print(f"opens in {statistics.median(times):.2f} s (median of {len(times)}; {min(times):.2f} to {max(times):.2f})")


def opened(page: Path, rounds: int = 5) -> list[float]:
    """Seconds from the request to the end of the load event, in fresh tabs of the system's Chromium."""
    from playwright.sync_api import sync_playwright

    found = next(path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name)))
    times = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        for _ in range(rounds):
            tab = browser.new_page(viewport={"width": 1280, "height": 800})
            tab.goto(page.as_uri())
            times.append(tab.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd / 1000"))
            tab.close()
        browser.close()
    return times


if __name__ == "__main__":
    main()

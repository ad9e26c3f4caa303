"""The page in a real browser: it works, it is quiet, and nothing a run wrote can act in it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from msgspec.structs import replace
from playwright.sync_api import Browser, Page
from program import dynalyze
from shared_runs import made_once

pytestmark = pytest.mark.browser

BREAKS = Path(__file__).parents[2] / "samples" / "breaks.py"
NAMES = ("rich", "clean", "empty", "hostile", "measured", "benched", "fixed", "compared", "compared_hostile")

# The lowest contrast of any text with the nearest opaque background behind it, as [ratio, text, colours].
CONTRAST = """
() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = (colour) => {
    const parts = rgba(colour).slice(0, 3).map((value) => {
      const share = value / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (rgba(colour)[3] === 255) return colour;
    }
    return "white";
  };
  const faded = (element) => {
    for (let at = element; at; at = at.parentElement) {
      if (Number(getComputedStyle(at).opacity) < 1) return true;
    }
    return false;
  };
  document.querySelectorAll("details").forEach((element) => { element.open = true; });
  let worst = [99, "", ""];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.checkVisibility()) continue;
    const [text, back] = [getComputedStyle(element).color, behind(element)];
    const [dark, bright] = [light(text), light(back)].sort((one, other) => one - other);
    const ratio = faded(element) ? 0 : (bright + 0.05) / (dark + 0.05);
    if (ratio < worst[0]) worst = [ratio, walker.currentNode.data, `${text} on ${back}`];
  }
  return worst;
}
"""

Opener = Callable[..., Page]


@pytest.fixture
def open_page(quiet_page: Opener, saved: Callable[[str], str]) -> Opener:
    """Opens a sample page, at a fragment, as a reader who has not asked for less motion."""

    def open_it(name: str, fragment: str = "", **options: Any) -> Page:
        return quiet_page(saved(name) + fragment, **{"reduced_motion": "no-preference", **options})

    return open_it


@pytest.fixture
def planted(quiet_page: Opener, tmp_path_factory: pytest.TempPathFactory) -> Page:
    """The page of a real run of a sample with planted faults, on a first screen of 1280 x 800."""

    def run(folder: Path) -> str:
        file, root = folder / "page.html", BREAKS.parents[1]
        assert dynalyze("explain", BREAKS.relative_to(root), "--html", file, cwd=root).status == 0
        return file.as_uri()

    return quiet_page(made_once(tmp_path_factory, "planted", run), viewport={"width": 1280, "height": 800})


def assert_fits(page: Page, widths: tuple[int, ...]) -> None:
    """With all that is folded open, nothing is wider than the page; what is scrolls in a box of its own."""
    page.evaluate("document.querySelectorAll('details').forEach((element) => { element.open = true; })")
    for width in widths:
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        cut = page.evaluate(
            """() => [...document.querySelectorAll("main *")]
                .filter((element) => element.getBoundingClientRect().right > innerWidth + 1)
                .filter((element) => element.checkVisibility() && !element.closest(".code, .scroll, pre, .sr"))
                .map((element) => element.outerHTML.slice(0, 80))"""
        )
        assert cut == []


def lost_links(page: Page) -> list[str]:
    """The links within the page that lead nowhere."""
    lost: list[str] = page.evaluate(
        """() => [...document.querySelectorAll('a[href^="#"]')].map((link) => link.getAttribute("href").slice(1))
            .filter((anchor) => !document.getElementById(anchor))"""
    )
    return lost


def assert_readable(page: Page) -> None:
    """All text stands out from what is behind it, in both themes."""
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        ratio, text, colours = page.evaluate(CONTRAST)
        assert ratio >= 4.5, f"{scheme}, {text!r}: {colours}"


def covered_labels(page: Page) -> list[list[str]]:
    """The labels of drawings that lie over each other."""
    covered: list[list[str]] = page.evaluate(
        """() => [...document.querySelectorAll(".figure svg")].flatMap((svg) => {
            const texts = [...svg.querySelectorAll("text.name, text.note, text.tick")];
            const boxes = texts.map((text) => [text.textContent, text.getBoundingClientRect()]);
            return boxes.flatMap(([one, a], at) => boxes.slice(at + 1).filter(([, b]) =>
                a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 4 && b.top < a.bottom - 4
            ).map(([other]) => [one, other]));
        })"""
    )
    return covered


@pytest.mark.parametrize("name", NAMES)
def test_a_page_is_quiet_readable_and_as_wide_as_the_screen_and_its_links_lead_somewhere(
    open_page: Opener, name: str
) -> None:
    page = open_page(name)
    assert lost_links(page) == []
    assert covered_labels(page) == []
    assert_readable(page)
    assert_fits(page, (1280, 768, 375))


@pytest.fixture
def twenty(quiet_page: Opener, tmp_path: Path) -> Page:
    """The page of twenty findings, each about a graph break, with as many recompiles and twice as many graphs."""
    from dynalyze.render.html import render
    from large_report import large_report

    report = large_report(breaks=20, recompiles=20, graphs=40)
    report.findings = [replace(each, title=f"{each.title}, {at}") for at, each in enumerate(report.findings)]
    report.sources[0].lines = report.sources[0].lines[:300]
    file = tmp_path / "page.html"
    file.write_text(render(report), encoding="utf-8")
    return quiet_page(file.as_uri())


def test_twenty_findings_make_a_page_that_is_no_higher_than_it_has_to_be(twenty: Page) -> None:
    assert twenty.locator(".card").count() == 20
    assert twenty.evaluate("document.documentElement.scrollHeight") <= 18_000


def test_no_code_is_cut(twenty: Page) -> None:
    """With all open, code is as wide as its box, or the box scrolls, on a desktop and on a phone."""
    twenty.evaluate("document.querySelectorAll('details').forEach((element) => { element.open = true; })")
    for width in (1280, 390):
        twenty.set_viewport_size({"width": width, "height": 800})
        cut = twenty.evaluate(
            """() => [...document.querySelectorAll("main code, main pre, main svg text")].filter((element) => {
                if (!element.checkVisibility()) return false;
                const own = element.getBoundingClientRect();
                for (let box = element.parentElement; box !== document.body; box = box.parentElement) {
                    const style = getComputedStyle(box);
                    if (style.textOverflow === "ellipsis" && box.scrollWidth > box.clientWidth) return true;
                    if (style.overflowX === "auto") return false;
                    if (style.overflowX === "hidden" && own.right > box.getBoundingClientRect().right + 1) return true;
                }
                return own.right > innerWidth + 1;
            }).map((element) => element.outerHTML.slice(0, 80))"""
        )
        assert cut == []
        covered = twenty.evaluate(
            """() => [...document.querySelectorAll(".lines tr")].filter((row) => {
                const [code, facts] = [row.querySelector(".source code"), row.querySelector(".facts")];
                if (!code || !facts || !row.checkVisibility()) return false;
                const [one, other] = [code.getBoundingClientRect(), facts.getBoundingClientRect()];
                return one.right > other.left + 1 && one.bottom > other.top + 1;
            }).map((row) => row.id)"""
        )
        assert covered == []


def test_a_phone_has_a_header_of_one_line_and_a_closed_menu(open_page: Opener) -> None:
    page = open_page("rich", viewport={"width": 390, "height": 800}, java_script_enabled=False)
    header = page.get_by_role("banner").bounding_box()
    assert header is not None
    assert header["height"] <= 60
    links = page.get_by_role("navigation", name="Contents").get_by_role("link")
    assert not links.first.is_visible()
    page.get_by_text("Contents", exact=True).click()
    assert links.first.is_visible()


@pytest.mark.parametrize(("name", "scripts"), [("hostile", 3), ("compared_hostile", 2)])
def test_hostile_text_does_nothing(open_page: Opener, name: str, scripts: int) -> None:
    page = open_page(name)
    assert page.evaluate("window.pwned") is None
    assert page.locator("main img").count() == 0
    assert page.evaluate("document.querySelectorAll('script').length") == scripts
    assert "<script>window.pwned=1</script>" in page.inner_text("main")


def test_a_comparison_can_be_read_without_javascript(open_page: Opener) -> None:
    page = open_page("compared", java_script_enabled=False)
    assert "1 break fixed, 1 new, 1 worse" in page.locator("h1").inner_text()
    assert page.get_by_role("region", name="New").locator(".break").count() == 1
    unchanged = page.get_by_role("region", name="Unchanged").locator(".break")
    assert not unchanged.first.is_visible()
    page.get_by_text("Show them").click()
    assert unchanged.first.is_visible()


def test_an_inline_script_that_is_not_ours_would_be_blocked(browser: Browser, saved: Callable[[str], str]) -> None:
    page = browser.new_page()
    page.goto(saved("clean"))
    page.evaluate(
        """() => { const script = document.createElement("script");
                   script.textContent = "window.pwned = 1"; document.body.append(script); }"""
    )
    assert page.evaluate("window.pwned") is None
    page.close()


def test_the_bar_of_a_call_leads_from_its_gaps_to_their_graph_breaks(open_page: Opener) -> None:
    page = open_page("priced")
    section = page.locator("#prices")
    assert "1.60 ms of it (52%)" in section.locator(".lead").inner_text()
    gaps = section.locator("svg a.node")
    assert gaps.count() == 3, "two gaps, and the way back after the first"
    gaps.first.click()
    assert page.url.endswith("#b1")
    assert [row.inner_text().split("\t")[1] for row in section.locator("table").first.locator("tbody tr").all()] == [
        "1.40 ms", "200 µs",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "scheme"),
    [pytest.param("rich", "light", marks=pytest.mark.slow), ("priced", "dark"), ("fixed", "light")],
)
def test_axe_finds_no_violation(open_page: Opener, name: str, scheme: str) -> None:
    """axe-core: WCAG A and AA, and best practices; the CSP would forbid it. "priced" has all that "rich" has."""
    page = open_page(name, color_scheme=scheme, bypass_csp=True)
    found = Axe().run(page).response["violations"]
    assert [(each["id"], each["impact"], each["nodes"][0]["html"][:200]) for each in found] == []


def test_everything_can_be_read_without_javascript(open_page: Opener) -> None:
    page = open_page("rich", java_script_enabled=False)
    text = page.locator("body").inner_text()
    assert "6 graph breaks" in text
    assert "--json FILE" in text
    assert page.locator(".break").count() == 6
    assert page.locator("#filter, #theme, #download").evaluate_all("found => found.length") == 3
    for control in ("#filter", "#theme", "#download"):
        assert not page.locator(control).is_visible()
    summary = page.locator("#b1 summary").first
    summary.click()
    assert page.locator("#b1 .stack").first.is_visible()


def background(page: Page) -> str:
    return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))


def test_dark_and_light_follow_the_system(open_page: Opener) -> None:
    light = background(open_page("clean", color_scheme="light"))
    dark = background(open_page("clean", color_scheme="dark"))
    assert light == "rgb(250, 249, 246)"
    assert dark == "rgb(21, 23, 26)"


def test_the_theme_button_is_remembered_before_the_first_paint(open_page: Opener) -> None:
    page = open_page("clean", color_scheme="light")
    before = background(page)
    page.get_by_role("button", name="Dark mode").click()
    after = background(page)
    assert after != before
    theme = "document.documentElement.dataset.theme"
    for _ in range(40):  # Chromium hands localStorage to its storage process behind our back, when it has the time.
        page.wait_for_timeout(500)
        page.reload()
        if page.evaluate(theme):
            break
    assert page.evaluate(theme) == "dark"
    assert background(page) == after
    assert page.get_by_role("button", name="Light mode").is_visible()


def test_the_slash_key_leads_to_the_search_and_escape_leaves_it(open_page: Opener) -> None:
    page = open_page("rich")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "filter"
    page.keyboard.type("a/b")
    assert page.locator("#filter").input_value() == "a/b"
    page.keyboard.press("Escape")
    assert page.locator("#filter").input_value() == ""
    assert page.evaluate("document.activeElement.id") != "filter"


def test_the_search_hides_what_does_not_match_and_what_is_empty_then(open_page: Opener) -> None:
    page = open_page("rich")
    page.locator("#filter").fill("LOGGER method")
    visible = page.locator(".break:visible")
    assert visible.evaluate_all("found => found.map((element) => element.id)") == ["b6"]
    assert page.locator(".card:visible").count() == 0
    assert page.locator("#recompiles").is_hidden()
    shown, _, every = page.locator("#filter-status").inner_text().removesuffix(" shown").partition(" of ")
    assert 1 <= int(shown) < int(every)
    page.locator("#filter").fill("")
    assert page.locator(".break:visible").count() == 6
    assert page.locator("#recompiles").is_visible()
    assert page.locator("#filter-status").inner_text() == ""


def test_the_search_finds_lines_of_code_with_their_advice(open_page: Opener) -> None:
    page = open_page("rich")
    page.locator("#filter").fill("def forward")
    assert page.locator(".lines tr[id]:visible").count() == 1
    assert page.locator(".lines .note:visible").count() == 0
    page.locator("#filter").fill("")
    assert page.locator(".lines .note:visible").count() > 0


def test_j_and_k_go_through_the_facts_and_the_question_mark_tells(open_page: Opener) -> None:
    page = open_page("rich")
    focused = "document.activeElement.id"
    page.keyboard.press("j")
    assert page.evaluate(focused) == "fix-1"
    page.keyboard.press("j")
    assert page.evaluate(focused) == "fix-2"
    page.keyboard.press("k")
    assert page.evaluate(focused) == "fix-1"
    page.keyboard.press("?")
    assert page.get_by_role("dialog", name="Keys").is_visible()
    page.keyboard.press("Escape")
    assert not page.get_by_role("dialog", name="Keys").is_visible()
    page.get_by_role("button", name="Keys").click()
    page.get_by_role("button", name="Close").click()
    assert page.evaluate("document.getElementById('keys').open") is False


def test_every_place_of_a_shown_line_leads_to_it(open_page: Opener) -> None:
    page = open_page("rich")
    page.locator("#b1 .where .place a").first.click()
    line = page.locator(".lines tr:target")
    assert line.is_visible()
    assert line.get_by_role("link", name="b1").count() == 1


def test_ten_findings_still_fit_on_the_first_screen(quiet_page: Opener, tmp_path: Path) -> None:
    from dynalyze.render.html import render
    from sample_reports import rich_report

    report = rich_report()
    several = [replace(item, title=f"{item.title}, {number}") for number in range(4) for item in report.findings]
    report.findings = several[:12]
    file = tmp_path / "page.html"
    file.write_text(render(report), encoding="utf-8")
    page = quiet_page(file.as_uri(), viewport={"width": 1280, "height": 800})
    rows = page.locator(".card:visible > details > summary")
    boxes = [box for row in rows.all() if (box := row.bounding_box()) is not None]
    assert len(boxes) == 10
    assert max(box["y"] + box["height"] for box in boxes) <= 800
    costs = [cost.bounding_box() for cost in page.locator(".card:visible .cost").all()]
    assert len({round(box["x"] + box["width"]) for box in costs if box is not None}) == 1
    assert page.get_by_text("10 of 12 findings.").is_visible()
    page.get_by_text("2 more findings").click()
    assert page.locator(".card:visible").count() == 12


def test_every_planted_fault_of_a_sample_is_on_the_first_screen(planted: Page) -> None:
    """The truth stands in the sample: a comment on each line that breaks or compiles again."""
    marked = [
        number
        for number, line in enumerate(BREAKS.read_text().splitlines(), 1)
        for _ in re.findall(r"# (?:break|recompile):", line)
    ]
    lines = []
    for row in planted.locator(".card > details > summary").all():
        box = row.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= 800
        lines.append(int(row.locator(".at").inner_text().removeprefix("breaks.py:")))
    assert sorted(lines) == sorted(marked)
    if picture := os.environ.get("DYNALYZE_SCREENSHOT"):
        planted.screenshot(path=picture)


def test_a_fault_its_fix_its_line_and_its_graph_lead_to_each_other(planted: Page) -> None:
    card = planted.locator(".card", has=planted.locator(".marked", has_text="scores.max()"))
    broken = card.locator("article.break")
    assert not broken.is_visible()
    card.locator("> details > summary").click()
    broken.get_by_text("What PyTorch says").click()
    broken.locator(".where a", has_text="breaks.py").click()
    line = planted.locator(".lines tr:target")
    assert line.is_visible()
    line.get_by_role("link", name=re.compile(r"^b\d$")).click()
    assert planted.locator("article.break:target").inner_text() == broken.inner_text()
    broken.get_by_role("link", name=re.compile(r"^\d+.0$")).first.click()
    row = planted.locator(f"#{planted.locator('#compilations tr:target').get_attribute('id')}")
    row.get_by_role("link", name=re.compile(r"^g\d$")).click()
    assert planted.locator(".graph:target").is_visible()


def test_a_link_to_a_filtered_break_brings_it_back(open_page: Opener) -> None:
    page = open_page("rich")
    page.locator("#filter").fill("logger")
    assert page.locator("#b2").is_hidden()
    page.evaluate("location.hash = '#b2'")
    page.locator("#b2").wait_for()
    assert page.locator("#b2").is_visible()


def test_a_permalink_opens_at_its_break(open_page: Opener) -> None:
    page = open_page("rich", "#b5", reduced_motion="reduce")
    top = page.locator("#b5").evaluate("element => element.getBoundingClientRect().top")
    assert 0 <= top < 200


def test_the_json_can_be_downloaded(open_page: Opener, tmp_path: Path) -> None:
    page = open_page("hostile")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download the report JSON").click()
    download.value.save_as(tmp_path / "report.json")
    assert download.value.suggested_filename == "dynalyze-report.json"
    assert json.loads((tmp_path / "report.json").read_text())["schema_version"] == 1


def test_another_report_can_be_chosen_or_dropped_and_is_compared_here(open_page: Opener, tmp_path: Path) -> None:
    page = open_page("rich")
    with page.expect_download() as download:
        page.locator("#download").click()
    other = json.loads(Path(download.value.path()).read_text())
    left = other["findings"].pop(0)
    other |= {"created": "2020-01-01T00:00:00Z", "graph_breaks": other["graph_breaks"][1:]}
    (tmp_path / "<b>old.json").write_text(json.dumps(other))
    page.locator("#compare-file").set_input_files(tmp_path / "<b>old.json")
    told = page.locator("#compared")
    told.locator("h2").wait_for()
    rows = [row.split() for row in told.locator("tbody tr").all_inner_texts()]
    assert rows[0] == ["graph", "breaks", str(len(other["graph_breaks"])), str(len(other["graph_breaks"]) + 1)]
    assert "Only in <b>old.json (0)" in told.inner_text() and "Only in this report (1)" in told.inner_text()
    assert left["title"].replace("`", "") in told.inner_text().replace("`", "")
    (tmp_path / "notes.json").write_text("[1]")
    page.locator("#compare-file").set_input_files(tmp_path / "notes.json")
    page.get_by_text("notes.json is no report").wait_for()


def test_the_keyboard_reaches_the_report_first(open_page: Opener) -> None:
    page = open_page("rich")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the report"
    assert page.evaluate("document.activeElement.getBoundingClientRect().top") >= 0
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"


def test_the_drawings_lead_to_what_they_show(open_page: Opener) -> None:
    """By keyboard alone: every node is a link with a name."""
    page = open_page("rich", reduced_motion="reduce")
    for drawing in ("Map of what was compiled", "Compiles in order of their start"):
        links = page.get_by_role("group", name=drawing).get_by_role("link")
        assert links.count() > 4
        assert all(links.nth(at).get_attribute("href") for at in range(links.count()))
    page.get_by_role("link", name="Graph break b2 at").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**#b2")
    page.get_by_role("link", name="0/0 Ranker.forward, forward: 1.4 s").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**#compile-0-0")


def test_the_drawings_can_be_read_as_text(open_page: Opener) -> None:
    page = open_page("rich")
    page.get_by_text("The map as text").click()
    assert page.locator("#map .map-text").get_by_role("link", name="b1").first.is_visible()
    row = page.locator("#compile-0-0")
    row.get_by_text("Phases").click()
    assert "Dynamo" in row.inner_text()
    assert "of compile time was recompilation" in page.locator("#timeline").inner_text()


def test_print_is_light_and_without_controls(open_page: Opener) -> None:
    page = open_page("rich", color_scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(32, 36, 42)"
    for control in ("#theme", ".contents", ".filter"):
        assert not page.locator(control).is_visible()
    styles = page.evaluate(
        """() => Object.fromEntries([".code .number", ".lines .source", ".mark"].map((each) => {
            const style = getComputedStyle(document.querySelector(each));
            return [each, [style.whiteSpaceCollapse, style.textWrapMode, style.printColorAdjust]];
        }))"""
    )
    assert styles[".code .number"][1] == "nowrap"  # 12 stays on one line
    assert styles[".lines .source"][1] == "wrap"  # nothing to scroll on paper
    assert styles[".mark"][2] == "exact"
    assert len(page.pdf()) > 10_000


def test_the_caret_lies_under_its_span(open_page: Opener) -> None:
    page = open_page("rich")
    mark = page.locator("#b2 mark").first.bounding_box()
    last = page.locator("#b2 mark").last.bounding_box()
    caret = page.locator("#b2 .caret code").evaluate(
        """element => { const range = document.createRange(); const node = element.firstChild;
            range.setStart(node, node.data.indexOf("^")); range.setEnd(node, node.data.length);
            const box = range.getBoundingClientRect(); return [box.left, box.right, box.top]; }"""
    )
    assert mark is not None
    assert last is not None
    assert caret[0] == pytest.approx(mark["x"], abs=1)
    assert caret[1] == pytest.approx(last["x"] + last["width"], abs=1)
    assert caret[2] > mark["y"]


def test_drawings_have_names_marks_and_a_place_of_their_own(open_page: Opener) -> None:
    page = open_page("measured")
    samples = page.get_by_role("img", name="Every sample").first
    box = samples.bounding_box()
    assert box is not None
    assert box["width"] > 600
    page.evaluate("document.querySelectorAll('details').forEach((element) => { element.open = true; })")
    outside = page.evaluate(
        """() => [...document.querySelectorAll("figure svg.plot:not([aria-hidden])")].flatMap((svg) => {
            const frame = svg.getBoundingClientRect();
            return [...svg.querySelectorAll("path, rect, text")]
                .map((mark) => [mark, mark.getBoundingClientRect()])
                .filter(([, at]) => at.left < frame.left - 8 || at.right > frame.right + 8
                    || at.top < frame.top - 8 || at.bottom > frame.bottom + 8)
                .map(([mark]) => mark.outerHTML.slice(0, 90));
        })"""
    )
    assert outside == []


def test_the_marks_of_eager_and_compiled_differ_in_both_themes(open_page: Opener) -> None:
    for scheme in ("light", "dark"):
        page = open_page("measured", color_scheme=scheme)
        colours = page.evaluate(
            """() => ["eager", "compiled"].map((arm) =>
                getComputedStyle(document.querySelector(`.plot .dots.${arm}`)).stroke)"""
        )
        assert len(set(colours)) == 2

"""A sweep as text and page: what they say, where they lead, what they must never carry."""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise

import pytest

from dynalyze.sweep import terminal as sweep_text
from dynalyze.sweep.pages import page_link
from dynalyze.sweep.pages import render_sweep as render
from dynalyze.sweep.records import Sweep
from html_tree import Tree
from sample_sweeps import empty_sweep, failed, hostile_sweep, matrix_sweep, row, small_sweep, sweep

SAMPLES = {"small": small_sweep, "matrix": matrix_sweep, "hostile": hostile_sweep, "empty": empty_sweep}


def text(made: Sweep, width: int = 80) -> str:
    return sweep_text.render(made, color=False, width=width)


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (sweep(row("hf:A"), row("hf:B")), "2 of 2 models compiled as one graph."),
        (sweep(row("hf:A"), row("hf:A", configuration="train")), "2 of 2 items compiled as one graph."),
        (sweep(failed("hf:A", "create_error", "x")), "1 could not be built and never reached the compiler."),
        (sweep(row("hf:A"), failed("hf:B", "timeout", "x"), failed("hf:C", "crash", "x")), "1 ran out of time and 1 "),
    ],
)  # fmt: skip
def test_the_verdict_counts_items_and_what_never_reached_the_compiler(made: Sweep, sentence: str) -> None:
    assert sentence in " ".join(text(made).split())


# ---- terminal ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SAMPLES)
def test_lines_fit_and_hide_nothing(name: str) -> None:
    shown = text(SAMPLES[name]())
    assert all(character.isprintable() or character == "\n" for character in shown)
    assert all(len(line) <= 80 for line in shown.splitlines() if "\\u" not in line)


@cache
def page_of(name: str) -> str:
    return render(SAMPLES[name]())


@pytest.mark.parametrize("name", SAMPLES)
def test_the_page_is_well_formed(name: str) -> None:
    page = page_of(name)
    tree = Tree(page)
    ids = tree.values("id")
    assert len(ids) == len(set(ids))
    inside = [href[1:] for href in tree.values("href") if href.startswith("#")]
    assert set(inside) <= set(ids)
    for attribute in ("aria-labelledby", "aria-controls", "for"):
        assert set(tree.values(attribute)) <= set(ids)
    levels = [int(tag[1]) for tag, _ in tree.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert render(SAMPLES[name]()) == page


def test_hostile_text_adds_no_element_and_no_link() -> None:
    page = page_of("hostile")
    tree = Tree(page)
    assert [tag for tag, _ in tree.elements].count("script") == 2
    assert "img" not in {tag for tag, _ in tree.elements}
    away = [href for href in tree.values("href") if not href.startswith(("#", "data:,"))]
    assert away == ["javascript%3Awindow.pwned%3D1/x.html"]
    assert all(character.isprintable() or character == "\n" for character in page)
    assert "<script>window.pwned=1</script>" in tree.text()


@pytest.mark.parametrize(
    ("page", "link"),
    [
        ("reports/a.html", "reports/a.html"),
        ("../sweep/reports/a.html", "../sweep/reports/a.html"),
        ("reports/a b#c?.html", "reports/a%20b%23c%3F.html"),
        ("javascript:alert(1).html", "javascript%3Aalert%281%29.html"),
        ("https://evil.test/a.html", "https%3A/evil.test/a.html"),
        ("//evil.test/a.html", ""),
        ("/etc/a.html", ""),
        ("\\\\evil\\a.html", ""),
        ("../../etc/passwd", ""),
        ("", ""),
        (None, ""),
    ],
)
def test_a_row_leads_to_a_page_below_or_beside_the_index_only(page: str | None, link: str) -> None:
    assert page_link(page) == link


def test_every_item_has_a_row_that_leads_to_its_report() -> None:
    made = small_sweep()
    tree = Tree(render(made))
    pages = {each.page for each in made.items if each.page}
    assert pages <= set(tree.values("href"))
    rows = [attributes for tag, attributes in tree.elements if tag == "tr" and "data-status" in attributes]
    assert [attributes["data-status"] for attributes in rows] == [
        "graph_break", "graph_break", "graph_break", "compile_error", "eager_error", "create_error",
        "full_graph", "full_graph",
    ]  # fmt: skip

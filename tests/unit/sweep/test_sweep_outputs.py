"""A sweep as text, CSV and page: what they say, where they lead, what they must never carry."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import re
from functools import cache
from itertools import pairwise

import pytest

from dynalyze.sweep import csv_table as sweep_csv
from dynalyze.sweep import terminal as sweep_text
from dynalyze.sweep.pages import page_link
from dynalyze.sweep.pages import render_sweep as render
from dynalyze.sweep.records import Sweep
from html_tree import Tree
from sample_sweeps import empty_sweep, failed, hostile_sweep, matrix_sweep, row, small_sweep, sweep

SAMPLES = {"small": small_sweep, "matrix": matrix_sweep, "hostile": hostile_sweep, "empty": empty_sweep}


def text(made: Sweep, width: int = 80) -> str:
    return sweep_text.render(made, color=False, width=width)


def table(made: Sweep) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(sweep_csv.render(made), newline="")))


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (sweep(row("hf:A")), "The one item compiles"), (sweep(row("hf:A"), row("hf:B")), "All 2 models compile"),
        (sweep(row("hf:A"), row("hf:A", configuration="train")), "All 2 items compile"),
        (sweep(failed("hf:A", "create_error", "x")), "The model never reached"),
        (sweep(failed("hf:A", "crash", "x"), failed("hf:B", "crash", "x")), "None of 2 models reached"),
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


# ---- CSV --------------------------------------------------------------------------------------------------


def test_one_line_an_item_with_the_contracts_columns() -> None:
    found = table(small_sweep())
    assert len(found) == 8
    assert [each["target"] for each in found] == [each.target for each in small_sweep().items]
    first = found[0]
    assert (first["status"], first["graph_breaks"], first["recompiles"], first["seconds"]) == (
        "graph_break",
        "2",
        "0",
        "2.5",
    )
    assert first["first_break"] == "transformers/utils/generic.py:123"
    assert first["report"] == "reports/LlamaModel-default.json"
    assert found[6]["error"] == "ValueError: grid_thw is required"
    assert found[6]["report"] == ""
    assert list(first)[:7] == ["target", "configuration", "status", "graph_breaks", "recompiles", "seconds", "error"]


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t=", " =", "\r=", "＝"])
def test_no_text_is_a_formula(start: str) -> None:
    (cell,) = {each["target"] for each in table(sweep(row(f"{start}1+1")))}
    assert cell.startswith("'") or not cell.lstrip().startswith(("=", "+", "-", "@", "＝"))


def test_quotes_commas_and_line_ends_stay_in_their_cell() -> None:
    error = 'ValueError: "a", b\nand c\u2028d'
    (found,) = table(sweep(failed("hf:A", "eager_error", error)))
    assert found["error"] == 'ValueError: "a", b␊and c\\u2028d'
    assert len(sweep_csv.render(sweep(failed("hf:A", "eager_error", error))).splitlines()) == 2


SAMPLES = {"small": small_sweep, "matrix": matrix_sweep, "hostile": hostile_sweep, "empty": empty_sweep}


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


@pytest.mark.parametrize("name", SAMPLES)
def test_the_policy_allows_our_script_and_style_alone(name: str) -> None:
    page = page_of(name)
    tree = Tree(page)
    (policy,) = (content for content in tree.values("content") if "default-src" in content)
    inline = re.findall(r"<script>(.*?)</script>", page, re.DOTALL) + re.findall(
        r"<style>(.*?)</style>", page, re.DOTALL
    )
    assert len(inline) == 3
    for part in inline:
        assert base64.b64encode(hashlib.sha256(part.encode()).digest()).decode() in policy
    assert "unsafe" not in policy
    for _, attributes in tree.elements:
        assert "style" not in attributes
        assert not any(attribute.startswith("on") for attribute in attributes)


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

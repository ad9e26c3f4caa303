"""A comparison as text, page and JSON."""

from __future__ import annotations

import json
import re
from itertools import pairwise

import pytest

from dynalyze.comparison.reports import compare
from dynalyze.comparison.types import Comparison
from dynalyze.render import comparison_text, html
from dynalyze.render.text.comparison import drawn, verdict
from dynalyze.render.view.comparison import MAX_BREAKS, MAX_REGRESSIONS
from html_tree import Tree
from sample_reports import HOSTILE, compared, compared_hostile, empty_report, graph_break, line_of, rich_report

SAMPLES = {"compared": compared, "hostile": compared_hostile, "same": lambda: compare(rich_report(), rich_report())}


def text(comparison: Comparison, width: int = 80) -> str:
    return comparison_text.render_comparison(comparison, color=False, width=width)


def many_new(number: int) -> Comparison:
    after = empty_report()
    after.graph_breaks = [graph_break(f"b{n}", "split", line_of(44, n, n + 9)) for n in range(number)]
    return compare(empty_report(), after)


# ---- terminal ---------------------------------------------------------------------------------------------


def test_what_is_the_same_is_only_counted() -> None:
    shown = text(SAMPLES["same"]())
    assert "6 breaks unchanged" in shown
    assert "model.py" not in shown


@pytest.mark.parametrize("name", SAMPLES)
def test_lines_fit_and_hide_nothing(name: str) -> None:
    shown = text(SAMPLES[name]())
    assert max(map(len, shown.splitlines())) <= 80
    assert all(character.isprintable() for character in shown.replace("\n", ""))


def test_long_lists_say_what_they_left_out() -> None:
    assert "25 more: see --html or --json." in text(many_new(35))


# ---- page -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SAMPLES)
def test_the_page_is_well_formed(name: str) -> None:
    tree = Tree(html.render_comparison(SAMPLES[name]()))
    ids = tree.values("id")
    assert len(ids) == len(set(ids))
    inside = [href[1:] for href in tree.values("href") if href.startswith("#")]
    assert set(inside) | set(tree.values("aria-labelledby")) <= set(ids)
    levels = [int(tag[1]) for tag, _ in tree.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_the_page_says_what_the_terminal_says() -> None:
    shown = Tree(html.render_comparison(compared())).text()
    assert drawn(verdict(compared())) in shown
    assert "torch2.13.02.14.0" in shown
    assert "3 regressions" in shown
    assert "A new recompile: history" in shown
    assert "Keep history out of the compiled part." in shown
    assert "before: …/work/ranker/model.py:44" in shown


def test_many_regressions_are_cut_short_on_top_and_links_stay_whole() -> None:
    tree = Tree(html.render_comparison(many_new(MAX_BREAKS + 5)))
    assert f"{MAX_BREAKS + 5 - MAX_REGRESSIONS:,} regressions omitted here" in tree.text()
    inside = {href[1:] for href in tree.values("href") if href.startswith("#")}
    assert inside <= set(tree.values("id"))


# ---- JSON -------------------------------------------------------------------------------------------------


def test_hostile_texts_stay_whole_in_the_json() -> None:
    (new,) = json.loads(comparison_text.render_comparison_json(compared_hostile()))["breaks"]["new"]
    assert new["gb_type"] == HOSTILE

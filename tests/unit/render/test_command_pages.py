"""The pages of `fix`, `plan` and `cache`: each has a verdict of its own, and the commands that go on from it."""

from __future__ import annotations

from dynalyze.render.html import render, render_caches
from dynalyze.render.view.page import Page
from html_tree import Tree
from sample_reports import cached, fixed_report


def test_the_page_of_fix_says_how_many_breaks_are_fixed_and_how_to_apply_each_change() -> None:
    page = Page(fixed_report())
    assert (page.verdict.status, page.verdict.tone) == ("Verified", "good")
    assert page.verdict.headline.startswith("Fixed and verified 2 of 6 graph breaks")
    assert page.verified.all == "dynalyze fix model.py --write"
    assert [(row.fact.id, row.command) for row in page.verified.shown.items] == [
        ("f2", "dynalyze fix model.py --only b1 --write"),
        ("f3", ""),
        ("f1", ""),
    ]
    assert "To apply it: dynalyze fix model.py --only b1 --write" in Tree(render(fixed_report())).text()


def test_the_page_of_cache_tells_differences_uses_and_moves() -> None:
    text = Tree(render_caches(cached())).text()
    assert "A second start compiles again." in text
    for part in (
        "`SCALE`",
        "SCALE went from 3.0 to 4.0.",
        "model.py:44",
        "autograd key of 0/0 forward",
        "True → then False",
    ):
        assert (part in text) is (part != "`SCALE`"), part
    for part in (
        "AOTAutograd",
        "1 miss, 1 bypass",
        "2 made",
        "<b>no cache</b>",
        "nothing changed",
        "Take the folder along.",
    ):
        assert part in text, part

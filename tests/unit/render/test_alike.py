"""Alike findings as one card: on the terminal and on the page, never in the report."""

from __future__ import annotations

import msgspec

from dynalyze.render import html, terminal
from dynalyze.render.findings import as_cards
from dynalyze.report import Effect, Location, Report
from dynalyze.rules.rule import judge
from sample_reports import MODEL, empty_report, graph_break


def printing(*effects: Effect, text: str = "print(x)") -> Report:
    """The same line at one place after the other."""
    report = empty_report()
    report.graph_breaks = [
        graph_break(
            f"b{n}", effect, Location(MODEL, 10 * n, None, f"f{n}", text), gb_type="Failed to trace builtin operator",
            context="builtin print [] False", expression=text, block=text,
        )
        for n, effect in enumerate(effects, 1)
    ]  # fmt: skip
    report.findings = judge(report)
    return report


def test_one_advice_for_three_places_is_one_card_that_names_them_all() -> None:
    report = printing("split", "split", "split")
    assert len(report.findings) == 3
    (card,) = as_cards(report).findings
    assert card.evidence == ["b1", "b2", "b3"]
    shown = terminal.render(report)
    assert shown.count("Take the print out") == 1
    assert all(f"model.py:{line} in f{line // 10}" in shown for line in (10, 20, 30))
    page = html.render(report)
    assert page.count('id="fix-1"') == 1 and 'id="fix-2"' not in page
    assert len(report.findings) == 3, "what a policy judges stays one a break"


def test_another_effect_or_another_advice_is_a_card_of_its_own() -> None:
    report = printing("split", "eager")
    assert len(as_cards(report).findings) == 2
    report = printing("split", "split")
    report.findings[1] = msgspec.structs.replace(report.findings[1], advice="Something else.")
    assert len(as_cards(report).findings) == 2

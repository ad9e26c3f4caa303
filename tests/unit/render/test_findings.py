"""One card for alike findings, and the caller it names, on the terminal and on the page, never in the report."""

from __future__ import annotations

from dynalyze.render import html, terminal
from dynalyze.render.findings import as_cards, own_caller
from dynalyze.report import Advice, Effect, Finding, GraphBreak, Impact, Location, Report
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


def test_changes_that_ask_for_one_edit_are_one_card_with_one_list_of_sources() -> None:
    def again(name: str, number: int, advice: str = "Compile with dynamic=True.") -> Finding:
        detail = Advice(advice, config=f"torch.compiler.config.dynamic_sources = \"L['x'],L['{name}']\"")
        title = f"`{name}` changed from 1 to 2: f was compiled again, 0.1 s"
        impact = Impact(compile_seconds=0.1)
        return Finding("recompile", "warning", title, None, [f"r{number}"], advice, impact, detail)

    report = printing()
    report.findings = [again("y", 1), again("z", 2), again("n", 3, "Leave it.")]
    card, other = as_cards(report).findings
    assert (card.evidence, other.evidence) == (["r1", "r2"], ["r3"])
    assert card.impact is not None and card.impact.compile_seconds == 0.2
    assert card.advice.startswith("Compile with dynamic=True.") and "`z` changed from 1 to 2" in card.advice
    assert card.detail is not None and card.detail.config.endswith("\"L['x'],L['y'],L['z']\"")
    assert card.detail.action == card.advice


PACKAGES = "/venv/lib/python3.11/site-packages/"
MINE = Location("/home/ada/net.py", 7, function="forward")
LLAMA = Location(PACKAGES + "transformers/models/llama/modeling_llama.py", 12, function="forward")
HELPER = Location(PACKAGES + "transformers/utils/generic.py", 3, function="check")


def led_to(*stack: Location) -> Location | None:
    return own_caller(broken(*stack))


def broken(*stack: Location) -> GraphBreak:
    found = graph_break("b1", "split", stack[-1])
    found.stack = list(stack)
    return found


def test_a_helper_was_called_by_the_innermost_line_of_a_model() -> None:
    assert led_to(MINE, HELPER, LLAMA, HELPER) == LLAMA
    assert led_to(MINE, HELPER) == MINE

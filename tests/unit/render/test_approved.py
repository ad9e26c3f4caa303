"""What users read of each command, as files in tests/data/approved: a change of words shows in review as a diff.

DYNALYZE_APPROVE=1 python -m pytest tests/unit/render/test_approved.py     writes them anew
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from dynalyze.render import comparison_text, html, markdown, terminal
from dynalyze.report import Report
from html_tree import Tree
from sample_audits import failed_report
from sample_reports import benched_report, compared, fixed_report, priced_report, rich_report

APPROVED = Path(__file__).parents[2] / "data" / "approved"


def on_terminal(report: Report) -> str:
    return terminal.render(report, color=False, width=80)


def on_page(report: Report) -> str:
    """The words of the page down to its tables, a line for each heading and paragraph."""
    texts = Tree(html.render(report)).texts
    return "\n".join(" ".join(each.split()) for tag in ("h1", "h2", "p") for each in texts.get(tag, [])[:30]) + "\n"


OUTPUTS: dict[str, Callable[[], str]] = {
    "explain.terminal": lambda: on_terminal(rich_report()),
    "explain.verbose.terminal": lambda: terminal.render(rich_report(), color=False, width=80, verbose=True),
    "explain.markdown": lambda: markdown.render(rich_report()),
    "explain.page": lambda: on_page(rich_report()),
    "explain-with-costs.terminal": lambda: on_terminal(priced_report()),
    "bench.terminal": lambda: on_terminal(benched_report()),
    "audit.terminal": lambda: on_terminal(failed_report()),
    "audit.markdown": lambda: markdown.render(failed_report()),
    "fix.terminal": lambda: on_terminal(fixed_report()),
    "fix.page": lambda: on_page(fixed_report()),
    "diff.terminal": lambda: comparison_text.render_comparison(compared(), color=False, width=80),
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_what_users_read_is_what_was_approved(name: str) -> None:
    file = APPROVED / f"{name}.txt"
    said = re.sub(r"[ \t]+$", "", OUTPUTS[name](), flags=re.MULTILINE)
    if os.environ.get("DYNALYZE_APPROVE"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(said, encoding="utf-8")
    assert said == file.read_text(encoding="utf-8"), "DYNALYZE_APPROVE=1 writes it anew"

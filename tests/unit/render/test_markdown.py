"""The comment for a pull request: what it says, and that no text of the run becomes markup."""

from __future__ import annotations

import html
import re
from itertools import pairwise

import pytest
from hypothesis import given
from markdown_it import MarkdownIt
from markdown_it.token import Token

from ci_reports import hostile_reports, samples, texts
from dynalyze.render import markdown
from dynalyze.render.markdown import code, prose
from dynalyze.report import Finding, Report
from dynalyze.text.escape import visible
from sample_reports import empty_report

# The tags that are ours. Each stands alone, without attributes.
TAGS = {"b", "br", "code", "details", "sub", "summary"}
_ENTITY = re.compile(r"&#\d+;")


def tags(text: str) -> set[str]:
    return set(re.findall(r"<\s*/?\s*([^>]*)>", text))


@given(texts)
def test_a_text_comes_out_as_it_went_in(text: str) -> None:
    """Entities are what a browser turns back; what is left unspelled means nothing to Markdown."""
    shown = " ".join(visible(" ".join(text.split())).split())
    back = " ".join(html.unescape(re.sub(r"</?code>", "`", prose(text))).replace("\u200b", "").split())
    assert re.sub("`", "", back) == re.sub("`", "", shown) or len(shown) > 400
    assert not re.search(r"[\\*_\[\]|~$`@]", prose(text))
    assert tags(prose(text)) <= {"code"}


@pytest.mark.parametrize(
    ("hostile", "never"),
    [
        ("<script>alert(1)</script>", "<script"),
        ("![x](https://evil.example/i.png)", "]("),
        ("[x](javascript:alert(1))", "]("),
        ("https://evil.example/?q", "://"),
        ("www.evil.example", "www."),
        ("@ada-lovelace", "@"),
        ("fixes #12", "#12"),
        ("a | b", "|"),
        ("</details></table>", "</details"),
        ("<!-- -->", "<!--"),
        ("$x^2$", "$"),
        ("**bold** __b__ ~~s~~", "**"),
        ("a\n\n# heading\n- item", "\n"),
    ],
)
def test_hostile_texts_lose_their_force(hostile: str, never: str) -> None:
    assert never not in _ENTITY.sub("\0", prose(hostile))
    assert tags(code(hostile)) == {"code"}


@given(hostile_reports())
def test_whatever_the_texts_only_our_own_markup_is_there(report: Report) -> None:
    text = markdown.render(report)
    assert tags(text) <= TAGS
    assert text.count("<details>") == text.count("</details>")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in rows}) == 1
    assert not re.search(r"@\w|\]\(|!\[", text)


def tokens_of(text: str) -> list[Token]:
    """What a reader of Markdown makes of it, with GitHub's tables, and with HTML let through."""
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)
    return [each for token in tokens for each in (token, *(token.children or ()))]


@given(hostile_reports())
def test_a_reader_of_markdown_finds_only_our_own_markup(report: Report) -> None:
    text = markdown.render(report)
    found = tokens_of(text)
    raw = {name for token in found if token.type.startswith("html_") for name in tags(token.content)}
    assert raw <= TAGS
    assert not {"link_open", "image", "code_inline", "s_open", "em_open", "strong_open", "fence", "code_block"} & {
        token.type
        for token in found
        if token.content != "dynalyze"  # Its own name, in the line of the command.
    }
    headings = [after.content for token, after in pairwise(found) if token.type == "heading_open"]
    assert set(headings[1:]) <= {"Fix these first"}
    hidden = {character for character in text if not character.isprintable()} - {"\n", "\u200b"}
    assert hidden - set("\ufe0f") == set(), "a control or a bidirectional character would be shown as it is"


@pytest.mark.parametrize("report", samples())
def test_it_fits_a_comment(report: Report) -> None:
    text = markdown.render(report)
    assert text.startswith("### ")
    assert len(text) < 65_536


def test_thousands_of_findings_are_counted_and_cut() -> None:
    report = empty_report()
    report.findings = [
        Finding("graph-break", "warning", f"{number} " + "x" * 450, advice="y" * 450) for number in range(3000)
    ]
    text = markdown.render(report)
    assert len(text) < 65_536
    assert "2,995 more findings" in text

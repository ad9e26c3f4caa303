"""A prompt and the single tokens after it: two programs, each compiled once."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dynalyze.report import Advice, Finding, Impact, Report
from dynalyze.rules.recompile_series import Series
from dynalyze.rules.report_queries import FROM_RUN, by_generate, called_from, spent
from dynalyze.rules.rule import Rule

_RANK = 660
_TOKENS = re.compile(r"\b(?:input_ids|inputs_embeds|position_ids|cache_position)\b[^.]*\.size\(\)\[1\]$")
_KEYWORDS = re.compile(r"^len\(\w*kwargs\)$")
_LINK = "https://huggingface.co/docs/transformers/llm_optims"


def _judge(report: Report) -> Iterator[tuple[int, Finding]]:
    series = RULE.recompiles(report)
    if not series:
        return
    members = [member for one in series for member in one.recompiles]
    call = "`generate` of two tokens" if by_generate(report, members[0]) else "call with a prompt, and one with a token"
    action = (
        f"Nothing is wrong with it. Do both in the warm-up: one {call}, before the first text of a user. Prompts of "
        "another length compile once more, and from then on any length fits."
    )
    seconds = spent(members)
    yield (
        _RANK,
        RULE.finding(
            title="The prompt and the single tokens after it were compiled apart",
            location=called_from(report, members[0]),
            evidence=[member.id for member in members],
            advice=Advice(
                action=action,
                why=f"{FROM_RUN} A size of 1 always gets code of its own, so no setting joins the two. Each is kept.",
                link=_LINK,
            ),
            impact=None if seconds is None else Impact(seconds, "spent compiling the second of them"),
        ),
    )


def _owns_series(series: Series, report: Report) -> bool:
    """One change from a prompt to single tokens, or back, in a model of transformers that generates."""
    lead, sizes = series.lead, {series.lead.expected, series.lead.actual}
    if series.changes != 1 or not any(module.family for module in report.modules):
        return False
    if lead.cause == "container" and _KEYWORDS.search(lead.source or ""):
        return by_generate(report, lead)
    return lead.cause == "shape" and "1" in sizes and _TOKENS.search(lead.source or "") is not None


RULE = Rule(
    id="prefill-and-decode",
    title="A prompt and single tokens are compiled apart",
    severity="info",
    description=(
        "A language model is called with the whole prompt first and with one token a step then. torch compiles a size "
        "of 1 by itself, so these are two programs: one recompile, once. More than one change of the length is the "
        "finding recompile."
    ),
    fix="Call the model once with a prompt and once with a single token in the warm-up.",
    passed="No prompt and single tokens were compiled apart.",
    judge=_judge,
    owns_recompiles=_owns_series,
    precedence=-1,
)

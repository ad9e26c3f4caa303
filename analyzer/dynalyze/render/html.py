"""Reports and comparisons as HTML, one page each: offline, readable without JavaScript, inert for any text."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from dynalyze.comparison.types import Comparison
from dynalyze.render.findings import as_cards
from dynalyze.render.highlight import code_at
from dynalyze.render.text import policy, warmup
from dynalyze.render.text.bench import verdict_short
from dynalyze.render.text.report import (
    CAUSE_WORDS,
    COMPILATION_WORDS,
    SEVERITY_WORDS,
    cache_words,
    effect_words,
    impact_words,
    short_path,
)
from dynalyze.render.view.accuracy import answer_tone, dtype_words
from dynalyze.render.view.audit import check_tone
from dynalyze.render.view.comparison import ComparisonPage
from dynalyze.render.view.graphs import KERNEL_KINDS, code_title, input_shape
from dynalyze.render.view.links import safe_url
from dynalyze.render.view.page import Page
from dynalyze.report import GraphBreak, Report
from dynalyze.report.audit import STAGES
from dynalyze.text.amounts import count_of, duration, exact_size, milliseconds, percent
from dynalyze.text.escape import clipped, visible

_PACKAGE = Path(__file__).resolve().parents[1]

# The wheel carries the templates inside the package; a checkout keeps them in reports/.
_TEMPLATE_DIRS = (_PACKAGE / "templates", _PACKAGE.parents[1] / "reports" / "templates")


def render(report: Report) -> str:
    return page("page.html.jinja", Page(as_cards(report)))


def render_comparison(comparison: Comparison) -> str:
    return page("comparison.html.jinja", ComparisonPage(comparison), more=("tables",))


def page(
    template: str, page: object, more: Sequence[str] = (), filters: Mapping[str, Callable[..., Any]] | None = None
) -> str:
    """A page of ours from its template: with its style, its scripts, and a policy that allows these alone.

    Each of `more` names a style and a script that this kind of page has beside those of all, as it has `filters`.
    """
    theme = _asset("theme.js")
    style, script = ("".join(_asset(f"{name}.{kind}") for name in ("page", *more)) for kind in ("css", "js"))
    # A Content-Security-Policy that allows this very style and these very scripts, and nothing else.
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(theme)} {_hash(script)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    environment = _environment()
    if filters:  # An environment of its own, which compiles its templates again.
        environment = environment.overlay()
        environment.filters = {**environment.filters, **filters}
    return environment.get_template(template).render(
        page=page, policy=policy, style=Markup(style), theme_script=Markup(theme), page_script=Markup(script)
    )


@cache
def _environment() -> Environment:
    # `finalize` sees every expression before it is escaped, so no text reaches the page with hidden parts.
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATE_DIRS),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: _shown(value) if isinstance(value, str) and not isinstance(value, Markup) else value,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(_FILTERS)
    return environment


@cache
def _asset(name: str) -> str:
    environment = _environment()
    assert environment.loader is not None
    return environment.loader.get_source(environment, name)[0].replace("\r\n", "\n")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


_LEFT_ON_STACK = re.compile(r"\b___stack\d+\b(?:\[\d+\])*")
_PART = re.compile(r"\btorch_dynamo_resume_in_(\w+?)_at_(\d+)\b")


def _shown(text: str) -> str:
    """A text that shows what it holds, with words for Dynamo's own names."""
    return _PART.sub(r"\1 after line \2", _LEFT_ON_STACK.sub("value left by a graph break", visible(text)))


def _prose(text: str) -> Markup:
    """A sentence in which `words in backquotes` become code."""
    parts = re.split(r"`([^`\n]+)`", _shown(text))
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if at % 2 else escape(part) for at, part in enumerate(parts)
    )


def _seen(found: GraphBreak) -> str:
    times = count_of(found.occurrences, "time")
    return f"{times} in {len(found.processes)} processes" if len(found.processes) > 1 else times


_NAMED: tuple[Callable[..., Any], ...] = (
    answer_tone, cache_words, check_tone, code_at, code_title, count_of, dtype_words,
    effect_words, exact_size, input_shape, milliseconds, safe_url, warmup.shape_words, short_path, verdict_short,
)  # fmt: skip
_FILTERS: dict[str, Callable[..., Any]] = {
    **{each.__name__: each for each in _NAMED},
    "cause_words": CAUSE_WORDS.__getitem__,
    "check_found": policy.found,
    "check_mark": lambda status: policy.MARKS[status],
    "check_title": policy.title,
    "check_words": policy.status,
    "clip": lambda text, limit: clipped(text or "", limit),
    "compilation_words": COMPILATION_WORDS.__getitem__,
    "error": lambda value: "" if value is None else f"{value:.3g}",
    "few": lambda texts, most: ", ".join(texts[:most]) + (", ..." if len(texts) > most else ""),
    "impact": impact_words,
    "kernel_kind": KERNEL_KINDS.__getitem__,
    "later_call": warmup.later,
    "number": lambda value: "" if value is None else f"{value:,}",
    "over": lambda items, most: max(0, len(items) - most),
    "seconds": lambda value: "" if value is None else duration(value),
    "seen": _seen,
    "severity_words": SEVERITY_WORDS.__getitem__,
    "shape_compiled": warmup.compiled,
    "shape_runs": warmup.runs,
    "share": lambda value: "" if value is None else percent(value),
    "stage_words": lambda stage: STAGES.get(stage, stage),
    "prose": _prose,
    "waiver_words": policy.waiver,
    "without_aten": lambda op: op.removeprefix("aten."),
}
"""What templates say facts with: words and amounts. "" stands for what was not recorded."""

"""Reports, comparisons and sweeps as HTML, one page each: offline, readable without JavaScript, inert for any text."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from dynalyze.comparison.sweeps import SweepComparison
from dynalyze.comparison.types import Comparison
from dynalyze.render.findings import as_cards
from dynalyze.render.view.comparison import ComparisonPage
from dynalyze.render.view.filters import FILTERS
from dynalyze.render.view.page import Page
from dynalyze.render.view.sweep import SweepPage
from dynalyze.render.view.sweep_diff import SweepDiffPage
from dynalyze.report import Report
from dynalyze.sweep.records import Sweep
from dynalyze.text.visible import visible

_PACKAGE = Path(__file__).resolve().parents[1]

# The wheel carries the templates inside the package; a checkout keeps them in reports/.
_TEMPLATE_DIRS = (_PACKAGE / "templates", _PACKAGE.parents[1] / "reports" / "templates")


def render(report: Report) -> str:
    """The whole page."""
    return _page("page.html.jinja", Page(as_cards(report)))


def render_comparison(comparison: Comparison) -> str:
    """The page of two runs, compared."""
    return _page("comparison.html.jinja", ComparisonPage(comparison), more=("tables",))


def render_sweep(sweep: Sweep) -> str:
    """The index of a sweep. Links to the items' reports are relative: it belongs into the sweep's folder."""
    return _page("sweep.html.jinja", SweepPage(sweep), more=("tables", "sweep"))


def render_sweep_diff(comparison: SweepComparison) -> str:
    """The page of two sweeps, compared."""
    return _page("sweep_diff.html.jinja", SweepDiffPage(comparison), more=("tables",))


def _page(template: str, page: object, more: Sequence[str] = ()) -> str:
    """A page of ours from its template: with its style, its scripts, and a policy that allows these alone.

    Each of `more` names a style and a script that this kind of page has beside those of all.
    """
    theme = _asset("theme.js")
    style, script = ("".join(_asset(f"{name}.{kind}") for name in ("page", *more)) for kind in ("css", "js"))
    # A Content-Security-Policy that allows this very style and these very scripts, and nothing else.
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(theme)} {_hash(script)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    return (
        _environment()
        .get_template(template)
        .render(page=page, policy=policy, style=Markup(style), theme_script=Markup(theme), page_script=Markup(script))
    )


@cache
def _environment() -> Environment:
    # `finalize` sees every expression before it is escaped, so no text reaches the page with hidden parts.
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATE_DIRS),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(FILTERS, prose=_prose)
    return environment


def _prose(text: str) -> Markup:
    """A sentence in which `words in backquotes` become code."""
    parts = re.split(r"`([^`\n]+)`", visible(text))
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if at % 2 else escape(part) for at, part in enumerate(parts)
    )


@cache
def _asset(name: str) -> str:
    """A style sheet or script as it stands in its file."""
    environment = _environment()
    assert environment.loader is not None
    return environment.loader.get_source(environment, name)[0].replace("\r\n", "\n")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"

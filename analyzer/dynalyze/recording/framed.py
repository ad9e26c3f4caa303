"""The page inside of a notebook: in a sandboxed frame, whose origin is its own."""

from __future__ import annotations

from markupsafe import escape

from dynalyze.render import html, terminal
from dynalyze.report import Report

# Its scripts may run and its links open a tab; it reaches neither the notebook nor the notebook's cookies.
_SANDBOX = "allow-scripts allow-popups allow-downloads"
_HEIGHT = 640
_COLUMNS = 80

# Where a notebook is not trusted, Jupyter takes frames and styles away: what this style hides is read there.
_STYLE = ".dynalyze-plain { display: none }"
_WHY_PLAIN = "This is the summary. Run the cell, or trust the notebook, to see the whole page."


def framed(report: Report) -> str:
    """The page as elements that can stand in any other page, with its summary for where frames are not shown."""
    return (
        f"<style>{_STYLE}</style>"
        f'<div class="dynalyze-plain"><p>{_WHY_PLAIN}</p><pre>{escape(summary(report))}</pre></div>'
        f'<iframe sandbox="{_SANDBOX}" srcdoc="{escape(html.render(report))}" title="dynalyze report" '
        f'style="width: 100%; height: {_HEIGHT}px; border: 0; resize: vertical"></iframe>'
    )


def summary(report: Report) -> str:
    """The summary as the command line prints it, for wherever a notebook shows plain text."""
    return terminal.render(report, color=False, width=_COLUMNS).rstrip("\n")

"""The page inside of a notebook: in a sandboxed frame, whose origin is its own."""

from __future__ import annotations

from markupsafe import escape

from dynalyze.render import html
from dynalyze.report import Report

# Its scripts may run and its links open a tab; it reaches neither the notebook nor the notebook's cookies.
_SANDBOX = "allow-scripts allow-popups allow-downloads"
_HEIGHT = 640


def framed(report: Report) -> str:
    """The page as one element that can stand in any other page."""
    return (
        f'<iframe sandbox="{_SANDBOX}" srcdoc="{escape(html.render(report))}" title="dynalyze report" '
        f'style="width: 100%; height: {_HEIGHT}px; border: 0"></iframe>'
    )

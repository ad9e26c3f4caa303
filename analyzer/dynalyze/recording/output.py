"""A recorded report as a file, and as a page inside of a notebook."""

from __future__ import annotations

import importlib
from pathlib import Path

from markupsafe import escape

from dynalyze.files.read_write import write_whole_file
from dynalyze.render import html, terminal
from dynalyze.report import Report
from dynalyze.report.document import to_json

# Its scripts may run and its links open a tab; it reaches neither the notebook nor the notebook's cookies.
_SANDBOX = "allow-scripts allow-popups allow-downloads"
_HEIGHT = 640
_COLUMNS = 80

# Where a notebook is not trusted, Jupyter takes frames and styles away: what the style hides is read there.
_WHY_PLAIN = "This is the summary. Run the cell, or trust the notebook, to see the whole page."
_RENDERERS = {".json": "", ".html": "html", ".md": "markdown", ".sarif": "sarif", ".xml": "junit"}


def framed(report: Report) -> str:
    """The page as elements that can stand in any other page, with its summary for where frames are not shown."""
    return (
        "<style>.dynalyze-plain { display: none }</style>"
        f'<div class="dynalyze-plain"><p>{_WHY_PLAIN}</p><pre>{escape(summary(report))}</pre></div>'
        f'<iframe sandbox="{_SANDBOX}" srcdoc="{escape(html.render(report))}" title="dynalyze report" '
        f'style="width: 100%; height: {_HEIGHT}px; border: 0; resize: vertical"></iframe>'
    )


def summary(report: Report) -> str:
    """The summary as the command line prints it, for wherever a notebook shows plain text."""
    return terminal.render(report, color=False, width=_COLUMNS).rstrip("\n")


def save(report: Report, path: Path) -> None:
    """Write one file, whole or not at all; a ValueError lists the suffixes where this one is not known."""
    if path.suffix not in _RENDERERS:
        raise ValueError(f"{path}: name a file that ends in one of {', '.join(_RENDERERS)}")
    renderer = _RENDERERS[path.suffix]
    text = importlib.import_module(f"dynalyze.render.{renderer}").render(report) if renderer else to_json(report)
    write_whole_file(path, text)

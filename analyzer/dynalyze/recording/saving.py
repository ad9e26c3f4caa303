"""Writes a recorded report in the form that the name of the file asks for."""

from __future__ import annotations

import importlib
from pathlib import Path

from dynalyze.files.read_write import write_whole_file
from dynalyze.report import Report
from dynalyze.report.document import to_json

_RENDERERS = {".html": "html", ".md": "markdown", ".sarif": "sarif", ".xml": "junit"}


def check(path: Path) -> None:
    """Refuse a name that tells no form.

    Raises:
        ValueError: one line with the suffixes that there are.
    """
    if path.suffix not in (".json", *_RENDERERS):
        known = ", ".join([".json", *_RENDERERS])
        raise ValueError(f"{path}: name a file that ends in one of {known}")


def save(report: Report, path: Path) -> None:
    """Write one file, whole or not at all.

    Raises:
        ValueError: a suffix that is not known.
        OSError: it cannot be written.
    """
    check(path)
    if path.suffix == ".json":
        text = to_json(report)
    else:
        text = importlib.import_module(f"dynalyze.render.{_RENDERERS[path.suffix]}").render(report)
    write_whole_file(path, text)

"""The tables `[tool.dynalyze.*]` of a project: what it asks of dynalyze, in its pyproject.toml."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dynalyze.files.input_files import read_input
from dynalyze.files.toml_text import check_keys, parsed
from dynalyze.text.errors import UsageError

PROJECT_FILE = "pyproject.toml"
TABLES = ("audit",)
"""All that may stand below [tool.dynalyze]; a command with settings of its own adds its table here."""


def title(name: str) -> str:
    """A table as people write it: `tool.dynalyze.audit`."""
    return f"tool.dynalyze.{name}"


def nearest_table(name: str, folder: Path) -> tuple[Mapping[str, Any], Path] | None:
    """The table of the nearest project that has it, from `folder` upwards, with its file; None where none has.

    Raises:
        UsageError: a file that speaks of us is no TOML, or holds a table that is not known.
    """
    for file in _projects(folder.resolve()):
        table = table_of(parsed(file), name, file)
        if table is not None:
            return table, file
    return None


def table_of(document: Mapping[str, Any], name: str, file: Path) -> Mapping[str, Any] | None:
    """The table of a document that was read from `file`; None where it has none.

    Raises:
        UsageError: another table of ours is not known, or this one is no table.
    """
    tools = document.get("tool", {})
    ours = tools.get("dynalyze") if isinstance(tools, dict) else None
    if ours is None:
        return None
    if not isinstance(ours, dict):
        raise UsageError(f"{file}: tool.dynalyze is a table: [{title(name)}]")
    check_keys(ours, TABLES, f"{file}, tool.dynalyze")
    table = ours.get(name)
    if table is None or isinstance(table, dict):
        return table
    raise UsageError(f"{file}: {title(name)} is a table: [{title(name)}]")


def _projects(folder: Path) -> Iterator[Path]:
    """The project files from here upwards that speak of us; others are nobody's business, broken or not."""
    for each in (folder, *folder.parents):
        file = each / PROJECT_FILE
        try:
            if file.is_file() and b"dynalyze" in read_input(file):
                yield file
        except OSError:
            continue

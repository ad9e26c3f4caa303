"""The tables `[tool.dynalyze.*]` of a project, and TOML that people write: one clear line for what is wrong in it."""

from __future__ import annotations

import contextlib
import difflib
import importlib.util
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dynalyze.files.read_write import read_input
from dynalyze.text.errors import UsageError
from dynalyze.text.escape import dashed


def parsed(path: Path) -> dict[str, Any]:
    """The TOML document in a file. Raises UsageError where it cannot be read, or this Python cannot read TOML."""
    # Python 3.11 and later bring one along.
    reader = next((name for name in ("tomllib", "tomli") if importlib.util.find_spec(name) is not None), None)
    if reader is None:
        raise UsageError(f"{path}: a TOML file needs Python 3.11 or later, or the package tomli: pip install tomli")
    try:
        document: dict[str, Any] = importlib.import_module(reader).loads(read_input(path).decode("utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except RecursionError:
        raise UsageError(f"{path}: it is nested too deeply") from None
    except ValueError as error:  # TOMLDecodeError and UnicodeDecodeError are of the first kind.
        raise UsageError(f"{path}: {error}") from error
    return document


def check_keys(table: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    """Raise UsageError for an unknown key, with the place and the nearest known one. `a_b` is `a-b`."""
    names = [dashed(name) for name in known]
    for key in table:
        if dashed(key) not in names:
            raise UsageError(f"{where}: {key!r} is not known{nearest(key, names)}")


def nearest(word: str, known: Iterable[str]) -> str:
    """The end of a message: "; did you mean graph-break?"; "" where nothing is known."""
    near = difflib.get_close_matches(dashed(word), list(known), n=1, cutoff=0.0)
    return f"; did you mean {near[0]}?" if near else ""


PROJECT_FILE = "pyproject.toml"
TABLES = ("audit",)
"""All that may stand below [tool.dynalyze]; a command with settings of its own adds its table here."""


def title(name: str) -> str:
    return f"tool.dynalyze.{name}"


def nearest_table(name: str, folder: Path) -> tuple[Mapping[str, Any], Path] | None:
    """The table of the nearest project that has it, from `folder` upwards, with its file; None where none has it.
    Raises UsageError for a file that names dynalyze and is no TOML or has an unknown table of ours.
    """
    folder = folder.resolve()
    for each in (folder, *folder.parents):
        file = each / PROJECT_FILE
        ours = False
        with contextlib.suppress(OSError):  # One that does not speak of us is nobody's business, broken or not.
            ours = file.is_file() and b"dynalyze" in read_input(file)
        if ours and (table := table_of(parsed(file), name, file)) is not None:
            return table, file
    return None


def table_of(document: Mapping[str, Any], name: str, file: Path) -> Mapping[str, Any] | None:
    """The table of a document from `file`; None where it has none. Raises UsageError for an unknown table of ours."""
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

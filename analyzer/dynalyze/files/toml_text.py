"""Reading TOML that people write: one clear line for what is wrong in it, with the nearest name that is known."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dynalyze.files.input_files import read_input
from dynalyze.text.errors import UsageError


def parsed(path: Path) -> dict[str, Any]:
    """The document in a file.

    Raises:
        UsageError: unreadable, or no TOML; or this Python has no reader of TOML.
    """
    reader = _reader(path)
    try:
        document: dict[str, Any] = reader.loads(read_input(path).decode("utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except RecursionError:
        raise UsageError(f"{path}: it is nested too deeply") from None
    except ValueError as error:  # TOMLDecodeError and UnicodeDecodeError are of the first kind.
        raise UsageError(f"{path}: {error}") from error
    return document


def check_keys(table: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    """Refuse a key that is not known; `a_b` means `a-b`.

    Raises:
        UsageError: one line with the place, the key and the nearest known one.
    """
    names = [dashed(name) for name in known]
    for key in table:
        if dashed(key) not in names:
            raise UsageError(f"{where}: {key!r} is not known{nearest(key, names)}")


def nearest(word: str, known: Iterable[str]) -> str:
    """The end of a sentence that names what was probably meant; empty where nothing is known."""
    near = difflib.get_close_matches(dashed(word), list(known), n=1, cutoff=0.0)
    return f"; did you mean {near[0]}?" if near else ""


def dashed(key: str) -> str:
    """A key as it is documented."""
    return key.replace("_", "-")


def _reader(path: Path) -> Any:
    """Python 3.11 and later bring one along."""
    for name in ("tomllib", "tomli"):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError:
            continue
    raise UsageError(f"{path}: a TOML file needs Python 3.11 or later, or the package tomli: pip install tomli")

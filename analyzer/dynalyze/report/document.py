"""The report as JSON text, and read back: `to_json` and `from_json` are inverse to each other."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from dynalyze.files.read_write import read_document
from dynalyze.report import SCHEMA_VERSION, Report
from dynalyze.text.json_text import json_text

# A list of numbers in indented JSON. No string holds a line's end, so this is never inside of one.
_NUMBERS = re.compile(r"\[\n([-+.\deE,\s]+)\]")


def to_json(report: msgspec.Struct) -> str:
    """A report, or a sweep, as indented JSON text, `schema_version` first."""
    fields = msgspec.structs.asdict(report)
    ordered = {"schema_version": fields.pop("schema_version"), **fields}
    return _NUMBERS.sub(lambda numbers: f"[{' '.join(numbers[1].split())}]", json_text(ordered))


def from_json(data: bytes | str) -> Report:
    """Read a report. Raises msgspec.DecodeError, which names the place, for what is none, and ValueError for one of
    another schema version.
    """
    content = data.encode() if isinstance(data, str) else data
    version = read_document(content, _Versioned).schema_version
    if version != SCHEMA_VERSION:
        raise ValueError(f"schema_version is {version}, this dynalyze reads {SCHEMA_VERSION}")
    return read_document(content, Report)


def is_report(data: bytes) -> bool:
    """Whether a file has the marks of a report, of any version: so that no other file is replaced by one."""
    try:
        msgspec.json.decode(data, type=_DocumentMarks)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


class _Versioned(msgspec.Struct):
    schema_version: int


class _DocumentMarks(_Versioned):
    dynalyze: str
    target: dict[str, Any]
    outcome: dict[str, Any]

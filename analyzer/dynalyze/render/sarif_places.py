"""Places in the code as SARIF has them: files by URI, relative where they are the user's own; columns from 1."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from dynalyze.files.paths import below
from dynalyze.report import Location, Target
from dynalyze.text.visible import visible

Object = dict[str, Any]

ROOT = "SRCROOT"
"""The name of the working directory of the run: a checkout elsewhere puts its own folder in its place."""


def artifact(file: str, folder: str) -> Object:
    """A file: relative to the working directory where it is below it, else by its whole path."""
    if (relative := below(file, folder)) is not None:
        return {"uri": quote(relative, errors="replace"), "uriBaseId": ROOT}
    if file.startswith("/"):
        return {"uri": _file_uri(file)}
    # What --redact left out stays "~" or "<tmp>"; what is relative is so to the working directory.
    return {"uri": quote(file, errors="replace"), **({} if file.startswith(("~", "<")) else {"uriBaseId": ROOT})}


def location(place: Location, folder: str, message: str = "") -> Object:
    """A line of code, with its columns and its text where they are known."""
    physical: Object = {"artifactLocation": artifact(place.file, folder)}
    if place.line > 0:
        physical["region"] = _region(place)
        if place.code:
            text = {"text": visible(place.code)}
            physical["contextRegion"] = {"startLine": place.line, "endLine": place.line, "snippet": text}
    found: Object = {"physicalLocation": physical}
    if place.function:
        found["logicalLocations"] = [{"fullyQualifiedName": visible(place.function), "kind": "function"}]
    if message:
        found["message"] = {"text": message}
    return found


def target_location(target: Target, folder: str) -> Object:
    """For what has no line of its own: what was run. Code scanning refuses a result without any place."""
    file, colon, _ = target.spec.partition(".py:")
    path = f"{file}.py" if colon else target.spec
    return location(Location(path or "unknown", 1 if path.endswith(".py") else 0), folder)


def roots(folder: str) -> Object:
    """Where relative files were in this run; without a URI where --redact hides that."""
    known: Object = {"description": {"text": "The working directory of the run."}}
    if folder.startswith("/") and "<" not in folder:
        known["uri"] = _file_uri(folder.rstrip("/") + "/")
    return {ROOT: known}


def _region(place: Location) -> Object:
    region: Object = {"startLine": place.line}
    if place.column is not None and place.column >= 0:
        region["startColumn"] = place.column + 1
        if place.end_column is not None and place.end_column > place.column:
            region |= {"endLine": place.line, "endColumn": place.end_column + 1}
    return region


def _file_uri(path: str) -> str:
    return f"file://{quote(path, errors='replace')}"

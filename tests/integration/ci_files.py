"""The files for CI that a run wrote, read back: SARIF that is valid by its schema, JUnit by test."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

from jsonschema import Draft4Validator

_SCHEMA = Draft4Validator(
    json.loads((Path(__file__).parents[1] / "data" / "sarif-2.1.0.json").read_text(encoding="utf-8"))
)
_OUTCOMES = ("failure", "error", "skipped")
OPTIONS = ("--sarif", "ci.sarif", "--junit", "ci.xml", "--markdown", "ci.md")
"""What writes them into the folder of a run."""


def sarif_results(folder: Path) -> list[dict[str, Any]]:
    """The results of the one run in it."""
    document = json.loads((folder / "ci.sarif").read_text(encoding="utf-8"))
    assert [error.message for error in _SCHEMA.iter_errors(document)] == []
    (run,) = document["runs"]
    results: list[dict[str, Any]] = run["results"]
    return results


def place_of(result: dict[str, Any]) -> tuple[str, int]:
    """File and line of a result, the file relative to the working directory of the run."""
    physical = result["locations"][0]["physicalLocation"]
    assert physical["artifactLocation"]["uriBaseId"] == "SRCROOT"
    return physical["artifactLocation"]["uri"], physical["region"]["startLine"]


def fingerprint_of(result: dict[str, Any]) -> str:
    """What code scanning knows a result by."""
    found: str = result["partialFingerprints"]["dynalyze/v1"]
    return found


def junit_outcomes(folder: Path) -> dict[str, str]:
    """What became of each test, by its class and the first word of its name; "" where it passed."""
    cases = ET.parse(folder / "ci.xml").getroot().iter("testcase")
    return {
        f"{case.get('classname')}.{(case.get('name') or '').partition(':')[0]}": next(
            (tag for tag in _OUTCOMES if case.find(tag) is not None), ""
        )
        for case in cases
    }


def comment_of(folder: Path) -> str:
    """The comment for a pull request."""
    return (folder / "ci.md").read_text(encoding="utf-8")

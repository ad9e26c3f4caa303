"""Prints the findings of a SARIF log as workflow commands, which GitHub shows at their lines in any pull request."""

from __future__ import annotations

import json
import sys
from pathlib import Path

LEVELS = {"error": "error", "warning": "warning"}
MOST = 10  # Of one level: GitHub shows no more of a step.


def commands(log: dict) -> list[str]:
    """A line for each finding at a line of the checkout that the policy does not let pass."""
    found: dict[str, list[str]] = {}
    for run in log["runs"]:
        for result in run.get("results", []):
            places = [each["physicalLocation"] for each in result.get("locations", []) if "physicalLocation" in each]
            if result.get("suppressions") or not places or "region" not in places[0]:
                continue
            level = LEVELS.get(result.get("level", "warning"), "notice")
            file, line = places[0]["artifactLocation"]["uri"], places[0]["region"]["startLine"]
            where = f"file={escaped(file, ':,')},line={line},title={escaped('dynalyze: ' + result['ruleId'], ':,')}"
            found.setdefault(level, []).append(f"::{level} {where}::{escaped(result['message']['text'])}")
    return [line for lines in found.values() for line in lines[:MOST]]


def escaped(text: str, more: str = "") -> str:
    """A text in a workflow command, where these characters have a meaning."""
    for mark in "%\r\n" + more:
        text = text.replace(mark, f"%{ord(mark):02X}")
    return text


if __name__ == "__main__":
    print("\n".join(commands(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))))

"""The action's annotations: a SARIF log as workflow commands of GitHub."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

from dynalyze.render import sarif
from sample_reports import hostile_report, rich_report

ROOT = Path(__file__).parents[3]


def annotate(log: Any) -> list[str]:
    spec = importlib.util.spec_from_file_location("annotate", ROOT / ".github" / "annotate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: list[str] = module.commands(log)
    return found


def result(**more: Any) -> dict[str, Any]:
    place = {"artifactLocation": {"uri": "a,b.py"}, "region": {"startLine": 7}}
    said = {"ruleId": "graph-break", "level": "error", "message": {"text": "50 %\nof it"}}
    return {**said, "locations": [{"physicalLocation": place}], **more}


def test_a_finding_is_a_command_at_its_line() -> None:
    line = "::error file=a%2Cb.py,line=7,title=dynalyze%3A graph-break::50 %25%0Aof it"
    assert annotate({"runs": [{"results": [result(), result(suppressions=[{}]), result(locations=[])]}]}) == [line]


def test_there_are_no_more_than_github_shows() -> None:
    many = [result() for _ in range(12)] + [result(level="note")]
    assert [line.split()[0] for line in annotate({"runs": [{"results": many}]})] == ["::error"] * 10 + ["::notice"]


def test_no_text_of_a_program_ends_a_command_or_begins_one() -> None:
    for report in (rich_report(), hostile_report()):
        for line in annotate(json.loads(sarif.render(report))):
            assert line.startswith(("::error ", "::warning ", "::notice ")) and len(line.splitlines()) == 1


def test_the_action_names_options_that_are_there() -> None:
    import yaml

    action = yaml.safe_load((ROOT / "action.yml").read_text())
    (_, run) = action["runs"]["steps"]
    assert action["runs"]["using"] == "composite"
    from dynalyze.cli.group import group

    audit = group.get_command(group.make_context("dynalyze", [], resilient_parsing=True), "audit")
    assert audit is not None
    given = ["model.py", "--python", "p", "--no-bench", "--sarif", "s", "--markdown", "m", "--html", "h"]
    assert all(word in run["run"] or word == "--no-bench" for word in given if word.startswith("--"))
    audit.make_context("audit", given)

"""The options for CI: what is written where, and what is refused before anything runs."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from dynalyze.cli.outputs import Outputs
from dynalyze.text.errors import UsageError
from sample_reports import rich_report


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def outputs(**changes: Any) -> Outputs:
    options = dict.fromkeys(("json_file", "html_file", "no_source", "redact", "show_values")) | {"fail_on": "none"}
    return Outputs({**options, **changes}, "model")


def test_each_goes_to_its_file_and_no_page_is_written(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert outputs(sarif="r.sarif", junit="r.xml", markdown="r.md").publish(rich_report()) == 0
    assert sorted(path.name for path in here.iterdir()) == ["r.md", "r.sarif", "r.xml"]
    assert json.loads((here / "r.sarif").read_text())["version"] == "2.1.0"
    assert ET.parse(here / "r.xml").getroot().tag == "testsuites"
    assert (here / "r.md").read_text().startswith("### ")
    told = capsys.readouterr().out
    assert all(name in told for name in ("SARIF", "JUnit", "Markdown", "r.sarif", "r.xml", "r.md"))


def test_a_comment_on_standard_output_stands_there_alone(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outputs(markdown="-", sarif="r.sarif").publish(rich_report())
    out = capsys.readouterr().out
    assert out.startswith("### ") and out.rstrip().endswith("</details>")
    assert [path.name for path in here.iterdir()] == ["r.sarif"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"json_file": "-", "markdown": "-"}, "--json - and --markdown - exclude each other"),
        ({"sarif": "r.x", "junit": "r.x"}, "--sarif and --junit both name r.x"),
        ({"json_file": "r.x", "markdown": "./r.x"}, "--json and --markdown both name"),
        ({"sarif": "-"}, "--sarif needs a file"),
        ({"junit": "-"}, "--junit needs a file"),
        ({"sarif": "gone/r.sarif"}, "no such directory: gone"),
        ({"markdown": ""}, "--markdown needs the name of a file"),
    ],
)
def test_what_is_refused(here: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        outputs(**changes)
    assert list(here.iterdir()) == []


def test_a_file_that_cannot_be_written_stays_whole(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "r.sarif").write_text("before")

    def refuse(*_: Any, **__: Any) -> str:
        raise ValueError("a mistake of ours")

    monkeypatch.setattr("dynalyze.render.sarif.render", refuse)
    with pytest.raises(ValueError, match="a mistake"):
        outputs(sarif="r.sarif").publish(rich_report())
    assert (here / "r.sarif").read_text() == "before"

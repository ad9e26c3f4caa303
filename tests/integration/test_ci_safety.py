"""The outputs for CI show no more than the others: no source where none is wanted, no names where they are left out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from program import dynalyze
from test_cli_safety import CANARY, at_home, full_report

FILES = {"--sarif": "out.sarif", "--junit": "out.xml", "--markdown": "out.md"}


def written(*arguments: str, cwd: Path, env: dict[str, str] | None = None) -> dict[str, str]:
    """Run a command with every output for CI, and read them back."""
    options = [word for pair in FILES.items() for word in pair]
    ended = dynalyze(*arguments, *options, cwd=cwd, env=env)
    assert all((cwd / name).exists() for name in FILES.values()), ended.stderr[-3000:]
    return {name: (cwd / name).read_text() for name in FILES.values()}


def holding(texts: dict[str, str], pattern: re.Pattern[str]) -> dict[str, set[str]]:
    return {name: set(pattern.findall(text)) for name, text in texts.items() if pattern.search(text)}


@pytest.fixture
def leaky(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Path:
    """A folder with `full.json`, the report of a program full of canaries, with everything in it."""
    (tmp_path / "full.json").write_text(full_report(tmp_path_factory))
    return tmp_path


def test_the_canaries_would_be_shown(leaky: Path) -> None:
    assert set(holding(written("report", "full.json", cwd=leaky), CANARY)) == set(FILES.values())


def test_no_source(leaky: Path) -> None:
    texts = written("report", "full.json", "--no-source", cwd=leaky)
    assert holding(texts, CANARY) == {}
    assert all("model.py" in text for text in texts.values())


def test_a_comment_on_standard_output_without_source(leaky: Path) -> None:
    ended = dynalyze("report", "full.json", "--no-source", "--markdown", "-", cwd=leaky)
    assert ended.stdout.startswith("### ")
    assert not CANARY.search(ended.stdout)


def test_redact(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> None:
    ada = at_home(tmp_path_factory)
    (tmp_path / "full.json").write_text(ada.written.json)
    assert holding(written("report", "full.json", cwd=tmp_path, env=ada.env), ada.names)
    assert holding(written("report", "full.json", "--redact", cwd=tmp_path, env=ada.env), ada.names) == {}

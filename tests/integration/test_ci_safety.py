"""The outputs for CI show no more than the others: no source where none is wanted, no names where they are left out."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest
from program import dynalyze
from test_cli_safety import CANARY, LEAKY, PROMPTS

FILES = {"--sarif": "out.sarif", "--junit": "out.xml", "--markdown": "out.md"}


def written(*arguments: str, cwd: Path, env: dict[str, str] | None = None) -> dict[str, str]:
    """Run a command with every output for CI, and read them back."""
    options = [word for pair in FILES.items() for word in pair]
    ended = dynalyze(*arguments, *options, cwd=cwd, env=env)
    assert all((cwd / name).exists() for name in FILES.values()), ended.stderr[-3000:]
    return {name: (cwd / name).read_text() for name in FILES.values()}


def holding(texts: dict[str, str], pattern: re.Pattern[str]) -> dict[str, set[str]]:
    return {name: set(pattern.findall(text)) for name, text in texts.items() if pattern.search(text)}


@pytest.fixture(scope="module")
def leaky(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `full.json`, the report of a program full of canaries, with everything in it."""
    folder = tmp_path_factory.mktemp("leaky-ci")
    (folder / "model.py").write_text(LEAKY)
    assert dynalyze("explain", "model.py", "--json", "full.json", "--show-values", cwd=folder).status == 3
    return folder


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


def test_redact(tmp_path: Path) -> None:
    home = tmp_path / "home-of-ada"
    home.mkdir()
    (home / "model.py").write_text(PROMPTS + "raise ValueError('/data/ada-the-user/weights')\n")
    env = {"HOME": str(home), "USER": "ada-the-user", "LOGNAME": "ada-the-user"}
    names = re.compile(rf"home-of-ada|ada-the-user|(?<![\w.-]){re.escape(socket.gethostname())}(?![\w.-])")
    dynalyze("explain", "model.py", "--json", "full.json", cwd=home, env=env)
    assert holding(written("report", "full.json", cwd=home, env=env), names)
    assert holding(written("report", "full.json", "--redact", cwd=home, env=env), names) == {}

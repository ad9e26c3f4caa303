"""Features can be taken out: without their folders, their commands and lines in the registry the rest works."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dynalyze import registry
from limits import WALL_SECONDS

ROOT = Path(__file__).resolve().parents[2]


OTHERS = tuple(name for name in registry.FEATURES if name != "break_cost")


@pytest.mark.parametrize("features", [("break_cost",), OTHERS], ids=["break_cost", "all others"])
def test_without_features_a_program_is_explained(features: tuple[str, ...], tmp_path: Path) -> None:
    commands = [f"{name}.py" for feature in features for _, name in registry.FEATURES[feature].commands]
    for folder in ("analyzer", "reports"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    package = tmp_path / "analyzer/dynalyze"
    for feature in features:
        for folder in (package / feature, tmp_path / "reports/templates" / feature):
            shutil.rmtree(folder, ignore_errors=True)
    for name in commands:
        (package / "cli" / name).unlink()
    names = package / "registry.py"
    gone = "".join(f"FEATURES.pop({feature!r})\n" for feature in features)
    names.write_text(names.read_text().replace("@cache", f"{gone}\n\n@cache", 1))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "analyzer")}
    command = [sys.executable, "-m", "dynalyze", "explain", str(ROOT / "samples/breaks.py"), "--html", "page.html"]
    if features != ("break_cost",):  # It alone has a part in the benchmark.
        command.append("--no-bench")
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=WALL_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    help_text = subprocess.run(
        [*command[:3], "--help"], env=environment, capture_output=True, text=True, check=True
    ).stdout
    assert not any(re.search(rf"^  {name.removesuffix('.py')}\b", help_text, re.M) for name in commands)
    assert 'id="fixes"' in (tmp_path / "page.html").read_text()

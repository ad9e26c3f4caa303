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


NET = "import torch\nnet, example_inputs = torch.nn.Linear(4, 4), (torch.ones(2, 4),)\n"
QUICK = ("--backend", "eager", "--seconds", "0.2", "--pairs", "1", "--no-accuracy", "--no-memory")


@pytest.mark.slow
def test_without_any_feature_a_program_is_explained_and_measured(tmp_path: Path) -> None:
    commands = [f"{name}.py" for feature in registry.FEATURES.values() for _, name in feature.commands]
    for folder in ("analyzer", "reports"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    package = tmp_path / "analyzer/dynalyze"
    for feature in registry.FEATURES:
        for folder in (package / feature, tmp_path / "reports/templates" / feature):
            shutil.rmtree(folder, ignore_errors=True)
    for name in commands:
        (package / "cli" / name).unlink()
    names = package / "registry.py"
    names.write_text(names.read_text().replace("@cache", "FEATURES.clear()\n\n\n@cache", 1))
    (tmp_path / "net.py").write_text(NET)

    def run(*arguments: str | Path) -> str:
        environment = {**os.environ, "PYTHONPATH": str(tmp_path / "analyzer")}
        done = subprocess.run(
            [sys.executable, "-m", "dynalyze", *map(str, arguments)], cwd=tmp_path, env=environment,
            capture_output=True, text=True, timeout=WALL_SECONDS, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("explain", ROOT / "samples/breaks.py", "--no-bench", "--html", "page.html")
    assert 'id="fixes"' in (tmp_path / "page.html").read_text()
    assert "eager" in run("bench", "net.py:net", *QUICK)
    shown = run("--help")
    assert not any(re.search(rf"^  {name.removesuffix('.py')}\b", shown, re.M) for name in commands)

"""A feature can be taken out: without its folders and its line in the registry the rest works."""

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


@pytest.mark.parametrize("feature", registry.FEATURES)
def test_without_a_feature_a_program_is_explained(feature: str, tmp_path: Path) -> None:
    kept = shutil.ignore_patterns(feature, "__pycache__")
    for folder in ("analyzer", "reports"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=kept)
    names = tmp_path / "analyzer/dynalyze/registry.py"
    names.write_text(re.sub(rf'"{feature}": \([^)]*\),?', "", names.read_text()))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "analyzer")}
    command = [sys.executable, "-m", "dynalyze", "explain", str(ROOT / "samples/breaks.py"), "--html", "page.html"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=WALL_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    assert 'id="fixes"' in (tmp_path / "page.html").read_text()

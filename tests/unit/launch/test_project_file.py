"""The tables of a project: the nearest one counts, and what is not known is told."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dynalyze.files import project_file
from dynalyze.files.project_file import nearest_table
from dynalyze.launch.spec import read_target
from dynalyze.text.errors import UsageError

pytestmark = pytest.mark.skipif(sys.version_info < (3, 11), reason="Python brings no reader of TOML before 3.11")


def project(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "pyproject.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_the_search_begins_at_the_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = project(tmp_path / "served", "[tool.dynalyze.audit]\nmax-graph-breaks = 1\n")
    project(tmp_path / "here", "[tool.dynalyze.audit]\nmax-graph-breaks = 2\n")
    models = tmp_path / "served" / "models"
    models.mkdir()
    (models / "net.py").touch()
    monkeypatch.chdir(tmp_path / "here")
    for spec in ("../served/models/net.py", "../served/models/net.py:Net"):
        assert nearest_table("audit", read_target(spec, None, ()).folder) == ({"max-graph-breaks": 1}, file)
    for target in (read_target("hf:LlamaModel", None, ()), read_target(None, "package.module", ())):
        found = nearest_table("audit", target.folder)
        assert found is not None and found[0] == {"max-graph-breaks": 2}


def test_another_table_can_be_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project(tmp_path, "[tool.dynalyze.sweep]\nworkers = 2\n")
    with pytest.raises(UsageError, match="'sweep' is not known; did you mean audit"):
        nearest_table("audit", tmp_path)
    monkeypatch.setattr(project_file, "TABLES", ("audit", "sweep"))
    assert nearest_table("audit", tmp_path) is None
    found = nearest_table("sweep", tmp_path)
    assert found is not None and found[0] == {"workers": 2}

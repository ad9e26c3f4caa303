"""The tables of a project, and writing below one folder, whatever the program put in the way meanwhile."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dynalyze.files import project_file
from dynalyze.files.project_file import nearest_table
from dynalyze.files.read_write import write_below
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


def ours(data: bytes) -> bool:
    return data.startswith(b"ours")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for each in ("root/inner", "outside/inner"):
        (tmp_path / each).mkdir(parents=True)
    (tmp_path / "outside" / "file").write_text("ours of another folder")
    return tmp_path / "root"


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_file_of_ours_is_replaced_and_keeps_its_mode(root: Path) -> None:
    file = root / "inner" / "file"
    write_below(root, file, b"ours 1", ours)
    file.chmod(0o640)
    write_below(root, file, b"ours 2", ours)
    assert file.read_bytes() == b"ours 2" and file.stat().st_mode & 0o777 == 0o640
    assert names(root) == ["inner", "inner/file"]


@pytest.mark.parametrize("kind", ["file", "folder", "link", "dangling link", "linked folder", "no folder"])
def test_what_is_in_the_way_is_refused(root: Path, kind: str) -> None:
    inner, file, outside = root / "inner", root / "inner" / "file", root.parent / "outside"
    if kind == "file":
        file.write_text("theirs")
    elif kind == "folder":
        file.mkdir()
    elif kind.endswith("link"):
        file.symlink_to(outside / ("file" if kind == "link" else "new"))
    else:
        inner.rmdir()
        if kind == "linked folder":
            inner.symlink_to(outside / "inner")
    before = names(root.parent)
    with pytest.raises(UsageError):
        write_below(root, file, b"ours", ours)
    assert names(root.parent) == before
    assert (outside / "file").read_text() == "ours of another folder"

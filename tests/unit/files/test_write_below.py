"""Writing below one folder, whatever the program put in the way since the path was looked at."""

from __future__ import annotations

from pathlib import Path

import pytest

from dynalyze.files.read_write import write_below
from dynalyze.text.errors import UsageError


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

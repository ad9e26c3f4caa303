"""Files that somebody else's log names stay closed."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from dynalyze.facts.sources import LogSources

TEXT = "x = 1\ny = 2\n"
HASH = hashlib.sha256(TEXT.encode()).hexdigest()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    path = tmp_path / "src" / "model.py"
    path.write_text(TEXT)
    return path


def test_a_file_with_its_recorded_hash_below_a_root_is_read(file: Path) -> None:
    sources = LogSources({(str(file), 2): "quoted"}, [file.parent], {str(file): HASH})
    assert sources.location(str(file), 2).code == "y = 2"
    assert sources.location(str(file), 3).code is None


@pytest.mark.parametrize("hashes", [{}, {"other": HASH}, {"file": ""}, {"file": "0" * 64}])
def test_without_a_matching_hash_it_stays_closed(file: Path, hashes: dict[str, str]) -> None:
    recorded = {str(file) if name == "file" else name: value for name, value in hashes.items()}
    assert LogSources({}, [file.parent], recorded).line(str(file), 1) is None


def test_outside_the_roots_it_stays_closed(file: Path) -> None:
    hashes = {str(file): HASH}
    assert LogSources({}, [], hashes).line(str(file), 1) is None
    assert LogSources({}, [file.parent / "deeper"], hashes).line(str(file), 1) is None


def test_a_link_that_leads_out_of_the_root_stays_closed(file: Path) -> None:
    root = file.parent.parent / "root"
    root.mkdir()
    for link, target in (("link.py", file), ("up.py", root / ".." / "src" / "model.py")):
        (root / link).symlink_to(target)
    for named in (root / "link.py", root / "up.py", root / ".." / "src" / "model.py"):
        assert LogSources({}, [root], {str(named): HASH}).line(str(named), 1) is None


def test_quoted_lines_are_all_there_is_otherwise(file: Path) -> None:
    sources = LogSources({("/job/m.py", 7): "return f(x)"})
    location = sources.location("/job/m.py", 7, "g")
    assert (location.code, location.column) == ("return f(x)", None)
    assert sources.snippet(location) is None
    assert sources.line(str(file), 1) is None

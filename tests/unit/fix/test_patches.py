"""Changes as diffs: written, read back, and put into files."""

from __future__ import annotations

import subprocess
import sysconfig
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynalyze.fix.source_files import is_library, line_before, name_of, patch_of, unified
from dynalyze.fix.verify import changed_files, patched_files
from dynalyze.text.errors import UsageError

LINES = st.lists(st.sampled_from(["a\n", "b\n", "    c\n", "\n", "- d\n", "+ e\n", "@@ f\n"]), max_size=12).map("".join)


def patched(patch: str, root: Path) -> dict[str, bytes | None]:
    """What a patch makes of files, by name; None for one that it removes."""
    file = root.parent / f"{root.name}.patch"
    file.write_text(patch)
    with patched_files(file, root) as change:
        return {
            str(Path(path).relative_to(root)): Path(new).read_bytes() if new else None for path, new in change.items()
        }


@settings(max_examples=25, deadline=None)
@given(before=LINES, after=LINES, ends=st.sampled_from(["", "x"]))
def test_a_diff_read_back_is_the_change(
    before: str, after: str, ends: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("root")
    (root / "m.py").write_text(before + ends)
    if patch := unified(before + ends, after + ends, "m.py"):
        assert patched(patch, root) == {"m.py": (after + ends).encode()}


def test_git_takes_the_diff(tmp_path: Path) -> None:
    before, after = "one\ntwo\nthree", "one\n2\nthree"  # No newline at the end of either.
    (tmp_path / "m.py").write_text(before)
    (tmp_path / "p.diff").write_text(
        patch_of({str(tmp_path / "m.py"): before}, {str(tmp_path / "m.py"): after}, tmp_path)
    )
    subprocess.run(["git", "apply", "p.diff"], cwd=tmp_path, check=True)
    assert (tmp_path / "m.py").read_text() == after


def test_where_lines_were() -> None:
    before, after = "a\nb\nc\nd\n", "a\nnew\nb\nC\nd\n"
    assert [line_before(before, after, line) for line in range(1, 6)] == [1, None, 2, None, 4]


def test_files_of_any_kind_are_changed_made_and_removed(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("a\n")
    (tmp_path / "README.md").write_text("It's a readme (\n")
    (tmp_path / "old.txt").write_text("old\n")
    readme = unified("It's a readme (\n", "It's another\n", "README.md")
    new = "--- /dev/null\n+++ b/data/new.txt\n@@ -0,0 +1 @@\n+new\n"
    gone = "--- a/old.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-old\n"
    found = patched(readme + unified("a\n", "b\n", "m.py") + new + gone, tmp_path)
    assert found == {"README.md": b"It's another\n", "m.py": b"b\n", "data/new.txt": b"new\n", "old.txt": None}
    assert (tmp_path / "m.py").read_text() == "a\n" and (tmp_path / "old.txt").exists()


def test_lines_that_look_like_the_head_of_a_file_are_lines(tmp_path: Path) -> None:
    before = "-- old\nx = 1\ny = 2\n"
    (tmp_path / "m.py").write_text(before)
    patch = "--- a/m.py\n+++ b/m.py\n@@ -1,3 +1,2 @@\n--- old\n x = 1\n y = 2\n"
    assert patched(patch, tmp_path) == {"m.py": b"x = 1\ny = 2\n"}


def test_a_patch_that_does_not_fit(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "m.py").write_text("something else\n")
    (root / "link.py").symlink_to(tmp_path / "m.py")
    (tmp_path / "m.py").write_text("a\n")
    for patch in [
        unified("a\n", "b\n", "m.py"), unified("a\n", "b\n", "other.py"), unified("a\n", "b\n", "../m.py"),
        unified("a\n", "b\n", "link.py"), "words",
    ]:  # fmt: skip
        with pytest.raises(UsageError, match=r"root.patch does not apply|is not below"):
            patched(patch, root)


def test_files_of_libraries_are_known_and_named_from_their_package() -> None:
    file = "/venv/lib/python3.12/site-packages/transformers/models/bert/modeling_bert.py"
    assert is_library(file) and is_library(f"{sysconfig.get_paths()['stdlib']}/json/decoder.py")
    assert name_of(file, Path("/work")) == "transformers/models/bert/modeling_bert.py"
    other = "/opt/python/lib/python3.9/json/decoder.py"  # Of an interpreter that is not ours.
    assert is_library(other)
    assert not is_library("/work/model.py") and name_of("/work/model.py", Path("/work")) == "model.py"


def test_the_files_of_two_checkouts(tmp_path: Path) -> None:
    for folder, helper in (("one", "1\n"), ("two", "2\n")):
        (tmp_path / folder / "lib").mkdir(parents=True)
        (tmp_path / folder / "model.py").write_text("same\n")
        (tmp_path / folder / "lib" / "helper.py").write_text(helper)
    (tmp_path / "one" / "data.csv").write_text("1")
    (tmp_path / "two" / "new.bin").write_bytes(b"\x00")
    (tmp_path / "two" / ".git").mkdir()
    (tmp_path / "two" / ".git" / "HEAD").write_text("x")
    one, two = (tmp_path / name for name in ("one", "two"))
    assert changed_files(one / "model.py", two / "model.py") == {
        str(one / "data.csv"): "",
        str(one / "lib" / "helper.py"): str(two / "lib" / "helper.py"),
        str(one / "new.bin"): str(two / "new.bin"),
    }
    with pytest.raises(UsageError, match="do not differ"):
        changed_files(one / "model.py", one / "model.py")


def test_of_two_checkouts_of_git_the_whole_counts(tmp_path: Path) -> None:
    for folder, value in (("one", "1"), ("two", "2")):
        (tmp_path / folder / "src").mkdir(parents=True)
        (tmp_path / folder / "src" / "model.py").write_text("same\n")
        (tmp_path / folder / "value.txt").write_text(value)
        subprocess.run(["git", "init", "-q"], cwd=tmp_path / folder, check=True)
    one, two = (tmp_path / name for name in ("one", "two"))
    assert changed_files(one / "src" / "model.py", two / "src" / "model.py") == {
        str(one / "value.txt"): str(two / "value.txt")
    }


def test_links_modes_and_empty_folders_are_of_a_change_too(tmp_path: Path) -> None:
    for folder, data in (("one", "1\n"), ("two", "2\n")):
        (tmp_path / folder / "kept" / data.strip()).mkdir(parents=True)
        (tmp_path / folder / "kept" / data.strip() / "a.txt").write_text(data)
        (tmp_path / f"outside{folder}").mkdir()
        (tmp_path / f"outside{folder}" / "scale.txt").write_text(data)
        (tmp_path / folder / "model.py").write_text("same\n")
        (tmp_path / folder / "data").symlink_to(tmp_path / f"outside{folder}")
        (tmp_path / folder / "loop").symlink_to(tmp_path / folder)
        (tmp_path / folder / "inner").symlink_to(tmp_path / folder / "kept" / data.strip())
        (tmp_path / folder / "tool.sh").write_text("echo\n")
    (tmp_path / "one" / "tool.sh").chmod(0o755)
    (tmp_path / "two" / "tool.sh").chmod(0o644)
    (tmp_path / "one" / "out").mkdir()
    one, two = ((tmp_path / folder).resolve() for folder in ("one", "two"))
    assert changed_files(one / "model.py", two / "model.py") == {
        str(one / "data" / "scale.txt"): str(two / "data" / "scale.txt"),
        str(one / "tool.sh"): str(two / "tool.sh"),
        str(one / "out"): "",
        str(one / "inner" / "a.txt"): str(two / "inner" / "a.txt"),
        str(one / "kept" / "1" / "a.txt"): "",
        str(one / "kept" / "2" / "a.txt"): str(two / "kept" / "2" / "a.txt"),
    }

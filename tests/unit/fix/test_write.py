"""Changes written into files: bytes that stay, what is beside them, and what happens where one cannot be written."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynalyze.capture.source_lines import lines_of
from dynalyze.fix import git
from dynalyze.fix import write as writing
from dynalyze.fix.source_files import FileText, Originals, patch_bytes, patch_of
from dynalyze.fix.write import WrittenFile, write
from dynalyze.text.errors import UsageError

BREAK = b"    break_here()\n"
OLD = b"import torch\n\n\ndef f(x):\n" + BREAK + b"    return x\n"
NEW = OLD.replace(BREAK, b"")
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="another owner is for root to give")


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Git of nobody's own settings, in a folder that is below no repository."""
    monkeypatch.chdir(tmp_path)
    for name, value in {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "HOME": str(tmp_path),
                        "GIT_CEILING_DIRECTORIES": str(tmp_path.parent)}.items():  # fmt: skip
        monkeypatch.setenv(name, value)


def run_git(*words: str, cwd: Path) -> None:
    named = ["-c", "user.name=a", "-c", "user.email=b@c"]
    subprocess.run(["git", *named, *words], cwd=cwd, check=True, capture_output=True)


def committed(folder: Path, content: bytes = OLD, name: str = "net.py") -> Path:
    """A file that the last commit of a new repository holds."""
    file = folder / name
    file.write_bytes(content)
    run_git("init", "-q", cwd=folder)
    run_git("--literal-pathspecs", "add", "--", name, cwd=folder)
    run_git("commit", "-qm", "c", cwd=folder)
    return file


def without_break(*files: Path) -> tuple[Originals, dict[str, str]]:
    """The files as `fix` reads them, and their texts without the line of the break."""
    originals = Originals(map(str, files))
    assert set(originals) == set(map(str, files))
    return originals, {
        file: "".join(line for line in lines_of(text) if "break_here" not in line)
        for file, text in originals.items()
    }  # fmt: skip


def fix(*files: Path) -> list[WrittenFile]:
    return write(*without_break(*files))


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below a folder but git's own."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*")) if path.is_file() and ".git" not in path.parts
    }  # fmt: skip


# Bytes.

KINDS = {
    "plain": OLD,
    "crlf": OLD.replace(b"\n", b"\r\n"),
    "mixed ends": OLD.replace(b"torch\n", b"torch\r\n").replace(b"return x\n", b"return x\r\n"),
    "the break alone in crlf": OLD.replace(BREAK, b"    break_here()\r\n"),
    "old macs": OLD.replace(b"\n", b"\r"),
    "mark": b"\xef\xbb\xbf" + OLD,
    "mark and crlf": b"\xef\xbb\xbf" + OLD.replace(b"\n", b"\r\n"),
    "latin-1": b"# -*- coding: latin-1 -*-\nNAME = '\xe9\xff'\n" + OLD,
    "shift_jis": b"# coding: shift_jis\nNAME = '" + "\u8868\u30bd".encode("shift_jis") + b"'\n" + OLD,
    "utf-8": "NAME = '\u00e9\U0001f525'\n".encode() + OLD,
    "form feeds": b"\x0c\n" + OLD.replace(b"\n\n", b"\n\x0c\n") + b"\x0c\n",
    "file separators": b"NAME = 'a\x1cb\x1dc\x1ed\x0be'\n" + OLD,
    "line separators": "NAME = 'a\u2028b\u2029c\u0085d'\n".encode() + OLD,
    "no end": OLD.removesuffix(b"\n"),
    "crlf, no end": OLD.replace(b"\n", b"\r\n").removesuffix(b"\r\n"),
    "blanks at ends": OLD.replace(b"torch\n", b"torch \t\n"),
}


def the_line(content: bytes) -> bytes:
    """The line of the break with its end, whatever that is."""
    begin = content.index(b"    break_here()")
    rest = content[begin + 16 :]
    end = next(each for each in (b"\r\n", b"\n", b"\r") if rest.startswith(each))
    return content[begin : begin + 16 + len(end)]


@pytest.mark.parametrize("kind", KINDS)
def test_all_bytes_but_those_of_the_line_stay(kind: str, tmp_path: Path) -> None:
    content, file = KINDS[kind], tmp_path / "net.py"
    file.write_bytes(content)
    expected = content.replace(the_line(content), b"")
    assert len(expected) < len(content)
    (written,) = fix(file)
    assert file.read_bytes() == expected
    assert (tmp_path / "net.py.orig").read_bytes() == content
    assert str(written) == "Wrote net.py (backup: net.py.orig). Undo: mv net.py.orig net.py"
    subprocess.run(written.undo, shell=True, check=True)
    assert tree(tmp_path) == {"net.py": content}


@pytest.mark.parametrize("kind", [each for each in KINDS if each != "old macs"])
def test_git_takes_the_diff_of_every_kind(kind: str, tmp_path: Path) -> None:
    content, file = KINDS[kind], tmp_path / "net.py"
    file.write_bytes(content)
    (tmp_path / "p.diff").write_bytes(patch_bytes(*without_break(file), tmp_path))
    run_git("apply", "p.diff", cwd=tmp_path)
    assert file.read_bytes() == content.replace(the_line(content), b"")


@pytest.mark.parametrize("name", ["a b.py", 'a"b.py', "a\\b.py", "a\nb.py", "\u00e9.py", "a\tb.py"])
def test_git_takes_the_diff_of_a_file_of_any_name(name: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_bytes(OLD)
    (tmp_path / "p.diff").write_text(patch_of(*without_break(file), tmp_path), encoding="utf-8")
    run_git("apply", "p.diff", cwd=tmp_path)
    assert file.read_bytes() == NEW


ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])


@settings(max_examples=100)
@given(lines=st.lists(st.tuples(ENDS, st.booleans(), st.booleans()), min_size=1, max_size=12), marked=st.booleans())
def test_every_line_that_stays_keeps_its_own_end(lines: list[tuple[bytes, bool, bool]], marked: bool) -> None:
    """Each line stays or goes, and has a new one below it or not."""
    mark = b"\xef\xbb\xbf" if marked else b""
    source = FileText.of(mark + b"".join(b"a%d = 1" % number + end for number, (end, _, _) in enumerate(lines)))
    text, stays = "", []
    for number, (end, kept, more) in enumerate(lines):
        if kept:
            text += f"a{number} = 1\n"
            stays.append(b"a%d = 1" % number + end)
        text += f"b{number} = 2\n" if more else ""
    made = source.content_of(text)
    assert made.startswith(mark) and FileText.of(made).text == text
    assert re.findall(rb"a\d+ = 1(?:\r\n|\r|\n)", made) == stays


def test_lines_that_are_put_in_end_as_those_around_them(tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    file.write_bytes(b"a = 1\r\nb = 2\r\n")
    originals = Originals([str(file)])
    write(originals, {str(file): "import c\na = 1\nb = 2\nd = 3"})
    assert file.read_bytes() == b"import c\r\na = 1\r\nb = 2\r\nd = 3"


def test_a_text_that_the_encoding_cannot_hold_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    file.write_bytes(content := b"# coding: latin-1\nNAME = '\xe9'\n")
    originals = Originals([str(file)])
    with pytest.raises(UsageError, match="iso-8859-1"):
        write(originals, {str(file): originals[str(file)] + "MORE = '\u20ac'\n"})
    assert tree(tmp_path) == {"net.py": content}


def test_what_python_cannot_read_is_never_analysed(tmp_path: Path) -> None:
    for content in (b"NAME = '\xe9'\n", b"# coding: nothing\n", b"\xef\xbb\xbf# coding: latin-1\n"):
        (tmp_path / "net.py").write_bytes(content)
        assert not Originals([str(tmp_path / "net.py")])


# The copy of the old bytes.


def test_what_git_gives_back_needs_no_copy(tmp_path: Path) -> None:
    file = committed(tmp_path)
    (written,) = fix(file)
    assert tree(tmp_path) == {"net.py": NEW}
    assert str(written) == "Wrote net.py (git has the original). Undo: git checkout -- net.py"
    subprocess.run(written.undo, shell=True, check=True, capture_output=True)
    assert tree(tmp_path) == {"net.py": OLD}


def test_no_copy_that_is_there_is_written_to(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_bytes(OLD)
    (tmp_path / "net.py.orig").write_bytes(b"mine")
    (tmp_path / "net.py.orig.1").symlink_to("nowhere")
    (written,) = fix(tmp_path / "net.py")
    assert tree(tmp_path) == {"net.py": NEW, "net.py.orig": b"mine", "net.py.orig.2": OLD}
    assert written.backup == "net.py.orig.2" and not (tmp_path / "nowhere").exists()


def _skip_worktree(folder: Path) -> None:
    run_git("update-index", "--skip-worktree", "net.py", cwd=folder)


def _assume_unchanged(folder: Path) -> None:
    run_git("update-index", "--assume-unchanged", "net.py", cwd=folder)


def _other_commit(folder: Path) -> None:
    (folder / "net.py").write_bytes(b"# other\n")
    run_git("commit", "-qam", "other", cwd=folder)
    (folder / "net.py").write_bytes(OLD)


def _other_index(folder: Path) -> None:
    (folder / "net.py").write_bytes(b"# staged\n")
    run_git("add", "net.py", cwd=folder)
    (folder / "net.py").write_bytes(OLD)


def _clean_filter(folder: Path) -> None:
    run_git("config", "filter.upper.clean", "tr a-z A-Z", cwd=folder)
    run_git("config", "filter.upper.smudge", "tr A-Z a-z", cwd=folder)
    (folder / ".gitattributes").write_text("*.py filter=upper\n")
    run_git("add", "--renormalize", "net.py", cwd=folder)
    run_git("commit", "-qm", "as the filter has it", cwd=folder)


def _autocrlf(folder: Path) -> None:
    run_git("config", "core.autocrlf", "true", cwd=folder)


def _removed_from_index(folder: Path) -> None:
    run_git("rm", "-q", "--cached", "net.py", cwd=folder)


@pytest.mark.parametrize(
    "spoil",
    [_skip_worktree, _assume_unchanged, _other_commit, _other_index, _clean_filter, _autocrlf, _removed_from_index],
)
def test_a_copy_is_made_where_git_would_give_back_something_else(spoil: Callable[[Path], None], tmp_path: Path) -> None:
    """The file has the bytes of the first commit each time; what changes is what git makes of them."""
    file = committed(tmp_path)
    spoil(tmp_path)
    fix(file)
    assert (tmp_path / "net.py.orig").read_bytes() == OLD and file.read_bytes() == NEW


@pytest.mark.parametrize("hide", [_skip_worktree, _assume_unchanged])
def test_a_change_that_git_was_told_not_to_see_is_copied(hide: Callable[[Path], None], tmp_path: Path) -> None:
    file = committed(tmp_path)
    hide(tmp_path)
    file.write_bytes(OLD + b"# mine\n")
    fix(file)
    assert (tmp_path / "net.py.orig").read_bytes() == OLD + b"# mine\n"


def test_crlf_that_git_keeps_as_lf_is_copied(tmp_path: Path) -> None:
    content = OLD.replace(b"\n", b"\r\n")
    file = tmp_path / "net.py"
    file.write_bytes(content)
    run_git("init", "-q", cwd=tmp_path)
    run_git("config", "core.autocrlf", "input", cwd=tmp_path)
    run_git("add", ".", cwd=tmp_path)
    run_git("commit", "-qm", "c", cwd=tmp_path)
    fix(file)
    assert (tmp_path / "net.py.orig").read_bytes() == content


def test_untracked_and_ignored_files_are_copied(tmp_path: Path) -> None:
    committed(tmp_path)
    (tmp_path / ".gitignore").write_text("ignored.py\n")
    for name in ("untracked.py", "ignored.py"):
        (tmp_path / name).write_bytes(OLD)
        fix(tmp_path / name)
        assert (tmp_path / f"{name}.orig").read_bytes() == OLD


def test_a_pattern_that_fits_other_files_is_a_name(tmp_path: Path) -> None:
    """`model[1].py` is untracked, and `model1.py`, which the pattern fits, is committed; then it is committed too."""
    committed(tmp_path, name="model1.py")
    file = tmp_path / "model[1].py"
    file.write_bytes(OLD)
    fix(file)
    assert (tmp_path / "model[1].py.orig").read_bytes() == OLD
    file.write_bytes(OLD)
    run_git("--literal-pathspecs", "add", file.name, cwd=tmp_path)
    run_git("commit", "-qm", "c", cwd=tmp_path)
    (tmp_path / "model1.py").write_bytes(b"# mine\n")
    (written,) = fix(file)
    assert written.backup is None
    subprocess.run(written.undo, shell=True, check=True, capture_output=True)
    assert file.read_bytes() == OLD and (tmp_path / "model1.py").read_bytes() == b"# mine\n"


NAMES = ["a b.py", "it's.py", 'a"b.py', "-f.py", "a\nb.py", "a\x1b[1mb.py", ":(literal)x.py", "$(touch x).py", "*.py"]


@pytest.mark.parametrize("in_git", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_what_undoes_it_can_be_pasted_whatever_the_name(name: str, in_git: bool, tmp_path: Path) -> None:
    file = committed(tmp_path, name=name) if in_git else tmp_path / name
    file.write_bytes(OLD)
    (written,) = fix(file)
    assert (written.backup is None) is in_git
    assert file.read_bytes() == NEW and "\n" not in str(written) and "\x1b" not in str(written)
    subprocess.run(["bash", "-c", written.undo], check=True, capture_output=True)
    assert tree(tmp_path) == {name: OLD}


def test_a_file_of_another_repository_is_restored_there(tmp_path: Path) -> None:
    below = tmp_path / "other repo"
    below.mkdir()
    file = committed(below)
    (written,) = fix(file)
    assert written.undo == "git -C 'other repo' checkout -- net.py"
    subprocess.run(written.undo, shell=True, check=True, capture_output=True)
    assert file.read_bytes() == OLD


def test_without_git_a_copy_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = committed(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    fix(file)
    assert (tmp_path / "net.py.orig").read_bytes() == OLD


def test_a_git_that_hangs_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = committed(tmp_path)
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "git").write_text("#!/bin/sh\nsleep 300 & echo $! > child; wait\n")
    (tools / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.setattr(git, "_SECONDS", 0.5)
    begin = time.monotonic()
    fix(file)
    assert (tmp_path / "net.py.orig").read_bytes() == OLD and time.monotonic() - begin < 60
    child = int((tmp_path / "child").read_text())
    while Path(f"/proc/{child}/stat").exists() and " Z " not in Path(f"/proc/{child}/stat").read_text():
        assert time.monotonic() - begin < 60
        time.sleep(0.05)


# All or none.


def edited_while_git_answers(monkeypatch: pytest.MonkeyPatch, edited: Path, content: bytes) -> None:
    asked = writing.is_in_git

    def is_in_git(path: Path, old: bytes) -> bool:
        answer = asked(path, old)
        edited.write_bytes(content)
        return answer

    monkeypatch.setattr(writing, "is_in_git", is_in_git)


def test_an_edit_while_git_answers_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "net.py"
    file.write_bytes(OLD)
    edited_while_git_answers(monkeypatch, file, OLD + b"# mine\n")
    with pytest.raises(UsageError, match=r"net\.py has changed meanwhile"):
        fix(file)
    assert tree(tmp_path) == {"net.py": OLD + b"# mine\n"}


def test_an_edit_of_the_second_file_undoes_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = tmp_path / "a.py", tmp_path / "b.py"
    one.write_bytes(OLD)
    other.write_bytes(OLD)
    os.utime(one, ns=(10**18, 10**18))
    edited_while_git_answers(monkeypatch, other, b"# mine\n")
    with pytest.raises(UsageError, match=r"b\.py has changed meanwhile"):
        fix(one, other)
    assert tree(tmp_path) == {"a.py": OLD, "b.py": b"# mine\n"} and one.stat().st_mtime_ns == 10**18


@pytest.mark.parametrize("content", [OLD + b"# mine\n", OLD.replace(b"\n", b"\r\n")])
def test_an_edit_since_it_was_analysed_stays(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    file.write_bytes(OLD)
    originals, texts = without_break(file)
    file.write_bytes(content)
    with pytest.raises(UsageError, match="has changed meanwhile"):
        write(originals, texts)
    assert tree(tmp_path) == {"net.py": content}


def test_a_file_that_is_gone_is_told(tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    file.write_bytes(OLD)
    originals, texts = without_break(file)
    file.unlink()
    with pytest.raises(UsageError, match="can no longer be read"):
        write(originals, texts)
    assert not tree(tmp_path)


@pytest.mark.parametrize("links", [1, 2])
def test_a_second_file_that_fails_undoes_the_first(links: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a second name the first is written in place, and put back there."""
    one, other = tmp_path / "a.py", tmp_path / "b.py"
    for file in (one, other):
        file.write_bytes(OLD)
    if links > 1:
        os.link(one, tmp_path / "same.py")
    before, number = tree(tmp_path), one.stat().st_ino
    replace = Path.replace

    def refusing(self: Path, target: Path) -> Path:
        if target == other:
            raise PermissionError(1, "Operation not permitted", str(target))
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", refusing)
    with pytest.raises(UsageError, match=r"--write: b\.py cannot be written: Operation not permitted; nothing"):
        fix(one, other)
    assert tree(tmp_path) == before
    assert links == 1 or one.stat().st_ino == number


def test_a_signal_between_two_files_undoes_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = tmp_path / "a.py", tmp_path / "b.py"
    for file in (one, other):
        file.write_bytes(OLD)
    replace = Path.replace

    def interrupted(self: Path, target: Path) -> Path:
        done = replace(self, target)
        if target == one:
            monkeypatch.setattr(Path, "replace", replace)
            signal.raise_signal(signal.SIGINT)
        return done

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fix(one, other)
    assert tree(tmp_path) == {"a.py": OLD, "b.py": OLD}


@contextlib.contextmanager
def immutable(file: Path) -> Iterator[None]:
    if os.geteuid() != 0 or shutil.which("chattr") is None:
        pytest.skip("only root makes a file immutable")
    if subprocess.run(["chattr", "+i", file], capture_output=True, check=False).returncode:
        pytest.skip("files of this file system cannot be made immutable")
    try:
        yield
    finally:
        subprocess.run(["chattr", "-i", file], check=True)


@pytest.mark.parametrize("at", [0, 1])
def test_an_immutable_file_or_folder_changes_nothing(at: int, tmp_path: Path) -> None:
    folder = tmp_path / "fixed"
    folder.mkdir()
    one, other = tmp_path / "a.py", folder / "b.py"
    for file in (one, other):
        file.write_bytes(OLD)
    with immutable((other, folder)[at]), pytest.raises(UsageError, match=r"--write: fixed/b\.py"):
        fix(one, other)
    assert tree(tmp_path) == {"a.py": OLD, "fixed/b.py": OLD}


# Files that must not be written.


@pytest.mark.parametrize("mode", [0o444, 0o555, 0o400])
def test_a_read_only_file_is_refused(mode: int, tmp_path: Path) -> None:
    """Also to root, to whom every file looks writable."""
    file = tmp_path / "net.py"
    file.write_bytes(OLD)
    file.chmod(mode)
    with pytest.raises(UsageError, match=r"net\.py is read-only"):
        fix(file)
    assert tree(tmp_path) == {"net.py": OLD} and stat.S_IMODE(file.stat().st_mode) == mode


@pytest.mark.parametrize("row", ["pack/net.py,sha256=x,1", '"pack/net.py",,', "../vendor/pack/net.py,,"])
def test_a_file_that_a_record_lists_is_refused(row: str, tmp_path: Path) -> None:
    """As `pip install --target vendor` leaves it; one that it does not list is the user's own."""
    file = tmp_path / "vendor" / "pack" / "net.py"
    file.parent.mkdir(parents=True)
    file.write_bytes(OLD)
    record = tmp_path / "vendor" / "pack-1.0.dist-info" / "RECORD"
    record.parent.mkdir()
    record.write_text(f"pack/__init__.py,,\n{row}\n")
    with pytest.raises(UsageError, match=r"installed package .*RECORD lists it"):
        fix(file)
    (tmp_path / "link.py").symlink_to(file)
    with pytest.raises(UsageError, match="installed package"):
        fix(tmp_path / "link.py")
    assert file.read_bytes() == OLD
    own = file.with_name("own_net.py")
    own.write_bytes(OLD)
    fix(own)
    assert own.read_bytes() == NEW


@pytest.mark.parametrize("folder", ["site-packages", "dist-packages", "lib/python3.12"])
def test_installed_files_are_refused_by_whatever_name(folder: str, tmp_path: Path) -> None:
    file = tmp_path / folder / "net.py"
    file.parent.mkdir(parents=True)
    file.write_bytes(OLD)
    (tmp_path / "link.py").symlink_to(file)
    for each in (file, tmp_path / "link.py"):
        with pytest.raises(UsageError, match="installed package; --patch FILE gives the change"):
            fix(each)
    assert file.read_bytes() == OLD


def test_one_file_that_is_refused_is_all_that_are(tmp_path: Path) -> None:
    one, other = tmp_path / "a.py", tmp_path / "b.py"
    for file in (one, other):
        file.write_bytes(OLD)
    other.chmod(0o444)
    with pytest.raises(UsageError, match=r"b\.py is read-only"):
        fix(one, other)
    assert tree(tmp_path) == {"a.py": OLD, "b.py": OLD}


# What is beside the bytes.


@pytest.mark.parametrize("mode", [0o755, 0o600, 0o664, 0o2750])
def test_the_mode_stays_and_the_copy_has_it(mode: int, tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    file.write_bytes(OLD)
    file.chmod(mode)
    fix(file)
    assert [stat.S_IMODE(each.stat().st_mode) for each in (file, tmp_path / "net.py.orig")] == [mode, mode]


@AS_ROOT
def test_the_owner_stays(tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    file.write_bytes(OLD)
    os.chown(file, 1234, 2345)
    fix(file)
    for each in (file, tmp_path / "net.py.orig"):
        assert (each.stat().st_uid, each.stat().st_gid) == (1234, 2345)


def test_an_owner_that_cannot_be_given_stays_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is written in its place then."""
    file = tmp_path / "net.py"
    file.write_bytes(OLD)
    number = file.stat().st_ino

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(writing, "_give", refuse)
    (written,) = fix(file)
    assert file.read_bytes() == NEW and file.stat().st_ino == number
    assert tree(tmp_path) == {"net.py": NEW, "net.py.orig": OLD}
    subprocess.run(written.undo, shell=True, check=True)
    assert file.read_bytes() == OLD and file.stat().st_ino == number


def test_extended_attributes_stay(tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    file.write_bytes(OLD)
    try:
        os.setxattr(file, "user.mine", b"1")
    except OSError:
        pytest.skip("this file system has no extended attributes")
    fix(file)
    assert os.getxattr(file, "user.mine") == b"1" and file.read_bytes() == NEW


def test_a_link_stays_one(tmp_path: Path) -> None:
    real, link = tmp_path / "real" / "net.py", tmp_path / "net.py"
    real.parent.mkdir()
    real.write_bytes(OLD)
    link.symlink_to("real/net.py")
    (written,) = fix(link)
    assert link.is_symlink() and link.readlink() == Path("real/net.py") and real.read_bytes() == NEW
    subprocess.run(written.undo, shell=True, check=True)
    assert link.is_symlink() and tree(tmp_path) == {"net.py": OLD, "real/net.py": OLD}


def test_both_names_of_a_file_keep_it(tmp_path: Path) -> None:
    one, other = tmp_path / "net.py", tmp_path / "other.py"
    one.write_bytes(OLD)
    os.link(one, other)
    (written,) = fix(one)
    assert one.samefile(other) and other.read_bytes() == NEW
    subprocess.run(written.undo, shell=True, check=True)
    assert one.samefile(other) and other.read_bytes() == OLD


def test_a_file_that_is_named_twice_is_written_once(tmp_path: Path) -> None:
    file, link = tmp_path / "net.py", tmp_path / "link.py"
    file.write_bytes(OLD)
    link.symlink_to(file)
    assert len(fix(file, link)) == 1
    assert file.read_bytes() == NEW and (tmp_path / "net.py.orig").read_bytes() == OLD

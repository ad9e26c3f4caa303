"""Writes changes into files: into all or none, with everything else about each file kept."""

from __future__ import annotations

import contextlib
import csv
import os
import stat
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from dynalyze.fix.git import is_in_git, restoring
from dynalyze.fix.source_files import CannotWrite, FileText, Originals, changed, is_library, source_of
from dynalyze.text.errors import UsageError
from dynalyze.text.escape import one_line, path_word, short_path

_SHOWN = 40
"""Characters of a name in that of the temporary file beside it."""


@dataclass(frozen=True)
class WrittenFile:
    """A written file, the copy of its old bytes (None if git has them), and the command that undoes it."""

    file: str
    backup: str | None
    undo: str

    def __str__(self) -> str:
        where = "git has the original" if self.backup is None else f"backup: {self.backup}"
        return f"Wrote {self.file} ({where}). Undo: {self.undo}"


def write(originals: Mapping[str, str], texts: Mapping[str, str]) -> list[WrittenFile]:
    """Write the new texts into all files or none. Unchanged lines keep their bytes; mode, owner, extended attributes
    and links stay. The old bytes are copied to a file beside it unless git restores exactly these. Raises UsageError if
    a file must not or cannot be written; then nothing has changed, and no copy is left.
    """
    changes = list(_changes(originals, texts))
    at = ""
    try:
        for each in changes:
            each.in_git = is_in_git(each.target, each.old)
        for step in (_FileChange.prepare, _FileChange.back_up, _FileChange.replace):
            for each in changes:
                at = each.shown
                step(each)
    except BaseException as error:
        lost = [each for each in reversed(changes) if not each.undo()]
        end = "nothing was written" if not lost else f"{lost[0].shown} could not be put back: {lost[0].remains}"
        if isinstance(error, _Changed):
            raise UsageError(f"--write: {at} has changed meanwhile; {end}; run it again") from error
        if isinstance(error, OSError):
            raise UsageError(f"--write: {at} cannot be written: {error.strerror or error}; {end}") from error
        raise
    return [
        WrittenFile(each.shown, None if each.backup is None else _shown(each.backup), each.undoing) for each in changes
    ]


class _Changed(Exception):
    """The file is no longer what was analysed."""


@dataclass
class _FileChange:
    """One file being written: `file` as it was named, `target` with links resolved."""

    file: str
    target: Path
    old: bytes
    new: bytes
    status: os.stat_result
    in_git: bool = False
    backup: Path | None = None
    _temporary: Path | None = None
    _begun: bool = False

    @property
    def shown(self) -> str:
        return _shown(Path(self.file))

    @property
    def undoing(self) -> str:
        if self.backup is None:
            return restoring(self.target)
        if self._temporary is not None:
            return f"mv {path_word(self.backup)} {path_word(self.target)}"
        return f"cp {path_word(self.backup)} {path_word(self.target)}"  # All names of the file get it back.

    @property
    def remains(self) -> str:
        """Where its old bytes are."""
        return f"its old text is in {_shown(self.backup)}" if self.backup is not None else "git has the old text"

    def prepare(self) -> None:
        """Put the new bytes into a file beside it, to be renamed later. With a second name (a hard link), or if owner
        and attributes cannot be given to another file, the file itself is written to instead.
        """
        if self.status.st_nlink > 1:
            return
        descriptor, name = tempfile.mkstemp(dir=self.target.parent, prefix=f".{self.target.name[:_SHOWN]}.")
        self._temporary = Path(name)
        with os.fdopen(descriptor, "wb") as file:
            try:
                _give(file.fileno(), self.target, self.status)
            except OSError:
                self._drop_temporary()
                return
            file.write(self.new)
            file.flush()
            os.fsync(file.fileno())

    def back_up(self) -> None:
        """Copy the old bytes to FILE.orig, or FILE.orig.1 and so on; nothing that exists is overwritten."""
        number = 0
        while not self.in_git:
            path = self.target.with_name(f"{self.target.name}.orig{f'.{number}' if number else ''}")
            try:
                descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            except FileExistsError:
                number += 1
                continue
            self.backup = path
            with os.fdopen(descriptor, "wb") as file:
                with contextlib.suppress(OSError):
                    _give(file.fileno(), self.target, self.status)
                file.write(self.old)
            return

    def replace(self) -> None:
        """Check the file once more, and give it its new bytes at once. Raises _Changed, OSError."""
        if self._temporary is None:
            with self.target.open("r+b") as file:
                if file.read() != self.old:
                    raise _Changed
                self._begun = True
                _fill(file.fileno(), self.new)
            return
        if self.target.read_bytes() != self.old or Path(os.path.realpath(self.file)) != self.target:
            raise _Changed
        self._begun = True
        self._temporary.replace(self.target)

    def undo(self) -> bool:
        """Put everything back; whether that worked."""
        whole = True
        if self._begun:
            try:
                if self.target.read_bytes() != self.old:
                    self._put_back()
            except (OSError, _Changed):
                whole = False
        if whole and self.backup is not None:
            with contextlib.suppress(OSError):
                self.backup.unlink()
        self._drop_temporary()
        return whole

    def _put_back(self) -> None:
        if self._temporary is None:
            with self.target.open("r+b") as file:
                _fill(file.fileno(), self.old)
        else:
            back = _FileChange(self.file, self.target, self.new, self.old, self.status)
            back.prepare()
            back.replace()
        os.utime(self.target, ns=(self.status.st_atime_ns, self.status.st_mtime_ns))

    def _drop_temporary(self) -> None:
        if self._temporary is not None:
            self._temporary.unlink(missing_ok=True)
            self._temporary = None


def _changes(originals: Mapping[str, str], texts: Mapping[str, str]) -> Iterator[_FileChange]:
    """The files with their new bytes, each once. Raises UsageError if one must not be written."""
    known: dict[tuple[int, int], bytes] = {}
    for file in changed(originals, texts):
        target = Path(os.path.realpath(file))
        try:
            status, now = target.stat(), target.read_bytes()
        except OSError as error:
            raise UsageError(f"--write: {_shown(Path(file))} can no longer be read: {error.strerror}") from error
        if reason := _reason_against(file, target, status):
            raise UsageError(f"--write: {_shown(Path(file))} {reason}")
        source = source_of(originals, file) if isinstance(originals, Originals) else FileText.read(str(target))
        if source is None or source.content != now or source.text != originals[file]:
            raise UsageError(f"--write: {_shown(Path(file))} has changed meanwhile; run it again")
        try:
            new = source.content_of(texts[file])
        except CannotWrite as error:
            raise UsageError(f"--write: {_shown(Path(file))}: {error}; --patch FILE gives the change") from error
        identity = status.st_dev, status.st_ino
        if known.get(identity, new) != new:
            raise UsageError(f"--write: {_shown(Path(file))} has two names, and another change for each")
        if identity not in known:
            known[identity] = new
            yield _FileChange(file, target, now, new, status)


def _reason_against(file: str, target: Path, status: os.stat_result) -> str:
    """Why a file must not be written; "" if it may."""
    if not stat.S_ISREG(status.st_mode):
        return "is no regular file"
    if is_library(file) or is_library(str(target)):
        return "is of an installed package; --patch FILE gives the change"
    named = Path(os.path.abspath(file))  # noqa: PTH100  with its links
    if (record := _record_of(target) or _record_of(named)) is not None:
        return f"is of an installed package ({_shown(record)} lists it); --patch FILE gives the change"
    # To root every file looks writable.
    if not status.st_mode & stat.S_IWUSR or not os.access(target, os.W_OK):
        return "is read-only"
    return ""


def _record_of(target: Path) -> Path | None:
    """The RECORD of an installed distribution that lists a file, as below a folder of `pip install --target`."""
    for folder in target.parents:
        for record in folder.glob("*.dist-info/RECORD"):
            with contextlib.suppress(OSError, csv.Error), record.open(encoding="utf-8", errors="replace") as lines:
                rows = (row[0] for row in csv.reader(lines) if row and row[0].endswith(target.name))
                if any(Path(os.path.normpath(folder / row)) == target for row in rows):
                    return record
    return None


def _give(descriptor: int, like: Path, status: os.stat_result) -> None:
    """Give a new file the owner, the mode and the extended attributes of another one. Raises OSError."""
    now = os.fstat(descriptor)
    if (now.st_uid, now.st_gid) != (status.st_uid, status.st_gid):
        os.fchown(descriptor, status.st_uid, status.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(status.st_mode))
    if hasattr(os, "listxattr"):
        kept = {name: os.getxattr(like, name) for name in os.listxattr(like)}
        known = set(os.listxattr(descriptor))
        for name in known - set(kept):
            os.removexattr(descriptor, name)
        for name, value in kept.items():
            if name not in known or os.getxattr(descriptor, name) != value:
                os.setxattr(descriptor, name, value)


def _fill(descriptor: int, content: bytes) -> None:
    """Overwrite a whole file in place."""
    os.lseek(descriptor, 0, os.SEEK_SET)
    left = content
    while left:
        left = left[os.write(descriptor, left) :]
    os.ftruncate(descriptor, len(content))
    os.fsync(descriptor)


def _shown(path: Path) -> str:
    return one_line(short_path(path))

"""Whether git restores a file exactly, and the command that does."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path

from dynalyze.files.paths import working_folder
from dynalyze.text.escape import path_word, shell_word

_SECONDS = 10.0
"""For each question: a filter or a hook of somebody's may hang."""
_MAGIC = frozenset("*?[]\\:!^")
"""What makes a path a pattern to git."""


def is_in_git(path: Path, content: bytes) -> bool:
    """Whether the last commit, the index and a checkout all give exactly these bytes. Bytes are compared because `git
    status` may rely on a promise (assume-unchanged) or a filter.
    """
    listed = _git(path.parent, "--literal-pathspecs", "ls-files", "-z", "-s", "-v", "--", path.name)
    # H: neither skip-worktree nor assume-unchanged, with which `git checkout` passes a file over.
    if listed is None or not listed.startswith((b"H 100644 ", b"H 100755 ")) or listed.count(b"\0") != 1:
        return False
    name = f"./{path.name}"
    asked = (("blob", f"HEAD:{name}"), ("blob", f":{name}"), ("--filters", f"HEAD:{name}"))
    return all(_git(path.parent, "cat-file", *each) == content for each in asked)


def restoring(path: Path) -> str:
    """The shell command that restores the committed text of a file, from the current folder."""
    here = Path(working_folder() or os.devnull)
    inside = path.is_relative_to(here) and _top(here) == _top(path.parent)
    name = str(path.relative_to(here)) if inside else path.name
    word = shell_word(f":(literal){name}") if _MAGIC & set(name) else shell_word(name)
    return f"git {'' if inside else f'-C {path_word(path.parent)} '}checkout -- {word}"


def top_of(folder: Path) -> Path | None:
    """The top of the checkout that holds a folder; None if there is none."""
    found = _top(folder)
    return None if found is None else Path(os.fsdecode(found.rstrip(b"\n"))).resolve()


def _top(folder: Path) -> bytes | None:
    return _git(folder, "rev-parse", "--show-toplevel")


def _git(folder: Path, *words: str) -> bytes | None:
    """What git prints; None if it is missing, fails or takes too long."""
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1"}
    try:
        process = subprocess.Popen(
            ["git", "-C", str(folder), *words], env=environment, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    except OSError:
        return None
    with process:
        try:
            said, _ = process.communicate(timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if process.returncode is None:  # With all that it started, which may hold the pipe open.
                with contextlib.suppress(OSError):
                    os.killpg(process.pid, signal.SIGKILL)
    return said if process.returncode == 0 else None

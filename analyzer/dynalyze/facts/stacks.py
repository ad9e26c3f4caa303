"""Stacks as the owner of a program knows them: no compiler, no launcher, resumed functions under their own name."""

from __future__ import annotations

import re
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from dynalyze.capture.events import Frame

Origin = Literal["user", "library", "torch"]

_RESUME = re.compile(r"torch_dynamo_resume_in_(?P<name>.+)_at_\d+$")
_INSTALLED = re.compile(r"[\\/](?:site|dist)-packages[\\/]")
_CALL_PLUMBING = {"_wrapped_call_impl", "_call_impl", "_compiled_call_impl"}
_OURS = str(Path(__file__).resolve().parents[1])
# As IPython and, from 3.13 on, Python itself name what was typed.
_CELLS = ("<ipython-input-", "<python-input-")
_STDLIB = tuple({sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")})


class Places:
    """Tells the user's files from a library's and from torch's own."""

    def __init__(self, torch_folder: str = "") -> None:
        self._torch = torch_folder.rstrip("/\\")

    def is_torch(self, file: str) -> bool:
        if self._torch:
            return file.startswith((self._torch + "/", self._torch + "\\"))
        return re.search(r"[\\/]site-packages[\\/]torch[\\/]", file) is not None

    def is_compiler(self, file: str) -> bool:
        """Whether a file is Dynamo's own machinery."""
        return self.is_torch(file) and "/_dynamo/" in file.replace("\\", "/")

    def origin(self, file: str) -> Origin:
        if self.is_torch(file):
            return "torch"
        if _INSTALLED.search(file) or file.startswith(_STDLIB) or re.search(r"[\\/]lib[\\/]python3\.\d+[\\/]", file):
            return "library"
        return "user"

    def stack(self, above: Sequence[Frame], inside: Sequence[Frame], *, resumed: bool = False) -> list[Frame]:
        """The whole stack, outermost first, of the frames that mean something to the user.

        `resumed` says that the compiled frame, `inside[0]`, goes on after an earlier break: its caller is then
        the first part of the same function, and only the later line is shown.
        """
        shown: list[Frame] = []
        for frame in (*above, *inside):
            if self._is_plumbing(frame):
                continue
            name = original_name(frame.name)
            continues = name != frame.name or (resumed and bool(inside) and frame is inside[0])
            if continues and shown and (shown[-1].file, shown[-1].name) == (frame.file, name):
                shown.pop()
            shown.append(Frame(frame.file, frame.line, name, frame.column, frame.end_column))
        return shown

    def innermost(self, frames: Sequence[Frame]) -> int | None:
        """Index of the innermost frame outside torch; of the innermost one where all are torch's; None if empty."""
        last = len(frames) - 1
        own = (at for at in range(last, -1, -1) if is_file(frames[at].file) and not self.is_torch(frames[at].file))
        return next(own, last if frames else None)

    def _is_plumbing(self, frame: Frame) -> bool:
        if not is_file(frame.file) or frame.file.startswith(_OURS):
            return True
        if frame.file.endswith(("importlib/_bootstrap.py", "importlib/_bootstrap_external.py", "/runpy.py")):
            return True
        if not self.is_torch(frame.file):
            return False
        inside = frame.file[len(self._torch) :].replace("\\", "/")
        if inside.endswith("nn/modules/module.py") and frame.name in _CALL_PLUMBING:
            return True
        return "/_dynamo/" in inside and "/polyfills/" not in inside


def original_name(name: str) -> str:
    """The user's function behind the name of a resume function."""
    found = _RESUME.match(name)
    return found["name"] if found else name


def is_resume(name: str) -> bool:
    return _RESUME.match(name) is not None


def is_file(file: str) -> bool:
    """Whether a code object's file name can be one: not "<string>", not "<eval_with_key>.3".

    The cells of an interactive session have names of that form too, and their source is known.
    """
    return bool(file) and (not file.startswith("<") or file.startswith(_CELLS))

"""Keeps a process that makes calls again to its own temporary folder: effects on the outside are refused before they
happen, by Python where its code asks for them (`side_effects`), and by the kernel where native code does (`landlock`).
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from dynalyze.capture import landlock, side_effects
from dynalyze.capture.side_effects import HINT, EffectsWatch, Refused, SideEffect
from dynalyze.capture.torch_private import runtime

_DENIED = ("permission denied", "not permitted", "read-only file system", "open database", "readonly database")


class Containment:
    """What holds for this process from here on. `folder` gets its temporary files; `own` may be written to as well."""

    def __init__(
        self, folder: Path, own: Sequence[Path] = (), tell: Callable[[SideEffect], None] = lambda _: None
    ) -> None:
        caches = runtime.cache_folders()
        kept = [*caches.values(), runtime.default_cache_folder(), _extension_cache()]
        runtime.keep_default_cache_folder()
        for name, variable in (("Inductor", "TORCHINDUCTOR_CACHE_DIR"), ("Triton", "TRITON_CACHE_DIR")):
            os.environ.setdefault(variable, caches[name])  # Else it would follow the temporary folder.
        for each in kept:  # What is not there may not be made later.
            with contextlib.suppress(OSError):
                Path(each).mkdir(parents=True, exist_ok=True)
        temporary = folder / "tmp"
        temporary.mkdir(mode=0o700, exist_ok=True)
        os.environ["TMPDIR"] = tempfile.tempdir = str(temporary)
        sys.dont_write_bytecode = True
        self.watch: EffectsWatch = side_effects.watch([folder, *own], refuses=True, tell=tell)
        self._walled = landlock.restrict([folder, *own, *kept])

    def reason(self, error: BaseException | None = None) -> str:
        """What was refused, in one line; "" where nothing was. `error` is what a command ended with: native code that
        the kernel refused something knows no other word for it.
        """
        if isinstance(error, Refused):
            return f"{error}; {HINT}"
        if self.watch.first is not None:
            return f"{self.watch.first}; {HINT}"
        if self._walled and error is not None and any(text in str(error).lower() for text in _DENIED):
            return f"native code was kept from changing anything outside ({_line(error)}); {HINT}"
        return ""


def _extension_cache() -> str:
    """Where torch.utils.cpp_extension builds."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    return os.environ.get("TORCH_EXTENSIONS_DIR") or str(Path(base) / "torch_extensions")


def _line(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0][:200]

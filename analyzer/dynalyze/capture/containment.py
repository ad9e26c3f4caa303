"""Keeps a process that makes calls again to its own temporary folder: effects on the outside are refused before they
happen, by Python where its code asks for them (`side_effects`), and by Linux where native code does.

Landlock (landlock(7), Linux 5.13 and later) needs no rights and cannot be taken back. It knows nothing of modes, owners
and times of files, nor of UDP: the hook refuses these.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from dynalyze.capture import side_effects
from dynalyze.capture.bench.failures import one_line
from dynalyze.capture.side_effects import HINT, EffectsWatch, Refused, SideEffect
from dynalyze.capture.torch_private import runtime

_DENIED = ("permission denied", "not permitted", "read-only file system", "open database", "readonly database")
_CREATE, _ADD_RULE, _RESTRICT = 444, 445, 446
_VERSION_FLAG, _PATH_BENEATH = 1, 1
_NO_NEW_PRIVILEGES = 38
_WRITE_FILE, _TRUNCATE = 1 << 1, 1 << 14
_FILES = sum(1 << bit for bit in (1, *range(4, 13)))  # Write, remove and make: in every version.
_REFER, _NETWORK, _SCOPES = 1 << 13, 0b11, 0b11
# Where nobody has tried what the driver needs. NVIDIA's is content with its devices: CUDA and its graphs, Triton's
# compiler and tuning, cuDNN, pinned memory and the profiler work so (H200, driver 580).
_DRIVERS = ("/dev/kfd", "/dev/dxg")


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
        self._walled = _restrict([folder, *own, *kept])

    def reason(self, error: BaseException | None = None) -> str:
        """What was refused, in one line; "" where nothing was. `error` is what a command ended with: native code that
        the kernel refused something knows no other word for it.
        """
        if isinstance(error, Refused):
            return f"{error}; {HINT}"
        if self.watch.first is not None:
            return f"{self.watch.first}; {HINT}"
        if self._walled and error is not None and any(text in str(error).lower() for text in _DENIED):
            return f"native code was kept from changing anything outside ({one_line(error)}); {HINT}"
        return ""


def _extension_cache() -> str:
    """Where torch.utils.cpp_extension builds."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    return os.environ.get("TORCH_EXTENSIONS_DIR") or str(Path(base) / "torch_extensions")


def _restrict(writable: Iterable[str | Path]) -> bool:
    """Let this thread, and all threads and processes that it starts, write below these folders alone, and open no
    connection. False where the kernel cannot, or where there is a GPU whose driver was never tried so.
    """
    if not sys.platform.startswith("linux") or any(Path(each).exists() for each in _DRIVERS):
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(_CREATE, None, ctypes.c_size_t(0), _VERSION_FLAG)
    if version < 3:  # Older ones let files be truncated.
        return False
    files = _FILES | _REFER | _TRUNCATE
    wanted = struct.pack("=QQQ", files, _NETWORK if version >= 4 else 0, _SCOPES if version >= 6 else 0)
    ruleset = libc.syscall(_CREATE, wanted, ctypes.c_size_t(len(wanted)), 0)
    if ruleset < 0:
        return False
    try:
        for folder in [*writable, "/dev", "/proc", os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps")]:
            _allow(libc, ruleset, str(folder), files)
        libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        return bool(libc.syscall(_RESTRICT, ruleset, 0) == 0)
    finally:
        os.close(ruleset)


def _allow(libc: ctypes.CDLL, ruleset: int, folder: str, rights: int) -> None:
    with contextlib.suppress(OSError):  # A folder that is not there needs no right.
        descriptor = os.open(folder, getattr(os, "O_PATH", 0) | os.O_CLOEXEC)
        try:
            rule = struct.pack("=Qi", rights, descriptor)
            libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0)
        finally:
            os.close(descriptor)

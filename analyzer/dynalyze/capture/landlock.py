"""Has the Linux kernel refuse what a process, and all that it starts, would write or send to the outside.

Landlock (landlock(7), Linux 5.13 and later) needs no rights and cannot be taken back. It holds for native code too,
which Python does not see. It knows nothing of modes, owners and times of files, nor of UDP: the hook refuses these.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import sys
from collections.abc import Iterable
from pathlib import Path

_CREATE, _ADD_RULE, _RESTRICT = 444, 445, 446
_VERSION_FLAG, _PATH_BENEATH = 1, 1
_NO_NEW_PRIVILEGES = 38

_WRITE_FILE, _TRUNCATE = 1 << 1, 1 << 14
_FILES = sum(1 << bit for bit in (1, *range(4, 13)))  # Write, remove and make: in every version.
_REFER, _NETWORK, _SCOPES = 1 << 13, 0b11, 0b11
# Where nobody has tried what the driver needs. NVIDIA's is content with its devices: CUDA and its graphs, Triton's
# compiler and tuning, cuDNN, pinned memory and the profiler work so (H200, driver 580).
_DRIVERS = ("/dev/kfd", "/dev/dxg")


def restrict(writable: Iterable[str | Path]) -> bool:
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

"""A fork server for measuring processes: it imports once what each of them needs, and no process of its own measures.

A forked process is as good a unit of sampling as a started one only where it owes the server nothing that is timed.
So the server runs no tensor operation and lets no thread start before it forks; it says so where an import broke that.
All children would find their memory at the same addresses, so each moves its own by a random amount, as the
kernel does with a process that is started: how arrays lie to pages differs again from child to child.
"""

from __future__ import annotations

import contextlib
import importlib
import mmap
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn

from dynalyze.capture import forkserver
from dynalyze.capture.bench.protocol import BESIDE, IMPORT_SECONDS_VARIABLE
from dynalyze.capture.installed import is_installed
from dynalyze.capture.libraries import PREFIXES, library
from dynalyze.capture.torch_private import runtime

_NEEDED = ("torch._dynamo", "dynalyze.capture.bench.worker", "dynalyze.capture.bench.load")
_INDUCTOR = ("torch._dynamo.convert_frame", "functorch.compile", "torch._inductor.compile_fx")
_CPU = "<the CPU>"
"""Stands among names of modules for what Inductor has to find out about the processor, which takes seconds."""
_FUNCTIONS = "<functions of>"
"""Before the name of a file that Dynamo has to read, a tenth of a second for each of a library of models."""
_TRIAL_SECONDS = 60
_NICE = 5
_THREAD_END_SECONDS = 1.0
_PAGE = 4096
_HUGE_PAGE = 1 << 21
_CACHES = "TORCHINDUCTOR_CACHE_DIR"  # Inductor sets it when it is imported.
# Has torch ask NVIDIA's management library whether there is a GPU: that starts no driver, which would outlive a fork.
_ASK_NVML = "PYTORCH_NVML_BASED_CUDA_CHECK"

_moved: list[Any] = []
_lent: list[str] = []  # Variables that the server needs and its children do not get.


def _reason_against_forks(native_threads: int) -> str:
    """Why this process must not fork, where there were so many threads before the first import; else ""."""
    import torch

    if torch.cuda.is_initialized():
        return "CUDA was initialised by an import"
    if threading.active_count() > 1 or _threads() > native_threads:
        return "an import started threads"
    if not torch.cuda.is_available():
        return ""
    child = os.fork()
    if child == 0:
        signal.alarm(_TRIAL_SECONDS)
        os._exit(not runtime.can_use_cuda())
    return "an import has used CUDA" if os.waitpid(child, 0)[1] else ""


def serve(address: str, what: list[str]) -> int:
    """Import torch and `what` ("inductor", libraries by prefix, BESIDE a program), then fork for who connects."""
    own = os.environ.get(_CACHES)
    if _ASK_NVML not in os.environ:
        os.environ[_ASK_NVML] = "1"
        _lent.append(_ASK_NVML)
    with contextlib.suppress(ImportError):
        importlib.import_module("numpy")  # The threads of its library are its own: it ends them before a fork.
    beside = BESIDE in what
    if beside:
        with ThreadPoolExecutor(1, initializer=_yield_to_others) as thread:
            threads = thread.submit(_import_all, address, what).result()
    else:
        threads = _import_all(address, what)
    if threads is None:
        return 2
    native_threads = threads - beside
    end = time.monotonic() + _THREAD_END_SECONDS
    while beside and _threads() > native_threads and time.monotonic() < end:
        time.sleep(0.01)  # A thread that Python has joined is there for the system a moment longer.

    def imported(modules: Sequence[str]) -> str:
        _import(modules)
        os.environ.pop(_CACHES, None)
        os.environ.update({} if own is None else {_CACHES: own})
        return _reason_against_forks(native_threads)

    if against := imported(()):
        print(f"dynalyze: each process that measures imports torch for itself, since {against}", file=sys.stderr)
        return 1
    forkserver.listen(address, _measure, imported)
    return 0


def _import_all(address: str, what: list[str]) -> int | None:
    """How many threads there were once torch was imported; None where it cannot be."""
    began = time.thread_time()  # Beside a program, waiting for a processor is no part of it.
    if not forkserver.import_torch(address):
        return None
    threads = _threads()
    for prefix in set(PREFIXES) & set(what):
        with contextlib.suppress(Exception):  # A measuring process will say what is wrong with it.
            library(prefix).preload()
    os.environ[IMPORT_SECONDS_VARIABLE] = str(time.thread_time() - began)
    _import([*_NEEDED, *(_INDUCTOR if "inductor" in what else ())])
    return threads


def _yield_to_others() -> None:
    """Lower the priority of this thread alone: a process could not raise its own again without privileges."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)


def imported_modules() -> list[str]:
    """Modules of installed packages that the next process needs too, in order of import, and what else it has to find
    out.
    """

    def is_needed(name: str, module: Any) -> bool:
        file = getattr(getattr(module, "__spec__", None), "origin", None) or ""
        return (isinstance(file, str) and is_installed(file)) or name.startswith("dynalyze.")

    known = [name for name, module in list(sys.modules.items()) if is_needed(name, module)]
    files = [_FUNCTIONS + file for file in runtime.files_of_functions() if is_installed(file)]
    return [*known, *files, *[_CPU] * runtime.knows_the_cpu()]


def _import(modules: Sequence[str]) -> None:
    for module in modules:
        if module == _CPU:
            runtime.know_the_cpu()
        elif module.startswith(_FUNCTIONS):
            runtime.know_functions(module.removeprefix(_FUNCTIONS))
        elif module not in sys.modules:
            with contextlib.suppress(Exception):  # Each process that needs it will say what is wrong with it.
                importlib.import_module(module)
    if _INDUCTOR[-1] in modules:
        runtime.know_torchs_files()


def _measure(request: dict[str, Any]) -> NoReturn:
    """The life of a forked measuring process; its output goes where the server's does."""

    def main(folder: Path) -> int:
        from dynalyze.capture.bench.worker import main as measuring

        for name in _lent:
            del os.environ[name]
        os.environ.update(request["environment"])
        # What this process will allocate is at other addresses than in its siblings, down to a cache line.
        chance = random.Random(os.urandom(16))
        _moved.append(mmap.mmap(-1, _PAGE * chance.randrange(1, _HUGE_PAGE // _PAGE)))
        _moved.append(bytearray(64 * chance.randrange(1, 1024)))
        return measuring(folder)

    forkserver.live(main, Path(request["folder"]))


def _threads() -> int:
    """Native threads of this process; 1 where they cannot be counted. Not those of CUDA's library, which starts one as
    it is loaded: whether a child can use the GPU all the same is tried.
    """
    try:
        names = [file.read_text() for file in Path("/proc/self/task").glob("*/comm")]
    except OSError:
        return 1
    return sum(not name.startswith("cuda") for name in names)

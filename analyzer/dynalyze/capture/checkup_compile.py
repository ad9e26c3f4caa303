"""Compiling, tried: small C++ programs as Inductor needs them, and a small function through torch.compile."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from typing import Any

_SECONDS = 60
_TINY = '#include <cmath>\nextern "C" double tiny(double x) { return std::sqrt(x); }\n'
_WITH_PYTHON = '#include <Python.h>\nextern "C" int tiny() { return PY_MAJOR_VERSION; }\n'
_WITH_OPENMP = '#include <omp.h>\nextern "C" int tiny() { return omp_get_max_threads(); }\n'

Answer = dict[str, Any]


# C++.


def compiler(folder: Path) -> Answer:
    """The C++ compiler, and what Inductor needs of it beyond the language. Its files go to `folder`."""
    from dynalyze.capture import adapter_doctor
    from dynalyze.capture.checkup import said

    try:
        name = adapter_doctor.cpp_compiler()
    except BaseException as error:
        return {"compiler": None, "compiler_error": said(error)}
    include = sysconfig.get_path("include")
    openmp = ["-Xclang", "-fopenmp"] if sys.platform == "darwin" else ["-fopenmp"]
    refusal = _compiles(name, _TINY, [], folder)
    found = {"compiler": name, "compiler_error": refusal, "include": include}
    if not refusal:
        found["compiler_version"] = _version(name)
        found["headers_error"] = _compiles(name, _WITH_PYTHON, [f"-I{include}"], folder)
        found["openmp_error"] = _compiles(name, _WITH_OPENMP, openmp, folder)
    return found


def _compiles(name: str, source: str, flags: list[str], folder: Path) -> str:
    """Why the compiler does not make a library of it; "" where it does."""
    file = folder / "tiny.cpp"
    file.write_text(source, encoding="utf-8")
    shared = ["-shared", "-fPIC", *flags, str(file), "-o", str(file.with_suffix(".so"))]
    if sys.platform == "darwin":
        shared = ["-undefined", "dynamic_lookup", *shared]
    return _why_not([name, *shared])


def _why_not(command: list[str]) -> str:
    from dynalyze.capture.checkup import said

    try:
        ended = _run(command)
    except (OSError, subprocess.TimeoutExpired) as error:
        return said(error)
    if ended.returncode == 0:
        return ""
    lines = [line for line in ended.stderr.splitlines() if "error" in line] or ended.stderr.splitlines()
    return lines[0].strip() if lines else f"it ended with status {ended.returncode}"


def _version(name: str) -> str:
    """The first line that it says of itself; "" where it says nothing."""
    try:
        return _run([name, "--version"]).stdout.partition("\n")[0].strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip


# torch.compile.


def tried(backend: str, device: str) -> Answer:
    """A small function through one backend on one device, with another result than zero."""
    from dynalyze.capture.checkup import said

    began = time.perf_counter()
    try:
        error = _try(backend, device)
    except BaseException as raised:
        error = said(raised)
    seconds = round(time.perf_counter() - began, 3)
    return {"backend": backend, "device": device, "error": error, "seconds": seconds}


def _try(backend: str, device: str) -> str:
    import torch

    from dynalyze.capture.adapter_doctor import calls_counted_by

    def tiny(x: Any) -> Any:
        return (x.sin() + 1.0).relu()

    seen: list[int] = []
    torch.compiler.reset()
    compiled = torch.compile(tiny, backend=calls_counted_by(seen) if backend == "eager" else backend)
    x = torch.linspace(-3.0, 3.0, 64, device=device)
    difference = (compiled(x) - tiny(x)).abs().max().item()
    if backend == "eager" and not seen:
        return "torch.compile ran, and compiled nothing"
    return "" if difference < 1e-4 else f"a wrong result: it differs by {difference:.3g}"

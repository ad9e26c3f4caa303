"""What `dynalyze doctor` learns in the target's interpreter. Each question is a process of its own: one may crash.

`start_doctor.py facts|packages|compile FILE` reads a request from FILE and writes its answer there, again after each
step, so that a crash or a hang leaves what was known before.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import json
import platform
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_SECONDS = 60
_TINY = '#include <cmath>\nextern "C" double tiny(double x) { return std::sqrt(x); }\n'
_WITH_PYTHON = '#include <Python.h>\nextern "C" int tiny() { return PY_MAJOR_VERSION; }\n'
_WITH_OPENMP = '#include <omp.h>\nextern "C" int tiny() { return omp_get_max_threads(); }\n'

Answer = dict[str, Any]


def main(what: str, file: str) -> int:
    """Answer one question."""
    path = Path(file)
    request = json.loads(path.read_text(encoding="utf-8"))

    def write(answer: Answer) -> None:
        path.write_text(json.dumps(answer), encoding="utf-8")

    _QUESTIONS[what](request, write)
    return 0


# Facts.


def _facts(_: Answer, write: Callable[[Answer], None]) -> None:
    found: Answer = {"python": platform.python_version(), "system": platform.system(), "machine": platform.machine()}
    found["torch"] = _version("torch")
    write(found)
    if importlib.util.find_spec("torch") is None:
        return
    try:
        torch = importlib.import_module("torch")
    except BaseException as error:
        found["torch_error"] = _said(error)
        write(found)
        return
    found |= {"torch": torch.__version__, "cuda": torch.version.cuda, "hip": torch.version.hip}
    found["disabled"] = _asked("dynamo_disabled")
    found["caches"] = _asked("cache_folders") or {}
    write(found)
    found |= {"triton": _version("triton"), "triton_wanted": _triton_wanted()}
    found["devices"] = _devices(torch)
    write(found)
    found |= _compiler()
    write(found)


def _asked(name: str) -> Any:
    from dynalyze.capture import adapter_doctor

    try:
        return getattr(adapter_doctor, name)()
    except Exception:
        return None


def _triton_wanted() -> str | None:
    """The requirement that torch's own metadata states: "==3.4.0"; a CPU build states none."""
    for text in importlib.metadata.requires("torch") or ():
        name, _, rest = text.partition(";")[0].strip().partition("=")
        if name.strip() == "triton":
            return f"={rest}".strip()
    return None


def _devices(torch: Any) -> list[Answer]:
    if not torch.cuda.is_available():
        return []
    found = []
    for number in range(torch.cuda.device_count()):
        capability = list(torch.cuda.get_device_capability(number))
        found.append({"name": torch.cuda.get_device_name(number), "capability": capability})
    return found


def _compiler() -> Answer:
    """The C++ compiler, and what Inductor needs of it beyond the language."""
    from dynalyze.capture import adapter_doctor

    try:
        compiler = adapter_doctor.cpp_compiler()
    except BaseException as error:
        return {"compiler": None, "compiler_error": _said(error)}
    include = sysconfig.get_path("include")
    openmp = ["-Xclang", "-fopenmp"] if sys.platform == "darwin" else ["-fopenmp"]
    works = _compiles(compiler, _TINY, [])
    found = {"compiler": compiler, "compiler_error": works, "include": include}
    if not works:
        found["headers_error"] = _compiles(compiler, _WITH_PYTHON, [f"-I{include}"])
        found["openmp_error"] = _compiles(compiler, _WITH_OPENMP, openmp)
    return found


def _compiles(compiler: str, source: str, flags: list[str]) -> str:
    """Why the compiler does not make a library of it; "" where it does."""
    with tempfile.TemporaryDirectory(prefix="dynalyze-") as folder:
        file = Path(folder) / "tiny.cpp"
        file.write_text(source, encoding="utf-8")
        shared = ["-shared", "-fPIC", *flags, str(file), "-o", str(file.with_suffix(".so"))]
        if sys.platform == "darwin":
            shared = ["-undefined", "dynamic_lookup", *shared]
        try:
            ended = subprocess.run(
                [compiler, *shared], capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False,
                stdin=subprocess.DEVNULL,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            return _said(error)
    if ended.returncode == 0:
        return ""
    lines = [line for line in ended.stderr.splitlines() if "error" in line] or ended.stderr.splitlines()
    return lines[0].strip() if lines else f"it ended with status {ended.returncode}"


# Packages.


def _packages(request: Answer, write: Callable[[Answer], None]) -> None:
    """Import each one that is installed. `importing` names the one that a crash would be of."""
    found: list[Answer] = []
    for distribution, module in request["packages"]:
        version = _version(distribution)
        if version is None:
            continue
        write({"packages": found, "importing": distribution})
        found.append({"name": distribution, "version": version, "error": _import(module)})
    write({"packages": found, "importing": ""})


def _import(module: str) -> str:
    try:
        importlib.import_module(module)
    except BaseException as error:
        return _said(error)
    return ""


# The compile itself.


def _compile(request: Answer, write: Callable[[Answer], None]) -> None:
    """A tiny function through one backend on one device, forward and with another result than zero."""
    began = time.perf_counter()
    try:
        error = _try(request["backend"], request["device"])
    except BaseException as raised:
        error = _said(raised)
    write({**request, "error": error, "seconds": round(time.perf_counter() - began, 3)})


def _try(backend: str, device: str) -> str:
    import torch

    from dynalyze.capture.adapter_doctor import calls_counted_by

    def tiny(x: Any) -> Any:
        return (x.sin() + 1.0).relu()

    seen: list[int] = []
    compiled = torch.compile(tiny, backend=calls_counted_by(seen) if backend == "eager" else backend)
    x = torch.linspace(-3.0, 3.0, 64, device=device)
    difference = (compiled(x) - tiny(x)).abs().max().item()
    if backend == "eager" and not seen:
        return "torch.compile ran, and compiled nothing"
    return "" if difference < 1e-4 else f"a wrong result: it differs by {difference:.3g}"


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _said(error: BaseException) -> str:
    """The first line of an exception that says something."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


_QUESTIONS: dict[str, Callable[[Answer, Callable[[Answer], None]], None]] = {
    "facts": _facts, "packages": _packages, "compile": _compile,
}  # fmt: skip

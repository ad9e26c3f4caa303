"""What `dynalyze doctor` and a sweep learn in the target's interpreter. Each probe is a process: one may crash.

`start.py facts|packages|compile FILE` reads a request from FILE and writes its answer there, again after each
step, so that a crash or a hang leaves what was known before, and `doing` says what it was at.

`start.py inquire FILE` does so once, before a sweep: versions, names of models, options that torch knows. torch is
imported to see whether it can be.

    {"compile": [OPTIONS], "patterns": ["hf:Llama*", "timm:all"], "names": ["hf:LlamaModel"]}
    {"versions": {"python": "3.11.7", "torch": "2.13.0", "transformers": "5.23.0" or null},
     "listed": {PATTERN: [NAME]}, "mistakes": ["one line"]}
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import subprocess
import sys
import sysconfig
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from dynalyze.capture import environment
from dynalyze.capture.inputs import Misuse
from dynalyze.capture.libraries import library, library_facts, prefix_of
from dynalyze.capture.torch_private import dynamo, runtime

Answer = dict[str, Any]

_REQUIRED = re.compile(r"\s*([\w.-]+)")
_EXTRA = re.compile(r"""\bextra\s*==\s*['"]([^'"]*)['"]""")
_SECONDS = 60
_TINY = '#include <cmath>\nextern "C" double tiny(double x) { return std::sqrt(x); }\n'
_WITH_PYTHON = '#include <Python.h>\nextern "C" int tiny() { return PY_MAJOR_VERSION; }\n'
_WITH_OPENMP = '#include <omp.h>\nextern "C" int tiny() { return omp_get_max_threads(); }\n'


class Notes:
    """The answer so far. It is replaced as a whole, because the parent reads it meanwhile.

    `doing` is what comes next; "" when all is done.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._found: Answer = {}

    def add(self, **found: Any) -> None:
        self._found |= found
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps(self._found), encoding="utf-8")
        new.replace(self._path)


def main(what: str, path: Path) -> int:
    """Run one probe of the doctor."""
    notes = Notes(path)
    _PROBES[what](json.loads(path.read_text(encoding="utf-8")), notes)
    notes.add(doing="")
    return 0


def _facts(request: Answer, notes: Notes) -> None:
    notes.add(python=platform.python_version(), system=platform.system(), machine=platform.machine())
    notes.add(torch=version_of("torch"), packages=list(_installed(request["packages"])))
    if importlib.util.find_spec("torch") is None:
        return
    notes.add(doing="importing torch")
    try:
        torch = importlib.import_module("torch")
    except BaseException as error:
        notes.add(torch_error=said(error))
        return
    notes.add(torch=torch.__version__, cuda=torch.version.cuda, hip=torch.version.hip)
    notes.add(doing="asking torch where it keeps what it compiles")
    disabled, caches = None, {}
    with contextlib.suppress(Exception):
        disabled = dynamo.dynamo_disabled(load=True)
    with contextlib.suppress(Exception):
        caches = runtime.cache_folders()
    notes.add(disabled=disabled, caches=caches)
    notes.add(doing="asking for GPUs")
    # Triton as torch's own metadata asks for it, "triton==3.4.0" (a build for the CPU does not), and as it is here.
    wanted = next((text for text in _requirements("torch") if "triton" in text.lower()), None)
    name = wanted and _REQUIRED.match(wanted)
    triton = version_of(name[1] if name else "triton") or version_of("triton")
    notes.add(triton_wanted=wanted, triton=triton, **_devices(torch))
    notes.add(doing="compiling small C++ programs")
    notes.add(**_compiler(Path(request["cache"]).parent))


def _devices(torch: Any) -> Answer:
    """The GPUs, and what torch warns of on its standard error: only there does it say that a driver is too old."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        found = [
            {"name": torch.cuda.get_device_name(number), "capability": list(torch.cuda.get_device_capability(number))}
            for number in range(torch.cuda.device_count() if torch.cuda.is_available() else 0)
        ]
        arches = torch.cuda.get_arch_list() if found else []
    warned = " ".join(" ".join(str(warning.message).split()) for warning in heard)
    return {"devices": found, "arches": arches, "device_warning": warned}


def _installed(packages: Iterable[tuple[str, str]]) -> Iterable[Answer]:
    """Each one that is installed, with what it asks of torch, and whether it holds code that was compiled for it."""
    for name, module in packages:
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        binary = any(file.suffix in (".so", ".pyd") for file in distribution.files or ())
        requires = [text for text in _requirements(name) if (found := _REQUIRED.match(text)) and found[1] == "torch"]
        yield {"name": name, "module": module, "version": distribution.version, "requires": requires, "binary": binary}


def _requirements(distribution: str) -> list[str]:
    """Requirements without those of extras, unless the extra is torch."""
    try:
        texts = importlib.metadata.requires(distribution) or []
    except importlib.metadata.PackageNotFoundError:
        return []
    parts = (text.partition(";") for text in texts)
    return [
        needed.strip() for needed, _, marker in parts if not (extra := _EXTRA.search(marker)) or extra[1] == "torch"
    ]


def _packages(request: Answer, notes: Notes) -> None:
    """Import each module; `at` names the one that a crash would be of."""
    errors: dict[str, str] = {}
    for name, module in request["packages"]:
        notes.add(at=name, doing=f"importing {name}")
        try:
            importlib.import_module(module)
            errors[name] = ""
        except BaseException as error:
            errors[name] = said(error)
        notes.add(errors=errors)


def _compile(request: Answer, notes: Notes) -> None:
    """Each trial, with empty caches: an old result would hide that nothing can be compiled any more."""
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = request["cache"]
    os.environ["TRITON_CACHE_DIR"] = str(Path(request["cache"]) / "triton")
    trials: list[Answer] = []
    for backend, device in request["trials"]:
        notes.add(doing=f"compiling a small function with {backend} on {device}")
        began = time.perf_counter()
        try:
            error = _compile_and_compare(backend, device)
        except BaseException as raised:
            error = said(raised)
        seconds = round(time.perf_counter() - began, 3)
        trials.append({"backend": backend, "device": device, "error": error, "seconds": seconds})
        notes.add(trials=trials)


def version_of(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def said(error: BaseException) -> str:
    """The first line of an exception that says something."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def _compiler(folder: Path) -> Answer:
    """The C++ compiler, and what Inductor needs of it beyond the language. Its files go to `folder`."""
    try:
        name = runtime.cpp_compiler()
    except BaseException as error:
        return {"compiler": None, "compiler_error": said(error)}
    include = sysconfig.get_path("include")
    openmp = ["-Xclang", "-fopenmp"] if sys.platform == "darwin" else ["-fopenmp"]
    refusal = _compiles(name, _TINY, [], folder)
    found = {"compiler": name, "compiler_error": refusal, "include": include}
    if not refusal:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):  # The first line that it says of itself.
            found["compiler_version"] = _run([name, "--version"]).stdout.partition("\n")[0].strip()
        found["headers_error"] = _compiles(name, _WITH_PYTHON, [f"-I{include}"], folder)
        found["openmp_error"] = _compiles(name, _WITH_OPENMP, openmp, folder)
    return found


def _compiles(name: str, source: str, flags: list[str], folder: Path) -> str:
    """Compiler error for a source; "" where it compiles."""
    file = folder / "tiny.cpp"
    file.write_text(source, encoding="utf-8")
    shared = ["-shared", "-fPIC", *flags, str(file), "-o", str(file.with_suffix(".so"))]
    if sys.platform == "darwin":
        shared = ["-undefined", "dynamic_lookup", *shared]
    try:
        ended = _run([name, *shared])
    except (OSError, subprocess.TimeoutExpired) as error:
        return said(error)
    if ended.returncode == 0:
        return ""
    lines = [line for line in ended.stderr.splitlines() if "error" in line] or ended.stderr.splitlines()
    return lines[0].strip() if lines else f"it ended with status {ended.returncode}"


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip


def _compile_and_compare(backend: str, device: str) -> str:
    """A small function through one backend on one device, with another result than zero."""
    import torch

    def tiny(x: Any) -> Any:
        return (x.sin() + 1.0).relu()

    seen: list[Any] = []

    def as_it_is(graph: Any, _inputs: Any) -> Any:
        seen.append(graph)
        return graph.forward

    torch.compiler.reset()
    compiled = torch.compile(tiny, backend=as_it_is if backend == "eager" else backend)
    x = torch.linspace(-3.0, 3.0, 64, device=device)
    difference = (compiled(x) - tiny(x)).abs().max().item()
    if backend == "eager" and not seen:
        return "torch.compile ran, and compiled nothing"
    return "" if difference < 1e-4 else f"a wrong result: it differs by {difference:.3g}"


_PROBES: dict[str, Callable[[Answer, Notes], None]] = {
    "facts": _facts, "packages": _packages, "compile": _compile,
}  # fmt: skip


def inquire(path: Path) -> int:
    """Answer the request in a file. What the user got wrong comes under `mistakes`, one line each."""
    request = json.loads(path.read_text(encoding="utf-8"))
    reason = environment.torch_import_problem()
    listed, mistakes = ({}, [reason]) if reason else _listed(request)
    asked = {prefix_of(text) for text in (*request["patterns"], *request["names"])}
    packages = dict.fromkeys(["torch", "transformers", *sorted(library_facts(prefix).package for prefix in asked)])
    versions = {"python": platform.python_version(), **{name: version_of(name) for name in packages}}
    answer = {"versions": versions, "listed": listed, "mistakes": list(dict.fromkeys(mistakes))}
    path.write_text(json.dumps(answer), encoding="utf-8")
    return 0


def _listed(request: dict[str, Any]) -> tuple[dict[str, list[str]], list[str]]:
    """The names for each pattern, and the user's mistakes."""
    mistakes: list[str] = []

    def attempt(action: Callable[..., Any], subject: Any) -> None:
        try:
            action(subject)
        except Misuse as misuse:
            mistakes.append(str(misuse))

    for options in request["compile"]:
        others = (options["mode"], options["device"], options["dtype"])
        if options["backend"] not in ("eager", "inductor") or any(others):  # All else any torch can do.
            from dynalyze.capture.compiling import check
            from dynalyze.capture.settings import CompileOptions

            attempt(check, CompileOptions(**options))
    listed: dict[str, list[str]] = {}

    def find(text: str) -> None:
        prefix, _, name = text.partition(":")
        if text in request["patterns"]:
            listed[text] = [f"{prefix}:{each}" for each in library(prefix).listed(name)]
        else:
            library(prefix).resolve(name)

    for text in (*request["patterns"], *request["names"]):
        attempt(find, text)
    return listed, mistakes

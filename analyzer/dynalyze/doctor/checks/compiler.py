"""The C++ compiler, Python's headers and OpenMP: what Inductor needs for the CPU."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.doctor.records import Facts, Line

GROUP = "Compiler"

_INSTALL = {"Linux": "sudo apt-get install g++", "Darwin": "xcode-select --install"}
_OPENMP = {"Linux": "sudo apt-get install libgomp1 g++", "Darwin": "brew install libomp"}


def check(facts: Facts) -> Iterator[Line]:
    """Each with a program that was really compiled."""
    if not facts.imports:
        return
    if facts.compiler is None or facts.compiler_error:
        yield _no_compiler(facts)
        return
    yield Line("C++ compiler", "ok", f"{_told(facts.compiler, facts.compiler_version)}, compiles a small program")
    yield _headers(facts)
    yield _openmp(facts)


def _told(name: str, version: str) -> str:
    """Some say their own name with their version."""
    return version if version.startswith(name) else f"{name} {version}".strip()


def _no_compiler(facts: Facts) -> Line:
    if facts.compiler is None and not facts.compiler_error:
        return _unknown("C++ compiler", facts)
    named = facts.variables.get("CXX")
    if facts.compiler:
        found = f"{facts.compiler} does not work: {facts.compiler_error}"
    else:
        found = f"CXX={named} is none that works" if named else f"none found: {facts.compiler_error}"
    mend = "unset CXX, or export CXX=g++" if named else _INSTALL.get(facts.system, "install g++ or clang++")
    if facts.usable_gpu:
        return Line("C++ compiler", "warning", f"{found}. Only the GPU can be compiled for", mend)
    return Line("C++ compiler", "problem", f"{found}. Inductor needs one for the CPU", mend, fatal=True)


def _headers(facts: Facts) -> Line:
    if facts.headers_error is None:
        return _unknown("Python headers", facts)
    if not facts.headers_error:
        return Line("Python headers", "ok", f"Python.h in {facts.include}")
    found = f"Python.h cannot be used ({facts.headers_error}). Inductor needs it for the CPU, and Triton for a GPU"
    version = ".".join(facts.python.split(".")[:2])
    mend = f"sudo apt-get install python{version}-dev" if facts.system == "Linux" else "install Python with its headers"
    return Line("Python headers", "problem", found, mend)


def _openmp(facts: Facts) -> Line:
    if facts.openmp_error is None:
        return _unknown("OpenMP", facts)
    if not facts.openmp_error:
        return Line("OpenMP", "ok", "a small program compiles with it")
    found = f"a program with it does not compile: {facts.openmp_error}"
    return Line("OpenMP", "warning", found, _OPENMP.get(facts.system, "install OpenMP for your compiler"))


def _unknown(check_name: str, facts: Facts) -> Line:
    return Line(check_name, "unknown", facts.silence or "nothing was found out")

"""The checks of an environment, a generator of lines each, and the diagnosis that sums them up."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from itertools import groupby

from msgspec.structs import replace
from rich.text import Text

import dynalyze
from dynalyze.doctor.packages import meets, packages
from dynalyze.doctor.records import SWITCHES, Device, Diagnosis, Facts, Line, Status
from dynalyze.render.console import Summary, one_line
from dynalyze.text.amounts import count_of, duration, size

_TRIED = "2.8 to 2.15"
_INSTALL = {"Linux": "sudo apt-get install g++", "Darwin": "xcode-select --install"}
_OPENMP = {"Linux": "sudo apt-get install libgomp1 g++", "Darwin": "brew install libomp"}
_TRITON_NEEDS, _BF16_NEEDS = (7, 0), (8, 0)
_ARCH = re.compile(r"(sm|compute)_(\d+)(\d)")
_LITTLE = 1 << 30
_VARIABLES = {"Inductor": "TORCHINDUCTOR_CACHE_DIR", "Triton": "TRITON_CACHE_DIR"}
_AGAIN = "every start compiles everything again"
# What a value other than the default does; variables that are not listed are only named.
_HARM = {
    "TORCH_LOGS": "torch logs more than it does by default; that is slow, and makes logs long",
    "TORCH_COMPILE_DEBUG": "all that is compiled is written to torch_compile_debug/; that is slow",
    "TORCH_COMPILE_FORCE_DISABLE_CACHES": _AGAIN,
    "TORCHINDUCTOR_FORCE_DISABLE_CACHES": _AGAIN,
    "TORCHDYNAMO_SUPPRESS_ERRORS": "what fails to compile runs in eager without a word",
    "TRITON_INTERPRET": "Triton's kernels run in Python, for debugging: very slow",
    "CUDA_LAUNCH_BLOCKING": "each kernel is waited for, for debugging: slow",
}
_HARM_SWITCHED_OFF = {
    "TORCHINDUCTOR_FX_GRAPH_CACHE": _AGAIN,
    "TORCHINDUCTOR_AUTOGRAD_CACHE": "every start traces the backward pass again",
}
# Checked with torch, with the compiler and with the caches.
_ELSEWHERE = (*SWITCHES, "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "CXX", "CC")
_NO = ("", "0", "false", "False")
_TITLES = {"eager": "Dynamo alone", "inductor cpu": "Inductor, CPU", "inductor cuda": "Inductor, GPU"}


def torch_itself(facts: Facts) -> Iterator[Line]:
    yield Line("Python", "ok", f"{facts.python or 'unknown'}, {facts.interpreter}")
    pip = f"{shlex.quote(facts.interpreter)} -m pip install"
    if facts.torch is None:
        yield Line("torch", "problem", facts.silence or "not installed there", f'{pip} "torch>=2.8"', fatal=True)
        return
    if facts.torch_error:
        mend = f"{pip} --force-reinstall torch=={facts.torch.partition('+')[0]}"
        yield Line("torch", "problem", f"{facts.torch} does not import: {facts.torch_error}", mend, fatal=True)
        return
    if not meets(facts.torch, "torch>=2.8"):
        found = f"{facts.torch}; dynalyze needs 2.8 or later (tried on {_TRIED})"
        yield Line("torch", "warning", found, f'{pip} --upgrade "torch>=2.8"')
    else:
        hip = f"built for ROCm {facts.hip}" if facts.hip else "a build for the CPU"
        yield Line("torch", "ok", f"{facts.torch}, {f'built for CUDA {facts.cuda}' if facts.cuda else hip}")
    if facts.switched_off:
        found, mend = "torch._dynamo.config.disable is on", "torch._dynamo.config.disable = False"
        if facts.switch is not None:
            found, mend = f"{facts.switch}=1 switches torch.compile off", f"unset {facts.switch}"
        yield Line("Dynamo", "problem", f"{found}: everything runs in eager", mend, fatal=True)


def compiler(facts: Facts) -> Iterator[Line]:
    if not facts.imports:
        return
    if facts.compiler is None or facts.compiler_error:
        yield _no_compiler(facts)
        return
    # Some say their own name with their version.
    own = facts.compiler_version.startswith(facts.compiler)
    name = facts.compiler_version if own else f"{facts.compiler} {facts.compiler_version}".strip()
    yield Line("C++ compiler", "ok", f"{name}, compiles a small program")
    version = ".".join(facts.python.split(".")[:2])
    mend = f"sudo apt-get install python{version}-dev" if facts.system == "Linux" else "install Python with its headers"
    if facts.headers_error is None:
        yield _unknown("Python headers", facts)
    elif facts.headers_error:
        found = f"Python.h cannot be used ({facts.headers_error}). Inductor needs it for the CPU, and Triton for a GPU"
        yield Line("Python headers", "problem", found, mend)
    else:
        yield Line("Python headers", "ok", f"Python.h in {facts.include}")
    if facts.openmp_error:
        found = f"a program with it does not compile: {facts.openmp_error}"
        yield Line("OpenMP", "warning", found, _OPENMP.get(facts.system, "install OpenMP for your compiler"))


def _no_compiler(facts: Facts) -> Line:
    if facts.compiler is None and not facts.compiler_error:
        return _unknown("C++ compiler", facts)
    variable = facts.variables.get("CXX")
    if facts.compiler:
        found = f"{facts.compiler} does not work: {facts.compiler_error}"
    else:
        found = f"CXX={variable} is none that works" if variable else f"none found: {facts.compiler_error}"
    mend = "unset CXX, or export CXX=g++" if variable else _INSTALL.get(facts.system, "install g++ or clang++")
    if facts.usable_gpu:
        return Line("C++ compiler", "warning", f"{found}. Only the GPU can be compiled for", mend)
    return Line("C++ compiler", "problem", f"{found}. Inductor needs one for the CPU", mend, fatal=True)


def _unknown(check: str, facts: Facts) -> Line:
    return Line(check, "unknown", facts.silence or "nothing was found out")


def gpu(facts: Facts) -> Iterator[Line]:
    if not facts.imports:
        return
    if not facts.cuda and not facts.hip:
        yield Line("GPU", "ok", "none is used: this torch is built for the CPU")
        return
    if facts.devices is None:
        yield _unknown("GPU", facts)
        return
    if not facts.devices:
        yield _no_device(facts)
    for device in facts.devices:
        yield _device(device, facts)
    yield _triton(facts)


def _no_device(facts: Facts) -> Line:
    said = facts.device_warning or "no device, or no driver"
    tool = "nvidia-smi" if facts.cuda else "rocm-smi"
    return Line("GPU", "warning", f"torch is built for one and finds none: {said}", tool)


def _device(device: Device, facts: Facts) -> Line:
    capability = tuple(device.capability)
    if not facts.cuda or len(capability) != 2:
        return Line("GPU", "ok", device.name)
    name = f"{device.name}, compute capability {capability[0]}.{capability[1]}"
    # Machine code runs on later devices of its generation, PTX (compute_) on every later one.
    known = [(each[1], (int(each[2]), int(each[3]))) for each in map(_ARCH.match, facts.arches) if each]
    if known and not any(
        built <= capability and (kind == "compute" or built[0] == capability[0]) for kind, built in known
    ):
        found = f"{name}: this torch has no code for it, only for {', '.join(facts.arches)}"
        return Line("GPU", "problem", found, "a torch built for it: https://pytorch.org/get-started/previous-versions")
    if capability < _TRITON_NEEDS:
        return Line("GPU", "problem", f"{name}: Triton needs 7.0", 'torch.compile(model, backend="aot_eager")')
    if capability < _BF16_NEEDS:
        return Line("GPU", "warning", f"{name}: no bfloat16 in Triton below 8.0", "use torch.float16")
    return Line("GPU", "ok", name)


def _triton(facts: Facts) -> Line:
    wanted = facts.triton_wanted or ("pytorch-triton-rocm" if facts.hip else "triton")
    mend = f'{shlex.quote(facts.interpreter)} -m pip install "{wanted}"'
    if wanted.startswith("pytorch-triton"):
        mend += " --index-url https://download.pytorch.org/whl"
    if facts.triton is None:
        if not facts.devices:
            return Line("Triton", "ok", "not installed; no GPU needs it")
        return Line("Triton", "problem", "not installed, and Inductor writes a GPU's kernels in it", mend)
    if not meets(facts.triton, wanted):
        found = f"{facts.triton}; this torch was released with {wanted}"
        return Line("Triton", "warning", found, mend)
    return Line("Triton", "ok", facts.triton)


def caches(facts: Facts) -> Iterator[Line]:
    for folder in facts.folders:
        name, variable = f"{folder.name} cache", _VARIABLES.get(folder.name, "TORCHINDUCTOR_CACHE_DIR")
        mend = f"export {variable}=/a/folder/with/room"
        broken = "" if folder.writable else f"{folder.path} cannot be written"
        if folder.writable and not folder.runs:
            broken = f"{folder.path} is on a file system that runs no code (noexec): compiled kernels do not load"
        found = folder.path if folder.exists else f"{folder.path}, not there yet"
        if broken:  # Inductor raises where it cannot make its folder: nothing compiles then.
            yield Line(name, "problem", broken, mend, fatal=folder.name == "Inductor")
        elif folder.free is not None and folder.free < _LITTLE:
            yield Line(name, "warning", f"{found}: only {size(folder.free)} free", mend)
        else:
            yield Line(name, "ok", f"{found}: {size(folder.free)} free" if folder.free is not None else found)


def variables(facts: Facts) -> Iterator[Line]:
    for name, value in sorted(facts.variables.items()):
        if name in _ELSEWHERE:
            continue
        harm = (_HARM_SWITCHED_OFF if value in _NO else _HARM).get(name)
        found = f"{value or 'set, and empty'}{f': {harm}' if harm else ''}"
        yield Line(name, "warning" if harm else "ok", found, f"unset {name}" if harm else "")


def trials(facts: Facts) -> Iterator[Line]:
    """One device that works is enough for compile to work."""
    if not facts.imports:
        return
    if facts.switched_off:
        yield Line("torch.compile", "unknown", "not tried: it is switched off")
        return
    inductor = [trial for trial in facts.trials if trial.backend == "inductor"]
    none_works = bool(inductor) and all(trial.error for trial in inductor)
    for trial in facts.trials:
        backend = trial.backend if trial.backend == "eager" else f"{trial.backend} {trial.device}"
        name = _TITLES.get(backend, backend)
        if not trial.error:
            yield Line(name, "ok", f"a small function came out right, in {duration(trial.seconds)}")
        elif trial.unfinished:
            yield Line(name, "unknown", trial.error, "dynalyze doctor --timeout 600")
        else:
            yield Line(name, "problem", trial.error, fatal=none_works or trial.backend == "eager")
    if facts.compiler_error:
        yield Line("Inductor, CPU", "unknown", "not tried: no C++ compiler works")


CHECKS: dict[str, Callable[[Facts], Iterator[Line]]] = {
    "torch": torch_itself, "Compiler": compiler, "GPU": gpu, "Caches": caches, "Environment variables": variables,
    "Packages": packages, "torch.compile, tried": trials,
}  # fmt: skip
"""By the heading of their lines, in order."""


def diagnose(facts: Facts) -> Diagnosis:
    lines = [replace(line, group=group) for group, check in CHECKS.items() for line in check(facts)]
    fatal = [line for line in lines if line.fatal and line.status == "problem"]
    return Diagnosis(dynalyze.__version__, not fatal, _summary(facts, lines, fatal), lines, facts)


def _summary(facts: Facts, lines: list[Line], fatal: list[Line]) -> str:
    if fatal:
        return f"torch.compile cannot work here. {fatal[0].check}: {fatal[0].found}."
    counts = [(kind, sum(line.status == kind for line in lines)) for kind in ("problem", "warning")]
    beside = " and ".join(count_of(number, kind) for kind, number in counts if number)
    beside = f", with {beside}" if beside else ""
    if not any(trial.backend == "inductor" and not trial.error for trial in facts.trials):
        return f"It is not known whether torch.compile works here{beside}."
    return f"torch.compile works here{beside}."


_MARKS: dict[Status, tuple[str, str]] = {
    "ok": ("✓", "green"), "warning": ("!", "bold yellow"), "problem": ("✗", "bold red"), "unknown": ("?", "dim"),
}  # fmt: skip
# Names are a column of this width; a longer one takes the room it needs.
_NAMES = 17


def render(diagnosis: Diagnosis, *, color: bool | None = None, width: int | None = None) -> str:
    """The diagnosis for the terminal: a sentence, then one line a check, each with its remedy."""
    summary = Summary(color, width)
    summary.line(one_line(diagnosis.summary), style="bold green" if diagnosis.works else "bold red")
    for group, lines in groupby(diagnosis.lines, key=lambda line: line.group):
        summary.line()
        summary.line(one_line(group), style="bold")
        for line in lines:
            mark, style = _MARKS[line.status]
            name, found = one_line(line.check), one_line(line.found)
            head = Text.assemble((f"{mark} ", style), (f"{name:{_NAMES}}", "" if line.status == "ok" else style))
            summary.beside(head, Text(found), by=2)
            if line.mend:
                summary.unwrapped(Text.assemble(("    → ", "green"), one_line(line.mend)))
    return summary.text()

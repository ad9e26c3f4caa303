"""Environment variables that change what torch.compile does."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.doctor.records import SWITCHES, Facts, Line

GROUP = "Environment variables"

_AGAIN = "every start compiles everything again"
# What a value other than the default does; the others are only named.
_EFFECTS = {
    "TORCH_LOGS": "torch logs more than it does by default; that is slow, and makes logs long",
    "TORCH_TRACE": "torch writes all that it compiles into this folder",
    "TORCH_COMPILE_DEBUG": "all that is compiled is written to torch_compile_debug/; that is slow",
    "TORCH_COMPILE_FORCE_DISABLE_CACHES": _AGAIN,
    "TORCHINDUCTOR_FORCE_DISABLE_CACHES": _AGAIN,
    "TORCHINDUCTOR_MAX_AUTOTUNE": "compiling takes much longer, for faster kernels",
    "TORCHINDUCTOR_COMPILE_THREADS": "kernels are compiled by this many processes",
    "TORCHDYNAMO_SUPPRESS_ERRORS": "what fails to compile runs in eager without a word",
    "TORCHDYNAMO_VERBOSE": "errors come with more text",
    "TRITON_INTERPRET": "Triton's kernels run in Python, for debugging: very slow",
    "CUDA_LAUNCH_BLOCKING": "each kernel is waited for, for debugging: slow",
    "CUDA_VISIBLE_DEVICES": "other GPUs are not seen",
    "OMP_NUM_THREADS": "kernels for the CPU use this many threads",
}
_SWITCHED_OFF = {
    "TORCHINDUCTOR_FX_GRAPH_CACHE": _AGAIN,
    "TORCHINDUCTOR_AUTOGRAD_CACHE": "every start traces the backward pass again",
}
_WARN = (
    "TORCH_LOGS", "TORCH_COMPILE_DEBUG", "TORCH_COMPILE_FORCE_DISABLE_CACHES", "TORCHINDUCTOR_FORCE_DISABLE_CACHES",
    "TORCHDYNAMO_SUPPRESS_ERRORS", "TRITON_INTERPRET", "CUDA_LAUNCH_BLOCKING", "TORCHINDUCTOR_FX_GRAPH_CACHE",
    "TORCHINDUCTOR_AUTOGRAD_CACHE",
)  # fmt: skip
# Told by the checks of torch, of the compiler and of the caches.
_ELSEWHERE = (*SWITCHES, "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "CXX", "CC")
_NO = ("", "0", "false", "False")


def check(facts: Facts) -> Iterator[Line]:
    """One line for each that is set."""
    for name, value in sorted(facts.variables.items()):
        if name not in _ELSEWHERE:
            yield _line(name, value)


def _line(name: str, value: str) -> Line:
    effect = _effect(name, value)
    warns = effect is not None and name in _WARN
    found = f"{value or 'set, and empty'}{f': {effect}' if effect else ''}"
    return Line(name, "warning" if warns else "ok", found, f"unset {name}" if warns else "")


def _effect(name: str, value: str) -> str | None:
    if name == "CUDA_VISIBLE_DEVICES":
        return "no GPU is seen" if value in ("", "-1") else _EFFECTS[name]
    return _SWITCHED_OFF.get(name) if value in _NO else _EFFECTS.get(name)

"""Environment variables that change what torch.compile does."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.doctor.records import Facts, Line

# What a value other than the default does; the others are only named.
_EFFECTS = {
    "TORCH_LOGS": "torch logs more than it does by default; that is slow, and makes logs long",
    "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "every start compiles everything again",
    "TORCHINDUCTOR_MAX_AUTOTUNE": "compiling takes much longer, for faster kernels",
    "TORCHINDUCTOR_COMPILE_THREADS": "kernels are compiled by this many processes",
    "TORCHDYNAMO_SUPPRESS_ERRORS": "what fails to compile runs in eager without a word",
    "TORCHDYNAMO_VERBOSE": "errors come with more text",
    "CUDA_VISIBLE_DEVICES": "other GPUs are not seen",
}
_SWITCHED_OFF = {"TORCHINDUCTOR_FX_GRAPH_CACHE": "every start compiles everything again"}
_WARN = ("TORCHINDUCTOR_FORCE_DISABLE_CACHES", "TORCHDYNAMO_SUPPRESS_ERRORS", "TORCH_LOGS")
# Told by the checks of torch, of the compiler and of the caches.
_ELSEWHERE = (
    "TORCHDYNAMO_DISABLE", "TORCH_COMPILE_DISABLE", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "CXX", "CC",
)  # fmt: skip
_NO = ("", "0", "false", "False")


def check(facts: Facts) -> Iterator[Line]:
    """One line for each that is set."""
    for name, value in sorted(facts.variables.items()):
        if name in _ELSEWHERE:
            continue
        off = value in _NO
        effect = _SWITCHED_OFF.get(name) if off else _EFFECTS.get(name)
        warns = effect is not None and (name in _WARN or name in _SWITCHED_OFF)
        found = f"{value or 'set, and empty'}{f': {effect}' if effect else ''}"
        yield Line(name, "warning" if warns else "ok", found, f"unset {name}" if warns else "")

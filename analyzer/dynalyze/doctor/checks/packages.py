"""Packages for attention, quantisation and training: whether they go with this torch."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.doctor.records import Facts, Line, Package

KNOWN = (
    ("flash-attn", "flash_attn"), ("flash-attn-3", "flash_attn_interface"), ("xformers", "xformers.ops"),
    ("bitsandbytes", "bitsandbytes"), ("torchao", "torchao"), ("peft", "peft"), ("accelerate", "accelerate"),
    ("torchvision", "torchvision"), ("transformers", "transformers"), ("triton", "triton"),
)  # fmt: skip
"""Distributions, and the module of each that has to import."""

# Built against one build of torch; they have no other use.
_COMPILED = ("torchvision", "xformers")
_BUILT_HERE = ("flash-attn", "flash-attn-3")


def check(facts: Facts) -> Iterator[Line]:
    """One line for each that is installed."""
    for package in facts.packages:
        if not package.error:
            yield Line(package.name, "ok", f"{package.version}, imports")
        else:
            yield Line(
                package.name, "problem", f"{package.version} does not import: {package.error}", _mend(facts, package)
            )
    if facts.importing:
        found = "importing it ended the process, or took too long"
        yield Line(facts.importing, "problem", found, f"{facts.interpreter} -m pip uninstall {facts.importing}")


def _mend(facts: Facts, package: Package) -> str:
    pip = f"{facts.interpreter} -m pip install"
    if package.name in _COMPILED and not facts.cuda and not facts.hip:
        # The index of packages has builds for CUDA alone; beside a torch for the CPU they do not load.
        return f"{pip} --force-reinstall --no-deps {package.name} --index-url https://download.pytorch.org/whl/cpu"
    if package.name in _BUILT_HERE:
        return f"{pip} --force-reinstall --no-deps --no-build-isolation {package.name}"
    return f"{pip} --upgrade {package.name}"

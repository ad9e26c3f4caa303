"""Packages for attention, quantisation and training: whether they go with this torch."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import InvalidVersion, Version

from dynalyze.doctor.records import Facts, Line, Package, Status

KNOWN = (
    ("flash-attn", "flash_attn"), ("flash-attn-3", "flash_attn_interface"), ("flashinfer-python", "flashinfer"),
    ("sageattention", "sageattention"), ("xformers", "xformers.ops"), ("causal-conv1d", "causal_conv1d"),
    ("mamba-ssm", "mamba_ssm"), ("bitsandbytes", "bitsandbytes"), ("torchao", "torchao"), ("gptqmodel", "gptqmodel"),
    ("autoawq", "awq"), ("hqq", "hqq"), ("optimum-quanto", "optimum.quanto"), ("deepspeed", "deepspeed"),
    ("kernels", "kernels"), ("peft", "peft"), ("accelerate", "accelerate"), ("torchvision", "torchvision"),
    ("torchaudio", "torchaudio"), ("transformers", "transformers"),
)  # fmt: skip
"""Distributions, and the module of each that has to import."""

# Released with torch, build by build: the index of packages has builds for CUDA alone.
_RELEASED_WITH_TORCH = ("torchvision", "torchaudio", "xformers")
# Built on the user's machine against the torch that is there.
_BUILT_HERE = ("flash-attn", "flash-attn-3", "causal-conv1d", "mamba-ssm")
# What a wheel says of the torch it was built for: 2.8.3+cu12torch2.7cxx11abiFALSE.
_BUILT_FOR = re.compile(r"\+.*?torch(\d+\.\d+)")
_CPU_INDEX = "--index-url https://download.pytorch.org/whl/cpu"


def meets(version: str, requirement: str) -> bool:
    """Whether a version meets a requirement, as "torch<3,>=2.4"; what cannot be read demands nothing. A version before
    or after its release (2.9.0.dev1, 2.9.0.post2) is taken for it.
    """
    try:
        release, plus, build = Version(version).base_version, *version.partition("+")[1:]
        return Requirement(requirement).specifier.contains(f"{release}{plus}{build}", prereleases=True)
    except (InvalidRequirement, InvalidVersion):
        return True


def release(version: str) -> tuple[int, ...]:
    try:
        return Version(version).release
    except InvalidVersion:
        return ()


def packages(facts: Facts) -> Iterator[Line]:
    torch, python = facts.torch or "", shlex.quote(facts.interpreter)
    for package in facts.packages:
        status: Status = "problem"
        mend = _mend(facts, package, f"{python} -m pip install")
        built = _BUILT_FOR.search(package.version)
        if package.crashed:
            found = f"{package.version}: importing it ended the process, or took too long: {package.error}"
            mend = f"{python} -m pip uninstall {package.name}"
        elif package.error:
            found = f"{package.version} does not import: {package.error}"
        elif unmet := next((text for text in package.requires if not meets(torch, text)), None):
            found = f"{package.version} asks for {unmet}"
        elif built and release(built[1]) != release(torch)[:2]:
            status, found = "warning", f"{package.version} was built for torch {built[1]}, and this is {torch}"
        else:
            wanted = package.requires[0] if package.requires else ""
            takes = f", takes {wanted}" if wanted else ""
            status, found, mend = "ok", f"{package.version}{', imports' if package.imported else takes}", ""
        yield Line(package.name, status, found, mend)


def _mend(facts: Facts, package: Package, pip: str) -> str:
    torch = (facts.torch or "").partition("+")[0]
    if package.name in _BUILT_HERE:
        return f"{pip} --force-reinstall --no-deps --no-build-isolation --no-binary :all: {package.name}"
    if package.name not in _RELEASED_WITH_TORCH:
        return f'{pip} --upgrade "torch=={torch}" {package.name}'
    # The release that goes with this torch, where its number follows from it.
    name, numbers = package.name, release(torch)
    if name == "torchvision" and numbers[:1] == (2,) and len(numbers) > 1:
        name = f'"torchvision==0.{numbers[1] + 15}.*"'
    elif name == "torchaudio" and len(numbers) > 1:
        name = f'"torchaudio=={numbers[0]}.{numbers[1]}.*"'
    index = f" {_CPU_INDEX}" if not facts.cuda and not facts.hip else ""
    return f"{pip} --force-reinstall --no-deps {name}{index}"

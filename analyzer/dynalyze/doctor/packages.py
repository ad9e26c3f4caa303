"""Packages for attention, quantisation and training: whether they go with this torch.

A requirement such as "torch<3,>=2.4" is read without a package for it. Only the numbers of a release count: what comes
after them (rc1, .post2, +cu128) is left out on both sides.
"""

from __future__ import annotations

import operator
import re
import shlex
from collections.abc import Callable, Iterator

from dynalyze.doctor.records import Facts, Line, Package, Status

_CLAUSE = re.compile(r"(===|[<>=!~]=|[<>])\s*([^\s,;)]+)")
_NUMBERS = re.compile(r"\d+(?:\.\d+)*")
_ORDERED: dict[str, Callable[[tuple[int, ...], tuple[int, ...]], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
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
    """Whether a version meets every clause; a clause that cannot be read demands nothing."""
    return all(_holds(version, sign, wanted) for sign, wanted in _CLAUSE.findall(requirement))


def release(version: str) -> tuple[int, ...]:
    return tuple(map(int, found[0].split("."))) if (found := _NUMBERS.search(version)) else ()


def _holds(version: str, sign: str, wanted: str) -> bool:
    have, want = release(version), release(wanted)
    if not have or not want:
        return True
    length = max(len(have), len(want))
    left, right = (each + (0,) * (length - len(each)) for each in (have, want))  # 2.8 is 2.8.0.
    if sign in _ORDERED:
        return _ORDERED[sign](left, right)
    if sign == "~=":
        return left >= right and left[: len(want) - 1] == want[:-1]
    same = left[: len(want)] == want if "*" in wanted else left == right
    return same is (sign != "!=")


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

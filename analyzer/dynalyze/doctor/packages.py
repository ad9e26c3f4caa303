"""Packages for attention, quantisation and training: whether they go with this torch.

A requirement such as "torch<3,>=2.4" is read without a package for it. Only the numbers of a release count: what comes
after them (rc1, .post2, +cu128) is left out on both sides.
"""

from __future__ import annotations

import operator
import re
import shlex
from collections.abc import Callable, Iterator
from itertools import zip_longest

from dynalyze.doctor.records import Facts, Line, Package

_NAME = re.compile(r"\s*[\w.-]+?\s*(?:\[[^\]]*\])?\s*(?=[<>=!~(]|$)")
_CLAUSE = re.compile(r"(===|[<>=!~]=|[<>])\s*([^\s,;)]+)")
_NUMBERS = re.compile(r"\d+(?:\.\d+)*")
_ORDERED: dict[str, Callable[[int, int], bool]] = {
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
    """Whether it meets every clause; one that cannot be read asks for nothing."""
    return all(_holds(version, sign, wanted) for sign, wanted in _clauses(requirement))


def exactly(requirement: str) -> str | None:
    """The only version that it takes, if it names one."""
    return next((wanted for sign, wanted in _clauses(requirement) if sign in ("==", "===") and "*" not in wanted), None)


def named(requirement: str) -> str:
    """The package that it is about."""
    found = _NAME.match(requirement)
    return found[0].partition("[")[0].strip() if found else requirement


def release(version: str) -> tuple[int, ...]:
    """The numbers of a version."""
    found = _NUMBERS.search(version)
    return tuple(map(int, found[0].split("."))) if found else ()


def _clauses(requirement: str) -> list[tuple[str, str]]:
    return _CLAUSE.findall(requirement)


def _holds(version: str, sign: str, wanted: str) -> bool:
    have, want = release(version), release(wanted)
    if not have or not want:
        return True
    order = _compared(have, want)
    if sign in _ORDERED:
        return _ORDERED[sign](order, 0)
    if sign == "~=":
        return order >= 0 and have[: len(want) - 1] == want[:-1]
    same = have[: len(want)] == want if "*" in wanted else order == 0
    return not same if sign == "!=" else same


def _compared(left: tuple[int, ...], right: tuple[int, ...]) -> int:
    """As numbers, place by place: 2.8 is 2.8.0."""
    for one, other in zip_longest(left, right, fillvalue=0):
        if one != other:
            return 1 if one > other else -1
    return 0


def packages(facts: Facts) -> Iterator[Line]:
    """One line for each that is installed."""
    for package in facts.packages:
        yield _line(facts, package)


def _line(facts: Facts, package: Package) -> Line:
    if package.crashed:
        found = f"{package.version}: importing it ended the process, or took too long: {package.error}"
        return Line(package.name, "problem", found, f"{_python(facts)} -m pip uninstall {package.name}")
    if package.error:
        found = f"{package.version} does not import: {package.error}"
        return Line(package.name, "problem", found, _mend(facts, package))
    torch = facts.torch or ""
    if unmet := next((text for text in package.requires if not meets(torch, text)), None):
        return Line(package.name, "problem", f"{package.version} asks for {unmet}", _mend(facts, package))
    built = _BUILT_FOR.search(package.version)
    if built and release(built[1]) != release(torch)[:2]:
        found = f"{package.version} was built for torch {built[1]}, and this is {torch}"
        return Line(package.name, "warning", found, _mend(facts, package))
    return Line(package.name, "ok", f"{package.version}{_how_known(package)}")


def _how_known(package: Package) -> str:
    if package.imported:
        return ", imports"
    asked = next(iter(package.requires), "")
    if not asked:
        return ""
    return f", made for torch {exactly(asked)}" if exactly(asked) else f", takes {asked}"


def _mend(facts: Facts, package: Package) -> str:
    pip = f"{_python(facts)} -m pip install"
    torch = (facts.torch or "").partition("+")[0]
    if package.name in _BUILT_HERE:
        return f"{pip} --force-reinstall --no-deps --no-build-isolation --no-binary :all: {package.name}"
    if package.name in _RELEASED_WITH_TORCH:
        index = f" {_CPU_INDEX}" if not facts.cuda and not facts.hip else ""
        return f"{pip} --force-reinstall --no-deps {_fitting(package, torch)}{index}"
    return f'{pip} --upgrade "torch=={torch}" {package.name}'


def _fitting(package: Package, torch: str) -> str:
    """The release that goes with this torch, where its number follows from it."""
    numbers = release(torch)
    if package.name == "torchvision" and numbers[:1] == (2,) and len(numbers) > 1:
        return f'"torchvision==0.{numbers[1] + 15}.*"'
    if package.name == "torchaudio" and len(numbers) > 1:
        return f'"torchaudio=={numbers[0]}.{numbers[1]}.*"'
    return package.name


def _python(facts: Facts) -> str:
    return shlex.quote(facts.interpreter)

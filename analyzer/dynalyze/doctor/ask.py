"""All facts of an environment: asked of its interpreter, and looked up in the environment and its folders."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import msgspec

from dynalyze.doctor.checks.packages import KNOWN
from dynalyze.doctor.folders import folder
from dynalyze.doctor.question import TOO_LONG, Asker, Tell
from dynalyze.doctor.records import Facts, Trial

_PREFIXES = ("TORCH_COMPILE", "TORCHDYNAMO_", "TORCHINDUCTOR_", "TORCH_LOGS", "TORCH_TRACE", "PYTORCH_", "TRITON_")
_NAMES = ("CXX", "CC", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "CUDA_LAUNCH_BLOCKING", "NVIDIA_TF32_OVERRIDE")


def ask(python: str | None, timeout: float, tell: Tell) -> Facts:
    """All facts of an interpreter; ours without one. `timeout` is for each step, `tell` hears of each.

    Raises:
        UsageError: it cannot be started.
    """
    asker = Asker(python or sys.executable, timeout, tell)
    facts = Facts(interpreter=asker.python, variables=_variables(os.environ))
    said = asker.ask("facts", {"packages": KNOWN})
    facts = msgspec.convert({**msgspec.to_builtins(facts), **said}, Facts)
    if facts.silence and said.get("doing") == "importing torch":
        facts.torch_error = facts.silence
    facts.folders = [folder(name, path) for name, path in facts.caches.items() if _is_used(name, facts)]
    if facts.imports and not facts.silence and not facts.switched_off:
        _try_out(facts, asker)
    return facts


def _is_used(cache: str, facts: Facts) -> bool:
    return cache != "Triton" or bool(facts.triton or facts.devices)


def _try_out(facts: Facts, asker: Asker) -> None:
    """What takes seconds: torch.compile, and importing packages beside it."""
    with ThreadPoolExecutor(2) as pool:
        trials = pool.submit(_tried, asker, trials_of(facts))
        packages = pool.submit(_import_packages, facts, asker)
        try:
            facts.trials = trials.result()
            packages.result()
        except BaseException:
            asker.stop.set()
            raise


def trials_of(facts: Facts) -> list[tuple[str, str]]:
    """Backend and device of what is worth trying: Dynamo by itself first, and Inductor where it has a compiler."""
    trials = [("eager", "cpu")]
    if not facts.no_compiler:
        trials.append(("inductor", "cpu"))
    if facts.devices:
        trials.append(("inductor", "cuda"))
    return trials


def _tried(asker: Asker, trials: list[tuple[str, str]]) -> list[Trial]:
    """Each of them. One that ends the process costs only itself; where Dynamo fails no other can come out right."""
    done: list[Trial] = []
    while len(done) < len(trials) and not asker.stop.is_set():
        said = asker.ask("compile", {"trials": trials[len(done) :]})
        done += msgspec.convert(said.get("trials", []), list[Trial])
        if len(done) < len(trials):
            silence = said.get("silence", "it gave no answer")
            done.append(Trial(*trials[len(done)], error=silence, unfinished=TOO_LONG in silence))
        if done[0].error:
            break
    return done


def _import_packages(facts: Facts, asker: Asker) -> None:
    """Only those with compiled code: the others load whatever torch is there. One that crashes costs only itself."""
    if facts.no_compiler and not facts.usable_gpu:
        return  # There is something to mend first.
    left = {package.name: package for package in facts.packages if package.binary}
    while left and not asker.stop.is_set():
        said = asker.ask("packages", {"packages": [(each.name, each.module) for each in left.values()]})
        for name, error in said.get("errors", {}).items():
            package = left.pop(name)
            package.imported, package.error = True, error
        if "silence" not in said:
            return
        if (lost := left.pop(said.get("at", ""), None)) is None:
            return
        lost.imported, lost.crashed, lost.error = True, True, said["silence"]


def _variables(environment: Mapping[str, str]) -> dict[str, str]:
    """An allowlist: nothing else of the environment is shown."""
    return {
        name: value for name, value in environment.items() if name.startswith(_PREFIXES) or name in _NAMES
    }  # fmt: skip

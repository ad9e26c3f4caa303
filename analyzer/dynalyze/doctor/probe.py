"""All facts of an environment: answers of its interpreter, its variables and its folders."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from dynalyze.doctor.packages import KNOWN
from dynalyze.doctor.records import CompileTrial, Facts, Folder
from dynalyze.launch.run import probe

Show = Callable[[str], None]

TOO_LONG = "it took longer than"
_PREFIXES = ("TORCH_COMPILE", "TORCHDYNAMO_", "TORCHINDUCTOR_", "TORCH_LOGS", "TORCH_TRACE", "PYTORCH_", "TRITON_")
_NAMES = ("CXX", "CC", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "CUDA_LAUNCH_BLOCKING", "NVIDIA_TF32_OVERRIDE")


@dataclass
class Prober:
    """Questions to one interpreter. `show` gets each step; `stop` ends the current one, from any thread."""

    python: str
    timeout: float
    show: Show
    stop: threading.Event = field(default_factory=threading.Event)

    def probe(self, what: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """The answer as far as it came; `silence` says why it is not whole. Raises UsageError where the interpreter
        cannot be started.
        """
        answer, status, printed = probe(self.python, what, request, self.timeout, self.show, self.stop.is_set)
        if status is None:
            answer["silence"] = f"{TOO_LONG} {self.timeout:g} s (--timeout)"
        elif status != 0:
            ended = f"the process ended with status {status}"
            with contextlib.suppress(ValueError):
                ended = f"the process was ended by {signal.Signals(-status).name}"
            answer["silence"] = printed or ended
        return answer


def folder(name: str, path: str) -> Folder:
    """A folder of compiled code; before it exists it is judged by the nearest folder above it."""
    place = Path(path)
    above = next((each for each in (place, *place.parents) if each.exists()), place)
    free, runs = None, True
    with contextlib.suppress(OSError):
        free = shutil.disk_usage(above).free
        runs = not os.statvfs(above).f_flag & getattr(os, "ST_NOEXEC", 0)
    writable = above.is_dir() and os.access(above, os.W_OK | os.X_OK)
    return Folder(name, path, place.is_dir(), writable, free, runs)


def facts_of(python: str | None, timeout: float, show: Show) -> Facts:
    """All facts of an interpreter, by default ours. `timeout` is for each step; `show` gets each. Raises UsageError
    where it cannot be started.
    """
    prober = Prober(python or sys.executable, timeout, show)
    # An allowlist: nothing else of the environment is shown.
    variables = {name: value for name, value in os.environ.items() if name.startswith(_PREFIXES) or name in _NAMES}
    said = prober.probe("facts", {"packages": KNOWN})
    facts = msgspec.convert({"interpreter": prober.python, "variables": variables, **said}, Facts)
    if facts.silence and said.get("doing") == "importing torch":
        facts.torch_error = facts.silence
    facts.folders = [
        folder(name, path) for name, path in facts.caches.items() if name != "Triton" or facts.triton or facts.devices
    ]
    if facts.imports and not facts.silence and not facts.switched_off:
        # What takes seconds: torch.compile, and importing packages beside it.
        with ThreadPoolExecutor(2) as pool:
            trials = pool.submit(_tried, prober, trials_of(facts))
            packages = pool.submit(_import_packages, facts, prober)
            try:
                facts.trials = trials.result()
                packages.result()
            except BaseException:
                prober.stop.set()
                raise
    return facts


def trials_of(facts: Facts) -> list[tuple[str, str]]:
    """The backends and devices to try: Dynamo alone first, then Inductor where it has a compiler."""
    devices = [*([] if facts.compiler_error else ["cpu"]), *(["cuda"] if facts.devices else [])]
    return [("eager", "cpu"), *(("inductor", device) for device in devices)]


def _tried(prober: Prober, trials: list[tuple[str, str]]) -> list[CompileTrial]:
    """The trials. One that ends the process costs only itself; where Dynamo fails the rest is not tried."""
    done: list[CompileTrial] = []
    while len(done) < len(trials) and not prober.stop.is_set():
        said = prober.probe("compile", {"trials": trials[len(done) :]})
        done += msgspec.convert(said.get("trials", []), list[CompileTrial])
        if len(done) < len(trials):
            silence = said.get("silence", "it gave no answer")
            done.append(CompileTrial(*trials[len(done)], error=silence, unfinished=TOO_LONG in silence))
        if done[0].error:
            break
    return done


def _import_packages(facts: Facts, prober: Prober) -> None:
    """Import the packages with compiled code: others work with any torch. One that crashes costs only itself."""
    if facts.compiler_error and not facts.usable_gpu:
        return  # There is something to mend first.
    left = {package.name: package for package in facts.packages if package.binary}
    while left and not prober.stop.is_set():
        said = prober.probe("packages", {"packages": [(each.name, each.module) for each in left.values()]})
        for name, error in said.get("errors", {}).items():
            package = left.pop(name)
            package.imported, package.error = True, error
        if "silence" not in said or (lost := left.pop(said.get("at", ""), None)) is None:
            return
        lost.imported, lost.crashed, lost.error = True, True, said["silence"]

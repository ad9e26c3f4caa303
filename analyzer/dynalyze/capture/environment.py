"""The torch of this interpreter and the machine: whether dynalyze works with it, and facts from an allowlist.

Nothing else of the environment leaves the child.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import os
import platform
import re
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from dynalyze.capture import shadows
from dynalyze.capture.events import NothingCompiled, TorchLoaded, Wrapped
from dynalyze.capture.torch_private import dynamo
from dynalyze.capture.wire import RUN_VARIABLE, TRACE_FOLDER, TRACE_VARIABLE

_PACKAGES = (
    "transformers", "timm", "diffusers", "torchvision", "triton", "numpy", "accelerate", "peft", "bitsandbytes",
    "flash-attn", "torchao",
)  # fmt: skip
_VARIABLES = (
    "TORCH_LOGS", "TORCH_TRACE", "TORCHDYNAMO_DISABLE", "TORCH_COMPILE_DISABLE", "TORCHDYNAMO_VERBOSE",
    "TORCHINDUCTOR_FX_GRAPH_CACHE", "TORCHINDUCTOR_MAX_AUTOTUNE", "TORCHINDUCTOR_COMPILE_THREADS",
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF", "TORCH_COMPILE_DYNAMIC_SOURCES", "INDUCTOR_PROVENANCE",
)  # fmt: skip
_VISIBLE = {False: ("CUDA_VISIBLE_DEVICES",), True: ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")}
_DEVICES = {False: ("/dev/nvidiactl", "/dev/nvmap", "/dev/dxg"), True: ("/dev/kfd", "/dev/dxg")}
"""By whether torch is built for ROCm: variables that hide its GPUs, and what Linux (and WSL, Tegra) shows of these."""
_OFF = ("", "0", "false", "False")
LEAST = (2, 8)
_VERSION = re.compile(r"(\d+)\.(\d+)")
_ANOTHER = "name an interpreter that has it, e.g. --python .venv/bin/python"


def torch_facts(torch: ModuleType) -> TorchLoaded:
    """Versions, the folder of torch, and the variables that change what compile does."""
    run = os.environ.get(RUN_VARIABLE)
    our_trace = None if run is None else str(Path(run) / TRACE_FOLDER)  # No setting of the user's.
    set_here = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
    packages = {}
    for name in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            packages[name] = importlib.metadata.version(name)
    return TorchLoaded(
        version=str(torch.__version__),  # A TorchVersion.
        folder=str(Path(torch.__file__ or "").parent),
        cuda=getattr(torch.version, "cuda", None),
        hip=getattr(torch.version, "hip", None),
        gpu=_gpu(torch),
        python=platform.python_version(),
        system=platform.system(),
        machine=platform.machine(),
        cores=os.cpu_count(),
        packages=packages,
        variables={name: to for name, to in set_here.items() if (name, to) != (TRACE_VARIABLE, our_trace)},
    )


def _gpu(torch: ModuleType) -> bool | None:
    """Whether Linux shows a GPU that this build is for, or could be; None elsewhere. Torch is not asked: its answer may
    start the driver, which no process can fork with.
    """
    cuda, hip = (getattr(torch.version, name, None) for name in ("cuda", "hip"))
    if sys.platform != "linux" or not (cuda or hip):
        return None
    if any(os.environ.get(name, "0") in ("", "-1") for name in _VISIBLE[bool(hip)]):
        return False
    return any(map(os.path.exists, _DEVICES[bool(hip)]))


def compile_disabled() -> bool:
    """Whether the program, or its environment, turned compiling off altogether."""
    switches = nothing_compiled()
    return switches.stance == "force_eager" or switches.disabled or bool(switches.variable)


def nothing_compiled(wrapped: Sequence[Wrapped] = ()) -> NothingCompiled:
    """What can keep torch.compile from compiling at all."""
    variable = next(
        (name for name in ("TORCHDYNAMO_DISABLE", "TORCH_COMPILE_DISABLE") if os.environ.get(name, "") not in _OFF), ""
    )
    return NothingCompiled(
        wrapped=list(wrapped), stance=dynamo.stance(), disabled=bool(dynamo.dynamo_disabled()), variable=variable
    )


def torch_missing() -> str:
    """Why there is no torch to import; "" where there is one, or was."""
    if "torch" in sys.modules:
        return ""
    try:
        found = importlib.util.find_spec("torch")
    except (ImportError, ValueError):
        found = None
    return "" if found is not None else f"torch is missing in {sys.executable}; {_ANOTHER}"


def torch_too_old(torch: ModuleType) -> str:
    """Why an imported torch is not enough; "" where it is."""
    version = getattr(torch, "__version__", None)
    found = _VERSION.match(str(version))
    if version is None or found is None:
        where = getattr(torch, "__file__", None) or ", ".join(getattr(torch, "__path__", []))
        return f"what {sys.executable} imports as torch is not PyTorch: {where}; rename it, or {_ANOTHER}"
    if (int(found[1]), int(found[2])) >= LEAST:
        return ""
    least = ".".join(map(str, LEAST))
    return f"{sys.executable} has torch {version}, and dynalyze needs {least} or later; {_ANOTHER}"


def torch_refusal(error: BaseException) -> str:
    """Why nothing can be done here, where that is what `error` came of: torch is missing, broken or too old."""
    if (torch := sys.modules.get("torch")) is not None:
        return torch_too_old(torch)
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        if isinstance(each, ModuleNotFoundError) and each.name == "torch":
            return torch_missing()
        if isinstance(each, Exception) and any(
            frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") == "torch"
            for frame, _ in traceback.walk_tb(each.__traceback__)
        ):  # It was raised while torch's own file was being imported.
            said = " ".join((str(each).strip().splitlines() or [""])[0].split())
            what = f"torch cannot be imported in {sys.executable}: {type(each).__name__}: {said}"
            if hiding := shadows.standing_before():
                return f"{what}; {', '.join(hiding)} hides Python's own module of that name: rename it"
            return f"{what}; mend it (dynalyze doctor says more), or {_ANOTHER}"
        seen.add(id(each))
        each = each.__cause__ or each.__context__
    return ""


def torch_import_problem() -> str:
    """Import torch; why that cannot be done, or is not enough; "" where it is."""
    try:
        import torch
    except Exception as error:
        if reason := torch_refusal(error):
            return reason
        raise
    return torch_too_old(torch)

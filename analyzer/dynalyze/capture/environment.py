"""Facts about torch and the machine, from an allowlist: nothing else of the environment leaves the child."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
from pathlib import Path
from types import ModuleType
from typing import Any

from dynalyze.capture.torch_private import dynamo
from dynalyze.capture.wire import RUN_VARIABLE, TRACE_FOLDER, TRACE_VARIABLE

_PACKAGES = ("transformers", "triton", "numpy", "accelerate", "peft", "bitsandbytes", "flash-attn", "torchao")
_VARIABLES = (
    "TORCH_LOGS", "TORCH_TRACE", "TORCHDYNAMO_DISABLE", "TORCH_COMPILE_DISABLE", "TORCHDYNAMO_VERBOSE",
    "TORCHINDUCTOR_FX_GRAPH_CACHE", "TORCHINDUCTOR_MAX_AUTOTUNE", "TORCHINDUCTOR_COMPILE_THREADS",
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF", "TORCH_COMPILE_DYNAMIC_SOURCES", "INDUCTOR_PROVENANCE",
)  # fmt: skip
_OFF = ("", "0", "false", "False")


def torch_facts(torch: ModuleType) -> dict[str, Any]:
    """Versions, the folder of torch, and the variables that change what compile does."""
    return {
        "version": torch.__version__,
        "folder": str(Path(torch.__file__ or "").parent),
        "cuda": getattr(torch.version, "cuda", None),
        "hip": getattr(torch.version, "hip", None),
        "python": platform.python_version(),
        "system": platform.system(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "packages": _versions(),
        "variables": _variables(),
    }


def _variables() -> dict[str, str]:
    """Those of the user; a folder for torch's logs that is our own is none."""
    found = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
    run = os.environ.get(RUN_VARIABLE)
    if run is not None and found.get(TRACE_VARIABLE) == str(Path(run) / TRACE_FOLDER):
        del found[TRACE_VARIABLE]
    return found


def compile_disabled() -> bool:
    """Whether the program, or its environment, turned compiling off altogether."""
    switches = compile_switches()
    return switches["stance"] == "force_eager" or switches["disabled"] or bool(switches["variable"])


def compile_switches() -> dict[str, Any]:
    """What can keep torch.compile from compiling at all."""
    variable = next(
        (name for name in ("TORCHDYNAMO_DISABLE", "TORCH_COMPILE_DISABLE") if os.environ.get(name, "") not in _OFF), ""
    )
    return {"stance": dynamo.stance(), "disabled": bool(dynamo.dynamo_disabled()), "variable": variable}


def _versions() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found

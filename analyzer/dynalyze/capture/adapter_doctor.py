"""The private APIs of torch that tell what Inductor would use on this machine.

Run on torch 2.13. Each has a fallback that answers from torch's documented environment variables.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any


def cpp_compiler() -> str:
    """The C++ compiler that Inductor would call.

    Raises:
        Exception: torch finds none; its message says which it looked for.
    """
    try:
        from torch._inductor.cpp_builder import get_cpp_compiler
    except ImportError:
        return os.environ.get("CXX", "clang++" if sys.platform == "darwin" else "g++")
    return str(get_cpp_compiler())


def cache_folders() -> dict[str, str]:
    """Where Inductor and Triton keep what they compiled. No folder is made."""
    inductor = os.environ.get("TORCHINDUCTOR_CACHE_DIR") or _default_cache_folder()
    return {"Inductor": inductor, "Triton": os.environ.get("TRITON_CACHE_DIR") or str(Path(inductor) / "triton")}


def _default_cache_folder() -> str:
    with contextlib.suppress(Exception):
        from torch._inductor.runtime.cache_dir_utils import default_cache_dir

        return str(default_cache_dir())
    return str(Path(tempfile.gettempdir()) / f"torchinductor_{getpass.getuser()}")


def dynamo_disabled() -> bool | None:
    """Whether Dynamo's own switch is off; None where this torch has none."""
    with contextlib.suppress(Exception):
        import torch._dynamo.config as config

        return bool(config.disable)
    return None


def calls_counted_by(seen: list[int]) -> Callable[[Any, Any], Any]:
    """A backend that runs the graph as it is and counts that it was asked."""

    def backend(graph: Any, _inputs: Any) -> Any:
        seen.append(1)
        return graph.forward

    return backend

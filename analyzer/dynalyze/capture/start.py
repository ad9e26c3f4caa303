"""The first lines of each process of ours in the target's interpreter: `PYTHON start.py WHAT PATH ARGUMENTS...`.

    explain|measure|warmup RUN   what the request in a folder asks for: a run that is watched, a measuring process, the
                                 warm-up check
    serve|fork-measures ADDRESS  a fork server for items of a sweep, or for measuring processes
    inquire|facts|packages|compile FILE   a question of a sweep, or of the doctor: the answer replaces it in its file

It may run under an interpreter where dynalyze is not installed, so it loads the package by its path and leaves
sys.path as it was.
"""

from __future__ import annotations

import sys

_LOADED_BY_PYTHON = frozenset(sys.modules)

import importlib  # noqa: E402
import importlib.util  # noqa: E402
import signal  # noqa: E402
from pathlib import Path  # noqa: E402

_RUNS = {"explain": "child", "measure": "bench.worker", "warmup": "warmup"}
_SERVERS = {"serve": "forkserver", "fork-measures": "bench.forking"}


def load_package() -> None:
    """Make `import dynalyze` find the package this file is part of."""
    if "dynalyze" in sys.modules:
        return
    folder = Path(__file__).resolve().parents[1]
    spec = importlib.util.spec_from_file_location(
        "dynalyze", folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None and spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules["dynalyze"] = package
    spec.loader.exec_module(package)


def main(what: str, path: Path, *arguments: str) -> int:
    """Be what is asked for; returns the exit status."""
    if what in _RUNS:  # Until the target's own code begins: nobody wants our traceback.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    load_package()
    vars(importlib.import_module("dynalyze.capture.shadows")).update(loaded_by_python=_LOADED_BY_PYTHON)
    if what in _RUNS:
        return int(importlib.import_module(f"dynalyze.capture.{_RUNS[what]}").main(path))
    del sys.path[0]
    if what in _SERVERS:
        return int(importlib.import_module(f"dynalyze.capture.{_SERVERS[what]}").serve(str(path), list(arguments)))
    from dynalyze.capture import probes

    return probes.inquire(path) if what == "inquire" else probes.main(what, path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:]))

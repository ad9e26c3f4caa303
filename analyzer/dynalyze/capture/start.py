"""The first lines of the child: `PYTHON start.py RUN_FOLDER`; a folder with `bench.json` asks for a measuring process,
one with `warmup.json` for the warm-up check.

It may run under an interpreter where dynalyze is not installed, so it loads the package by its path and leaves
sys.path as it was.
"""

from __future__ import annotations

import importlib.util
import signal
import sys
from pathlib import Path


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


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Until the target's own code begins: nobody wants our traceback.
    load_package()
    if (Path(sys.argv[1]) / "bench.json").exists():
        from dynalyze.capture.bench.worker import main
    elif (Path(sys.argv[1]) / "warmup.json").exists():
        from dynalyze.capture.warmup import main
    else:
        from dynalyze.capture.child import main

    sys.exit(main(Path(sys.argv[1])))

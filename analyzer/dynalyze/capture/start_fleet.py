"""The first lines of our own processes in the target's interpreter that serve many others.

`PYTHON start_fleet.py serve ADDRESS BACKENDS...` forks the items of a sweep, `... measure ADDRESS WHAT...` the
processes of a benchmark; `... inquire FILE` answers a sweep's questions. Like start.py it loads the package by its
path.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    from start import load_package  # type: ignore[import-not-found]  # The folder of this script is on sys.path.

    load_package()
    del sys.path[0]
    what, *arguments = sys.argv[1:]
    if what in ("serve", "measure"):
        from dynalyze.capture.environment import torch_import_problem

        if reason := torch_import_problem():
            (Path(arguments[0]).parent / "log").write_text(reason, encoding="utf-8")
            sys.exit(2)
    if what == "serve":
        from dynalyze.capture.forkserver import serve

        sys.exit(serve(arguments[0], arguments[1:]))
    if what == "measure":
        from dynalyze.capture.bench.forking import serve as serve_measuring

        sys.exit(serve_measuring(arguments[0], arguments[1:]))
    from dynalyze.capture.interpreter_info import main

    sys.exit(main(arguments[0]))

"""A process, contained like one that makes calls again, which tries what it is told: PYTHON contained.py RUN."""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path

_IMPORTS = (
    "_thread, asyncio, concurrent.futures, ctypes, gzip, io, logging, multiprocessing, os, pathlib, py_compile, "
    "shelve, shutil, signal, socket, sqlite3, subprocess, sys, tempfile, threading, urllib.request, zipfile"
)


def main(run: Path) -> None:
    import numpy
    import torch

    from dynalyze.capture.containment import Containment
    from dynalyze.capture.side_effects import Refused

    asked = json.loads((run / "asked.json").read_text())
    scope: dict[str, object] = {"torch": torch, "numpy": numpy, "PORT": asked["port"], "HERE": str(Path.cwd())}
    exec(f"import {_IMPORTS}", scope)
    held = Containment(run)
    out = (run / "out.json").open("w")
    for name, source in asked["sources"].items():
        held.watch.seen.clear()
        scope["check"] = lambda: None
        said = ""
        try:
            exec(compile(source, str(run.parent / "program.py"), "exec"), scope)
        except Refused:
            pass
        except BaseException as error:
            said = "".join(traceback.format_exception_only(error)).strip()
            if reason := held.reason(error):
                said = f"native: {reason}"
        effect = held.watch.first
        print(json.dumps([name, None if effect is None else str(effect), said]), file=out, flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Small programs that one run of dynalyze explains together, and how many graphs plain torch makes of one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from program import explain, plain_python

Json = dict[str, Any]
MAIN = "main"
_FORGET = "import torch; torch._dynamo.reset(); torch.compiler.config.dynamic_sources = ''\n"
_COUNT = "\nfrom torch._dynamo.utils import counters\nprint('GRAPHS', counters['stats']['unique_graphs'])\n"


def together(folder: Path, programs: Mapping[str, str], main: str = "") -> Json:
    """The report of all: each is a file of one program, and what is compiled for one is forgotten before the next.

    `main` is the last, in the file that is run.
    """
    driver = "".join(f"import net_{name}\n{_FORGET}" for name in programs) + main
    for name, code in {**programs, MAIN: driver}.items():
        (folder / f"net_{name}.py").write_text(code, encoding="utf-8")
    ended, found = explain(f"net_{MAIN}.py", cwd=folder)
    assert ended.status == 0, ended.stderr[-2000:]
    return found


def of(report: Json, name: str, kind: str = "findings") -> list[Json]:
    """What lies in the file of one of them."""
    return [each for each in report[kind] if Path((each["location"] or {"file": ""})["file"]).name == f"net_{name}.py"]


def graphs(code: str, folder: Path) -> int:
    """How many graphs plain torch compiles."""
    (folder / "changed.py").write_text(code + _COUNT, encoding="utf-8")
    return int(plain_python("changed.py", cwd=folder).stdout.rpartition("GRAPHS ")[2])

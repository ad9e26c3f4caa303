"""The examples of docs/how-to/in-your-code.md, as they stand but for the backend."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

DOC = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "in-your-code.md"
# No code is generated: that Inductor works is not what these examples show.
_BACKEND = {
    "torch.compile(score)": 'torch.compile(score, backend="eager")',
    'dynamo_backend="inductor"': 'dynamo_backend="eager"',
    "torch_compile=True,": 'torch_compile=True, torch_compile_backend="eager", use_cpu=True,',
    "dynamic=True)\n": 'dynamic=True, backend="eager")\n',
    "dynalyze.assert_compiles(": 'dynalyze.compiled_with(backend="eager").assert_compiles(',
}


def example(heading: str) -> str:
    """The Python of one section."""
    section = DOC.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    (code,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    for theirs, ours in _BACKEND.items():
        code = code.replace(theirs, ours)
    return str(code)


def run_example(heading: str, folder: Path) -> dict[str, Any]:
    """Run it as a file of this folder; returns its names."""
    file = folder / "example.py"
    file.write_text(example(heading))
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(file.read_text(), str(file), "exec"), names)
    return names

"""Runs the truth cases on several versions of torch, and writes what came of it into docs/reference/torch-versions.md.

`make matrix`. Each version is an environment of its own in the folder `--environments`, made by uv or pip where it is
not there; `MATRIX_2_15=/path/to/python` names another interpreter for one. Each is run twice where torch can resume
inside of nested functions: without nested graph breaks and with them.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PAGE = ROOT / "docs" / "reference" / "torch-versions.md"
BEGIN, END = "<!-- matrix: begin -->", "<!-- matrix: end -->"
NEEDS = ("numpy", "transformers")
FIRST_NESTED = (2, 11)  # 2.8 does not have the setting.


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("versions", nargs="+")
    parser.add_argument("--environments", type=Path, default=ROOT / ".matrix")
    asked = parser.parse_args()
    rows = []
    for version in asked.versions:
        python = interpreter(version, asked.environments)
        for nested in (False, True):
            if not nested or tuple(map(int, version.split("."))) >= FIRST_NESTED:
                rows.append((version, nested, *run_cases(python, nested)))
                print(*rows[-1], flush=True)
    write(rows)
    return int(any(wrong for *_, wrong in rows))


def interpreter(version: str, environments: Path) -> Path:
    """The interpreter with a version of torch, which is set up where it is not there."""
    if given := os.environ.get(f"MATRIX_{version.replace('.', '_')}"):
        return Path(given)
    python = environments / version / "bin" / "python"
    if not python.exists():
        packages = [f"torch=={version}.*", *NEEDS]
        if uv := shutil.which("uv"):
            subprocess.run([uv, "venv", "--python", sys.executable, environments / version], check=True)
            subprocess.run([uv, "pip", "install", "--python", python, *packages], check=True)
        else:
            subprocess.run([sys.executable, "-m", "venv", environments / version], check=True)
            subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
    return python


def run_cases(python: Path, nested: bool) -> tuple[int, list[str]]:
    """How many cases are right, and the names of those that are not."""
    env = {**os.environ, "DYNALYZE_TESTS_PYTHON": str(python), "DYNALYZE_TESTS_NESTED": "1" if nested else ""}
    if nested:
        env["PYTHONPATH"] = os.pathsep.join(filter(None, (str(HERE / "nested_breaks"), env.get("PYTHONPATH"))))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "result.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", f"--junitxml={file}"]
        chosen = [HERE / "test_cases.py", "-k", "says_what_is_true"]
        subprocess.run([*command, *chosen], cwd=ROOT, env=env, check=False)
        cases = list(ElementTree.parse(file).iter("testcase"))
    wrong = [name_of(case) for case in cases if case.find("failure") is not None or case.find("error") is not None]
    return len(cases) - len(wrong), wrong


def name_of(case: ElementTree.Element) -> str:
    return case.attrib["name"].partition("[")[2].removesuffix("]")


def write(rows: list[tuple[str, bool, int, list[str]]]) -> None:
    """The tables between the two marks of the page."""
    lines = ["| torch | nested graph breaks | cases right | not right |", "|---|---|---|---|"]
    for version, nested, right, wrong in rows:
        lines.append(f"| {version} | {'on' if nested else 'off'} | {right} of {right + len(wrong)} | {told(wrong)} |")
    lines += ["", "| case | on torch | what is true there |", "|---|---|---|"]
    for file in sorted((ROOT / "tests" / "cases").glob("*/expect*.json")):
        for changed in json.loads(file.read_text()).get("versions", []):
            lines.append(f"| `{file.parent.name}` | {changed['torch']} | {changed['truth']} |")
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text("\n".join([before + BEGIN, "", *lines, "", END + rest.partition(END)[2]]))


def told(wrong: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in wrong) or "none"


if __name__ == "__main__":
    sys.exit(main())

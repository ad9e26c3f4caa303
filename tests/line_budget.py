"""Fails where a folder has more lines of Python than `[tool.line-budget]` in pyproject.toml gives it.

    python tests/line_budget.py

Who raises a number says in the same commit what went instead. A folder stands for all below it that has no number of
its own.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]


def main() -> int:
    """Print each folder that is over its budget, and each that has none; the exit status."""
    budget = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["line-budget"]
    lines = Counter[str]()
    for file in (path for top in ("analyzer", "tests") for path in (ROOT / top).rglob("*.py")):
        parts = file.relative_to(ROOT).parts
        names = ("/".join(parts[:length]) for length in range(len(parts) - 1, 0, -1))
        lines[next((name for name in names if name in budget), parts[0])] += len(file.read_bytes().splitlines())
    over = [
        f"{name}: {count:,} lines, {budget.get(name, 0):,} allowed"
        for name, count in lines.items()
        if count > budget.get(name, 0)
    ]
    print("\n".join(sorted(over)) or f"{sum(lines.values()):,} lines, each folder within its budget")
    return bool(over)


if __name__ == "__main__":
    sys.exit(main())

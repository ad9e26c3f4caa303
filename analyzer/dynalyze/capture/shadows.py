"""Files beside a program that are named as modules of Python's library: `logging.py`, `random.py`.

Python finds them in the place of the library's own, and so does whatever the program imports, torch above all. Of what
dynalyze has imported before the program begins it would find the library's, and run where `python script.py` fails.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

loaded_by_python: frozenset[str] = frozenset(sys.modules)
"""What every program finds imported; `start.py` sets it, before anything of ours is."""
_left_out: dict[str, ModuleType] = {}


def leave_out(folder: Path) -> None:
    """Forget the modules of the library that are ours alone, where the program's folder has one of that name, and those
    that have imported them.
    """
    ours = _imported_by_us()
    found = {name for name in ours if (folder / f"{name}.py").is_file() or (folder / name / "__init__.py").is_file()}
    while found:
        for name in found:
            _left_out.update((each, sys.modules.pop(each)) for each in ours.pop(name))
        held = {id(module) for module in _left_out.values()}
        found = {name for name, parts in ours.items() if any(_holds(sys.modules[part], held) for part in parts)}


def standing_before() -> list[str]:
    """The program's files that were imported in the place of modules of the library."""
    files = (getattr(sys.modules.get(name), "__file__", None) for name in sorted(sys.stdlib_module_names))
    return [file for file in files if file is not None and Path(file).parent == Path(sys.path[0])]


def put_back() -> None:
    """Undo `leave_out` once the program has ended."""
    sys.modules.update(_left_out)
    _left_out.clear()


def _imported_by_us() -> dict[str, list[str]]:
    """The modules below each name of the library, without those that every program finds imported."""
    found: dict[str, list[str]] = {}
    always = {*loaded_by_python, *sys.builtin_module_names}
    for name in sys.modules:
        if (top := name.partition(".")[0]) in sys.stdlib_module_names and not {top, name} & always:
            found.setdefault(top, []).append(name)
    return found


def _holds(module: ModuleType, held: set[int]) -> bool:
    """Whether it would have met the program's file while it was imported: it holds the library's, or a part of it."""
    values = [*vars(module).values()]
    return any(id(value) in held or getattr(value, "__module__", None) in _left_out for value in values)

"""Changes of libraries as a module that a program imports: functions get their new code, and no file is written to."""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from textwrap import dedent, indent

from dynalyze.capture.source_lines import lines_of
from dynalyze.files.paths import package_path
from dynalyze.fix.patches import changed, is_library
from dynalyze.fix.source_files import source_of

_HEAD = '''\
"""Made by `dynalyze fix`: functions of installed packages with changes that end graph breaks.

Import it before the model is compiled. A package in another version than the one that was changed is left as it is.
"""

import hashlib
import importlib
import inspect
import warnings
from pathlib import Path


def _put(module_name, digest, added, functions):
    module = importlib.import_module(module_name)
    if hashlib.sha256(Path(module.__file__).read_bytes()).hexdigest() != digest:
        warnings.warn(f"{module_name} is another one than dynalyze has changed: it is left as it is", stacklevel=3)
        return
    as_text = getattr(vars(module).get("annotations"), "compiler_flag", 0)  # from __future__ import annotations
    exec(compile(added, module.__file__, "exec", as_text, dont_inherit=True), module.__dict__)
    for names, source in functions:
        owner = module
        for name in names[:-1]:
            owner = getattr(owner, name)
        # In a class, so that super() works; without its decorators, which stay around the function. Its annotations may
        # name what only type checkers import.
        scope = {}
        source = "from __future__ import annotations\\nclass Holder:\\n" + source
        exec(compile(source, module.__file__, "exec", dont_inherit=True), module.__dict__, scope)
        function = inspect.unwrap(inspect.getattr_static(owner, names[-1]))
        function = getattr(function, "__func__", function)
        function.__code__ = vars(scope["Holder"])[names[-1]].__code__

'''


def override_of(originals: Mapping[str, str], texts: Mapping[str, str]) -> str:
    """The module for all files of installed packages that are changed; empty where there are none."""
    parts = []
    for file in changed(originals, texts):
        if not is_library(file):
            continue
        digest = hashlib.sha256(source_of(originals, file).content).hexdigest()
        added = _added(originals[file], texts[file])
        functions = _changed_functions(originals[file], texts[file])
        listed = "".join(f"    ({names!r}, {source!r}),\n" for names, source in functions)
        parts.append(f"\n_put({module_name(file)!r}, {digest!r}, {added!r}, [\n{listed}])\n")
    return _HEAD + "".join(parts) if parts else ""


def module_name(file: str) -> str:
    """What the module of an installed file is imported as."""
    names = PurePath(package_path(file) or file).with_suffix("").parts
    names = names[1:] if re.fullmatch(r"python\d.*", names[0]) else names  # Python's own.
    return ".".join(names[:-1] if names[-1] == "__init__" else names)


def _changed_functions(before: str, after: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """The functions of the new text that the old one has otherwise, by their names from the module down."""
    old = {names: ast.dump(node) for names, node in _functions(before)}
    for names, node in _functions(after):
        if names in old and old[names] != ast.dump(node):
            lines = lines_of(after)[node.lineno - 1 : node.end_lineno]
            yield names, indent(dedent("".join(lines)), "    ")


def _functions(text: str) -> Iterator[tuple[tuple[str, ...], ast.FunctionDef | ast.AsyncFunctionDef]]:
    def walk(body: list[ast.stmt], above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], ast.FunctionDef]]:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield (*above, node.name), node  # type: ignore[misc]
            elif isinstance(node, ast.ClassDef):
                yield from walk(node.body, (*above, node.name))

    yield from walk(ast.parse(text).body, ())


def _added(before: str, after: str) -> str:
    """What stands at the top of the new text and is lacking in the old one: imports, helpers."""
    kinds = ast.Import | ast.ImportFrom | ast.FunctionDef | ast.Assign
    known = {ast.dump(each) for each in ast.parse(before).body}
    named = {names for names, _ in _functions(before)}
    new = [each for each in ast.parse(after).body
           if isinstance(each, kinds) and ast.dump(each) not in known]  # fmt: skip
    return "".join(f"{ast.unparse(each)}\n" for each in new if (getattr(each, "name", ""),) not in named)

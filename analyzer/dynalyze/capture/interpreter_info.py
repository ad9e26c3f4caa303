"""What a sweep asks the target's interpreter before it starts: versions, names of models, options that torch knows.

`start.py inquire FILE` reads a request from FILE and writes the answer into it:

    {"compile": [OPTIONS], "patterns": ["*", "Llama*"], "names": ["LlamaModel"]}
    {"python": "3.11.7", "torch": "2.13.0", "transformers": "5.23.0" or null, "listed": {PATTERN: [NAME]},
     "mistakes": ["one line"]}

torch is imported to see whether it can be.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import platform
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from dynalyze.capture import environment
from dynalyze.capture.inputs import Misuse


def main(path: Path) -> int:
    """Answer the request in a file."""
    path.write_text(json.dumps(answer(json.loads(path.read_text(encoding="utf-8")))), encoding="utf-8")
    return 0


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """The answer as JSON values. What the user got wrong comes under `mistakes`, one line each."""
    mistakes: list[str] = []
    if reason := environment.torch_import_problem():
        return {**_versions(), "listed": {}, "mistakes": [reason]}
    needs_names = bool(request["patterns"] or request["names"])
    if needs_names and importlib.util.find_spec("transformers") is None:
        mistakes.append("transformers is not installed there, and hf: targets need it: pip install transformers")
        needs_names = False
    for options in request["compile"]:
        others = (options["mode"], options["device"], options["dtype"])
        if options["backend"] not in ("eager", "inductor") or any(others):  # All else any torch can do.
            from dynalyze.capture.compiling import check
            from dynalyze.capture.settings import CompileOptions

            _try(partial(check, CompileOptions(**options)), mistakes)
    listed = _listed(request, mistakes) if needs_names else {}
    return {**_versions(), "listed": listed, "mistakes": list(dict.fromkeys(mistakes))}


def _listed(request: dict[str, Any], mistakes: list[str]) -> dict[str, list[str]]:
    from dynalyze.capture.hf import names

    for name in request["names"]:
        _try(partial(names.resolve, name), mistakes)
    return {pattern: names.listed(pattern) for pattern in request["patterns"]}


def _try(action: Callable[[], Any], mistakes: list[str]) -> None:
    try:
        action()
    except Misuse as misuse:
        mistakes.append(str(misuse))


def _versions() -> dict[str, str | None]:
    found: dict[str, str | None] = {"python": platform.python_version()}
    for package in ("torch", "transformers"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = None
    return found

"""What a sweep asks the target's interpreter before it starts: versions, names of models, options that torch knows.

`start.py inquire FILE` reads a request from FILE and writes the answer into it:

    {"compile": [OPTIONS], "patterns": ["*", "Llama*"], "names": ["LlamaModel"]}
    {"python": "3.11.7", "torch": "2.13.0", "transformers": "5.23.0" or null, "listed": {PATTERN: [NAME]},
     "mistakes": ["one line"]}

torch is imported to see whether it can be.
"""

from __future__ import annotations

import importlib.util
import json
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dynalyze.capture import environment
from dynalyze.capture.doctor_probe import version_of
from dynalyze.capture.inputs import Misuse


def main(path: Path) -> int:
    """Answer the request in a file. What the user got wrong comes under `mistakes`, one line each."""
    request = json.loads(path.read_text(encoding="utf-8"))
    reason = environment.torch_import_problem()
    listed, mistakes = ({}, [reason]) if reason else _listed(request)
    versions = {"python": platform.python_version(), **{name: version_of(name) for name in ("torch", "transformers")}}
    answer = {**versions, "listed": listed, "mistakes": list(dict.fromkeys(mistakes))}
    path.write_text(json.dumps(answer), encoding="utf-8")
    return 0


def _listed(request: dict[str, Any]) -> tuple[dict[str, list[str]], list[str]]:
    """The names for each pattern, and the user's mistakes."""
    mistakes: list[str] = []

    def attempt(action: Callable[..., Any], subject: Any) -> None:
        try:
            action(subject)
        except Misuse as misuse:
            mistakes.append(str(misuse))

    needs_names = bool(request["patterns"] or request["names"])
    if needs_names and importlib.util.find_spec("transformers") is None:
        mistakes.append("transformers is not installed there, and hf: targets need it: pip install transformers")
        needs_names = False
    for options in request["compile"]:
        others = (options["mode"], options["device"], options["dtype"])
        if options["backend"] not in ("eager", "inductor") or any(others):  # All else any torch can do.
            from dynalyze.capture.compiling import check
            from dynalyze.capture.settings import CompileOptions

            attempt(check, CompileOptions(**options))
    if not needs_names:
        return {}, mistakes
    from dynalyze.capture.hf import names

    for name in request["names"]:
        attempt(names.resolve, name)
    return {pattern: names.listed(pattern) for pattern in request["patterns"]}, mistakes

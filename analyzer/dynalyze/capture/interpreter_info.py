"""What a sweep asks the target's interpreter before it starts: versions, names of models, options that torch knows.

`start.py inquire FILE` reads a request from FILE and writes the answer into it:

    {"compile": [OPTIONS], "patterns": ["hf:Llama*", "timm:all"], "names": ["hf:LlamaModel"]}
    {"versions": {"python": "3.11.7", "torch": "2.13.0", "transformers": "5.23.0" or null},
     "listed": {PATTERN: [NAME]}, "mistakes": ["one line"]}

torch is imported to see whether it can be.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dynalyze.capture import environment
from dynalyze.capture.doctor_probe import version_of
from dynalyze.capture.inputs import Misuse
from dynalyze.capture.libraries import library, library_facts, prefix_of


def main(path: Path) -> int:
    """Answer the request in a file. What the user got wrong comes under `mistakes`, one line each."""
    request = json.loads(path.read_text(encoding="utf-8"))
    reason = environment.torch_import_problem()
    listed, mistakes = ({}, [reason]) if reason else _listed(request)
    asked = {prefix_of(text) for text in (*request["patterns"], *request["names"])}
    packages = dict.fromkeys(["torch", "transformers", *sorted(library_facts(prefix).package for prefix in asked)])
    versions = {"python": platform.python_version(), **{name: version_of(name) for name in packages}}
    answer = {"versions": versions, "listed": listed, "mistakes": list(dict.fromkeys(mistakes))}
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

    for options in request["compile"]:
        others = (options["mode"], options["device"], options["dtype"])
        if options["backend"] not in ("eager", "inductor") or any(others):  # All else any torch can do.
            from dynalyze.capture.compiling import check
            from dynalyze.capture.settings import CompileOptions

            attempt(check, CompileOptions(**options))
    listed: dict[str, list[str]] = {}

    def find(text: str) -> None:
        prefix, _, name = text.partition(":")
        if text in request["patterns"]:
            listed[text] = [f"{prefix}:{each}" for each in library(prefix).listed(name)]
        else:
            library(prefix).resolve(name)

    for text in (*request["patterns"], *request["names"]):
        attempt(find, text)
    return listed, mistakes

"""Which source files Dynamo read, with a hash of each and one of the set."""

from __future__ import annotations

import hashlib
from pathlib import Path

from dynalyze.events.log import RunLog
from dynalyze.events.types import SourceSeen, TracedSeen
from dynalyze.facts.sources import changed, seen_sources
from dynalyze.facts.stacks import Places, is_file
from dynalyze.files.input_files import read_input
from dynalyze.report import TracedFile, TracedFunction


def traced_files(run: RunLog, places: Places, *, readable: bool = True) -> list[TracedFile]:
    """Every file that holds a traced function, in the order in which they were first traced."""
    seen = seen_sources(run)
    functions: dict[str, dict[TracedFunction, None]] = {}
    for _, event in run.all():
        if isinstance(event, TracedSeen):
            for file, name, line in event.functions:
                if is_file(file):
                    functions.setdefault(file, {}).setdefault(TracedFunction(name, line))
    return [
        TracedFile(path, _sha256(path, seen.get(path)) if readable else "", list(found), places.origin(path))
        for path, found in functions.items()
    ]


def hash_of_set(files: list[TracedFile]) -> str:
    """One sha256 over paths and contents, independent of the order of tracing; "" for no files.

    As in vLLM's cache key, a change of any traced file changes it.
    """
    if not files:
        return ""
    total = hashlib.sha256()
    for file in sorted(files, key=lambda f: f.path):
        total.update(f"{file.path}\0{file.sha256}\n".encode(errors="surrogatepass"))
    return total.hexdigest()


def _sha256(path: str, seen: SourceSeen | None) -> str:
    if seen is not None and (seen.sha256 or changed(path, seen)):
        return seen.sha256
    try:
        return hashlib.sha256(read_input(Path(path))).hexdigest()
    except OSError:
        return ""

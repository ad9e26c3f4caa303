"""Which line of one's own led to a break in the code of a library."""

from __future__ import annotations

import re

from dynalyze.report import GraphBreak, Location

_INSTALLED = re.compile(r"[/\\](?:site|dist)-packages[/\\]")
# The models of transformers are what its users look at; the rest of it are helpers that many models share.
_MODEL = re.compile(r"[/\\]transformers[/\\]models[/\\]|[/\\]transformers_modules[/\\]")


def own_caller(found: GraphBreak) -> Location | None:
    """The innermost line outside of libraries' helpers that led to a break inside of one; None for other breaks."""
    if _is_own(found.location):
        return None
    return next((line for line in reversed(found.stack) if _is_own(line)), None)


def _is_own(line: Location) -> bool:
    return _INSTALLED.search(line.file) is None or _MODEL.search(line.file) is not None

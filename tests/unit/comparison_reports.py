"""Small reports written by hand, for the tests that compare two."""

from __future__ import annotations

from typing import Any

import msgspec

from dynalyze.comparison.reports import compare
from dynalyze.comparison.types import BreakChange, Comparison
from dynalyze.report import (
    Compilation,
    CompilationStatus,
    Effect,
    GraphBreak,
    Location,
    Outcome,
    Recompile,
    Report,
    Status,
    Target,
    TracedFile,
    TracedFunction,
)

MODEL = "/home/ada/work/model.py"
EFFECTS: tuple[Effect, ...] = ("split", "partly_eager", "eager", "error")


def at(line: int, code: str | None = "print(x)", function: str = "forward", file: str = MODEL) -> Location:
    return Location(file, line, 4, function, code)


def broken(location: Location, effect: Effect = "split", gb_id: str | None = "GB0059", **changes: Any) -> GraphBreak:
    fields: dict[str, Any] = {"id": f"b{location.line}", "gb_type": f"type of {gb_id}", "stack": [location], **changes}
    return GraphBreak(gb_id=gb_id, effect=effect, location=location, **fields)


def again(
    source: str | None = "x.size()[0]", function: str = "Net.forward", line: int = 3, **changes: Any
) -> Recompile:
    fields: dict[str, Any] = {"id": "r1", "compile_id": "0/1", "previous": "0/0", "cause": "shape", **changes}
    return Recompile(location=at(line, "def forward(self, x):", function), source=source, **fields)


def compiled(
    compile_id: str = "0/0", status: CompilationStatus = "compiled", function: str = "Net.forward", line: int = 3,
    **changes: Any,
) -> Compilation:  # fmt: skip
    location = at(line, "def forward(self, x):", function)
    return Compilation(compile_id, 0, 0, location, status, function=function, **changes)


def traced(*functions: tuple[str, int], path: str = MODEL) -> TracedFile:
    return TracedFile(path, "", [TracedFunction(*each) for each in functions])


def report(*breaks: GraphBreak, status: Status = "complete", **changes: Any) -> Report:
    fields: dict[str, Any] = {
        "environment": {"torch": "2.13.0", "device": "cpu"},
        "target": Target("script", "model.py"),
        "command": ["explain", "model.py"],
        **changes,
    }
    return Report(
        dynalyze="0.1.0", created="2026-11-20T22:00:00Z", outcome=Outcome(status), graph_breaks=list(breaks), **fields
    )


def sorted_breaks(comparison: Comparison) -> dict[str, list[tuple[int | None, int | None]]]:
    """The lines of each break before and after, by its fate."""

    def line(change: BreakChange, side: str) -> int | None:
        found = getattr(change, side)
        return found.location.line if found else None

    lists = msgspec.structs.asdict(comparison.breaks)
    return {
        fate: sorted(((line(each, "before"), line(each, "after")) for each in changes), key=repr)
        for fate, changes in lists.items()
        if changes
    }


def fates(before: list[GraphBreak], after: list[GraphBreak]) -> dict[str, list[tuple[int | None, int | None]]]:
    return sorted_breaks(compare(report(*before), report(*after)))


def kinds(before: Report, after: Report) -> list[str]:
    return [item.kind for item in compare(before, after).regressions]


def copied(each: Report) -> Report:
    return msgspec.json.decode(msgspec.json.encode(each), type=Report)

"""How the run ended: part of it unrecorded, nothing compiled, everything in eager, a compile that failed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from dynalyze.facts.compilations import CUT_OFF
from dynalyze.report import Compilation, Finding, ForcedSize, Report
from dynalyze.rules.recompile_advice.source import as_written
from dynalyze.rules.rule import Rule

_VIOLATED = re.compile(r"Constraints violated \((.+?)\)!")
_SIZE = re.compile(r"L\['(\w+)'\]([^\s,]*?)\.size\(\)\[(\d+)\]")


class Size(NamedTuple):
    """One dimension of a tensor, as the user writes both."""

    tensor: str
    dimension: str

    def __str__(self) -> str:
        return f"{self.tensor}.size()[{self.dimension}]"


def forced_sizes(reason: str) -> list[Size]:
    """The dimensions concerned, from torch's own words; none for another failure."""
    found = _VIOLATED.match(reason)
    sizes = (Size(as_written(m[1] + m[2]), m[3]) for m in _SIZE.finditer(found[1])) if found else ()
    return list(dict.fromkeys(sizes))


def _forced_title(function: str, forced: list[Size]) -> str:
    """What happened, with the sizes as the user writes them."""
    sizes = ", ".join(f"`{size}`" for size in forced)
    return f"{function} makes a constant of a dimension that is marked dynamic: {sizes}"


def _forcing_lines(report: Report, compilation: Compilation, forced: list[Size]) -> list[ForcedSize]:
    """The facts about the _forcing_lines that made constants of these dimensions in this compile."""
    names = {None, *map(str, forced)}  # A report without source does not name them.
    return [
        size
        for size in report.forced_sizes
        if size.refused and compilation.compile_id in size.compile_ids and _written(size.source) in names
    ]


def _written(source: str | None) -> str | None:
    return as_written(source) if source is not None else None


def _forced_advice(forced: list[Size], told: list[ForcedSize]) -> str:
    """How to let the dimension vary, or to allow the constant."""
    maybe = ", ".join(f"`torch._dynamo.maybe_mark_dynamic({size.tensor}, {size.dimension})`" for size in forced)
    places = list(dict.fromkeys(f"{Path(size.location.file).name}:{size.location.line}" for size in told))
    if not places:
        return (
            "Look for what fixes the size: a comparison with a number, or a tensor of fixed size that it meets. torch "
            f"prints that line under User stack. Or allow the constant: {maybe}."
        )
    values = " and ".join(
        dict.fromkeys(f"`{_written(size.source)} == {size.values[0]}`" for size in told if size.source and size.values)
    )
    needs = f" It holds only for {values}." if values else ""
    return (
        f"Change {' and '.join(places)} so that it takes any size.{needs} It compares with a number, counts in Python, "
        f"or meets a tensor of fixed size. Or allow the constant: {maybe}."
    )


def _judge_incomplete(report: Report) -> Iterator[tuple[int, Finding]]:
    if report.outcome.status == "incomplete":
        yield (
            0,
            INCOMPLETE.finding(
                title="Part of the run was not recorded",
                advice=f"{report.outcome.message} What is told here is right, but something is missing: that nothing "
                "else broke or compiled again cannot be told from it.",
            ),
        )


INCOMPLETE = Rule(
    id="incomplete-record",
    title="Part of the run was not recorded",
    severity="error",
    description="torch compiled more than was heard, or an event could not be written.",
    passed="All that torch counted was recorded.",
    judge=_judge_incomplete,
)


def _judge_nothing(report: Report) -> Iterator[tuple[int, Finding]]:
    if report.outcome.status == "nothing_compiled":
        skipped = [frame for frame in report.skipped_frames if frame.entry]
        yield (
            0,
            NOTHING.finding(
                title="Nothing was compiled",
                location=skipped[0].location if skipped else None,
                evidence=[frame.id for frame in skipped],
                advice=report.outcome.message or "Call torch.compile, and call what it returns.",
            ),
        )


NOTHING = Rule(
    id="nothing-compiled",
    title="Nothing was compiled",
    severity="error",
    description="Not a single frame reached the compiler. The program ran as if torch.compile were not there.",
    passed="At least one frame reached the compiler.",
    judge=_judge_nothing,
)


def _judge_all_eager(report: Report) -> Iterator[tuple[int, Finding]]:
    tried = report.compilations
    given_up = tried and all(compilation.status == "eager" for compilation in tried)
    if given_up and report.graph_breaks and report.outcome.status == "complete":
        yield (
            1,
            ALL_EAGER.finding(
                title="Every function fell back to eager",
                location=tried[0].location,
                evidence=[b.id for b in report.graph_breaks],
                advice="Mend the graph breaks below: until then torch.compile gains nothing here.",
            ),
        )


ALL_EAGER = Rule(
    id="all-eager",
    title="Every function fell back to eager",
    severity="error",
    description="Dynamo tried to compile and gave up on every frame, so the program runs in eager.",
    passed="At least one function was compiled.",
    judge=_judge_all_eager,
)


def _judge_failed(report: Report) -> Iterator[tuple[int, Finding]]:
    refusing = {found.id for found in report.graph_breaks if found.effect == "error"}
    ended_by_us = report.outcome.status in ("timed_out", "interrupted")
    for compilation in report.compilations:
        if ended_by_us and compilation.reason == CUT_OFF:
            continue
        if compilation.status == "failed" and refusing.isdisjoint(compilation.breaks):
            forced = forced_sizes(compilation.reason)
            told = _forcing_lines(report, compilation, forced)
            yield (
                2,
                FAILED.finding(
                    title=_forced_title(compilation.function, forced)
                    if forced
                    else f"Compiling {compilation.function} failed",
                    location=told[0].location if told else compilation.location,
                    evidence=[compilation.compile_id, *(size.id for size in told)],
                    advice=_forced_advice(forced, told)
                    if forced
                    else (
                        f"{compilation.reason.rstrip(':') or 'The compiler raised an error'}. Compile it with "
                        'backend="eager", then "aot_eager": the first that fails names the stage to look at.'
                    ),
                ),
            )


FAILED = Rule(
    id="compile-failed",
    title="A compile failed",
    severity="error",
    description="Dynamo, AOTAutograd or the backend raised an error while compiling a frame.",
    passed="No compile ended in an error.",
    judge=_judge_failed,
)

RULES = (INCOMPLETE, NOTHING, ALL_EAGER, FAILED)

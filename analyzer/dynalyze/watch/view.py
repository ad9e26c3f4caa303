"""The page's section on a watched job: notices, ranks, and when each rank compiled."""

from __future__ import annotations

from collections.abc import Sequence

from dynalyze.render.view.links import Anchors, Index
from dynalyze.render.view.measurements import Table
from dynalyze.render.view.page import Section
from dynalyze.render.view.plots import drawing as draw
from dynalyze.render.view.plots.drawing import Plot, Rect, Scale, Shape
from dynalyze.report import Report
from dynalyze.text.amounts import count_of, duration, milliseconds
from dynalyze.watch.notices import line_of
from dynalyze.watch.records import Job, JobRank, job_of

ANCHORS = ("job",)
_MOST_LINES, _MOST_ROWS, _MOST_RANKS, _MOST_MARKS = 40, 200, 64, 2000
_WIDTH, _LABELS, _TOP, _ROW, _BAR = 760, 90, 4, 22, 14
_COUNTED = {"optimizer": "optimizer steps", "step": "calls of dynalyze.step()", "calls": "calls of what is compiled"}


def sections(report: Report, links: Index, anchors: Anchors) -> list[Section]:
    job = job_of(report)
    return [] if job is None else [Section(JobView(job, anchors), "job", "The job", folder="watch")]


class JobView:
    """Notices with the newest first, the table of ranks, and the plot of their compiles."""

    def __init__(self, job: Job, anchors: Anchors) -> None:
        self.lead = _lead(job)
        late = list(reversed(job.notices))[:_MOST_LINES]
        self.notices = [(f"{duration(each.at)} in", line_of(each, len(job.ranks)), each.guard) for each in late]
        self.omitted = len(job.notices) - len(late)
        self.ranks = ranks_table(job.ranks)
        self.plot = _plot(anchors.claim("plot-job"), job)


def _lead(job: Job) -> str:
    steps = max((row.steps for row in job.ranks), default=0)
    counted = next((_COUNTED.get(row.counted_by, row.counted_by) for row in job.ranks if row.counted_by), "steps")
    waited = max((row.waited_seconds for row in job.ranks), default=0.0)
    lost = f" {count_of(job.lost_events, 'event')} could not be written." if job.lost_events else ""
    untold = f" {count_of(job.untold, 'more', 'more')} like them are not listed." if job.untold else ""
    waits = f" A rank waited {duration(waited)} in all while others compiled." if waited else ""
    return (
        f"{count_of(len(job.ranks), 'process', 'processes')}, {steps:,} {counted} in {duration(job.seconds)}: "
        f"{count_of(len(job.notices), 'event')} after warm-up.{untold}{waits}{lost}"
    )


def ranks_table(ranks: Sequence[JobRank]) -> Table:
    """The processes of a job, for the page and the terminal."""
    heads = ["Rank", "Host", "Status", "Steps", "A step", "Compiles", "Recompiles", "Compile time", "Waited"]
    rows = [
        [
            rank_name(each), each.host, each.status, f"{each.steps:,}",
            "" if each.usual_ms is None else milliseconds(each.usual_ms), f"{each.compiles:,}",
            f"{each.recompiles:,}", duration(each.compile_seconds),
            duration(each.waited_seconds) if each.waited_seconds else "",
        ]
        for each in ranks[:_MOST_ROWS]
    ]  # fmt: skip
    return Table("The processes of the job", heads, rows).without_empty_columns()


def _plot(identity: str, job: Job) -> Plot | None:
    """A row for each rank with a mark for each compile; None without compiles."""
    rows = job.ranks[:_MOST_RANKS]
    known = [each for each in job.compiles if each.process < len(rows)]
    # The longest ones: a job of days has thousands of short compiles.
    marked = sorted(known, key=lambda each: -each.seconds)[:_MOST_MARKS]
    if not marked:
        return None
    x = Scale(0.0, max(job.seconds, *(each.began + each.seconds for each in marked)), _LABELS, _WIDTH - 4)
    bottom = _TOP + len(rows) * _ROW
    shapes: list[Shape] = list(draw.across(x, 0, bottom, draw.time_tick))
    for number, row in enumerate(rows):
        shapes.append(draw.Label("name", 0, _TOP + number * _ROW + 11, draw.shortened(rank_name(row))))
    for each in sorted(marked, key=lambda each: each.began):
        left, right = x.at(each.began), x.at(each.began + each.seconds)
        step = f", step {each.step:,}" if each.step is not None else ""
        what, name = "recompiled" if each.again else "compiled", rank_name(rows[each.process])
        shapes.append(
            Rect(
                f"part {'break' if each.again else 'graph'}", left, _TOP + each.process * _ROW,
                max(2.0, round(right - left, 1)), _BAR,
                f"{name}{step}: {what} for {duration(each.seconds)}, {duration(each.began)} in",
            )
        )  # fmt: skip
    again = sum(each.again for each in known)
    said = (
        f"{count_of(len(known), 'compile')} on {count_of(len(rows), 'process', 'processes')}, {again:,} of them again."
    )
    legend = [("part graph", "compiled for the first time"), ("part break", "compiled again")]
    note = f"The {_MOST_MARKS:,} longest of {len(known):,} compiles." if len(known) > len(marked) else ""
    return Plot(identity, "Compiles by rank", said, _WIDTH, bottom + 20, shapes, legend, note)


def rank_name(row: JobRank) -> str:
    """`rank 0, restart 1`: an elastic job starts its ranks anew."""
    restarted = f", restart {row.restart}" if row.restart else ""
    return f"rank {row.rank}{restarted}" if row.rank is not None else f"process {row.process}"

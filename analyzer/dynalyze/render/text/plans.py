"""Sentences and tables of a compile plan, for the terminal and the page."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dynalyze.render.text.bench import EAGER, capital, short_count
from dynalyze.report.plans import CompilePlan, PlanPoint, PlanRange, ShapePlan
from dynalyze.text.amounts import count_of, duration, listed, milliseconds, percent

_WHAT = {
    EAGER: "compile nothing",
    "default": "compile the whole model",
    "regional": "compile its repeated blocks and the modules beside them, each separately",
    "as written": "compile as the program does",
}
_LIMIT = 8
"""Of the versions of a function, in torch's default."""

CACHES = (
    "Warm caches are those left by an earlier process: torch keeps them in a folder of TMPDIR, or where "
    "TORCHINDUCTOR_CACHE_DIR says; `dynalyze cache` tells whether they are found."
)


def sentences(plan: CompilePlan) -> list[str]:
    """What to do, how it compares with eager, and what would be best with warm caches."""
    points = {point.configuration: point for point in plan.points}
    if not points:
        why = plan.problem or "nothing could be measured"
        return [f"There is no plan: {why.rstrip('.')}.", *([f"{capital(plan.remedy)}."] if plan.remedy else [])]
    chosen, warm = points.get(plan.choice), points.get(plan.warm_choice)
    if chosen is None:
        return _all_ranges(plan)
    found = [f"{_asked(plan)}: {what(plan.choice)}. {_takes(plan, chosen)}."]
    if plan.start_up is not None and chosen.start_up > plan.start_up:
        found.append("No configuration starts within that limit; this one starts soonest.")
    if warm is not None and warm is not chosen:
        found.append(f"With warm caches: {what(plan.warm_choice)}. {_takes(plan, warm, warm=True)}.")
    elif plan.choice != EAGER and chosen.warm_start_up is not None:
        found.append(f"With warm caches it is the same, and starts in {duration(chosen.warm_start_up)}.")
    return found


def what(configuration: str) -> str:
    known = _WHAT.get(configuration)
    return known if known in (_WHAT[EAGER], _WHAT["as written"]) else f"{known or 'compile'} (`{configuration}`)"


def table(plan: CompilePlan) -> tuple[list[str], list[list[str]]]:
    """Heads and rows, one row a way, with the frontier marked."""
    asked = plan.calls is not None or plan.seconds is not None
    heads = ["Way", "Starts in", "warm", "A call"]
    if asked:
        heads += [f"{short_count(plan.calls)} calls" if plan.calls else f"In {duration(plan.seconds or 0)}", "warm"]
    rows = []
    for point in plan.points:
        warm = "" if point.configuration == EAGER or point.warm_start_up is None else duration(point.warm_start_up)
        row = [point.configuration, duration(point.start_up), warm, milliseconds(point.ms)]
        if plan.calls is not None:
            row += ["" if each is None else duration(each) for each in (point.total, point.warm_total)]
        elif plan.seconds is not None:
            row += ["" if each is None else f"{short_count(each)} calls" for each in (point.calls, point.warm_calls)]
        rows.append(row)
    return [*heads, "Frontier"], [
        [*row, "yes" if point.frontier else ""] for row, point in zip(rows, plan.points, strict=True)
    ]


def ranges_words(ranges: Sequence[PlanRange]) -> str:
    """When which way is best: "eager is best up to 639 calls, layers from 640 on and default from 5,200 on"."""
    if len(ranges) < 2:
        return f"{ranges[0].configuration} is best for any number of calls" if ranges else ""
    first = f"{ranges[0].configuration} is best up to {short_count(math.ceil(ranges[1].calls) - 1)} calls"
    return listed([first, *(f"{each.configuration} from {short_count(each.calls)} on" for each in ranges[1:])])


def _all_ranges(plan: CompilePlan) -> list[str]:
    """The ranges with empty and with warm caches; ways without a point are left out."""
    text = ranges_words(plan.ranges)
    text = f"Of what was measured, {text}." if plan.not_measured else f"{capital(text)}."
    return [text, *_warm_ranges(plan)]


def _warm_ranges(plan: CompilePlan) -> list[str]:
    ranges = ranges_words(plan.warm_ranges)
    same = [each.configuration for each in plan.ranges] == [each.configuration for each in plan.warm_ranges]
    return [f"With warm caches {ranges}."] if ranges and not (same and len(plan.ranges) == 1) else []


def notes(plan: CompilePlan) -> list[str]:
    """From how many calls on which way is best, if the verdict does not say so, and what was not measured."""
    found = _all_ranges(plan) if plan.choice and plan.ranges else []
    return [*found, *(f"{each.configuration}: {each.reason}." for each in plan.not_measured)]


def pasted(plan: CompilePlan) -> str:
    """The lines of the choice, or of the last range, which is best in the long run."""
    name = plan.choice or (plan.ranges[-1].configuration if plan.ranges else "")
    return next((point.lines for point in plan.points if point.configuration == name), "")


def shape_sentences(shapes: ShapePlan) -> list[str]:
    ends = [f"{name} from {each.smallest:,} to {each.largest:,}" for name, each in shapes.varying.items()]
    found = [
        f"{count_of(shapes.calls, 'call')} of {count_of(shapes.shapes, 'shape')}{': ' if ends else ''}{listed(ends)}."
    ]
    if shapes.varying:
        static = f" A version for each shape would need {shapes.shapes:,}; torch stops at recompile_limit ({_LIMIT})."
        found.append(
            f"Torch compiles {count_of(shapes.automatic, 'version')} by itself, {shapes.dynamic:,} with these sizes "
            f"marked dynamic, and {len(shapes.buckets):,} if calls are padded to the sizes below."
            f"{static if shapes.shapes > _LIMIT else ''}"
        )
    if shapes.total is not None:
        found.append(f"All calls padded take {duration(shapes.total)}, compiling included, as measured.")
    if shapes.problem:
        found.append(f"Padded calls were not measured: {shapes.problem}.")
    elif any(bucket.ms is None for bucket in shapes.buckets):
        found.append("Sizes without a time were not measured.")
    return found


def shape_table(shapes: ShapePlan) -> tuple[list[str], list[list[str]]]:
    rows = []
    for bucket in shapes.buckets:
        times = ("" if ms is None else milliseconds(ms) for ms in (bucket.ms, bucket.eager_ms))
        padded = ", ".join(f"{name} {size:,}" for name, size in bucket.padded_to.items())
        rows.append([padded, f"{bucket.calls:,}", percent(bucket.padding), *times])
    return ["Pad to", "Calls", "Padding adds", "A call", "Eager"], rows


def shape_lines(shapes: ShapePlan) -> str:
    """The lines to paste, and the list for the environment."""
    if not shapes.sources:
        return shapes.lines
    return f'{shapes.lines}\n# or without a change of the code:\n# TORCH_COMPILE_DYNAMIC_SOURCES="{shapes.sources}"'


def _asked(plan: CompilePlan) -> str:
    limit = "" if plan.start_up is None else f"start within {duration(plan.start_up)}"
    if plan.calls is not None:
        asked = f"for {count_of(int(plan.calls), 'call')}"
    elif plan.seconds is not None:
        asked = f"for {duration(plan.seconds)} of calls"
    else:
        return f"To {limit}"
    return capital(f"{asked}, and to {limit}" if limit else asked)


def _takes(plan: CompilePlan, point: PlanPoint, *, warm: bool = False) -> str:
    """What the point takes or makes, compared with eager, or eager with the next best."""
    others = [each for each in plan.points if each is not point and EAGER in (each.configuration, point.configuration)]
    if plan.calls is not None:
        other = min(others, key=lambda each: each.total or 0.0, default=None)
        result = f"That takes {duration((point.warm_total if warm else point.total) or 0.0)} in all"
        return result if other is None else f"{result}, {other.configuration} {duration(other.total or 0.0)}"
    if plan.seconds is not None:
        other = max(others, key=lambda each: each.calls or 0.0, default=None)
        result = f"That makes {short_count((point.warm_calls if warm else point.calls) or 0.0)} calls"
        return result if other is None else f"{result}, {other.configuration} {short_count(other.calls or 0.0)}"
    other = min(others, key=lambda each: each.ms, default=None)
    start = point.warm_start_up if warm else point.start_up
    result = f"That starts in {duration(start or 0.0)}, and a call takes {milliseconds(point.ms)}"
    return result if other is None else f"{result}, with {other.configuration} {milliseconds(other.ms)}"

"""Sentences and cells on the warm-up check, for the page and the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dynalyze.report.audit import SecondStart, ShapeRun, Warmup
from dynalyze.text.amounts import count_of, duration, lookups, milliseconds, percent

_MOST_SHAPES = 4
_MOST_LATE = 3


def headline(warmup: Warmup) -> str:
    """Whether anything compiles once all shapes have been called."""
    if warmup.reason:
        return f"The warm-up was not checked: {warmup.reason}."
    shapes = count_of(len(warmup.calls), "shape")
    late = warmup.after_warmup
    if late:
        return f"{len(late):,} of {shapes} compiled again after warm-up: {shapes_words(late)}."
    if eager := [run for run in warmup.calls if run.in_eager]:
        return f"Nothing compiles after warm-up, but {len(eager):,} of {shapes} ran in eager: {shapes_words(eager)}."
    return f"Nothing compiles after warm-up: {shapes}, all called twice."


def sentences(warmup: Warmup) -> list[str]:
    if warmup.reason:
        return []
    said = [f"After warm-up, {shape_words(run.shape)} compiled {compiled(run)}." for run in warmup.after_warmup]
    left = len(said) - _MOST_LATE
    said[_MOST_LATE:] = [f"So did {count_of(left, 'more shape')}."] if left > 0 else []
    if warmup.functions:
        most = warmup.functions[0]
        limit = f" (the limit is {warmup.recompile_limit})" if warmup.recompile_limit else ""
        reached = ", which is the most that torch makes" if most.limit else ""
        versions = count_of(most.versions, "compiled version")
        said.append(f"{most.function or 'A function'} has {versions}{limit}{reached}.")
    if failed := [run for run in warmup.calls if run.error]:
        said.append(f"{count_of(len(failed), 'shape')} failed: {failed[0].error}.")
    if warmup.buckets:
        sizes = "; ".join(shape_words(bucket.padded_to) for bucket in warmup.buckets)
        more = f", which adds {percent(warmup.bucket_padding)} of elements" if warmup.bucket_padding is not None else ""
        said.append(f"{count_of(len(warmup.buckets), 'bucket')} would do: {sizes}{more}.")
    if warmup.dynamic_advice:
        said.append(f"{warmup.dynamic_advice}.")
    return said if warmup.second_start is None else [*said, second_start(warmup.second_start)]


def second_start(second: SecondStart) -> str:
    counts = lookups(second.hits, second.misses, second.bypasses)
    how = "is warm" if second.warm else "is not warm"
    return (
        f"A second start {how}: its first calls took {duration(second.warm_seconds)}, with empty caches "
        f"{duration(second.cold_seconds)} ({counts or 'no cache was asked'})."
    )


def shape_words(shape: Mapping[str, int]) -> str:
    """ "batch 1, sequence 128"."""
    return ", ".join(f"{name} {size:,}" for name, size in shape.items()) or "the only one"


def shapes_words(runs: Iterable[ShapeRun]) -> str:
    """Several shapes, the first ones by name."""
    names = list(dict.fromkeys(shape_words(run.shape) for run in runs))
    left = len(names) - _MOST_SHAPES
    return "; ".join(names[:_MOST_SHAPES]) + (f" and {left:,} more" if left > 0 else "")


def compiled(run: ShapeRun) -> str:
    """What a call compiled: "1 function, again: x.size()[1] 4, then 8"."""
    if run.error:
        return f"failed: {run.error}"
    parts = [count_of(run.compiles, "function")] if run.compiles else []
    parts += [f"{count_of(run.eager_frames, 'function')} left in eager"] if run.eager_frames else []
    parts += [count_of(run.breaks, "graph break")] if run.breaks else []
    result = ", ".join(parts) or "nothing"
    result += ", the recompile limit was reached" if any(each.cause == "limit" for each in run.recompiles) else ""
    if (why := next((each for each in run.recompiles if each.source), None)) is None:
        return result
    values = f" was {why.expected}, now {why.actual}" if why.expected and why.actual else " changed"
    return f"{result}; {why.source}{values}"


def runs(run: ShapeRun) -> str:
    if run.error:
        return ""
    graphs = ", ".join(f"version {number}" for number in run.versions)
    eager = f"{', '.join(run.in_eager)} in eager" if run.in_eager else ""
    return "; ".join(part for part in (graphs, eager) if part) or "not known"


def later(run: ShapeRun) -> str:
    return "" if run.later_milliseconds is None else milliseconds(run.later_milliseconds)

"""The sentences and cells on the warm-up check that the page and the terminal share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dynalyze.report.audit import SecondStart, ShapeRun, Warmup
from dynalyze.text.amounts import count_of, duration, milliseconds, percent

_MOST_SHAPES = 4
_MOST_LATE = 3


def headline(warmup: Warmup) -> str:
    """Whether anything compiles once all shapes have been called."""
    if warmup.reason:
        return f"The warm-up was not checked: {warmup.reason}."
    shapes = count_of(len(warmup.calls), "shape")
    late = warmup.after_warmup
    if late:
        verb = "compiles" if len(late) == 1 else "compile"
        return f"{len(late):,} of {shapes} {verb} again after warm-up: {shapes_words(late)}."
    eager = [run for run in warmup.calls if run.in_eager]
    if eager:
        runs = "runs" if len(eager) == 1 else "run"
        return f"Nothing compiles after warm-up, but {len(eager):,} of {shapes} {runs} in eager: {shapes_words(eager)}."
    return f"Nothing compiles after warm-up: {shapes}, all called twice."


def sentences(warmup: Warmup) -> list[str]:
    """What there is to say beside the headline, one sentence each."""
    if warmup.reason:
        return []
    said = [*_late(warmup), _versions(warmup), _failed(warmup), _buckets(warmup), _dynamic(warmup)]
    said.append(second_start(warmup.second_start) if warmup.second_start is not None else "")
    return [each for each in said if each]


def second_start(second: SecondStart) -> str:
    """What a start with filled caches costs."""
    counts = [
        count_of(number, singular, plural)
        for number, singular, plural in (
            (second.hits, "hit", "hits"), (second.misses, "miss", "misses"), (second.bypasses, "bypass", "bypasses"),
        )
        if number
    ]  # fmt: skip
    how = "is warm" if second.warm else "is not warm"
    return (
        f"A second start {how}: its first calls took {duration(second.warm_seconds)}, with empty caches "
        f"{duration(second.cold_seconds)} ({', '.join(counts) or 'no cache was asked'})."
    )


def shape_words(shape: Mapping[str, int]) -> str:
    """A shape for people: "batch 1, sequence 128"."""
    return ", ".join(f"{name} {size:,}" for name, size in shape.items()) or "the only one"


def shapes_words(runs: Iterable[ShapeRun]) -> str:
    """Several of them, the first ones by name."""
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
    told = ", ".join(parts) or "nothing"
    told += ", the recompile limit was reached" if any(each.cause == "limit" for each in run.recompiles) else ""
    why = _why(run)
    return f"{told}; {why}" if why else told


def runs(run: ShapeRun) -> str:
    """What runs for a shape once all is warm."""
    if run.error:
        return ""
    graphs = ", ".join(f"version {number}" for number in run.versions)
    eager = f"{', '.join(run.in_eager)} in eager" if run.in_eager else ""
    return "; ".join(part for part in (graphs, eager) if part) or "not known"


def later(run: ShapeRun) -> str:
    """How long the same call took when it came again."""
    return "" if run.later_milliseconds is None else milliseconds(run.later_milliseconds)


def _why(run: ShapeRun) -> str:
    found = next((each for each in run.recompiles if each.source), None)
    if found is None:
        return ""
    values = f" was {found.expected}, now {found.actual}" if found.expected and found.actual else " changed"
    return f"{found.source}{values}"


def _late(warmup: Warmup) -> list[str]:
    """What compiled after the warm-up, the first ones with their cause."""
    told = [f"After warm-up, {shape_words(run.shape)} compiled {compiled(run)}." for run in warmup.after_warmup]
    left = len(told) - _MOST_LATE
    return [*told[:_MOST_LATE], *([f"So did {count_of(left, 'more shape')}."] if left > 0 else [])]


def _versions(warmup: Warmup) -> str:
    most = warmup.functions[0] if warmup.functions else None
    if most is None:
        return ""
    limit = f" (the limit is {warmup.recompile_limit})" if warmup.recompile_limit else ""
    reached = ", which is the most that torch makes" if most.limit else ""
    versions = count_of(most.versions, "compiled version")
    return f"{most.function or 'A function'} has {versions}{limit}{reached}."


def _failed(warmup: Warmup) -> str:
    failed = [run for run in warmup.calls if run.error]
    return f"{count_of(len(failed), 'shape')} failed: {failed[0].error}." if failed else ""


def _buckets(warmup: Warmup) -> str:
    if not warmup.buckets:
        return ""
    sizes = "; ".join(shape_words(bucket.padded_to) for bucket in warmup.buckets)
    more = f", which adds {percent(warmup.bucket_padding)} of elements" if warmup.bucket_padding is not None else ""
    return f"{count_of(len(warmup.buckets), 'bucket')} would do: {sizes}{more}."


def _dynamic(warmup: Warmup) -> str:
    return f"{warmup.dynamic_advice}." if warmup.dynamic_advice else ""

"""The sentences of a comparison of two runs that the terminal, the page and the JSON share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from dynalyze.comparison.types import (
    BreakChange,
    Breaks,
    BreakSide,
    ComparedRun,
    Comparison,
    FunctionChange,
    FunctionSide,
    LatencyChange,
    RecompileChange,
    RecompileSide,
    Regression,
    RegressionKind,
)
from dynalyze.render.text import bench as bench
from dynalyze.render.text.report import STATUS_WORDS, effect_words
from dynalyze.text.amounts import count_of, duration

ARROW = "->"

_REGRESSIONS: dict[RegressionKind, str] = {
    "outcome": "The second run ended worse",
    "break": "A new graph break",
    "effect": "A graph break with a worse effect",
    "recompile": "A new recompile",
    "limit": "The recompile limit is reached now",
    "compilation": "A function that now falls back to eager, or fails to compile",
}


Side = TypeVar("Side", BreakSide, RecompileSide, FunctionSide)


def latest(before: Side | None, after: Side | None) -> Side:
    """That of the second run; that of the first where only this one has it."""
    side = after or before
    assert side is not None
    return side


_ENDINGS = {
    "failed": "the program failed",
    "nothing_compiled": "nothing was compiled",
    "timed_out": "the time limit ended it",
    "incomplete": "part of it was not recorded",
}


def drawn(text: str) -> str:
    """A sentence of ours for a page, where an arrow is one character and stays whole."""
    return text.replace(f" {ARROW} ", " \N{RIGHTWARDS ARROW} ")


def verdict(comparison: Comparison) -> str:
    """What changed, in one sentence: breaks, recompiles, compile time, the speedup of the first row of both."""
    recompiles, seconds = comparison.recompiles, comparison.compile_seconds
    before, after = STATUS_WORDS[comparison.before.status].lower(), STATUS_WORDS[comparison.after.status].lower()
    ended = "" if before == after else f"The first run ended as {before}, the second as {after}: "
    again = f"{count_of(recompiles.after, 'recompile')} as before" if recompiles.after else "no recompiles"
    if recompiles.before != recompiles.after:
        again = f"recompiles {recompiles.before:,} {ARROW} {recompiles.after:,}"
    parts = [_breaks(comparison.breaks), again]
    if seconds.before is not None and seconds.after is not None:
        parts.append(f"compile time {seconds_words(seconds.before, seconds.after)}")
    parts += [said for each in comparison.measurements if (said := _speedups(each))][:1]
    return f"{ended}{'; '.join(parts)}."


def break_fates(breaks: Breaks) -> dict[str, list[BreakChange]]:
    """The breaks by what became of them, in the order in which a reader wants them; "changed" is seen more or less
    often.
    """
    worse, better, same = (
        [change for change in breaks.changed if change.direction == direction]
        for direction in ("worse", "better", "same")
    )
    return {
        "new": breaks.new, "worse": worse, "fixed": breaks.fixed, "better": better, "changed": same,
        "unchanged": breaks.unchanged,
    }  # fmt: skip


def _breaks(breaks: Breaks) -> str:
    numbers = {fate: len(changes) for fate, changes in break_fates(breaks).items()}
    # Seen more or less often is no change of the break itself.
    numbers["unchanged"] += numbers["changed"]
    counts = [(numbers[fate], fate) for fate in ("fixed", "new", "worse", "better", "unchanged")]
    return counted("break", counts) or "no graph breaks before or after"


def counted(noun: str, counts: Iterable[tuple[int, str]]) -> str:
    """ "2 breaks fixed, 1 new"; "" where all are 0."""
    known = [(number, word) for number, word in counts if number]
    return ", ".join(
        f"{number:,} {word}" if at else f"{count_of(number, noun)} {word}" for at, (number, word) in enumerate(known)
    )


def notes(comparison: Comparison) -> list[str]:
    found = [*_trust(comparison.before, "first", "new"), *_trust(comparison.after, "second", "fixed")]
    if comparison.differences:
        found.append("The two runs differ in more than the code (see below), which may explain the rest.")
    return found


def _trust(run: ComparedRun, which: str, counts_as: str) -> list[str]:
    found = []
    if run.status not in ("complete", "nothing_compiled", "incomplete"):
        found.append(f"The {which} run did not finish: what it did not reach counts as {counts_as}.")
    if run.lost:
        lost = count_of(run.lost, "part")
        found.append(
            f"{lost} of the {which} recording could not be read completely: what is missing counts as {counts_as}."
        )
    return found


def regression_words(regression: Regression) -> str:
    """One regression as a line: "A new recompile: x.size()[0]"."""
    what, said = regression.what, _REGRESSIONS[regression.kind]
    if regression.kind == "outcome":
        what = _ENDINGS.get(what, what)
    return f"{said}: {what}" if what else said


def break_words(change: BreakChange) -> str:
    """What became of a break: its effect, or both where it changed, and how often it was seen."""
    before, after = change.before, change.after
    if before is None or after is None:
        return effect_words(latest(before, after).effect)
    parts = [effect_words(after.effect)]
    if before.effect != after.effect:
        parts = [f"{effect_words(before.effect)} {ARROW} {effect_words(after.effect)}"]
    if before.occurrences != after.occurrences:
        parts.append(f"seen {before.occurrences:,} {ARROW} {after.occurrences:,} times")
    return ", ".join(parts)


def times_words(change: RecompileChange) -> str:
    before, after = (side.count if side else 0 for side in (change.before, change.after))
    return count_of(after, "time") if before == after else f"{before:,} {ARROW} {after:,} times"


def seconds_words(before: float, after: float) -> str:
    """Two times. Whether they differ by more than noise is not for one run each to say."""
    return f"{duration(before)} {ARROW} {duration(after)}"


def function_seconds(change: FunctionChange) -> str:
    """The compile time of a function before and after; "" where a side is missing or has none."""
    before, after = change.before, change.after
    if before is None or after is None or before.seconds is None or after.seconds is None:
        return ""
    return seconds_words(before.seconds, after.seconds)


def function_words(change: FunctionChange) -> list[str]:
    before, after = change.before, change.after
    if before is None or after is None:
        counts = _counts(latest(before, after))
        return [f"{number:,} {word.removesuffix('s') if number == 1 else word}" for number, word in counts if number]
    pairs = zip(_counts(before), _counts(after), strict=True)
    return [
        f"{word} {old:,} {ARROW} {new:,}"
        for (old, word), (new, _) in pairs
        if old is not None and new is not None and old != new
    ]


def _counts(side: FunctionSide) -> list[tuple[int | None, str]]:
    return [
        (side.compiled, "compiled"), (side.eager, "left in eager"), (side.failed, "failed"),
        (side.empty, "with nothing to compile"), (side.graphs, "graphs"), (side.kernels, "kernels"),
        (side.ops, "operations"),
    ]  # fmt: skip


def measurement_words(item: LatencyChange) -> str:
    """Both medians with their ratio, and both speedups over eager; or why they cannot be compared."""
    if item.ratio is None or item.before is None or item.after is None:
        return f"not comparable: {item.note}"
    text = f"{item.before:.3g} ms {ARROW} {item.after:.3g} ms, ratio {item.ratio:.2f}"
    return f"{text}; {_speedups(item)}" if _speedups(item) else text


def _speedups(item: LatencyChange) -> str:
    if item.speedup_before is None or item.speedup_after is None:
        return ""
    text = f"speedup vs eager {item.speedup_before.value:.2f}x {ARROW} {item.speedup_after.value:.2f}x"
    return f"{text} (intervals {'overlap: no difference shown' if item.overlap else 'do not overlap'})"

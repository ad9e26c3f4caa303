"""The sentences of a sweep, and of two compared, that the page, the terminal and the JSON share."""

from __future__ import annotations

from collections.abc import Mapping

from dynalyze.capture.libraries import prefix_of
from dynalyze.comparison.types import Direction
from dynalyze.render.text.comparison import ARROW, counted
from dynalyze.render.text.report import short_path
from dynalyze.sweep.clusters import SpeedTotal, SweepSummary
from dynalyze.sweep.compare import ItemChange, SweepComparison
from dynalyze.sweep.records import Row, Speed, Status, Sweep
from dynalyze.text.amounts import count_of, listed, percent

# In a word or two, and as the verb of a sentence.
_STATUSES: dict[Status, tuple[str, str]] = {
    "full_graph": ("one graph", "compiled as one graph"),
    "graph_break": ("with breaks", "broke"),
    "compile_error": ("compile error", "failed to compile"),
    "eager_error": ("eager error", "failed in eager mode"),
    "create_error": ("not built", "could not be built"),
    "timeout": ("out of time", "ran out of time"),
    "crash": ("crashed", "crashed"),
}
DIRECTIONS: dict[Direction, str] = {"worse": "Worse", "better": "Better", "same": "Changed otherwise"}


def status_words(status: Status) -> str:
    return _STATUSES[status][0]


def noun(sweep: Sweep) -> str:
    """What the items are called: models, where each is one."""
    targets = [row.target for row in sweep.items]
    models = all(map(prefix_of, targets)) and len(set(targets)) == len(targets)
    return "model" if models and targets else "item"


def target_noun(sweep: Sweep) -> str:
    return "model" if noun(sweep) == "model" else "target"


def verdict_sentences(sweep: Sweep, summary: SweepSummary) -> list[str]:
    """What came of it: how many compile as one graph, what breaks, and, apart, what never reached the compiler."""
    total, what = len(sweep.items), noun(sweep)
    if not total:
        return ["Nothing was run."]
    leading = [
        f"One line, {place_words(worst.path, worst.line)}, breaks {len(worst.targets):,} {target_noun(sweep)}s."
        for worst in summary.lines[:1]
        if len(worst.targets) > 1
    ]
    return [_compiled(summary, total, what), *_not_reached(summary), *leading]


def _compiled(summary: SweepSummary, total: int, what: str) -> str:
    counts = summary.total.counts
    clean = counts.get("full_graph", 0)
    head = f"{clean:,} of {count_of(total, what)} {_STATUSES['full_graph'][1]}"
    rest = _counted(counts, "graph_break", "compile_error")
    return f"{head}; {listed(rest)}." if rest else f"{head}."


def _counted(counts: Mapping[Status, int], *statuses: Status) -> list[str]:
    return [f"{counts[status]:,} {_STATUSES[status][1]}" for status in statuses if status in counts]


def _not_reached(summary: SweepSummary) -> list[str]:
    """Models that could not be run say nothing of torch.compile; of those that were lost nothing is known."""
    counts = summary.total.counts
    unbuilt, lost = _counted(counts, "create_error", "eager_error"), _counted(counts, "timeout", "crash")
    sentences = [f"{each} and never reached the compiler." for each in unbuilt]
    if len(unbuilt) > 1:
        number = counts["create_error"] + counts["eager_error"]
        sentences = [f"{number:,} never reached the compiler: {listed(unbuilt)}."]
    return [*sentences, f"{listed(lost)}: of these nothing is known."] if lost else sentences


def notes(sweep: Sweep) -> list[str]:
    if sweep.planned <= len(sweep.items):
        return sweep.notes
    here = f"{len(sweep.items):,} of {count_of(sweep.planned, 'item')} are here."
    return [f"The sweep was interrupted: {here} Run the command again with `--resume` to do the rest.", *sweep.notes]


def clean_share(summary: SweepSummary) -> str:
    return "" if summary.total.clean is None else percent(summary.total.clean)


def item_name(item: Row | ItemChange) -> str:
    """An item in a word or two: "hf:LlamaModel", "hf:LlamaModel, train"."""
    return item.target if item.configuration == "default" else f"{item.target}, {item.configuration}"


def place_words(path: str, line: int) -> str:
    """`llama/modeling_llama.py:12`, short."""
    return f"{short_path(path)}:{line}"


def speed_words(speed: Speed) -> str:
    """One measured speedup: "default: faster 1.83x (1.79 to 1.88)"."""
    text = f"{speed.configuration}: {speed.verdict}"
    if speed.speedup is None:
        return text
    interval = f" ({speed.low:.2f} to {speed.high:.2f})" if speed.low is not None and speed.high is not None else ""
    return f"{text} {speed.speedup:.2f}x{interval}"


def speed_total_words(total: SpeedTotal) -> str:
    """All speedups of a configuration: "12 faster, 3 slower (median of these 1.41x); 5 show no difference"."""
    claims = [f"{number:,} {word}" for number, word in ((total.faster, "faster"), (total.slower, "slower")) if number]
    middle = f" (median of these {total.median:.2f}x)" if total.median is not None else ""
    same = f"{total.same:,} {'shows' if total.same == 1 else 'show'} no difference" if total.same else ""
    failed = f"{total.failed:,} without a valid measurement" if total.failed else ""
    return "; ".join(filter(None, (", ".join(claims) + middle if claims else "", same, failed)))


def diff_verdict(comparison: SweepComparison) -> str:
    before, after = (f"{run.clean:,} of {run.reached:,}" for run in (comparison.before, comparison.after))
    clean = f"{after} as before" if before == after else f"{before} {ARROW} {after}"
    if not comparison.changes and not comparison.unchanged:
        return f"the two sweeps have no item in common, so nothing is compared; clean {clean}."
    counts = {word: sum(each.direction == word for each in comparison.changes) for word in ("better", "worse")}
    otherwise = "changed otherwise" if any(counts.values()) else "changed"
    rest = len(comparison.changes) - sum(counts.values())
    items = counted("item", [*((number, word) for word, number in counts.items()), (rest, otherwise)])
    unchanged = f", {comparison.unchanged:,} as before" if comparison.unchanged else ""
    # Lines of code that others only follow are no news of their own.
    gone, new = (sum(not line.follows for line in lines) for lines in (comparison.gone_breaks, comparison.new_breaks))
    lines = f"{count_of(gone, 'breaking line')} fixed, {new:,} new"
    lines = lines if gone or new else "no breaking line is new or fixed"
    return f"{items or 'no item is better or worse'}{unchanged}; {lines}; clean {clean}."


def diff_notes(comparison: SweepComparison) -> list[str]:
    found = []
    for run, which in ((comparison.before, "first"), (comparison.after, "second")):
        if run.planned > run.items:
            found.append(f"The {which} sweep was interrupted: {run.items:,} of {run.planned:,} items are in it.")
    for items, which in ((comparison.only_before, "first"), (comparison.only_after, "second")):
        if items:
            verb = "is" if len(items) == 1 else "are"
            found.append(f"{count_of(len(items), 'item')} {verb} in the {which} sweep alone, and not compared.")
    return found


def change_words(change: ItemChange) -> str:
    """What became of an item: "one graph -> with breaks; 2 new breaks"."""
    parts = []
    if change.before != change.after and change.before and change.after:
        parts.append(f"{status_words(change.before)} {ARROW} {status_words(change.after)}")
    elif change.before or change.after:
        parts.append(status_words(change.after or change.before or "crash"))
    parts += [count_of(len(change.new), "new break")] if change.new else []
    parts += [count_of(len(change.gone), "break") + " gone"] if change.gone else []
    return "; ".join(parts)

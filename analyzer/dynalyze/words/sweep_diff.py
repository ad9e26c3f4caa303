"""The sentences of a comparison of two sweeps that the terminal, the page and the JSON share."""

from __future__ import annotations

from dynalyze.comparison.sweeps import ItemChange, LineChange, SweepComparison, SweepRun
from dynalyze.text.amounts import count_of
from dynalyze.words.comparison import ARROW
from dynalyze.words.sweep import status_words


def verdict(comparison: SweepComparison) -> str:
    """What changed, in one sentence: items, then breaks."""
    if not comparison.changes and not comparison.unchanged:
        return f"the two sweeps have no item in common, so nothing is compared; clean {_clean(comparison)}."
    counts = {word: sum(each.direction == word for each in comparison.changes) for word in ("better", "worse")}
    told = [(number, word) for word, number in counts.items() if number]
    other = len(comparison.changes) - sum(counts.values())
    told += [(other, "changed otherwise" if told else "changed")] if other else []
    if not told:
        items = "no item is better or worse"
    else:
        (first, word), *rest = told
        items = ", ".join([f"{count_of(first, 'item')} {word}", *(f"{number:,} {word}" for number, word in rest)])
    unchanged = f", {comparison.unchanged:,} as before" if comparison.unchanged else ""
    return f"{items}{unchanged}; {_lines(comparison)}; clean {_clean(comparison)}."


def _lines(comparison: SweepComparison) -> str:
    """Lines of code that others only follow are no news of their own."""
    gone, new = (sum(not line.follows for line in lines) for lines in (comparison.gone_breaks, comparison.new_breaks))
    if not gone and not new:
        return "no breaking line is new or fixed"
    return f"{count_of(gone, 'breaking line')} fixed, {new:,} new"


def _clean(comparison: SweepComparison) -> str:
    before, after = _share(comparison.before), _share(comparison.after)
    return f"{after} as before" if before == after else f"{before} {ARROW} {after}"


def _share(run: SweepRun) -> str:
    return f"{run.clean:,} of {run.reached:,}"


def notes(comparison: SweepComparison) -> list[str]:
    """How far to trust the comparison, one sentence each."""
    found = []
    for run, which in ((comparison.before, "first"), (comparison.after, "second")):
        if run.planned > run.items:
            found.append(f"The {which} sweep was interrupted: {run.items:,} of {run.planned:,} items are in it.")
    for items, which in ((comparison.only_before, "first"), (comparison.only_after, "second")):
        if items:
            verb = "is" if len(items) == 1 else "are"
            found.append(f"{count_of(len(items), 'item')} {verb} in the {which} sweep alone, and not compared.")
    return found


def item_words(change: ItemChange) -> str:
    """An item by its name: "hf:LlamaModel", "hf:LlamaModel, train"."""
    return change.target if change.configuration == "default" else f"{change.target}, {change.configuration}"


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


def reach_words(line: LineChange) -> str:
    """In how many targets a line breaks, or did: "in 41 targets"."""
    return f"in {count_of(len(line.targets), 'target')}"

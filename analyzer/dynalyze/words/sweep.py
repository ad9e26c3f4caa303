"""The sentences of a sweep that the page and the terminal share."""

from __future__ import annotations

from dynalyze.sweep.records import Row, Speed, Status, Sweep
from dynalyze.sweep.summary import BrokenLine, SpeedTotal, SweepSummary
from dynalyze.text.amounts import count_of, listed, percent

_STATUS_WORDS: dict[Status, str] = {
    "full_graph": "one graph",
    "graph_break": "with breaks",
    "compile_error": "compile error",
    "eager_error": "eager error",
    "create_error": "not built",
    "timeout": "out of time",
    "crash": "crashed",
}

# As the verb of a sentence, for one and for several.
_VERBS: dict[Status, tuple[str, str]] = {
    "graph_break": ("breaks", "break"),
    "compile_error": ("fails to compile", "fail to compile"),
    "eager_error": ("fails in eager mode", "fail in eager mode"),
    "create_error": ("could not be built", "could not be built"),
    "timeout": ("ran out of time", "ran out of time"),
    "crash": ("crashed", "crashed"),
}


def status_words(status: Status) -> str:
    """The status of an item in a word or two: "with breaks"."""
    return _STATUS_WORDS[status]


def noun(sweep: Sweep) -> str:
    """What the items are called: models, where each is one."""
    targets = [row.target for row in sweep.items]
    models = all(target.startswith("hf:") for target in targets) and len(set(targets)) == len(targets)
    return "model" if models and targets else "item"


def verdict_sentences(sweep: Sweep, summary: SweepSummary) -> list[str]:
    """What came of it: how many compile as one graph, what breaks, and, apart, what never reached the compiler."""
    total, what = len(sweep.items), noun(sweep)
    if not total:
        return ["Nothing was run."]
    first = _compiled(summary, total, what) if summary.total.reached else _none_reached(total, what)
    return [first, *_not_reached(summary), *_leading_line(summary, what)]


def _compiled(summary: SweepSummary, total: int, what: str) -> str:
    counts = summary.total.counts
    clean = counts.get("full_graph", 0)
    if clean == total:
        return "The one item compiles as one graph." if total == 1 else f"All {total:,} {what}s compile as one graph."
    verb = "compiles" if clean == 1 else "compile"
    head = f"{clean:,} of {count_of(total, what)} {verb} as one graph"
    rest = [_counted(counts[status], status) for status in ("graph_break", "compile_error") if status in counts]
    return f"{'; '.join([head, listed(rest)] if rest else [head])}."


def _none_reached(total: int, what: str) -> str:
    return (
        f"The {what} never reached the compiler." if total == 1 else f"None of {total:,} {what}s reached the compiler."
    )


def _not_reached(summary: SweepSummary) -> list[str]:
    """Models that could not be run say nothing of torch.compile; of those that were lost nothing is known."""
    counts = summary.total.counts
    unbuilt = [_counted(counts[status], status) for status in ("create_error", "eager_error") if status in counts]
    lost = [_counted(counts[status], status) for status in ("timeout", "crash") if status in counts]
    sentences = []
    if len(unbuilt) == 1:
        sentences.append(f"{unbuilt[0]} and never reached the compiler.")
    elif unbuilt:
        number = counts["create_error"] + counts["eager_error"]
        sentences.append(f"{number:,} never reached the compiler: {listed(unbuilt)}.")
    return [*sentences, f"{listed(lost)}: of these nothing is known."] if lost else sentences


def _leading_line(summary: SweepSummary, what: str) -> list[str]:
    if not summary.lines or len(summary.lines[0].targets) < 2:
        return []
    worst = summary.lines[0]
    whats = "models" if what == "model" else "targets"
    return [f"One line, {place_words(worst.path, worst.line)}, breaks {len(worst.targets):,} {whats}."]


def notes(sweep: Sweep) -> list[str]:
    """How far to trust the table, one sentence each."""
    found = []
    if sweep.planned > len(sweep.items):
        found.append(
            f"The sweep was interrupted: {len(sweep.items):,} of {count_of(sweep.planned, 'item')} are here."
            " Run the command again with `--resume` to do the rest."
        )
    return found + sweep.notes


def clean_share(summary: SweepSummary) -> str:
    """The share of clean items among those that reached the compiler; "" where none did."""
    return "" if summary.total.clean is None else percent(summary.total.clean)


def item_name(row: Row) -> str:
    """An item by a short name: "LlamaModel", "LlamaModel, train"."""
    name = row.target.removeprefix("hf:")
    return name if row.configuration == "default" else f"{name}, {row.configuration}"


def breaks_words(line: BrokenLine, what: str) -> str:
    """How far a line reaches: "breaks 41 models"."""
    return f"breaks {count_of(len(line.targets), what)}"


def place_words(path: str, line: int) -> str:
    """`modeling_llama.py:12` with the two folders above it at most."""
    parts = path.split("/")
    shown = path if len(parts) <= 3 else "/".join(["…", *parts[-2:]])
    return f"{shown}:{line}"


def reason_words(found: BrokenLine) -> str:
    """The reason of a break where it says more than the type."""
    return "" if found.reason.strip() == found.gb_type.strip() else found.reason


def speed_words(speed: Speed) -> str:
    """One measured speed-up: "default: faster 1.83x (1.79 to 1.88)"."""
    text = f"{speed.configuration}: {speed.verdict}"
    if speed.speedup is None:
        return text
    interval = f" ({speed.low:.2f} to {speed.high:.2f})" if speed.low is not None and speed.high is not None else ""
    return f"{text} {speed.speedup:.2f}x{interval}"


def speed_total_words(total: SpeedTotal) -> str:
    """All speed-ups of a configuration: "12 faster, 3 slower (median of these 1.41x); 5 show no difference"."""
    claims = [f"{number:,} {word}" for number, word in ((total.faster, "faster"), (total.slower, "slower")) if number]
    middle = f" (median of these {total.median:.2f}x)" if total.median is not None else ""
    parts = [f"{', '.join(claims)}{middle}"] if claims else []
    if total.same:
        parts.append(f"{total.same:,} {'shows' if total.same == 1 else 'show'} no difference")
    if total.failed:
        parts.append(f"{total.failed:,} without a valid measurement")
    return "; ".join(parts)


def _counted(number: int, status: Status) -> str:
    return f"{number:,} {_VERBS[status][number != 1]}"

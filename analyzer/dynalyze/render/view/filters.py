"""What templates say facts with: words and amounts. "" stands for what was not recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynalyze.render.highlight import code_at
from dynalyze.render.view.accuracy import answer_tone, dtype_words
from dynalyze.render.view.audit import check_tone
from dynalyze.render.view.graphs import bytes_words, code_title, input_shape
from dynalyze.render.view.links import safe_url
from dynalyze.render.view.plots.treemap import KERNEL_KINDS
from dynalyze.render.view.sweep_items import mark_of
from dynalyze.report import Finding, GraphBreak
from dynalyze.report.audit import STAGES
from dynalyze.text.amounts import count_of, duration, milliseconds, percent
from dynalyze.text.visible import clipped
from dynalyze.words import policy, sweep, warmup
from dynalyze.words.bench import verdict_short
from dynalyze.words.comparison import item_words, reach_words
from dynalyze.words.report import CAUSE_WORDS, COMPILATION_WORDS, SEVERITY_WORDS, cache_words, effect_words, short_path


def _seen(found: GraphBreak) -> str:
    times = count_of(found.occurrences, "time")
    return f"{times} in {len(found.processes)} processes" if len(found.processes) > 1 else times


def _impact(finding: Finding) -> str:
    """A measured cost in words; never an estimate."""
    if finding.impact is None:
        return "Impact unknown"
    return f"{duration(finding.impact.seconds)} {finding.impact.what}".strip()


FILTERS: dict[str, Callable[..., Any]] = {
    "answer_tone": answer_tone,
    "breaks_words": sweep.breaks_words,
    "bytes_words": bytes_words,
    "cache_words": cache_words,
    "cause_words": CAUSE_WORDS.__getitem__,
    "check_found": policy.found,
    "check_mark": lambda status: policy.MARKS[status],
    "check_title": policy.title,
    "check_tone": check_tone,
    "check_words": policy.status,
    "clip": lambda text, limit: clipped(text or "", limit),
    "code_at": code_at,
    "code_title": code_title,
    "compilation_words": COMPILATION_WORDS.__getitem__,
    "count_of": count_of,
    "dtype_words": dtype_words,
    "effect_words": effect_words,
    "ending_words": sweep.status_words,
    "error": lambda value: "" if value is None else f"{value:.3g}",
    "few": lambda texts, most: ", ".join(texts[:most]) + (", ..." if len(texts) > most else ""),
    "impact": _impact,
    "input_shape": input_shape,
    "item_words": item_words,
    "kernel_kind": lambda kind: KERNEL_KINDS[kind],
    "later_call": warmup.later,
    "milliseconds": milliseconds,
    "number": lambda value: "" if value is None else f"{value:,}",
    "over": lambda items, most: max(0, len(items) - most),
    "place_words": sweep.place_words,
    "reach_words": reach_words,
    "reason_words": sweep.reason_words,
    "safe_url": safe_url,
    "seconds": lambda value: "" if value is None else duration(value),
    "seen": _seen,
    "severity_words": SEVERITY_WORDS.__getitem__,
    "shape_compiled": warmup.compiled,
    "shape_runs": warmup.runs,
    "shape_words": warmup.shape_words,
    "share": lambda value: "" if value is None else percent(value),
    "short_path": short_path,
    "speed_words": sweep.speed_words,
    "stage_words": lambda stage: STAGES.get(stage, stage),
    "status_mark": mark_of,
    "verdict_short": verdict_short,
    "waiver_words": policy.waiver,
    "without_aten": lambda op: op.removeprefix("aten."),
}

"""What another torch changes, on the terminal and as JSON: the sentence, what was measured, then the comparison."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from dynalyze.comparison.types import UPGRADE_SCHEMA, Upgrade
from dynalyze.render.comparison_text import render_comparison
from dynalyze.render.console import Summary
from dynalyze.render.words.bench import no_difference, ratio_words
from dynalyze.render.words.comparison import ARROW
from dynalyze.text.amounts import count_of, listed
from dynalyze.text.json_text import json_text


def render_json(found: Upgrade) -> str:
    """The whole document, indented."""
    facts = msgspec.to_builtins(found)
    return json_text({"schema_version": UPGRADE_SCHEMA, "verdict": _verdict(found), "worse": found.is_worse, **facts})


def render_upgrade(
    found: Upgrade, *, files: Sequence[tuple[str, str]] = (), color: bool | None = None, width: int | None = None
) -> str:
    """The summary as text, with colours where standard output is a terminal and NO_COLOR is unset."""
    summary = Summary(color, width)
    summary.line(_verdict(found), style="bold")
    for note in [*found.notes, *([found.outputs.note] if found.outputs.note else [])]:
        summary.line(note, style="dim")
    if found.latency_ms is not None:
        one, other = (f"{each:.4g} ms" for each in found.latency_ms)
        summary.indented(f"a call, median: {one} {ARROW} {other}, {_speed(found)}")
    outputs = found.outputs
    if outputs.before is not None or outputs.after is not None:
        verdicts = f"{outputs.before or 'not known'} {ARROW} {outputs.after or 'not known'}"
        summary.indented(f"outputs against eager: {verdicts}")
    summary.line()
    return summary.text() + render_comparison(found.comparison, files=files, color=color, width=width)


def _verdict(found: Upgrade) -> str:
    """What became worse, in one sentence."""
    versions = f"torch {found.before.torch or 'not known'} {ARROW} {found.after.torch or 'not known'}"
    worse = [count_of(len(found.comparison.regressions), "regression")] if found.comparison.regressions else []
    if found.speed is not None and found.speed.verdict == "slower":
        worse.append("slower calls")
    worse += [f"other answers, {found.outputs.worse}"] if found.outputs.worse else []
    return f"{versions}: {listed(worse) if worse else 'nothing is worse'}."


def _speed(found: Upgrade) -> str:
    if found.speed is None:
        return "not judged: only one pair of processes"
    shown = found.speed.verdict != "no difference shown"
    return ratio_words(found.speed) if shown else no_difference(found.speed)

"""The caches on disk do not make the second start warm."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.report import Advice, BypassReason, Finding, Impact, Report
from dynalyze.report.audit import SecondStart
from dynalyze.rules.diagnoses.cache_bypass import STEPS, WHAT
from dynalyze.rules.rule import Rule

_RANK = 590
_LINK = "https://docs.pytorch.org/tutorials/recipes/torch_compile_caching_tutorial.html"


def _judge(report: Report) -> Iterator[tuple[int, Finding]]:
    second = report.warmup.second_start if report.warmup is not None else None
    if second is not None and not second.warm:
        yield _RANK, _finding(second)


def _finding(second: SecondStart) -> Finding:
    action = _action(second)
    return RULE.finding(
        title=f"A second start is not served by the caches: {_counts(second)}",
        evidence=list(second.reasons),
        advice=Advice(action=action, why=_why(second), link=_LINK),
        impact=Impact(second.warm_seconds, "taken by the first calls of a second start"),
    )


def _action(second: SecondStart) -> str:
    reasons = _known(second)
    if reasons:
        steps = " ".join(f"{WHAT[each].capitalize()}: {_lowered(STEPS[each])}" for each in reasons)
        return f"{steps} The finding cache-bypass names the functions."
    if second.misses:
        return (
            "Look for what differs from one process to the next: an object in the graph that is made anew, a constant "
            "drawn at random, a path or a setting that the program changes. Run with TORCH_LOGS=+inductor to see keys."
        )
    return (
        "Turn the caches on: `torch._inductor.config.fx_graph_cache = True`, and no TORCHINDUCTOR_FORCE_DISABLE_CACHES."
    )


def _known(second: SecondStart) -> list[BypassReason]:
    return [reason for reason in STEPS if reason in second.reasons]


def _lowered(text: str) -> str:
    return text[:1].lower() + text[1:]


def _counts(second: SecondStart) -> str:
    parts = [
        f"{number:,} {word if number == 1 else plural}"
        for number, word, plural in (
            (second.hits, "hit", "hits"), (second.misses, "miss", "misses"), (second.bypasses, "bypass", "bypasses"),
        )
        if number
    ]  # fmt: skip
    return ", ".join(parts) or "they were not asked"


def _why(second: SecondStart) -> str:
    quoted = f" PyTorch says: {second.said.rstrip('.')}." if second.said else ""
    return (
        f"Measured: the first calls with all shapes took {second.cold_seconds:.1f} s with empty caches, and "
        f"{second.warm_seconds:.1f} s in a new process with the caches that these left. Graphs that no cache keeps "
        f"are compiled anew at every start, on every machine.{quoted}"
    )


RULE = Rule(
    id="second-start-cold",
    title="A second start compiles again",
    severity="warning",
    description=(
        "torch keeps compiled graphs on disk. `dynalyze audit --shapes` starts a second process with the caches that "
        "the first one left; it should find every graph there. It did not: some were missing, or went past the cache."
    ),
    passed="A second start found every graph in the caches, as far as it was tried (--shapes).",
    judge=_judge,
)

"""Layers quantised by torchao: breaks and recompiles in its code, and kernels that it could not load."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from dynalyze.report import Advice, Finding, Report
from dynalyze.rules.report_queries import (
    FROM_LAYERS,
    FROM_RUN,
    breaks_in,
    compiled_at,
    counted,
    layers_of,
    shown_version,
    skipped_in,
    version,
)
from dynalyze.rules.rule import Rule, severity_of

_RANK, _RANK_OF_KERNELS = 196, 620
_LINK = "https://github.com/pytorch/ao/issues/2919"


def _judge(report: Report) -> Iterator[tuple[int, Finding]]:
    found = _in_its_code(report)
    if found is not None:
        yield _RANK, found
    for module, group in layers_of(report, "torchao"):
        if reason := group.facts.get("kernels_skipped"):
            torch = shown_version(version(report, "torch"))
            action = f"Install a torchao that is built for torch {torch}, or the torch that it asks for."
            yield (
                _RANK_OF_KERNELS,
                RULE.finding(
                    title=f"torchao runs without its own kernels: {counted(group.count, 'weight')} of {group.kind}",
                    severity="info",
                    location=compiled_at(module),
                    evidence=[module.id],
                    advice=Advice(
                        action=f"{action} torchao says: {str(reason).strip().rstrip('.')}.",
                        why=f"{FROM_LAYERS} Layouts that need its kernels fail or take a slower way; those of "
                        "plain PyTorch operations run as they do with them.",
                        link=_LINK,
                    ),
                ),
            )


def _in_its_code(report: Report) -> Finding | None:
    breaks, skipped = RULE.breaks(report), skipped_in(report, "torchao")
    if not breaks and not skipped:
        return None
    parts = [counted(len(breaks), "graph break")] if breaks else []
    parts += [f"{counted(len(skipped), 'function')} left in eager"] if skipped else []
    library, torch = version(report, "torchao"), version(report, "torch")
    action = (
        f"torchao {shown_version(library) or '(version not known)'} with torch {shown_version(torch)}: install the "
        "pair that torchao's table of versions names."
    )
    return RULE.finding(
        title=f"In torchao's own code: {', '.join(parts)}",
        severity=severity_of(breaks),
        location=(breaks or skipped)[0].location,
        evidence=[fact.id for facts in (breaks, skipped) for fact in facts],
        advice=Advice(
            action=action,
            why=f"{FROM_RUN} torchao's quantised weights are made for torch.compile, which fuses unpacking them into "
            "the multiplication; where its code is not traced, each call pays for it apart.",
            link=_LINK,
        ),
    )


RULE = Rule(
    id="torchao",
    title="torchao's layers do not compile as they should",
    severity="warning",
    description=(
        "torchao keeps quantised weights as tensor subclasses and counts on torch.compile to be fast. Each version is "
        "built for some versions of torch: with another one its kernels are not loaded, or its code is not traced."
    ),
    fix="Install a torchao that is made for your torch.",
    passed="torchao's code was traced whole.",
    judge=_judge,
    owns_breaks=partial(breaks_in, folder="torchao"),
)

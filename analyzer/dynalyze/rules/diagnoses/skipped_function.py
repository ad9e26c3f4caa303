"""Functions that work on tensors and were left in eager without a word."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.facts.skipped import costly, next_step
from dynalyze.report import Advice, Finding, GraphBreak, Report, SkippedFrame, SkipReason
from dynalyze.rules.rule import Rule

_RANK_OF_ENTRIES = 90
_RANK = 210
_MOST_NAMED = 3
_LINK = "https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/torch.compiler_troubleshooting.html"
_WHY_TITLES: dict[SkipReason, str] = {
    "dispatch_mode": "torch compiles nothing inside a TorchDispatchMode",
    "skip_list": "the file is on torch's skip list",
    "disabled": "torch.compiler.disable keeps it from being compiled",
    "switched_off": "the compiler was switched off",
    "generated": "the code was made by exec",
    "other": "torch skipped it",
}


def _judge(report: Report) -> Iterator[tuple[int, Finding]]:
    if report.outcome.status == "nothing_compiled":
        return  # That finding names the reason.
    groups: dict[SkipReason, list[SkippedFrame]] = {}
    for frame in costly(report.skipped_frames):
        if not any(_tells_of(found, frame) for found in report.graph_breaks):
            groups.setdefault(frame.reason, []).append(frame)
    for reason, frames in groups.items():
        yield _RANK_OF_ENTRIES if any(frame.entry for frame in frames) else _RANK, _finding(reason, frames)


def _tells_of(found: GraphBreak, frame: SkippedFrame) -> bool:
    """Whether a graph break is about a call of this very function."""
    told = f"{found.explanation} {found.context}"
    name = frame.location.function.rpartition(".")[2]
    return frame.location.file in told and name in told


def _finding(reason: SkipReason, frames: list[SkippedFrame]) -> Finding:
    # What they call follows them.
    entries = [frame for frame in frames if frame.entry] or frames
    first = entries[0]
    names = list(dict.fromkeys(frame.location.function for frame in entries))
    step = next_step(reason)
    return RULE.finding(
        title=f"{_named(names)} in eager: {_WHY_TITLES[reason]}",
        location=first.location,
        evidence=[frame.id for frame in frames],
        advice=Advice(action=step, why=f"{first.explanation} No graph break is reported for it.", link=_LINK),
    )


def _named(names: list[str]) -> str:
    shown, left = names[:_MOST_NAMED], len(names) - _MOST_NAMED
    if len(names) == 1:
        return f"{names[0]} runs"
    last = f"{left} more" if left > 0 else shown.pop()
    return f"{', '.join(shown)} and {last} run"


RULE = Rule(
    id="skipped-function",
    title="A function was left in eager without a graph break",
    severity="warning",
    description=(
        "torch was asked to compile the function, or met it below a compiled call, and left it in eager without "
        "tracing it: inside a TorchDispatchMode, because of a skip list or a setting. torch reports no graph break."
    ),
    passed="No function that works on tensors was skipped in silence.",
    judge=_judge,
)

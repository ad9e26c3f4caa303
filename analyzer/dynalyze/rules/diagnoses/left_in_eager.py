"""Functions left in eager without a word, and comprehensions compiled by themselves because of one."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.facts.skipped import costly, next_step
from dynalyze.report import GraphBreak, Report, SkippedFrame, SkipReason
from dynalyze.rules.report_queries import ids
from dynalyze.rules.rule import Ranked, Rule
from dynalyze.text.amounts import listed

_RANK_OF_ENTRIES = 90
_MOST_NAMED = 3
_WHY_TITLES: dict[SkipReason, str] = {
    "dispatch_mode": "torch compiles nothing inside a TorchDispatchMode",
    "skip_list": "the file is on torch's skip list",
    "disabled": "torch.compiler.disable keeps it from being compiled",
    "switched_off": "the compiler was switched off",
    "generated": "the code was made by exec",
    "other": "torch skipped it",
}


def _judge_skipped(report: Report) -> Iterator[Ranked]:
    if report.outcome.status == "nothing_compiled":
        return  # That finding names the reason.
    groups: dict[SkipReason, list[SkippedFrame]] = {}
    for frame in costly(report.skipped_frames):
        if not any(_tells_of(found, frame) for found in report.graph_breaks):
            groups.setdefault(frame.reason, []).append(frame)
    for reason, frames in groups.items():
        entries = [frame for frame in frames if frame.entry]
        first, *others = entries or frames  # What entries call follows them.
        names = list(dict.fromkeys(frame.location.function for frame in (first, *others)))
        yield SKIPPED.finding(
            f"{listed(names, _MOST_NAMED)} {'runs' if len(names) == 1 else 'run'} in eager: {_WHY_TITLES[reason]}",
            next_step(reason),
            why=f"{first.explanation} No graph break is reported for it.",
            rank=_RANK_OF_ENTRIES if entries else None,
            location=first.location,
            evidence=ids(frames),
        )


def _tells_of(found: GraphBreak, frame: SkippedFrame) -> bool:
    """Whether a graph break is about a call of this very function."""
    told = f"{found.explanation} {found.context}"
    name = frame.location.function.rpartition(".")[2]
    return frame.location.file in told and name in told


SKIPPED = Rule(
    id="skipped-function",
    title="A function was left in eager without a graph break",
    severity="warning",
    rank=210,
    link="https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/torch.compiler_troubleshooting.html",
    description="torch was asked to compile the function, or met it below a compiled call, and left it in eager "
    "without tracing it: inside a TorchDispatchMode, because of a skip list or a setting. torch reports no graph "
    "break.",
    passed="No function that works on tensors was skipped in silence.",
    judge=_judge_skipped,
)


# Functions of their own up to Python 3.11.
_COMPREHENSIONS = ("<dictcomp>", "<listcomp>", "<setcomp>", "<genexpr>")
_FIX = (
    "End what leaves the function around it in eager: the other findings on the way to this line. Leave the "
    "comprehension as it is."
)


def _judge_comprehension(report: Report) -> Iterator[Ranked]:
    for found in COMPREHENSION.breaks(report):
        yield COMPREHENSION.finding(
            "A comprehension was compiled by itself, and cannot be",
            _FIX,
            why="Seen in this run. Up to Python 3.11 a comprehension is a function of its own. Where the "
            "function around it is compiled it is a part of that; where that one runs in eager, torch tries to "
            "compile the comprehension alone, and cannot follow the iterator that it is given.",
            severity="error" if found.effect == "error" else "info",
            location=found.location,
            evidence=[found.id],
        )


def _owned_breaks(report: Report) -> Iterator[GraphBreak]:
    """What torch says of the iterator, in frames that hold nothing but a comprehension."""
    alone = {(c.process, c.epoch, c.compile_id) for c in report.compilations if c.function in _COMPREHENSIONS}
    for each in report.graph_breaks:
        frames = {(each.process, each.epoch, compile_id) for compile_id in each.compile_ids}
        if each.gb_type.startswith("Missing tp_iternext") and frames and frames <= alone:
            yield each


COMPREHENSION = Rule(
    id="comprehension-apart",
    title="A comprehension compiled by itself",
    severity="info",
    rank=390,
    description="Up to Python 3.11 a comprehension is a function of its own. Where the function around it runs in "
    "eager, because of another break, torch tries to compile the comprehension alone, which fails. It is a "
    "consequence, not a cause.",
    fix=_FIX,
    passed="No comprehension was compiled by itself.",
    judge=_judge_comprehension,
    owns_breaks=_owned_breaks,
    precedence=2,
)

RULES = (SKIPPED, COMPREHENSION)

"""An output of a CUDA graph that was read after the next call had written over it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dynalyze.report import Advice, Example, Finding, Location, Report
from dynalyze.rules.report_queries import FROM_RUN
from dynalyze.rules.rule import Rule

_RANK = 8
_LINK = "https://docs.pytorch.org/docs/stable/torch.compiler_cudagraph_trees.html"
_SAID = re.compile(r"accessing (gradient )?tensor output of CUDAGraphs that has been overwritten")
_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')
_OUTPUT = (
    "Clone what you keep of a call before the next one, outside of the compiled function: `output = "
    "model(inputs).clone()`. Only where nothing of an earlier call is kept, call "
    "`torch.compiler.cudagraph_mark_step_begin()` before each instead."
)
_GRADIENT = (
    "Make the gradients outside of the graph: run one step in eager first, or allocate `p.grad = torch.zeros_like(p)` "
    "for each parameter and zero it in place; or set `p.grad = None` before each backward where you do not accumulate."
)
_EXAMPLE = Example("kept = [model(x) for x in batches]", "kept = [model(x).clone() for x in batches]")


def _judge(report: Report) -> Iterator[tuple[int, Finding]]:
    for evidence, text in _texts(report):
        said = _SAID.search(text)
        if said is not None:
            yield _RANK, _finding(text, evidence, gradient=said[1] is not None)
            return


def _texts(report: Report) -> Iterator[tuple[list[str], str]]:
    """What the program, a compile or a measurement ended with."""
    yield [], report.outcome.message
    yield from (([each.compile_id], each.reason) for each in report.compilations)
    yield from (([each.configuration], each.reason) for each in report.measurements)
    yield from (([], note) for note in report.capture.notes)


def _finding(text: str, evidence: list[str], *, gradient: bool) -> Finding:
    action = _GRADIENT if gradient else _OUTPUT
    return RULE.finding(
        title=f"{'A gradient' if gradient else 'An output'} of a CUDA graph was read after a later call had written "
        "over it",
        location=_made_at(text),
        evidence=evidence,
        advice=Advice(
            action=action,
            why=f"{FROM_RUN} A CUDA graph writes its results to the same memory in every call, so those of the call "
            "before are gone. torch noticed that one of them was read, and stopped.",
            example=None if gradient else _EXAMPLE,
            link=_LINK,
        ),
    )


def _made_at(text: str) -> Location | None:
    """The line that made the output, the last one that torch names."""
    frames = _FRAME.findall(text)
    return Location(frames[-1][0], int(frames[-1][1]), function=frames[-1][2]) if frames else None


RULE = Rule(
    id="cudagraph-overwritten",
    title="An output of a CUDA graph was overwritten",
    severity="error",
    description=(
        "mode='reduce-overhead' records CUDA graphs, which write their results to the same memory in every call. A "
        "program that keeps the output of one call and reads it after the next is stopped by torch. Known by torch's "
        "own message; without a CUDA device it cannot happen."
    ),
    fix=(
        "Clone what is kept of a call, outside of the compiled function; or call "
        "`torch.compiler.cudagraph_mark_step_begin()` before each call where nothing is kept."
    ),
    example=_EXAMPLE,
    passed="No output of a CUDA graph was read too late.",
    judge=_judge,
)

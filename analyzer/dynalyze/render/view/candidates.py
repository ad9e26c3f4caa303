"""What a program that compiles nothing called and that could have been compiled, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass

from dynalyze.render.view.links import Anchors, Index, Place, Shown, shown
from dynalyze.report import Candidate, CandidateReason, Region, Report
from dynalyze.text.amounts import percent
from dynalyze.text.visible import clipped

MAX_CANDIDATES = 100
_REASONS: dict[CandidateReason, str] = {
    "no_parameters": "It owns no parameters of its own, as a loss or a transform of data.",
    "backward": "Called inside backward, where torch computes again what a checkpoint dropped.",
    "worker": "Called in a worker of a DataLoader.",
    "torchscript": "torch.jit compiled it already.",
    "part_of_compiled": "A part of a compiled module, called by itself: torch.compile of the whole leaves it alone.",
    "not_chosen": "Not among what --compile names.",
    "raised": "It raised under compile, and ran in eager from there on",
    "too_many": "One of too many modules: only the first 64 were compiled.",
    "method": "A method that calls modules in place of forward: torch.compile of the module leaves it in eager.",
    "function": "A function that calls modules.",
}


@dataclass(frozen=True)
class CandidateView:
    anchor: str
    name: str
    class_name: str
    kind: str
    place: Place | None
    calls: str
    parameters: str
    share: str
    compiled: bool
    why: str
    option: str


@dataclass(frozen=True)
class RegionView:
    name: str
    class_name: str
    share: str
    parameters: str


@dataclass(frozen=True)
class CandidatesView:
    """`regions` are the parts that no graph break reaches."""

    items: list[CandidateView]
    amount: Shown
    regions: list[RegionView]


def candidates_view(report: Report, links: Index, anchors: Anchors) -> CandidatesView:
    """One row a module, method or function."""
    some, amount = shown(report.candidates, MAX_CANDIDATES)
    rows = [_candidate(number, item, links, anchors) for number, item in enumerate(some, 1)]
    return CandidatesView(rows, amount, [_region(region) for region in report.regions])


def _candidate(number: int, item: Candidate, links: Index, anchors: Anchors) -> CandidateView:
    why = _REASONS.get(item.reason, "")
    name = clipped(item.name, 200)
    return CandidateView(
        anchor=anchors.claim(f"candidate-{number}"),
        name=name or clipped(item.class_name, 200),
        class_name=clipped(item.class_name, 200) if name else "",
        kind=item.kind,
        place=links.place(item.location) if item.location is not None else None,
        calls="" if item.calls is None else f"{item.calls:,}",
        parameters="" if item.parameters is None else f"{item.parameters:,}",
        share="" if item.share is None else percent(item.share),
        compiled=item.compiled,
        why=f"{why}: {clipped(item.error, 300)}" if item.reason == "raised" and item.error else why,
        option=f"--compile {name}" if name and not item.compiled and item.reason != "raised" else "",
    )


def _region(region: Region) -> RegionView:
    times = f" × {region.count}" if region.count > 1 else ""
    return RegionView(
        name=clipped(f"{region.root or 'model'}.{region.path}{times}", 200),
        class_name=clipped(region.class_name, 200),
        share="not measured" if region.share is None else percent(region.share),
        parameters=percent(region.parameter_share),
    )

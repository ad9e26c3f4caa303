"""What compiling changes in the memory of a training step, line by line, from what two measuring processes saw."""

from __future__ import annotations

from collections.abc import Sequence

from dynalyze.capture.bench.commands import MeasuredStep, MeasuredSteps, SavedForBackward
from dynalyze.events.log import RunLog
from dynalyze.facts.graphs import BackwardGraph, backward_graphs
from dynalyze.facts.sources import Sources
from dynalyze.report import Location
from dynalyze.report.measurements import KeptLine, KeptTensor, StepMemory

_MOST_LINES, _MOST_TENSORS = 60, 12


def memory_of(eager: MeasuredSteps, compiled: MeasuredSteps, run: RunLog) -> StepMemory | None:
    """The memory of the step that keeps most in eager; None if the steps are no training."""
    if problem := eager.problem or compiled.problem:
        return StepMemory(problem=problem)
    steps = list(zip(eager.steps, compiled.steps, strict=False))
    if not steps:
        return None
    plain, made = max(steps, key=lambda pair: _bytes(pair[0]))
    lines = _Lines(Sources(run))
    for saved in plain.saved:
        lines.add("eager", saved)
    lines.add_compiled(made.saved, backward_graphs(run))
    # What differs most comes first; then what is kept most of.
    found = sorted(
        lines.found.values(),
        key=lambda line: (-abs(line.compiled_bytes - line.eager_bytes), -line.compiled_bytes, -len(line.recomputed)),
    )
    return StepMemory(
        eager_kept=_bytes(plain), compiled_kept=_bytes(made),
        eager_peak=plain.peak_bytes, compiled_peak=made.peak_bytes,
        eager_peak_in=plain.peak_in, compiled_peak_in=made.peak_in,
        lines=found[:_MOST_LINES], lines_omitted=max(0, len(found) - _MOST_LINES),
    )  # fmt: skip


def _bytes(step: MeasuredStep) -> int:
    return sum(each.bytes for each in step.saved)


class _Lines:
    """Every line of which something is kept or recomputed."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self.found: dict[tuple[str, int], KeptLine] = {}

    def add(self, side: str, saved: SavedForBackward, name: str = "", origin: Location | None = None) -> None:
        """Count a saved tensor; what is counted elsewhere, or existed before, has no bytes."""
        if not saved.bytes:
            return
        if origin is None and saved.place:
            file, number, function = saved.place
            origin = Location(file, number, function=function)
        line = self._line(origin)
        tensor = KeptTensor(saved.bytes, saved.dtype, saved.shape, name or saved.op, saved.module)
        tensors = line.eager if side == "eager" else line.compiled
        tensors.append(tensor)
        tensors.sort(key=lambda each: -each.bytes)
        del tensors[_MOST_TENSORS:]
        if side == "eager":
            line.eager_bytes += tensor.bytes
        else:
            line.compiled_bytes += tensor.bytes

    def add_compiled(self, saved: Sequence[SavedForBackward], graphs: list[BackwardGraph]) -> None:
        of_graph: dict[int, list[SavedForBackward]] = {}
        for each in saved:
            if each.graph is None:
                self.add("compiled", each)
            else:
                of_graph.setdefault(each.graph, []).append(each)
        left = list(graphs)
        for own in of_graph.values():
            graph = next((each for each in (*left, *graphs) if _fits(own, each)), None)
            if graph is None:
                for each in own:
                    self.add("compiled", each)
                continue
            left = [each for each in left if each is not graph]
            for number, each in enumerate(own):
                name = graph.takes[number % len(graph.takes)].name
                self.add("compiled", each, graph.op(name), graph.origin(name))
            for at, ops in graph.recomputed().items():
                self._line(at).recomputed += ops

    def _line(self, place: Location | None) -> KeptLine:
        key = place.at if place is not None else ("", 0)
        if key not in self.found:
            known = self._sources.location(place.file, place.line, place.function) if place is not None else None
            self.found[key] = KeptLine(known if known is None or known.code else place)
        return self.found[key]


def _fits(saved: list[SavedForBackward], graph: BackwardGraph) -> bool:
    """Whether these tensors are what a graph saves, in its order: once, or in each of several calls."""
    if not graph.takes or len(saved) % len(graph.takes):
        return False
    return all(
        each.dtype == taken.dtype
        and len(each.shape) == len(taken.shape)
        and all(size == other or isinstance(other, str) for size, other in zip(each.shape, taken.shape, strict=True))
        for number, each in enumerate(saved)
        for taken in [graph.takes[number % len(graph.takes)]]
    )

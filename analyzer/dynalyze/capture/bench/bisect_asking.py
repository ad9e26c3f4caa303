"""Whether the program itself answers otherwise under compile: it asks whether it is compiled, at some of its lines.

It runs in eager with these questions answered as Dynamo answers them. Where that gives compiled's answers, the fewest
places are looked for of which the same is true.
"""

from __future__ import annotations

import contextlib
import linecache
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from dynalyze.capture.bench.configure import configured
from dynalyze.capture.bench.contracts import broken
from dynalyze.capture.bench.judge import Runs, judge, same_bits
from dynalyze.capture.bench.output_capture import OutputCapture, Run
from dynalyze.capture.bench.protocol import Configuration
from dynalyze.capture.bench.state_snapshot import StateSnapshot
from dynalyze.capture.bench.workload import Workload
from dynalyze.capture.torch_private import compile_questions, dynamo, numerics
from dynalyze.capture.torch_private.compile_questions import Place

_MOST_ALONE = 20


def own_source(
    workload: Workload, configuration: Configuration, device: str, tolerance: float, seed: int, *, bits: bool
) -> dict[str, Any]:
    """The places that make the program's answers in eager those that it has as compiled so far; none where they do
    not, or eager has those anyway. `exact`: they are to the bit, which `bits` asks for. `asked` counts all that ask.
    """
    search = _Search(workload, configuration, device, tolerance, seed, bits)
    try:
        with numerics.full_float32():
            places = search.places()
            exact = bool(places) and search.explains(places, exactly=True)
    finally:
        search.state.leave()
        dynamo.forget_compiled()
    lines = [{**place._asdict(), "code": linecache.getline(place.file, place.line).strip()} for place in places]
    return {"places": lines, "exact": exact, "asked": len(search.asked)}


class _Search:
    def __init__(
        self, workload: Workload, configuration: Configuration, device: str, tolerance: float, seed: int, bits: bool
    ) -> None:
        self._workload = workload
        self._configuration = configuration
        self._device = device
        self._tolerance = tolerance
        self._exactly = bits
        self._answers = compile_questions.questions()
        self._runs: dict[frozenset[Place] | None, Run | None] = {}
        self.asked: list[Place] = []
        self.state = StateSnapshot(workload.model, seed, objects=False)  # Where answers stand.
        self._capture = OutputCapture(workload, self.state)

    def places(self) -> Sequence[Place]:
        """The fewest places, as far as one after the other can be left out."""
        self._run(frozenset())  # The first run says which inputs are compared after the call: eager's own.
        dynamo.forget_compiled()
        with numerics.comparable_code():
            self._compiled = self._capture.run(configured(self._workload.model, self._configuration, self._device))
        if self.explains(()) or not self._answers:
            return ()
        together = self.explains(None)
        # With exactly these answers narrowing is sharp; without, a place may still be right by itself.
        self._exactly = self._exactly or (together and self.explains(None, exactly=True))
        if together:
            return fewest_places(self.explains, self.asked)
        return next(([place] for place in self.asked[:_MOST_ALONE] if self.explains([place])), ())

    def explains(self, places: Collection[Place] | None, exactly: bool | None = None) -> bool:
        """Whether eager has compiled's answers where these places, None for all, are told that they are compiled."""
        run = self._run(None if places is None else frozenset(places))
        if run is None:
            return False
        same = same_bits(run, self._compiled)
        if not (self._exactly if exactly is None else exactly):
            judged = judge(Runs(run, run, self._compiled, None, self._tolerance))
            same = all(each.verdict == "equal" for each in judged)
        return same and not broken(run.promises, run.promises, self._compiled.promises)

    def _run(self, places: frozenset[Place] | None) -> Run | None:
        """None where eager fails."""
        if places not in self._runs:
            eager = configured(self._workload.model, replace(self._configuration, compile=False), self._device)
            first, self._runs[places] = not self._runs, None
            answering = compile_questions.answering(self._answers, lambda at: places is None or at in places)
            # What it asks before it fails counts.
            with numerics.nothing_compiled(), answering as asked, contextlib.suppress(Exception):
                self._runs[places] = self._capture.run(eager, reference=first)
            self.asked += [place for place in asked if place not in self.asked]
        return self._runs[places]


def fewest_places(explains: Callable[[Sequence[Place]], bool], places: Sequence[Place]) -> list[Place]:
    """Of places that explain it together those that do without the others: one after the other is found by halving."""
    needed: list[Place] = []
    left = list(places)
    while left and not explains(needed):
        without, enough = 0, len(left)
        while enough - without > 1:
            middle = (without + enough) // 2
            if explains([*needed, *left[:middle]]):
                enough = middle
            else:
                without = middle
        needed.append(left[enough - 1])
        left = left[: enough - 1]
    return needed

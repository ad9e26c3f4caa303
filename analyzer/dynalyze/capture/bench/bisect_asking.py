"""Whether the program itself answers otherwise under compile: it asks whether it is compiled, at some of its lines.

It runs in eager with these questions answered as Dynamo answers them. Where that gives compiled's answers, the fewest
places are looked for of which the same is true.
"""

from __future__ import annotations

import contextlib
import linecache
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from dynalyze.capture.bench.configure import configured
from dynalyze.capture.bench.contracts import broken
from dynalyze.capture.bench.judge import Runs, judge
from dynalyze.capture.bench.output_capture import OutputCapture, RunOutputs
from dynalyze.capture.bench.protocol import Configuration
from dynalyze.capture.bench.state_snapshot import StateSnapshot
from dynalyze.capture.bench.workload import Workload
from dynalyze.capture.torch_private import compile_questions, dynamo, numerics
from dynalyze.capture.torch_private.compile_questions import AskingLine

_MOST_ALONE = 20


def asking_places(
    workload: Workload, configuration: Configuration, device: str, tolerance: float, seed: int
) -> list[dict[str, Any]]:
    """The places that give eager compiled's answers; none where they do not, or eager has them anyway."""
    state = StateSnapshot(workload.model, seed, objects=False)  # Where answers stand.
    capture = OutputCapture(workload, state)
    eager = configured(workload.model, replace(configuration, compile=False), device)
    answers = compile_questions.questions()
    asked: list[AskingLine] = []
    runs: dict[frozenset[AskingLine] | None, RunOutputs | None] = {}

    def run(places: frozenset[AskingLine] | None) -> RunOutputs | None:
        """Eager, with these places (None: all) told that they are compiled; None where it fails."""
        if places not in runs:
            first, runs[places] = not runs, None
            answering = compile_questions.answering(answers, lambda at: places is None or at in places)
            # What it asks before it fails counts.
            with numerics.nothing_compiled(), answering as more, contextlib.suppress(Exception):
                runs[places] = capture.run(eager, reference=first)
            asked.extend(place for place in more if place not in asked)
        return runs[places]

    def explains(places: Sequence[AskingLine] | None) -> bool:
        """Whether eager has compiled's answers then."""
        told = run(None if places is None else frozenset(places))
        if told is None or broken(told.promises, told.promises, compiled.promises):
            return False
        return all(each.verdict == "equal" for each in judge(Runs(told, told, compiled, None, tolerance)))

    try:
        with numerics.full_float32():
            run(frozenset())  # The first run says which inputs are compared after the call: eager's own.
            dynamo.forget_compiled()
            with numerics.comparable_code():
                compiled = capture.run(configured(workload.model, configuration, device))
            found: Sequence[AskingLine] = ()
            if answers and not explains(()):
                if explains(None):
                    found = fewest_places(explains, asked)
                else:  # Another place may fail, or ask for something else, where all are told.
                    found = next(([place] for place in asked[:_MOST_ALONE] if explains([place])), ())
    finally:
        state.leave()
        dynamo.forget_compiled()
    return [{**place._asdict(), "code": linecache.getline(place.file, place.line).strip()} for place in found]


def fewest_places(explains: Callable[[Sequence[AskingLine]], bool], places: Sequence[AskingLine]) -> list[AskingLine]:
    """Of places that explain it together those that do without the others: one after the other is found by halving."""
    needed: list[AskingLine] = []
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

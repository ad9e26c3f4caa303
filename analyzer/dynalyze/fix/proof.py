"""Asks a process of the user's interpreter to prove changes, one after the other, and reads what it recorded."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from dynalyze.bench.plan import Plan, worker_request
from dynalyze.bench.workers import Worker, WorkerFailed, WorkerPool
from dynalyze.capture.regions import Instead, Regions
from dynalyze.events.reading import read_run
from dynalyze.facts.breaks import graph_breaks
from dynalyze.facts.compilations import compilations
from dynalyze.facts.recompiles import recompiles
from dynalyze.facts.registry import registry
from dynalyze.facts.sources import Sources
from dynalyze.facts.stacks import Places
from dynalyze.fix.lines import line_before
from dynalyze.fix.sites import Value
from dynalyze.report import GraphBreak
from dynalyze.report.fixes import CompiledOperators, Counts

DRAWS = 20
_SECONDS = 10.0
WHOLE_SECONDS = 120.0
"""For the draws of a change that is tried, and for those of all that is kept: these are the proof, and made once."""
_SHARE_OF_LIFE = 0.5
"""Of the limit on a process: an older one makes room for a new one before its next command."""

_UNREACHED = re.compile(r"no call runs (.+:\d+), which is changed")

Texts = Mapping[str, str]
"""Sources by the path of their file."""


@dataclass
class Compiled:
    """What the calls compile with some code."""

    breaks: list[GraphBreak]
    counts: Counts


@dataclass
class Tried:
    """A change that was tried: what the process found (`capture/fixing/prove.py` Proof), and what it compiled then."""

    proof: dict[str, Any]
    after: Compiled | None = None
    problem: str = ""

    @property
    def share(self) -> CompiledOperators | None:
        """The operators of the program's own calls with it; None where nobody counted."""
        found = self.proof.get("share")
        return None if found is None else CompiledOperators(**found)


@dataclass
class Baseline:
    """The code as it is. `problem` says why nothing can be verified about it."""

    compiled: Compiled
    repeatable: bool = True
    problem: str = ""
    share: CompiledOperators | None = None

    @classmethod
    def failed(cls, problem: str) -> Baseline:
        """None could be had."""
        return cls(Compiled([], Counts()), problem=problem)


def difference_in(proof: Mapping[str, Any]) -> str:
    """What differs in the program's own calls; "" where nothing does."""
    arms = [f"{arm}, the program's own calls: {each['why']}" for arm, each in proof["own"].items()
            if each["equality"] == "different"]  # fmt: skip
    return arms[0] if arms else ""


class Prover:
    """One process that verifies changes of a workload; it is started anew where a change ended it."""

    def __init__(self, pool: WorkerPool, plan: Plan, torch_folder: str) -> None:
        configurations = plan.configurations_on(plan.device or "cpu")
        self._pool = pool
        self._request = worker_request(plan, plan.works[0], configurations[0])
        self._folder = torch_folder
        self._worker: Worker | None = None
        self._broken: set[str] = set()
        self._began, self._life = 0.0, plan.timeout
        self.originals: dict[str, str] = {}

    def __enter__(self) -> Prover:
        return self

    def __exit__(self, *error: Any) -> None:
        self._end(error)

    def baseline(self) -> Baseline:
        """Start, and look at the code as it is. Raises WorkerFailed where that fails."""
        answer = self._started()
        if answer["problem"]:
            return Baseline.failed(answer["problem"])
        compiled = self._compiled(answer["folder"])
        self._note_broken(compiled, {})
        return Baseline(compiled, answer["repeatable"], share=CompiledOperators(**answer["share"]))

    def values(self, places: Mapping[tuple[str, int], Sequence[str]]) -> dict[tuple[str, int], dict[str, Value]]:
        """What expressions were, by file and line."""
        asked = [{"file": file, "line": line, "expressions": list(texts)} for (file, line), texts in places.items()]
        answer = self._ask("values", places=asked)
        return {
            (each["file"], each["line"]): {text: Value(**known) for text, known in each["values"].items()}
            for each in answer["places"]
        }

    def instead(self, texts: Texts, settings: Mapping[str, object]) -> Instead:
        """What can be compiled in the place of a model that breaks, with this change; nothing where none knows."""
        try:
            found = self._ask("regions", changes=self.changes(texts), settings=dict(settings))
        except WorkerFailed:
            self._end((None, None, None))
            return Instead()
        return Instead(**{each.name: found[each.name] for each in fields(Instead)})

    def prove(
        self, texts: Texts, settings: Mapping[str, object], *, draws: int = 0, sides: Sequence[tuple[str, int]] = (),
        regions: Regions | None = None, traced: bool = True, seconds: float = _SECONDS,
    ) -> Tried:  # fmt: skip
        """Try the files with these texts, and these settings, against the files as they are; with `regions`, what is
        compiled is these. Without `traced` draws are compared in eager alone. After `seconds` no draw is begun.
        """
        try:
            proof = self._ask(
                "prove", changes=self.changes(texts), settings=dict(settings), draws=draws, seconds=seconds,
                sides=[list(each) for each in sides], regions=dict(regions or {}), traced=traced,
            )  # fmt: skip
        except WorkerFailed as failure:
            self._end((None, None, None))
            return Tried({}, problem=failure.message)
        if proof["problem"] or proof["folder"] is None:
            return Tried(proof, problem=proof["problem"] or difference_in(proof) or "nothing was compiled")
        if (missed := _UNREACHED.fullmatch(proof["draws"]["unproved"])) and missed[1] in self._broken:
            proof["draws"]["unproved"] = ""  # Compiled calls break there: they do run it, if eager ones do not.
        after = self._compiled(proof["folder"], texts)
        self._note_broken(after, texts)
        return Tried(proof, after)

    def changes(self, texts: Texts) -> list[dict[str, str]]:
        """What differs from the files as they are, as a process takes it."""
        return [
            {"path": path, "old": self.originals[path], "new": text}
            for path, text in texts.items() if text != self.originals[path]
        ]  # fmt: skip

    def _note_broken(self, compiled: Compiled, texts: Texts) -> None:
        """Remember where compiled calls break, by the lines of the code as it is."""
        for each in (broken.location for broken in compiled.breaks):
            before = self.originals.get(each.file, "")
            line = line_before(before, texts.get(each.file, before), each.line)
            self._broken.add(f"{Path(each.file).name}:{line}")

    def _ask(self, do: str, **details: Any) -> dict[str, Any]:
        if self._worker is not None and time.monotonic() - self._began > _SHARE_OF_LIFE * self._life:
            self._end((None, None, None))
        if self._worker is None:
            self._started()
        assert self._worker is not None
        return self._worker.ask(do, **details)

    def _started(self) -> dict[str, Any]:
        self._began = time.monotonic()
        self._worker = self._pool.worker(self._request, None)
        self._worker.__enter__()
        self._worker.ask("load")
        return self._worker.ask("baseline")

    def _end(self, error: tuple[Any, ...]) -> None:
        if self._worker is not None:
            worker, self._worker = self._worker, None
            worker.__exit__(*error)

    def _compiled(self, name: str, texts: Texts | None = None) -> Compiled:
        assert self._worker is not None
        run = read_run(self._worker.folder / name)
        places, sources = Places(self._folder), Sources(run, texts=texts)
        compiled = compilations(run, places, sources)
        breaks = graph_breaks(run, places, sources, registry(self._folder), compiled)
        again = recompiles(run, compiled, breaks)
        graphs = sum(1 for each in compiled if each.status in ("compiled", "broken") and each.ops)
        return Compiled(breaks, Counts(len(breaks), graphs, len(again)))

"""Asks a process in the user's interpreter to check changes, one after the other, and reads what it recorded."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from dynalyze.bench.plan import Plan, worker_request
from dynalyze.bench.workers import Worker, WorkerFailed, WorkerPool
from dynalyze.capture.bench.commands import Baseline, CheckChange, Load, ReadValues
from dynalyze.capture.bench.protocol import Answer, Command
from dynalyze.capture.fixing.records import BaselineResult, CheckRequest, CheckResult, CompiledShare, SourceChange
from dynalyze.events.reading import read_run
from dynalyze.facts.compiled_calls import CompiledCalls, compiled_calls
from dynalyze.fix.sites import Value
from dynalyze.fix.source_files import line_before
from dynalyze.report import GraphBreak
from dynalyze.report.fixes import CompiledOperators, Evidence, FixKind, FixStatus

DRAWS = 20
WHOLE_SECONDS = 120.0
"""For the draws of all that is kept: these are what is told, and made once."""
_SHARE_OF_LIFE = 0.5
"""Of the limit on a process: an older one makes room for a new one before its next command."""

_UNREACHED = re.compile(r"no call runs (.+:\d+), which is changed")

Texts = Mapping[str, str]
"""Sources by the path of their file."""


@dataclass
class CheckedChange(CheckResult):
    """What the process found about a change, and what it compiles; `after` is None if nothing was compiled."""

    after: CompiledCalls | None = None

    @property
    def reason(self) -> str:
        """Why it could not be compared, or what differs in the program's own calls; "" for neither."""
        return self.problem or self.difference or ("" if self.after is not None else "nothing was compiled")


@dataclass
class UnchangedCode:
    """What the unchanged code compiles; `problem` says why nothing can be verified about it."""

    compiled: CompiledCalls = field(default_factory=CompiledCalls)
    repeatable: bool = True
    problem: str = ""
    share: CompiledOperators | None = None


@dataclass(frozen=True)
class FixState:
    """The files after some changes, the settings, and what the calls compile then. `loses` are the kinds of side
    effects that compiled code lacks on purpose, `effects` those that differ.
    """

    texts: dict[str, str]
    settings: dict[str, object]
    compiled: CompiledCalls
    loses: frozenset[str] = frozenset()
    effects: frozenset[str] = frozenset()
    changed: bool = False


ProposalKey = tuple[int, str, str]
"""A break, by identity, with a text and settings for it."""


@dataclass
class Attempt:
    """A proposal for one break and its outcome. `proposed` is the state with it, as far as it came; if verified, the
    next state. `key` identifies a proposal for a break as it was tried, `own_key` whatever else was changed then.
    """

    broken: GraphBreak
    before: FixState
    kind: FixKind = "source"
    status: FixStatus = "rejected"
    title: str = ""
    rewrite: str = ""
    reason: str = ""
    proposed: FixState | None = None
    evidence: Evidence = field(default_factory=Evidence)
    ends: list[GraphBreak] = field(default_factory=list)
    key: ProposalKey = (0, "", "")
    own_key: ProposalKey = (0, "", "")


def operators_of(share: CompiledShare | None) -> CompiledOperators | None:
    """The record of a report; None if nobody counted."""
    return None if share is None else CompiledOperators(share.compiled, share.operators)


class ChangeProcess:
    """A process that checks changes of a workload; started anew if a change ended it."""

    def __init__(self, pool: WorkerPool, plan: Plan, torch_folder: str) -> None:
        self._pool = pool
        self._request = worker_request(plan, plan.works[0], plan.first)
        self._folder = torch_folder
        self._worker: Worker | None = None
        self._broken: set[str] = set()
        self._began, self._life = 0.0, plan.timeout
        self.originals: dict[str, str] = {}

    def __enter__(self) -> ChangeProcess:
        return self

    def __exit__(self, *error: Any) -> None:
        self._end(error)

    def baseline(self) -> UnchangedCode:
        """Start, and look at the unchanged code. Raises WorkerFailed."""
        found = self._started()
        if found.problem:
            return UnchangedCode(problem=found.problem)
        compiled = self._compiled(found.folder)
        self._note_broken(compiled, {})
        return UnchangedCode(compiled, found.repeatable, share=operators_of(found.share))

    def values(self, places: Mapping[tuple[str, int], Sequence[str]]) -> dict[tuple[str, int], dict[str, Value]]:
        """What expressions were, by file and line."""
        answer = self._ask(ReadValues([(*place, list(texts)) for place, texts in places.items()]))
        return {
            (file, line): {text: Value(**known) for text, known in values.items()}
            for file, line, values in answer.places
        }

    def check(self, texts: Texts, request: CheckRequest) -> CheckedChange:
        """Compare files with these texts with the unchanged files, as the request asks."""
        try:
            result = self._ask(CheckChange(asdict(replace(request, changes=self.changes(texts)))))
        except WorkerFailed as failure:
            self._end((None, None, None))
            return CheckedChange(failure.message)
        found = CheckedChange(**vars(result))
        if found.problem or found.folder is None:
            return found
        if (missed := _UNREACHED.fullmatch(found.draws.unproved)) and missed[1] in self._broken:
            found.draws.unproved = ""  # Compiled calls break there: they do run it, if eager ones do not.
        found.after = self._compiled(found.folder, texts)
        self._note_broken(found.after, texts)
        return found

    def changes(self, texts: Texts) -> list[SourceChange]:
        """The texts that differ from the unchanged files."""
        return [
            SourceChange(path, self.originals[path], text)
            for path, text in texts.items() if text != self.originals[path]
        ]  # fmt: skip

    def _note_broken(self, compiled: CompiledCalls, texts: Texts) -> None:
        """Remember where compiled calls break, by lines of the unchanged code."""
        for each in (broken.location for broken in compiled.breaks):
            before = self.originals.get(each.file, "")
            line = line_before(before, texts.get(each.file, before), each.line)
            self._broken.add(f"{Path(each.file).name}:{line}")

    def _ask(self, command: Command[Answer]) -> Answer:
        if self._worker is not None and time.monotonic() - self._began > _SHARE_OF_LIFE * self._life:
            self._end((None, None, None))
        if self._worker is None:
            self._started()
        assert self._worker is not None
        return self._worker.ask(command)

    def _started(self) -> BaselineResult:
        self._began = time.monotonic()
        self._worker = self._pool.worker(self._request, None)
        self._worker.__enter__()
        self._worker.ask(Load())
        return self._worker.ask(Baseline())

    def _end(self, error: tuple[Any, ...]) -> None:
        if self._worker is not None:
            worker, self._worker = self._worker, None
            worker.__exit__(*error)

    def _compiled(self, name: str, texts: Texts | None = None) -> CompiledCalls:
        assert self._worker is not None
        return compiled_calls(read_run(self._worker.folder / name), self._folder, texts)

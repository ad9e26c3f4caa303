"""Searches for changes that end the graph breaks of a program: one break after the other, each change on top of those
kept before.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import libcst as cst
import msgspec

from dynalyze.bench.workers import OUT_OF_TIME
from dynalyze.capture.fixing.records import CheckRequest
from dynalyze.fix.gates import less_compiled
from dynalyze.fix.proof import (
    DRAWS,
    WHOLE_SECONDS,
    Attempt,
    ChangeProcess,
    CheckedChange,
    FixState,
    ProposalKey,
    UnchangedCode,
    operators_of,
)
from dynalyze.fix.rewriting import proposals
from dynalyze.fix.rewriting.reads import kept_in_python
from dynalyze.fix.settings import READS_VALUES, settings_for
from dynalyze.fix.sites import NoSite, Proposal, Site, Value, walk
from dynalyze.fix.source_files import Originals, changed_lines, combined, line_before, line_instead_of, same_break
from dynalyze.report import GraphBreak, Location
from dynalyze.report.fixes import BranchSide, CompileCounts, CompiledOperators, Equality, Evidence, FixKind
from dynalyze.rules.settings import merged

_DEEPEST = 8
"""How many breaks one change may lead to that further changes end: behind a break others hide."""
_MOST_TRIED = 12
"""Proposals tried for one break."""

_LIBRARY = re.compile(r"[/\\]python3[.\d]*[/\\](?!site-packages|dist-packages)|[/\\](tqdm|rich|loguru)[/\\]|^<frozen ")
"""Files of Python's own library, and of small ones for people: nothing is changed in these."""

_SOURCE: tuple[FixKind, ...] = ("source",)
_ALL: tuple[FixKind, ...] = ("source", "setting")
_NOTHING_COMPILED = "nothing is compiled then"
_LEADS_ON = "the graph breaks at"
_RAISES = "traced, the program's own calls: raises"
_AGAIN = ", after the others"
"""How the reason begins where a change ended a break and led to one that nothing ended."""

_KEPT = "No change: the program keeps this number in Python"
_NOT_TOGETHER = "all changes together could not be verified"

RAISES = "raises"
"""Of what a change loses: the type of an exception."""


class FixSearch:
    """The search over the breaks of a baseline. `progress` gets a line for each break. Random inputs are compiled once,
    for all changes `together`, because that costs most; with `thorough` also for each change alone. After `seconds`
    nothing more is tried, and `stopped_early` is true.
    """

    def __init__(
        self, process: ChangeProcess, baseline: UnchangedCode, progress: Callable[[str], None], *, calls: int,
        seconds: float = math.inf, thorough: bool = False,
    ) -> None:  # fmt: skip
        self.process = process
        self._ends = time.monotonic() + seconds
        self.stopped_early = False
        self.thorough = thorough
        self.baseline, self._share = baseline.compiled, baseline.share
        self._calls = calls
        self._progress = progress
        files = {place.file for each in baseline.compiled.breaks for place in _places(each)}
        self.originals = process.originals = Originals(files)
        self.set_aside_state: FixState | None = None
        """All that held by itself, where it could not be verified as a whole."""
        self.start = self.state = FixState(dict(process.originals), {}, baseline.compiled)
        self._values: dict[tuple[str, int], dict[str, Value]] = {}
        self._kinds: tuple[FixKind, ...] = _ALL
        self._refused: set[ProposalKey] = set()
        self._failed: set[ProposalKey] = set()
        self._open: dict[int, FixState] = {}
        self._kept: dict[int, str] = {}

    def run(self, wanted: Sequence[GraphBreak]) -> Iterator[Attempt]:
        """Try to end each of these breaks. Verified changes are kept for the next breaks, and breaks that a later
        change may have made fixable are tried again. Settings come after all changes of source: a setting ends many
        breaks, but the program pays for it everywhere.
        """
        for broken in wanted:
            sites = [self._site(self.state, broken, place) for place in _places(broken)]
            if reason := next(filter(None, (kept_in_python(each) for each in sites if each is not None)), ""):
                self._kept[id(broken)] = reason
                yield Attempt(broken, self.state, title=_KEPT, reason=reason)
        for kinds, what in ((_SOURCE, ""), (_SOURCE, _AGAIN), (_ALL, ", with settings")):
            self._kinds = kinds
            for number, broken in enumerate(wanted, 1):
                there = self._find(self.state, broken)
                if there is None or self._out_of_time or id(broken) in self._kept:
                    continue  # An earlier fix ended it too, or nobody can tell any more.
                if what == _AGAIN and self._open.get(id(broken), self.state) is self.state:
                    continue
                self._progress(f"break {number} of {len(wanted)}: {broken.location.short}{what}")
                attempts = list(self._attempts(broken, there))
                best = next((each for each in attempts if each.status == "verified"), None)
                if best is not None and best.proposed is not None:
                    self.state = best.proposed
                yield from attempts
        self.stopped_early = self._out_of_time

    @property
    def _out_of_time(self) -> bool:
        return time.monotonic() > self._ends

    def together(self, attempts: Sequence[Attempt]) -> tuple[Evidence | None, bool]:
        """Verify all kept changes as a whole, and add its random inputs to the evidence of each. Returns the evidence
        of the whole, and whether it holds; if not, nothing is kept.
        """
        state = self.state
        if not state.changed:
            return None, True
        self._progress("verifying all changes together")
        tried = self._check(state, draws=DRAWS, seconds=WHOLE_SECONDS)
        whole = self.evidence(tried, self.baseline.counts)
        kept = [each for each in attempts if each.status == "verified"]
        reason = reason_against(tried, state.loses) or less_compiled(whole)
        if OUT_OF_TIME in tried.problem:  # Nothing speaks against it but the clock.
            self.set_aside(kept, f"{_NOT_TOGETHER}: {reason}")
        for each in kept:
            if each.status == "suggested":
                continue
            if reason:
                each.status, each.reason = "rejected", f"together with the others: {reason}"
            elif not self.thorough:
                each.evidence = _with_whole(each.evidence, whole, alone=len(kept) == 1)
        if reason:
            self.state = self.start
        return whole, not reason

    def take_back(self, attempt: Attempt, later: Sequence[Attempt], reason: str) -> None:
        """Reject a kept change for good, and let what was kept on top of it be tried again."""
        self.state = attempt.before
        self._failed.add(attempt.own_key)
        self._refused -= {each.key for each in later}
        attempt.status, attempt.reason = "rejected", reason
        for each in later:
            each.status, each.reason = "rejected", f"it was tried on top of another change that failed: {reason}"

    def set_aside(self, attempts: Sequence[Attempt], reason: str) -> None:
        """Suggest all verified changes as a whole: their last check is missing."""
        self.set_aside_state, self.state = self.state, self.start
        for each in attempts:
            if each.status == "verified":
                each.status, each.reason = "suggested", reason

    def suggested_texts(self, attempts: Sequence[Attempt]) -> dict[str, str]:
        """The files with all kept and suggested changes: one change a break, unless it touches a line of another."""
        if self.set_aside_state is not None:
            return self.set_aside_state.texts
        texts = dict(self.state.texts)
        ended = {id(each.broken) for each in attempts if each.status == "verified"}
        for each in attempts:
            if each.status != "suggested" or each.proposed is None or id(each.broken) in ended:
                continue
            bases = {**self.originals, **each.before.texts}
            new = {file: combined(bases[file], texts.get(file, bases[file]), text)
                   for file, text in each.proposed.texts.items() if text != bases[file]}  # fmt: skip
            if new and None not in new.values():
                texts |= {file: text for file, text in new.items() if text is not None}
                ended.add(id(each.broken))
        return texts

    def _attempts(self, broken: GraphBreak, there: GraphBreak) -> Iterator[Attempt]:
        """The proposals for a break in turn, until one is verified."""
        number = 0
        for kind, proposal in self._proposals(self.state, there):
            if number >= _MOST_TRIED or self._out_of_time:
                return
            key = id(broken), proposal.source, str(proposal.settings)
            text = self._text(self.state, proposal.file) or "" if proposal.source else ""
            own_key = id(broken), changed_lines(text, proposal.source), str(proposal.settings)
            if key in self._refused or own_key in self._failed:
                continue
            number += 1
            attempt = Attempt(
                broken, self.state, kind, title=proposal.title, rewrite=proposal.rewrite, key=key, own_key=own_key
            )
            if proposal.fault:
                attempt.reason = f"a fault of dynalyze: {proposal.fault}"
                self._refused.add(key)
                yield attempt
                continue
            self._try(attempt, proposal, there)
            if attempt.reason.startswith((_LEADS_ON, _RAISES)):  # Another change may end what is met then.
                self._open[id(broken)] = self.state
            else:
                self._refused.add(key)
            yield attempt
            if attempt.status == "verified":
                return

    def _try(self, attempt: Attempt, proposal: Proposal, there: GraphBreak) -> None:
        state = self._follow(attempt, self.state, proposal, there, _DEEPEST)
        if state is None:
            return
        attempt.proposed = state
        sides = self._sides(proposal, there)
        tried = self._check(state, draws=DRAWS, sides=sides, traced=self.thorough)
        attempt.evidence = self.evidence(tried, self.state.compiled.counts)
        attempt.evidence.sides = [
            BranchSide(Location(file, line, None, there.location.function), (file, line) in tried.lines)
            for file, line in sides
        ]
        none = tried.after is not None and not tried.after.breaks and not tried.after.counts.graphs
        nothing = _NOTHING_COMPILED if none and self.baseline.counts.graphs else ""  # So no break is met either.
        if reason := reason_against(tried, state.loses) or nothing or less_compiled(attempt.evidence):
            attempt.reason = reason
            if reason == tried.draws.unproved:
                attempt.status = "suggested"
            return
        attempt.status = "verified"
        if state.settings != self.state.settings:
            attempt.kind = "setting"  # Whatever was changed beside it.
        known = set(attempt.evidence.effects)
        attempt.evidence.effects = [each for each in attempt.evidence.effects if each not in self.state.effects]
        attempt.proposed = replace(state, effects=self.state.effects | known)
        ended = (each for each in self.baseline.breaks if self._find(self.state, each) is not None)
        attempt.ends = [each for each in ended if self._find(state, each) is None]

    def evidence(self, tried: CheckedChange, before: CompileCounts) -> Evidence:
        """The record of what was run for a change; `before` is what the calls compiled without it."""
        return evidence_of(tried, calls=self._calls, before=before, share=self._share)

    def _check(self, state: FixState, **asked: Any) -> CheckedChange:
        return self.process.check(state.texts, CheckRequest(settings=state.settings, **asked))

    def _follow(
        self, attempt: Attempt, state: FixState, proposal: Proposal, there: GraphBreak, deepest: int
    ) -> FixState | None:
        """The state with a proposal and all the changes that it leads to; None, with the reason in `attempt`, if that
        fails.
        """
        new = _with(state, proposal)
        attempt.proposed = new
        tried = self._check(new)
        if proposal.uncompared:
            attempt.status, attempt.reason = "suggested", proposal.uncompared
            return None
        if tried.after is None:
            attempt.status = "suggested" if tried.problem else "rejected"
            attempt.reason = tried.reason
            return None
        new = replace(new, compiled=tried.after)
        if self._find(new, there, state) is not None or self._in_change(new, state, there):
            attempt.reason = attempt.reason or "the graph still breaks there"
            return None
        if reason := reason_against(tried, new.loses):
            attempt.reason = reason
            return None
        while further := self._new(new, state):
            broken = further[0]
            if self._stands_at(broken, new, there):
                attempt.reason = f"the graph breaks there in another way: {broken.gb_type}"
                return None
            found = self._end(attempt, new, broken, deepest - 1)
            if found is None:
                attempt.reason = f"{_LEADS_ON} {broken.location.short} then: {broken.gb_type}"
                return None
            new, deepest = found, deepest - 1
        return new

    def _end(self, attempt: Attempt, state: FixState, broken: GraphBreak, deepest: int) -> FixState | None:
        """A state without a break that a change has led to."""
        if deepest <= 0 or self._out_of_time:
            return None
        for kind, proposal in self._proposals(state, broken):
            inner = Attempt(broken, state, kind, title=proposal.title)
            found = None if proposal.fault else self._follow(inner, state, proposal, broken, deepest)
            if found is not None:
                attempt.title += f"; then: {inner.title}"
                return found
        return None

    def _proposals(self, state: FixState, broken: GraphBreak) -> Iterator[tuple[FixKind, Proposal]]:
        for proposal in self._all_proposals(state, broken):
            kind: FixKind = "setting" if proposal.settings else "source"
            # A setting is one for the whole program: what is kept in Python would be read in compiled code with it.
            if kind in self._kinds and not (self._kept and READS_VALUES.keys() & proposal.settings.keys()):
                yield kind, proposal

    def _all_proposals(self, state: FixState, broken: GraphBreak) -> Iterator[Proposal]:
        for place in _places(broken):
            if (site := self._site(state, broken, place)) is not None:
                yield from proposals(site)
        yield from settings_for(broken)

    def _site(self, state: FixState, broken: GraphBreak, place: Location) -> Site | None:
        """The site of a break at this place, with the values of names around it; None if its file cannot be read."""
        text = self._text(state, place.file)
        if text is None:
            return None
        site = Site(msgspec.structs.replace(broken, location=place), text, place.line)
        return replace(site, values=self._look(site, state))

    def _text(self, state: FixState, file: str) -> str | None:
        """A file in a state; a file that only a change has led to is read now."""
        if self.originals.read(file) is None:
            return None
        for each in (self.start, self.state, state):
            each.texts.setdefault(file, self.originals[file])
        return state.texts[file]

    def _look(self, site: Site, state: FixState) -> dict[str, Value]:
        """What the names around a break were when its line ran, in the unchanged code."""
        file = site.broken.location.file
        text = self.process.originals[file]
        line = line_before(text, site.text, site.line) or line_instead_of(text, site.text, site.line)
        if line is None:
            return {}
        if (file, line) not in self._values:
            try:
                names = [
                    site.code(each) for each in walk(site.function.body) if isinstance(each, cst.Name | cst.Attribute)
                ]
            except NoSite:
                return {}
            torches = ["torch", *(name for name in names if name.split(".")[0] == "torch")]
            known = self.process.values({(file, line): list(dict.fromkeys([*names, *torches]))})
            self._values[file, line] = known.get((file, line), {})
        return self._values[file, line]

    def _find(self, state: FixState, broken: GraphBreak, of: FixState | None = None) -> GraphBreak | None:
        """The break of a state that is `broken` of the state `of` (None: of the baseline)."""
        before = self.process.originals if of is None else of.texts
        return next((each for each in state.compiled.breaks if same_break(broken, each, before, state.texts)), None)

    def _new(self, state: FixState, before: FixState) -> list[GraphBreak]:
        known = before.compiled.breaks
        return [each for each in state.compiled.breaks
                if not any(same_break(one, each, before.texts, state.texts) for one in known)]  # fmt: skip

    def _stands_at(self, broken: GraphBreak, state: FixState, there: GraphBreak) -> bool:
        """Whether a break of a state is on the line of a break of the state before."""
        file, now = there.location.file, self.state.texts
        same = broken.location.file == file
        return same and line_before(now[file], state.texts[file], broken.location.line) == there.location.line

    def _in_change(self, state: FixState, before: FixState, there: GraphBreak) -> bool:
        """Whether lines of the change break with the same type in the same file."""
        return any(
            each.gb_type == there.gb_type and each.location.file == there.location.file
            and line_before(before.texts.get(each.location.file, ""), state.texts.get(each.location.file, ""),
                            each.location.line) is None
            for each in state.compiled.breaks
        )  # fmt: skip

    def _sides(self, proposal: Proposal, there: GraphBreak) -> list[tuple[str, int]]:
        file = there.location.file
        lines = (line_before(self.process.originals[file], self.state.texts[file], line) for line in proposal.sides)
        return [(file, line) for line in lines if line is not None]


def _with(state: FixState, proposal: Proposal) -> FixState:
    texts = {proposal.file: proposal.source} if proposal.source else {}
    return replace(
        state, texts={**state.texts, **texts}, settings=merged(state.settings, proposal.settings),
        loses=state.loses | set(proposal.loses), changed=True,
    )  # fmt: skip


def reason_against(tried: CheckedChange, loses: frozenset[str]) -> str:
    """What speaks against a compared change; "" for nothing. Side effects of `loses` may be missing."""
    if reason := tried.reason or tried.draws.different:
        return reason
    wanted = tuple(kind if kind == RAISES else f"not {kind}" for kind in loses)
    unwanted = [text for each in tried.compared for text in each.effects if not text.startswith(wanted)]
    return f"side effects differ: {unwanted[0]}" if unwanted else tried.draws.unproved


def _worst(tried: CheckedChange) -> Equality:
    if tried.difference or tried.draws.different:
        return "different"
    bitwise = all(each.equality == "bitwise" for each in tried.own.values())
    return "bitwise" if bitwise and tried.draws.bitwise == tried.draws.tried else "tolerance"


def _places(broken: GraphBreak) -> list[Location]:
    """Where a break may be ended: on its own line, or, in a library that is not changed, on the line that calls it."""
    if not _LIBRARY.search(broken.location.file):
        return [broken.location]
    ats = [place.at for place in broken.stack]
    above = broken.stack[: ats.index(broken.location.at)] if broken.location.at in ats else []
    return [place for place in reversed(above) if not _LIBRARY.search(place.file)][:1]


def evidence_of(
    tried: CheckedChange, *, calls: int, before: CompileCounts, share: CompiledOperators | None
) -> Evidence:
    """The record of what was run for a change; `calls` is how many the program makes itself, and `share` what of them
    was compiled before.
    """
    if not tried.own:
        return Evidence()
    draws = tried.draws
    effects = [text for each in tried.compared for text in each.effects]
    return Evidence(
        calls=calls, draws=draws.tried, raised=draws.raised, varied=draws.varied, searched=draws.kinds,
        outputs=_worst(tried), as_compiled=any(each.as_compiled for each in tried.compared),
        gradients=tried.gradients, effects=list(dict.fromkeys(effects)), before=before,
        after=tried.after.counts if tried.after else None, compiled_before=share,
        compiled_after=operators_of(tried.share),
    )  # fmt: skip


def _with_whole(own: Evidence, whole: Evidence, *, alone: bool) -> Evidence:
    """The evidence of a change with the random inputs of the whole that it is part of, or `alone` is. It claims no more
    for its outputs than the whole does.
    """
    return msgspec.structs.replace(
        own, draws=whole.draws, raised=whole.raised, varied=whole.varied, outputs=whole.outputs,
        as_compiled=whole.as_compiled, gradients=own.gradients or whole.gradients,
        searched=list(dict.fromkeys([*own.searched, *whole.searched])),
        effects=list(dict.fromkeys([*own.effects, *(whole.effects if alone else ())])),
    )  # fmt: skip

"""The steps of `dynalyze fix`: run the program, verify changes on its calls, verify them together, run the program with
them.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from dynalyze.bench import schedule, stats
from dynalyze.bench.measure import announce_repeats, planned
from dynalyze.bench.plan import Plan
from dynalyze.bench.schedule import Arm
from dynalyze.bench.workers import Stopped, WorkerFailed, WorkerPool
from dynalyze.capture.events import TorchLoaded
from dynalyze.capture.fixing.records import CheckRequest, SourceChange
from dynalyze.files.paths import working_folder
from dynalyze.files.temporary import TemporaryFolder
from dynalyze.fix.gates import Gates, GateVerdict, less_compiled
from dynalyze.fix.proof import DRAWS, Attempt, ChangeProcess, CheckedChange, FixState, UnchangedCode
from dynalyze.fix.search import FixSearch, evidence_of, reason_against
from dynalyze.fix.settings import SettingCandidate, candidates, no_better, title_of
from dynalyze.fix.source_files import changed, is_library, patch_of, patch_of_file, same_break, source_of
from dynalyze.fix.whole_program import Gate
from dynalyze.launch.interrupts import how_it_ended
from dynalyze.launch.observe import Observation, Observed, observed
from dynalyze.launch.streams import Streams
from dynalyze.render.text.report import line_words
from dynalyze.report import GraphBreak, Location, Report
from dynalyze.report.fixes import BranchSide, CompileCounts, Evidence, Fix, Fixed, Unfixed
from dynalyze.report.measurements import Pair, Speedup
from dynalyze.rules.settings import as_python, gone, merged
from dynalyze.text.errors import UsageError

_MOST_ROUNDS = 4
"""How often the search is repeated after a change failed a gate."""

_PAIRS = 5
_PAIR_SECONDS = 2.0
_NOT_REPLAYED = "it does not occur when the recorded calls are repeated, so no fix can be verified"
_BACKEND = "Backend compiler"
_NOT_GATED = "the run was interrupted before it was verified as a whole"
_TOO_MANY_ROUNDS = "too many changes before it did not hold: it was not verified as a whole"
_OF_A_BACKEND = "the backend raises there, so only Dynamo's graphs are compared"
_NOT_REPEATABLE = "Two runs of the unchanged calls differ from each other; those values could not be compared."
_NONE_ENDED = "no graph break ends by it"
_NOTHING_FITS = "no change is known that fits it"


@dataclass
class FixResult:
    """`originals` and `texts` are the files before and after all kept changes; `suggested` has the suggested changes
    too, which the patch holds if the verification was `cut_short`.
    """

    report: Report
    originals: Mapping[str, str] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    suggested: Mapping[str, str] = field(default_factory=dict)
    cut_short: bool = False


@dataclass(frozen=True)
class GivenChange:
    """A change that somebody made. `originals` and `texts` are its Python files that both sides have, before and after;
    `put` are all its files by path, each with a file of its new contents ("" for none). `sides` are lines, one in each
    side of the branches that it touches; `uncovered` says which part of it only a sandbox can run.
    """

    originals: Mapping[str, str]
    texts: Mapping[str, str]
    put: Mapping[str, str]
    sides: Sequence[tuple[str, int]] = ()
    uncovered: str = ""

    @property
    def changes(self) -> list[SourceChange]:
        return [SourceChange(file, self.originals[file], text) for file, text in self.texts.items()]


@dataclass(frozen=True)
class FixOptions:
    """The ids of breaks to end (`only`, all if empty), the seconds after which no more changes are tried, and the
    seconds for measuring the speedup (0: not measured).
    """

    only: tuple[str, ...] = ()
    bench_seconds: float = 60.0
    search_seconds: float = 900.0


def fix(observation: Observation, plan: Plan, options: FixOptions, progress: Callable[[str], None]) -> FixResult:
    """Run the target, and look for changes that end its graph breaks. Raises UsageError if it cannot be run as asked,
    or an id of `options.only` is unknown.
    """
    with observed(observation) as seen:
        report = seen.report
        known = {each.id for each in report.graph_breaks}
        if unknown := [name for name in options.only if name not in known]:
            there = f"there are {', '.join(sorted(known))}" if known else "it has none"
            raise UsageError(f"--only {unknown[0]}: no graph break of this run; {there}")
        report.fixed = Fixed(before=counts_of(report), reproduce=list(report.command))
        if not report.graph_breaks and not any(candidates(report)):
            return FixResult(report)
        ready, source = planned(seen, observation.target, plan)
        if ready is None:
            note_nothing_verified(report, source.reason)
            report.fixed.unfixed = _all_unfixed(report, source.reason)
            return FixResult(report)
        return FixSession(observation, ready, options, progress, seen).go()


def note_nothing_verified(report: Report, reason: str) -> None:
    """Note that nothing could be verified, and how the program failed, if it did."""
    said = report.outcome.message.rstrip(".") if report.outcome.status == "failed" else ""
    how = f" {said}." if said else ""
    report.capture.notes.append(f"Nothing could be verified: {reason}.{how}")


class FixSession:
    """What `fix` and `verify` do with a program that was observed."""

    def __init__(
        self, observation: Observation, plan: Plan, options: FixOptions, progress: Callable[[str], None], seen: Observed
    ) -> None:
        self._observation = observation
        self._plan = plan
        self._options = options
        self._progress = progress
        self._report = seen.report
        assert seen.report.fixed is not None
        self._fixed = seen.report.fixed
        torch = seen.log.last(TorchLoaded)
        self._folder = torch.folder if torch is not None else ""
        self._gone: Sequence[GraphBreak] = ()
        self._again = None if observation.target.rebuilt else observation.again(seen.report)
        program = None if self._again is None else Gate(observation, self._again, progress)
        self._gates = Gates(plan, lambda: self._pool(untimed=True), program, seen.report, progress)

    def go(self) -> FixResult:
        """Look for changes, verify them, and run the program with those that were kept."""
        return self._with_process(self._searched)

    def judge(self, given: GivenChange, calls: Plan | None, reason: str) -> FixResult:
        """Verify a given change. Without `calls` to repeat, for this `reason`, only the whole program is run."""
        if calls is None:
            return self._judged(given, None, UnchangedCode(problem=reason))
        return self._with_process(lambda process, baseline: self._judged(given, process, baseline))

    def _pool(self, *, untimed: bool = False) -> WorkerPool:
        streams = Streams(self._plan.label, quiet=self._plan.quiet, once=True)
        return WorkerPool(
            streams, self._plan.timeout, python=self._plan.python, untimed=untimed, sandboxed=self._plan.sandboxed
        )

    def _with_process(self, then: Callable[[ChangeProcess, UnchangedCode], FixResult]) -> FixResult:
        report = self._report
        try:
            with self._pool(untimed=True) as pool, ChangeProcess(pool, self._plan, self._folder) as process:
                announce_repeats(self._plan, report, "about 100 times for each change that is tried")
                self._progress("making the program's calls again")
                try:
                    baseline = process.baseline()
                except WorkerFailed as failure:
                    baseline = UnchangedCode(problem=failure.message)
                if not baseline.repeatable:
                    report.capture.notes.append(_NOT_REPEATABLE)
                return then(process, baseline)
        except Stopped:
            self._note_interrupted()
            self._fixed.unfixed = _all_unfixed(report, report.outcome.message)
            return FixResult(report)

    def _note_interrupted(self) -> None:
        self._report.outcome.status, self._report.outcome.message = "interrupted", how_it_ended()

    def _searched(self, process: ChangeProcess, baseline: UnchangedCode) -> FixResult:
        report, fixed = self._report, self._fixed
        if baseline.problem:
            report.capture.notes.append(f"Nothing could be verified: {baseline.problem}.")
            fixed.unfixed = _all_unfixed(report, baseline.problem)
            return FixResult(report)
        wanted = self._wanted(baseline.compiled.breaks)
        self._announce_runs()
        attempts: list[Attempt] = []
        search = self._search(process, baseline)
        try:
            for _ in range(_MOST_ROUNDS):
                attempts += search.run(list(wanted.values()))
                fixed.evidence, holds = search.together(attempts)
                if not holds and not search.thorough and search.set_aside_state is None:
                    search = self._search(process, baseline, thorough=True)
                    attempts.clear()
                elif not holds or not self._taken_back(search, attempts):
                    break
            else:
                search.set_aside([each for each in attempts if each.status == "verified"], _TOO_MANY_ROUNDS)
        except Stopped:
            self._note_interrupted()
            if search.state.changed and search.set_aside_state is None:
                search.set_aside(attempts, _NOT_GATED)
        self._note_attempts(attempts, wanted, search)
        gone = {each.id for each in self._gone if each.id not in wanted}  # Recorded calls do not meet them.
        if fixed.kept:
            fixed.unfixed = [each for each in fixed.unfixed if each.break_id not in gone]
        try:
            if report.outcome.status != "interrupted" and not self._options.only:
                self._end_recompiles(search)
            if report.outcome.status != "interrupted" and fixed.kept and self._options.bench_seconds:
                assert fixed.evidence is not None
                fixed.evidence.speedup = self._speed(process.changes(search.state.texts), search.state)
        except Stopped:  # What was verified stays.
            self._note_interrupted()
        suggested, cut_short = search.suggested_texts(attempts), search.set_aside_state is not None
        return FixResult(report, process.originals, search.state.texts, suggested, cut_short)

    def _end_recompiles(self, search: FixSearch) -> None:
        """Try the settings that the advice on recompiles names, on top of all kept changes, until one holds."""
        fixed, kept = self._fixed, search.state
        if fixed.kept and fixed.after is not None and not fixed.after.recompiles:
            return
        for candidate in candidates(self._report):
            self._progress(f"trying against recompiles: {title_of(candidate.settings)}")
            state = replace(kept, settings=merged(kept.settings, candidate.settings), changed=True)
            record, after = self._tried_against(candidate, state, search)
            record.id = f"f{len(self._report.fixes) + 1}"
            self._report.fixes.append(record)
            if record.status == "verified":
                search.state, fixed.evidence, fixed.after = state, record.evidence, after
                fixed.kept.append(record.id)
                fixed.setting = as_python(state.settings)
            if record.status != "rejected":
                return

    def _tried_against(
        self, candidate: SettingCandidate, state: FixState, search: FixSearch
    ) -> tuple[Fix, CompileCounts | None]:
        """The record of settings tried against recompiles, and what the whole program compiles with them, if it was
        run.
        """
        asked = CheckRequest(settings=state.settings, draws=DRAWS)
        tried = search.process.check(state.texts, asked)
        calls = search.baseline.counts
        evidence = search.evidence(tried, calls)
        record = Fix(
            "", [], "setting", "rejected", title_of(candidate.settings), evidence=evidence,
            setting=as_python(candidate.settings), recompiles=[each.id for each in candidate.recompiles],
        )  # fmt: skip
        record.reason = reason_against(tried, state.loses) or less_compiled(evidence)
        if calls.recompiles and tried.after is not None:  # Else what set them off is not met in the calls alone.
            record.reason = record.reason or no_better(calls, tried.after.counts)
        if record.reason:
            return record, None
        verdict, after = self._through(search.process, state, evidence), None
        record.reason = verdict.different
        if verdict.after is not None:
            after = counts_of(verdict.after)
            record.recompiles = [each.id for each in gone(candidate.recompiles, verdict.after.recompiles)]
            record.reason = record.reason or no_better(self._fixed.after or counts_of(self._report), after)
        if not record.reason:
            record.reason = "; ".join(verdict.unchecked)
            record.status = "suggested" if record.reason else "verified"
        return record, after

    def _search(self, process: ChangeProcess, baseline: UnchangedCode, *, thorough: bool = False) -> FixSearch:
        seconds = self._options.search_seconds
        return FixSearch(process, baseline, self._progress, calls=self._calls, seconds=seconds, thorough=thorough)

    def _taken_back(self, search: FixSearch, attempts: Sequence[Attempt]) -> bool:
        """Whether a kept change failed a gate and was taken back: the first one with which the changes kept until then
        fail. What could only not be checked is suggested.
        """
        whole, process = self._fixed.evidence, search.process
        kept = [each for each in attempts if each.status == "verified"]
        if not kept or whole is None:
            return False
        verdict = self._through(process, search.state, whole)
        if not verdict.different:
            if verdict.after is not None:
                self._fixed.after = counts_of(verdict.after)
                after = verdict.after.graph_breaks
                self._gone = _moved(self._report.graph_breaks, after, process.originals, search.state.texts)[0]
            for each in kept:
                each.evidence = self._gates.noted(each.evidence, whole)
            if verdict.unchecked:
                search.set_aside(kept, "; ".join(verdict.unchecked))
            return False
        low, high = 0, len(kept) - 1  # The first of them with which it fails.
        while low < high:
            middle = (low + high) // 2
            state = kept[middle].proposed
            assert state is not None
            found = self._through(process, state, whole)
            low, high = (low, middle) if found.different else (middle + 1, high)
            verdict = found if found.different else verdict
        search.take_back(kept[low], kept[low + 1 :], verdict.different)
        return True

    def _through(self, process: ChangeProcess, state: FixState, evidence: Evidence) -> GateVerdict:
        with TemporaryFolder() as folder:
            put = {}
            for number, file in enumerate(changed(process.originals, state.texts)):
                source = folder / str(number)
                source.write_bytes(source_of(process.originals, file).content_of(state.texts[file]))
                shutil.copymode(file, source)
                put[file] = str(source)
            return self._gates.judge(state, process.changes(state.texts), self._with(state), put, evidence)

    def _announce_runs(self) -> None:
        if self._again is not None:
            self._progress(self._again.announced("twice unchanged, and once with each set of changes that holds"))

    def _judged(self, given: GivenChange, process: ChangeProcess | None, baseline: UnchangedCode) -> FixResult:
        """Verify the given change as the only fix of the report."""
        report, fixed = self._report, self._fixed
        tried = CheckedChange(baseline.problem)
        if process is not None and not baseline.problem:
            process.originals = dict(given.originals)
            self._progress("comparing the calls before and after")
            tried = process.check(given.texts, CheckRequest(draws=DRAWS, sides=list(given.sides)))
        evidence = evidence_of(tried, calls=self._calls, before=baseline.compiled.counts, share=baseline.share)
        evidence.sides = [BranchSide(Location(file, line), (file, line) in tried.lines) for file, line in given.sides]
        fixed.evidence, fixed.patch = evidence, patch_of(given.originals, given.texts, Path(working_folder()))
        files = [*given.put]
        record = Fix("f1", [], "source", "verified", "The change", files=files, patch=fixed.patch, evidence=evidence)
        report.fixes = [record]
        uncompared = not tried.own or bool(tried.problem)
        against = reason_against(tried, frozenset()) or less_compiled(evidence)
        state = FixState(dict(given.texts), {}, tried.after or baseline.compiled, changed=True)
        self._announce_runs()
        verdict = self._gates.judge(
            state, given.changes, self._with(state), given.put, evidence, given.uncovered, calls=not uncompared
        )
        fixed.after = counts_of(verdict.after) if verdict.after is not None else None
        after = verdict.after.graph_breaks if verdict.after is not None else tried.after.breaks if tried.after else []
        gone, new = _moved(report.graph_breaks, after, given.originals, given.texts)
        record.breaks = [each.id for each in gone]
        fixed.unfixed = [_unfixed(each, "it is still there") for each in report.graph_breaks if each not in gone]
        worst = f"the graph breaks at {line_words(new[0].location)} then: {new[0].gb_type}" if new else ""
        rejected = verdict.different or ("" if uncompared else against) or worst or ("" if gone else _NONE_ENDED)
        unchecked = [*([against] if uncompared else []), *_unseen(evidence.sides, tried), *verdict.unchecked]
        if rejected or unchecked:
            record.status, record.reason = ("rejected", rejected) if rejected else ("suggested", "; ".join(unchecked))
        fixed.kept = [record.id] if record.status == "verified" else []
        if fixed.kept and self._options.bench_seconds and process is not None:
            evidence.speedup = self._speed(given.changes, state)
        return FixResult(report, given.originals, given.texts)

    @property
    def _calls(self) -> int:
        return max(1, self._report.capture.recorded_calls)

    def _wanted(self, found: Sequence[GraphBreak]) -> dict[str, GraphBreak]:
        """The breaks of the baseline to end, by their ids in the report."""
        known = self._report.graph_breaks
        asked = [each for each in known if not self._options.only or each.id in self._options.only]
        own = {each.id: [one for one in found if same_break(one, each, {}, {})] for each in asked}
        there = {name: ones[0] for name, ones in own.items() if ones}
        # Under fullgraph the run ended with the first break: the others have no id in it.
        if not self._options.only and any(each.effect == "error" for each in known):
            there |= {f"{each.id}+": each for each in found if not any(same_break(each, one, {}, {}) for one in known)}
        return there

    def _note_attempts(self, attempts: Sequence[Attempt], wanted: Mapping[str, GraphBreak], search: FixSearch) -> None:
        """Add the records of all attempts, and of the breaks that none of them ended."""
        report, fixed = self._report, self._fixed
        names = {id(broken): name for name, broken in wanted.items()}
        root = working_folder()
        last = {(id(each.broken), each.title): each for each in attempts}  # What was tried again counts as it was then.
        for number, each in enumerate(last.values(), 1):
            known = {**search.originals, **each.before.texts}  # With files that only a later change led to.
            report.fixes.append(fix_of(f"f{number}", each, known, names, Path(root), search.originals))
        fixed.kept = [each.id for each in report.fixes if each.status == "verified"]
        state = search.set_aside_state or search.state
        fixed.patch = patch_of(search.originals, state.texts, Path(root))
        fixed.setting = as_python(state.settings)
        files = changed(search.originals, search.state.texts)
        fixed.libraries = [file for file in files if is_library(file)]
        ended = {name for each in report.fixes if each.status == "verified" for name in each.breaks}
        reasons = {name: each.reason for each in report.fixes if each.reason for name in each.breaks}
        for broken in report.graph_breaks:
            if broken.id not in ended and (not self._options.only or broken.id in self._options.only):
                not_met = _OF_A_BACKEND if broken.gb_type.startswith(_BACKEND) else _NOT_REPLAYED
                missed = _NOTHING_FITS if broken.id in wanted else not_met
                if search.stopped_early and broken.id in wanted:
                    missed = f"the search ended after {self._options.search_seconds:g} s (--search-seconds)"
                if report.outcome.status == "interrupted" and broken.id in wanted:
                    missed = "the run was interrupted before a change was found"
                reason = reasons.get(broken.id) or missed
                fixed.unfixed.append(_unfixed(broken, reason))

    def _speed(self, changes: list[SourceChange], state: FixState) -> Speedup | None:
        """Compiled calls before vs after, in pairs of processes that take turns; None if that fails."""
        before, after = self._gates.request(), self._gates.request_with(state, changes)
        generator = random.Random(0)
        pairs: list[Pair] = []
        control: list[Pair] = []
        self._progress(f"measuring its speed, for about {self._options.bench_seconds:g} s")
        ends = time.monotonic() + self._options.bench_seconds
        try:
            with self._pool() as pool:
                for _ in range(_PAIRS):
                    with schedule.SharedArm(pool, Arm(before, None)) as first:
                        for request, samples in generator.sample([(after, pairs), (before, control)], 2):
                            taken = first.take_turns(Arm(request, None), _PAIR_SECONDS, generator)
                            samples.append(taken.pair)
                    if time.monotonic() > ends:
                        break
        except WorkerFailed as failure:
            self._report.capture.notes.append(f"The gain in speed is not known: {failure.message}.")
        return stats.speedup(pairs, control)

    def _with(self, state: FixState) -> Observation:
        return replace(
            self._observation, changes=dict(state.texts), settings=as_python(state.settings), bundle=False,
        )  # fmt: skip


def fix_of(
    name: str, attempt: Attempt, texts: Mapping[str, str], names: Mapping[int, str], root: Path,
    originals: Mapping[str, str],
) -> Fix:  # fmt: skip
    """The record of an attempt. `texts` are the files before it, `originals` the unchanged ones."""
    before, after = attempt.before, attempt.proposed
    files = [] if after is None else [file for file, text in after.texts.items() if text != texts[file]]
    breaks = [names[id(each)] for each in [attempt.broken, *attempt.ends] if id(each) in names]
    return Fix(
        id=name,
        breaks=list(dict.fromkeys(breaks)),
        kind=attempt.kind,
        status=attempt.status,
        title=attempt.title,
        rewrite=attempt.rewrite,
        reason=attempt.reason,
        files=files,
        patch="" if after is None else "".join(
            patch_of_file(originals, file, texts[file], after.texts[file], root) for file in files
        ),
        setting="" if after is None else as_python(
            {key: value for key, value in after.settings.items() if before.settings.get(key) != value}
        ),
        evidence=attempt.evidence,
    )  # fmt: skip


def counts_of(report: Report) -> CompileCounts:
    return CompileCounts(len(report.graph_breaks), len(report.graphs), len(report.recompiles))


def _moved(
    before: Sequence[GraphBreak], after: Sequence[GraphBreak], originals: Mapping[str, str], texts: Mapping[str, str]
) -> tuple[list[GraphBreak], list[GraphBreak]]:
    """The breaks that are gone, and those that are new."""
    gone = [one for one in before if not any(same_break(one, each, originals, texts) for each in after)]
    return gone, [each for each in after if not any(same_break(one, each, originals, texts) for one in before)]


def _unseen(sides: Sequence[BranchSide], tried: CheckedChange) -> list[str]:
    """What no call reached: a side of a branch of the unchanged code, or a new line."""
    known = [f"no call takes the side at {line_words(each.place)}" for each in sides if not each.taken]
    new = [f"no call runs all of line {line} of the changed {Path(file).name}" for file, line in tried.unrun]
    return [*known[:1], *new[:1]] if tried.own else []


def _unfixed(broken: GraphBreak, reason: str) -> Unfixed:
    return Unfixed(broken.id, broken.gb_type, broken.location, reason)


def _all_unfixed(report: Report, reason: str) -> list[Unfixed]:
    return [_unfixed(each, reason) for each in report.graph_breaks]

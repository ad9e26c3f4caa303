"""The road of `dynalyze fix`: run the program, prove changes on its calls, prove them together, run it with them."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dynalyze.bench import schedule, stats
from dynalyze.bench.measure import planned
from dynalyze.bench.plan import Plan, worker_request
from dynalyze.bench.schedule import Arm
from dynalyze.bench.workers import Stopped, WorkerFailed, WorkerPool
from dynalyze.capture.events import CompileCall, TorchLoaded
from dynalyze.capture.regions import Instead
from dynalyze.files.paths import working_folder
from dynalyze.fix.attempts import Attempt, State, giving_numbers
from dynalyze.fix.callers import CallingLines
from dynalyze.fix.lines import line_before
from dynalyze.fix.patches import changed, is_library, patch_of, patch_of_file
from dynalyze.fix.proof import DRAWS, Baseline, Prover
from dynalyze.fix.search import RAISES, Search, evidence_of, reason_against
from dynalyze.fix.settings import as_python, numbers_of
from dynalyze.launch.interrupts import how_it_ended
from dynalyze.launch.observe import Observation, Observed, observed
from dynalyze.launch.streams import Streams
from dynalyze.report import GraphBreak, Location, Report
from dynalyze.report.fixes import Counts, Fix, Fixed, Side, Unfixed
from dynalyze.report.fixes import Instead as CompiledInstead
from dynalyze.report.measurements import Pair, Speedup
from dynalyze.text.amounts import listed
from dynalyze.text.errors import UsageError
from dynalyze.words.report import line_words

SIDE_EFFECTS = frozenset({"printed", "logged", "warned", RAISES})
"""What compiled code may lack after a change that somebody made: it is told, for them to judge."""

_PAIRS = 5
_PAIR_SECONDS = 2.0
_NOT_REPLAYED = "it is not met when the recorded calls are made again, so nothing can be proved of it"
_BACKEND = "Backend compiler"
_NOT_DRAWN = "the run was interrupted before it was proved on other inputs in compiled code"
_OF_A_BACKEND = "the backend raises there, which has no part in the proof: only Dynamo's graphs are compared"
_NOT_REPEATABLE = (
    "The program's calls do not do the same twice as they are: what differs by itself could not be compared."
)
_NONE_ENDED = "no graph break ends by it"
_NOTHING_FITS = "no change is known that fits it"


@dataclass
class Fixing:
    """What came of it. `originals` and `texts` are the files before and after all that was kept; `suggested` are they
    with what is suggested too, which is in the patch where a proof was `cut_short`.
    """

    report: Report
    originals: Mapping[str, str] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    suggested: Mapping[str, str] = field(default_factory=dict)
    cut_short: bool = False


@dataclass(frozen=True)
class Wish:
    """What is asked for: only the breaks of these ids, where any are named, the seconds after which no more changes are
    tried, and the gain in speed within some seconds (0: not at all).
    """

    only: tuple[str, ...] = ()
    bench_seconds: float = 60.0
    search_seconds: float = 900.0


def fix(observation: Observation, plan: Plan, wish: Wish, progress: Callable[[str], None]) -> Fixing:
    """Run the target, and look for changes that end its graph breaks.

    Raises:
        UsageError: what was asked for cannot be run, or a break of `wish.only` is none.
    """
    with observed(observation) as seen:
        report = seen.report
        known = {each.id for each in report.graph_breaks}
        if unknown := [name for name in wish.only if name not in known]:
            there = f"there are {', '.join(sorted(known))}" if known else "it has none"
            raise UsageError(f"--only {unknown[0]}: no graph break of this run; {there}")
        report.fixed = Fixed(before=counts_of(report), reproduce=list(report.command))
        if not report.graph_breaks:
            return Fixing(report)
        ready, source = planned(seen, observation.target, plan)
        if ready is None:
            note_nothing_proved(report, source.reason)
            report.fixed.unfixed = [_unfixed(each, source.reason) for each in report.graph_breaks]
            return Fixing(report)
        return Road(observation, ready, wish, progress, seen).go()


def note_nothing_proved(report: Report, reason: str) -> None:
    """Say that nothing could be proved, and how the program ended where it did not come to its end."""
    said = report.outcome.message.rstrip(".") if report.outcome.status == "failed" else ""
    how = f" {said}." if said else ""
    report.capture.notes.append(f"Nothing could be proved: {reason}.{how}")


class Road:
    """What `fix` and `verify` do with a program that was observed."""

    def __init__(
        self, observation: Observation, plan: Plan, wish: Wish, progress: Callable[[str], None], seen: Observed
    ) -> None:
        self._observation = observation
        self._plan = plan
        self._wish = wish
        self._progress = progress
        self._report = seen.report
        torch = seen.log.last(TorchLoaded)
        self._folder = torch.folder if torch is not None else ""
        calls = [each for _, each in seen.log.all() if isinstance(each, CompileCall)]
        by_program = [] if observation.target.rebuilt else calls
        self._compiled_at = {each.name: f"{Path(each.file).name}:{each.line}" for each in by_program}

    def go(self) -> Fixing:
        """Look for changes, prove them, and run the program with those that were kept."""
        return self._with_prover(self._searched)

    def judge(self, originals: Mapping[str, str], texts: Mapping[str, str], sides: Sequence[tuple[str, int]]) -> Fixing:
        """Prove this change. `sides` are lines, one in each side of the branches that it concerns."""
        return self._with_prover(lambda prover, baseline: self._judged(
            prover, baseline, State(dict(originals), {}, baseline.compiled), dict(texts), sides
        ))  # fmt: skip

    def _with_prover(self, then: Callable[[Prover, Baseline], Fixing]) -> Fixing:
        with self._pool(untimed=True) as pool:
            try:
                return self._within(pool, then)
            except Stopped:
                message = how_it_ended()
                self._report.outcome.status, self._report.outcome.message = "interrupted", message
                assert self._report.fixed is not None
                self._report.fixed.unfixed = [_unfixed(each, message) for each in self._report.graph_breaks]
                return Fixing(self._report)

    def _pool(self, *, untimed: bool = False) -> WorkerPool:
        streams = Streams(self._plan.label, quiet=self._plan.quiet, once=True)
        return WorkerPool(streams, self._plan.timeout, python=self._plan.python, untimed=untimed)

    def _within(self, pool: WorkerPool, then: Callable[[Prover, Baseline], Fixing]) -> Fixing:
        report, fixed = self._report, self._report.fixed
        assert fixed is not None
        with Prover(pool, self._plan, self._folder) as prover:
            self._progress("making the program's calls again")
            try:
                baseline = prover.baseline()
            except WorkerFailed as failure:
                baseline = Baseline.failed(failure.message)
            if baseline.problem:
                report.capture.notes.append(f"Nothing could be proved: {baseline.problem}.")
                fixed.unfixed = [_unfixed(each, baseline.problem) for each in report.graph_breaks]
                return Fixing(report)
            if not baseline.repeatable:
                report.capture.notes.append(_NOT_REPEATABLE)
            return then(prover, baseline)

    def _searched(self, prover: Prover, baseline: Baseline) -> Fixing:
        report, fixed = self._report, self._report.fixed
        assert fixed is not None
        wanted = self._wanted(baseline.compiled.breaks)
        try:
            for thorough in (False, True):
                seconds = self._wish.search_seconds
                search = Search(prover, baseline, self._progress, calls=self._calls, seconds=seconds, thorough=thorough)
                attempts: list[Attempt] = []
                attempts += search.run(list(wanted.values()))
                fixed.evidence, holds = search.together(attempts)
                if holds or thorough or search.set_aside_state is not None:
                    break
        except Stopped:
            report.outcome.status, report.outcome.message = "interrupted", how_it_ended()
            if search.state.changed:
                search.set_aside(attempts, _NOT_DRAWN)
        proved = search.state
        if report.outcome.status != "interrupted":
            attempts, search.state = self._in_the_calls(attempts, search, baseline.calling, wanted)
        self._told(attempts, wanted, search)
        if fixed.kept and report.outcome.status != "interrupted":
            try:
                after = self._concluded(prover, proved, search.state)
            except Stopped:  # What was proved stays.
                report.outcome.status, report.outcome.message = "interrupted", how_it_ended()
            else:
                gone, _ = _moved(report.graph_breaks, after, prover.originals, search.state.texts)
                names = {each.id for each in gone if each.id not in wanted}
                fixed.unfixed = [each for each in fixed.unfixed if each.break_id not in names]
        suggested, cut_short = search.suggested_texts(attempts), search.set_aside_state is not None
        return Fixing(report, prover.originals, search.state.texts, suggested, cut_short)

    def _in_the_calls(
        self, attempts: list[Attempt], search: Search, calling: CallingLines, wanted: Mapping[str, GraphBreak]
    ) -> tuple[list[Attempt], State]:
        """What was tried and kept, with numbers of Python given in the program's own lines, where it then ends as it
        did and the breaks are gone.
        """
        if (found := giving_numbers(attempts, search.state, calling, search.originals)) is None:
            return attempts, search.state
        self._progress("running the program with the lines changed that call its model")
        kept = [broken for each in attempts if each.status == "proved" for broken in [each.broken, *each.ends]]
        with observed(self._with(found[1])) as seen:
            texts = found[1].texts
            gone, new = _moved(self._report.graph_breaks, seen.report.graph_breaks, search.originals, texts)
            ends_alike = seen.report.outcome.status == self._report.outcome.status
        names = {name for name, broken in wanted.items() if any(broken is each for each in kept)}
        holds = ends_alike and not new and names <= {each.id for each in gone}
        return found if holds else (attempts, search.state)

    def _judged(
        self, prover: Prover, baseline: Baseline, before: State, texts: dict[str, str],
        sides: Sequence[tuple[str, int]],
    ) -> Fixing:  # fmt: skip
        """One change, whoever made it, as the only fix of the report."""
        report, fixed = self._report, self._report.fixed
        assert fixed is not None
        prover.originals = before.texts
        self._progress("comparing the calls before and after")
        tried = prover.prove(texts, {}, draws=DRAWS, sides=sides)
        evidence = evidence_of(tried, calls=self._calls, before=baseline.compiled.counts)
        ran = {(file, line) for file, line in tried.proof.get("lines", ())}
        evidence.sides = [Side(Location(file, line), (file, line) in ran) for file, line in sides]
        root = Path(working_folder())
        fixed.patch, fixed.evidence = patch_of(before.texts, texts, root), evidence
        told = Fix("f1", [], "source", "proved", "The change", files=list(texts), patch=fixed.patch, evidence=evidence)
        report.fixes = [told]
        state = State(texts, {}, tried.after or before.compiled, changed=True)
        if reason := reason_against(tried, SIDE_EFFECTS):
            uncompared = not tried.proof or bool(tried.proof.get("problem"))
            told.status, told.reason = "suggested" if uncompared else "rejected", reason
        after = self._concluded(prover, state, state, timed=told.status == "proved")
        gone, new = _moved(report.graph_breaks, after, before.texts, texts)
        told.breaks = [each.id for each in gone]
        fixed.unfixed = [_unfixed(each, "it is still there") for each in report.graph_breaks if each not in gone]
        if told.status == "proved" and (new or not gone):
            worst = f"the graph breaks at {line_words(new[0].location)} then: {new[0].gb_type}" if new else _NONE_ENDED
            told.status, told.reason = "rejected", worst
        fixed.kept = [told.id] if told.status == "proved" else []
        return Fixing(report, before.texts, texts)

    @property
    def _calls(self) -> int:
        return max(1, self._report.capture.recorded_calls)

    def _concluded(self, prover: Prover, proved: State, told: State, *, timed: bool = True) -> list[GraphBreak]:
        """What the change gains, as it was `proved` on recorded calls, and what the whole program compiles with it, as
        it is `told`: its breaks then.
        """
        fixed = self._report.fixed
        assert fixed is not None and fixed.evidence is not None
        if timed and self._wish.bench_seconds:
            fixed.evidence.speedup = self._speed(prover, proved)
        return self._run_again(told)

    def _wanted(self, found: Sequence[GraphBreak]) -> dict[str, GraphBreak]:
        """The breaks of the baseline that are to end, by the ids that they have in the report."""
        known = self._report.graph_breaks
        asked = [each for each in known if not self._wish.only or each.id in self._wish.only]
        own = {each.id: [one for one in found if _is_same(one, each)] for each in asked}
        there = {name: ones[0] for name, ones in own.items() if ones}
        # Under fullgraph the run ended with the first break: the others have no id in it.
        if not self._wish.only and any(each.effect == "error" for each in known):
            there |= {f"{each.id}+": each for each in found if not any(_is_same(each, one) for one in known)}
        return there

    def _told(self, attempts: Sequence[Attempt], wanted: Mapping[str, GraphBreak], search: Search) -> None:
        """The records of what was tried, and of what nothing ended."""
        report, fixed = self._report, self._report.fixed
        assert fixed is not None
        names = {id(broken): name for name, broken in wanted.items()}
        root = working_folder()
        last = {(id(each.broken), each.title): each for each in attempts}  # What was tried again counts as it was then.
        for number, each in enumerate(last.values(), 1):
            known = {**search.originals, **each.before.texts}  # With files that only a later change led to.
            report.fixes.append(
                fix_of(f"f{number}", each, known, names, Path(root), self._compiled_at, search.originals)
            )
        fixed.kept = [each.id for each in report.fixes if each.status == "proved"]
        told = search.set_aside_state or search.state
        fixed.patch = patch_of(search.originals, told.texts, Path(root))
        fixed.setting = _lines_of(told, self._compiled_at)
        files = changed(search.originals, search.state.texts)
        fixed.libraries = [file for file in files if is_library(file)]
        ended = {name for each in report.fixes if each.status == "proved" for name in each.breaks}
        # A list in place of a tensor is what is tried last: that it fits nowhere says little about the break.
        telling = [each for each in report.fixes if each.reason and each.rewrite != "numbers-of-python"]
        reasons = {name: each.reason for each in telling for name in each.breaks}
        for broken in report.graph_breaks:
            if broken.id not in ended and (not self._wish.only or broken.id in self._wish.only):
                missed = _NOTHING_FITS if broken.id in wanted else _why_not_replayed(broken)
                if search.stopped_early and broken.id in wanted:
                    missed = f"the search ended after {self._wish.search_seconds:g} s (--search-seconds)"
                if report.outcome.status == "interrupted" and broken.id in wanted:
                    missed = "the run was interrupted before a change was found"
                reason = reasons.get(broken.id) or missed
                fixed.unfixed.append(_unfixed(broken, reason))

    def _speed(self, prover: Prover, state: State) -> Speedup | None:
        """The compiled calls before and after, in pairs of processes that take turns; None where that fails."""
        configuration = self._plan.configurations_on(self._plan.device or "cpu")[0]
        before = worker_request(self._plan, self._plan.works[0], configuration)
        settings = "\n".join(filter(None, [configuration.settings, as_python(state.settings)]))
        after = replace(
            before, configuration=replace(configuration, settings=settings, regions=state.instead.regions,
                                          numbers=numbers_of(state.settings)),
            extra={"changes": prover.changes(state.texts)},
        )  # fmt: skip
        generator = random.Random(0)
        pairs: list[Pair] = []
        control: list[Pair] = []
        self._progress(f"measuring its speed, for about {self._wish.bench_seconds:g} s")
        ends = time.monotonic() + self._wish.bench_seconds
        try:
            with self._pool() as pool:
                for _ in range(_PAIRS):
                    for request, samples in generator.sample([(after, pairs), (before, control)], 2):
                        arms = Arm(before, None), Arm(request, None)
                        samples.append(schedule.take_turns(pool, *arms, _PAIR_SECONDS, generator)[0])
                    if time.monotonic() > ends:
                        break
        except WorkerFailed as failure:
            self._report.capture.notes.append(f"The gain in speed is not known: {failure.message}.")
        return stats.speedup(pairs, control)

    def _with(self, state: State) -> Observation:
        """The program with some changes."""
        return replace(
            self._observation, changes=dict(state.texts), settings=as_python(state.settings),
            regions=state.instead.regions, numbers=numbers_of(state.settings), bundle=False,
        )  # fmt: skip

    def _run_again(self, state: State) -> list[GraphBreak]:
        """The whole program with the changes: what it compiles then."""
        fixed = self._report.fixed
        assert fixed is not None
        self._progress("running the program with the changes")
        with observed(self._with(state)) as seen:
            if seen.report.outcome.status == "interrupted":
                raise Stopped("interrupted")
            fixed.after = counts_of(seen.report)
            if seen.report.outcome.status not in ("complete", "incomplete"):
                self._report.capture.notes.append(
                    f"With the changes the program ended otherwise: {seen.report.outcome.message}"
                )
            return seen.report.graph_breaks


def fix_of(
    name: str, attempt: Attempt, texts: Mapping[str, str], names: Mapping[int, str], root: Path,
    compiled_at: Mapping[str, str], originals: Mapping[str, str],
) -> Fix:  # fmt: skip
    """The record of what was tried for a break. `texts` are the files as they were before, `originals` as they are."""
    before, after = attempt.before, attempt.proposed
    less = after is not None and after.instead != before.instead
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
        setting="" if after is None else _lines_of(replace(
            after, settings={key: value for key, value in after.settings.items() if before.settings.get(key) != value},
        ), compiled_at),
        instead=_instead(after.instead) if after is not None and less else None,
        evidence=attempt.evidence,
    )  # fmt: skip


def _lines_of(state: State, compiled_at: Mapping[str, str]) -> str:
    """What a state sets and compiles, to be pasted. `compiled_at` are places where the program compiles, by class."""
    lines = [as_python(state.settings)]
    if state.instead.regions:
        places = dict.fromkeys(compiled_at[name] for name in state.instead.regions if name in compiled_at)
        where = f" at {listed(list(places))}" if places else ""
        what = "(model)" if len(state.instead.regions) == 1 else f" of {listed(list(state.instead.regions))}"
        lines += [f"# In the place of torch.compile{what}{where}, with its arguments:", state.instead.lines]
    return "\n".join(filter(None, lines))


def _instead(found: Instead) -> CompiledInstead:
    modules = [f"{name}.{path}" for name, paths in found.regions.items() for path in paths]
    return CompiledInstead(modules, found.operators, found.seconds)


def counts_of(report: Report) -> Counts:
    return Counts(len(report.graph_breaks), len(report.graphs), len(report.recompiles))


def _moved(
    before: Sequence[GraphBreak], after: Sequence[GraphBreak], originals: Mapping[str, str], texts: Mapping[str, str]
) -> tuple[list[GraphBreak], list[GraphBreak]]:
    """The breaks that are gone, and those that are new, told by type, file and the line that they had."""

    def was(each: GraphBreak) -> tuple[Any, ...]:
        file, line = each.location.file, each.location.line
        there = line_before(originals[file], texts[file], line) if file in originals else line
        return file, there, each.gb_type

    known = {(each.location.file, each.location.line, each.gb_type) for each in before}
    left = {was(each) for each in after}
    gone = [each for each in before if (each.location.file, each.location.line, each.gb_type) not in left]
    return gone, [each for each in after if was(each) not in known]


def _unfixed(broken: GraphBreak, reason: str) -> Unfixed:
    return Unfixed(broken.id, broken.gb_type, broken.location, reason)


def _is_same(one: GraphBreak, other: GraphBreak) -> bool:
    """Whether a break of one run is that of another one; columns count where both know them."""
    a, b = one.location, other.location
    columns = {a.column, b.column}
    return (a.file, a.line, one.gb_type) == (b.file, b.line, other.gb_type) and (None in columns or len(columns) == 1)


def _why_not_replayed(broken: GraphBreak) -> str:
    return _OF_A_BACKEND if broken.gb_type.startswith(_BACKEND) else _NOT_REPLAYED

"""Checks a change: the model's calls with the unchanged code, in eager, against the changed code in eager and traced.

Traced means compiled with the backend "eager": Dynamo's graph, run by eager's own kernels, so that equal means
bit-identical. Everything runs on one model in one process: only the code of functions is exchanged (`swap`). After the
program's own calls come random inputs, and then inputs that look for sides of a branch that no call has taken. Compared
are outputs, their structure, strides and aliases, inputs and buffers after the call, attributes and globals, gradients
in training, the random numbers drawn, exceptions, and side effects.
"""

from __future__ import annotations

import contextlib
import re
import time
import types
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dynalyze.capture.attach import InProcess
from dynalyze.capture.bench.configure import configured
from dynalyze.capture.bench.failures import one_line
from dynalyze.capture.bench.judge import Runs, judge
from dynalyze.capture.bench.output_capture import RunOutputs
from dynalyze.capture.bench.protocol import Configuration
from dynalyze.capture.bench.state_snapshot import StateSnapshot
from dynalyze.capture.bench.workload import Workload
from dynalyze.capture.fixing.additions import CannotSwap
from dynalyze.capture.fixing.compiled_share import BACKEND, share_of
from dynalyze.capture.fixing.flip_conditions import turned
from dynalyze.capture.fixing.object_state import Remembering
from dynalyze.capture.fixing.random_inputs import (
    CIRCUMSTANCES,
    LESS,
    SEARCHING,
    UNUSED,
    Circumstance,
    DrawnWorkload,
    Kind,
    NoSuchDraw,
)
from dynalyze.capture.fixing.records import (
    Arm,
    BaselineResult,
    CheckRequest,
    CheckResult,
    Compared,
    CompiledShare,
    Draws,
    SourceChange,
)
from dynalyze.capture.fixing.runs import (
    OF_GRADIENTS,
    Endless,
    Run,
    RunDifference,
    RunMaker,
    differences,
    ended_after,
    excused,
    has_gradients,
    is_inexact,
    tolerance_of,
    unlike,
)
from dynalyze.capture.fixing.swap import Swap
from dynalyze.capture.fixing.watching import (
    Effect,
    effects,
    in_addition,
    instructions_run,
    lines_run,
    look,
    without_numbers,
)
from dynalyze.capture.torch_private import dynamo
from dynalyze.capture.torch_private.runtime import UnknownSetting, settings_of_dynamo

_SEED = 1337
_MOST_KEPT = 512 << 20
"""Bytes of tensors of runs that are kept."""
_FEWEST_DRAWS, _MOST_REFUSED = 3, 3
_LEAST_PATIENCE, _PATIENCE, _PATIENCE_OF_COMPILER = 10.0, 20, 12
"""Seconds that a run with drawn inputs may take at least, how often as long as with the program's own, and how much
longer where it is compiled.
"""

_NO_LIMIT = {"recompile_limit": 1_000, "accumulated_recompile_limit": 10_000}
"""Settings under which every draw is compiled: after some recompiles torch would run the rest of them in eager."""

_FIRST = "own, the first time"
"""The run in which happens what happens once for all, as a message that is logged once."""

_OF_THE_MODEL = ("other weights", "other numbers", "other dtype")
"""Circumstances in which the model itself is another one, which its copy in fp64 is not."""

_LACKING = re.compile(r"raises AttributeError: .*no attribute '(\w+)'")
"""A change of a constructor cannot be compared with objects that it has made before."""

_HIGHER_ORDER = {"cond", "while_loop", "scan", "associative_scan", "map"}


class ChangeChecker:
    """Checks changes of one workload. `folder` gets a folder of events for each compile."""

    def __init__(self, workload: Workload, configuration: Configuration, device: str, folder: Path) -> None:
        self._workload = workload
        self._device = device
        self._folder = folder
        self._made = 0
        self._compiled = replace(configuration, name="compiled", compile=True)
        self._traced = replace(self._compiled, name="traced", backend="eager", mode=None, fullgraph=False)
        self._eager = replace(self._traced, compile=False)
        self._state = StateSnapshot(workload.model, _SEED, objects=False)
        self._runs = RunMaker(workload.model, self._state)
        self._remembering = Remembering()
        self._once: set[Effect] = set()
        self._compiles_itself = False
        self._patience = _LEAST_PATIENCE
        self._arms: list[tuple[Arm, Configuration]] = []
        self._own_traced: tuple[Hashable, Run] | None = None
        self._own_result: tuple[Hashable, CheckResult] | None = None
        self._new_code_run: set[tuple[types.CodeType, int]] = set()
        self._before: dict[Hashable, Run] = {}
        self._room = _MOST_KEPT

    def baseline(self) -> BaselineResult:
        """Record what the unchanged code compiles, and whether it does the same twice."""
        began = time.perf_counter()
        with self._remembering.watched():
            once = self._run(self._workload, self._eager)
        self._patience += _PATIENCE * (time.perf_counter() - began)
        again = self._run(self._workload, self._eager)
        self._once = {*once.effects} - {*again.effects}
        if once.raised:
            return BaselineResult(f"the calls fail in eager: {once.raised}")
        with self._recorded() as folder:
            self._compile(self._workload)
        return BaselineResult("", not differences(once, again), folder, self._share())

    def compiled_with(self, settings: dict[str, Any], *, traced: bool = True) -> tuple[str, str]:
        """What the unchanged code compiles with settings of Dynamo: the folder of its events, and what it raises. The
        program's own backend compiles where it is not only `traced`. Raises UnknownSetting.
        """
        how = self._traced if traced else replace(self._compiled, fullgraph=False)
        with self._undone(), self._with(_Change(None, settings)), self._recorded() as folder:
            raised = self._make_calls(how) if traced else self._run(self._workload, how).raised
        return folder, raised

    def _make_calls(self, how: Configuration) -> str:
        """Make each call, without its backward, and compare nothing; returns what is raised."""
        self._runs.restore()
        try:
            with effects([]):
                for step in self._workload.steps(configured(self._workload.model, how, self._device or "cpu")):
                    step.prepare()
                    step.run()
        except (Exception, SystemExit) as error:
            return one_line(error)
        return ""

    def values(self, places: Mapping[tuple[str, int], Sequence[str]]) -> dict[tuple[str, int], dict[str, Any]]:
        """What expressions of some lines were in an eager run."""
        return look(places, lambda: self._run(self._workload, self._eager))

    def check(self, request: CheckRequest) -> CheckResult:
        """Compare, and record what the changed code compiles."""
        result = CheckResult()
        with self._undone():
            try:
                change = _Change.of(request)
                if change.swap is not None:
                    self._runs.held.ignored |= change.swap.put_names
                    self._runs.held.ignored_members |= change.swap.put_members
                    for function in change.swap.functions:
                        self._runs.held.add(function.__name__, function, own=True)
                arms: list[tuple[Arm, Configuration]] = [("eager", self._eager), ("traced", self._traced)]
                self._arms = arms[change.swap is None : 1 + request.traced]
                result = self._own_once(change)
                if request.draws and self._arms and not result.difference:
                    with settings_of_dynamo(_NO_LIMIT):
                        self._draw(result, change, request.draws, request.seconds)
                    with self._with(change):
                        result.share = self._share()
            except (CannotSwap, UnknownSetting) as error:
                result.problem = str(error)
        return result

    @contextlib.contextmanager
    def _undone(self) -> Iterator[None]:
        """Nothing is compiled before the block, and everything is restored after it."""
        dynamo.forget_compiled()
        try:
            yield
        finally:
            self._runs.restore()
            self._runs.held.ignored.clear()
            self._runs.held.ignored_members.clear()
            dynamo.forget_compiled()

    def _own_once(self, change: _Change) -> CheckResult:
        """The result of the program's own calls; they are not repeated for the change that was asked for last."""
        key = tuple(change.changes), repr(change.settings)
        if self._own_result is None or self._own_result[0] != key:
            result = CheckResult()
            self._new_code_run = set()
            self._own(result, change)
            self._own_result = key, result
        return replace(self._own_result[1], draws=Draws())

    def _own(self, result: CheckResult, change: _Change) -> None:
        if change.swap is not None:
            before, result.own["eager"] = self._own_in_eager(result, change, change.swap)
        else:  # What is compiled makes no difference where nothing is.
            before, result.own["eager"] = self._as_it_is(self._workload, "own"), Compared("bitwise")
        result.gradients = has_gradients(before)
        if result.own["eager"].equality == "different":
            lacking = _LACKING.search(result.own["eager"].why)
            made_by = change.swap.maker_of(lacking[1], before.lines) if lacking and change.swap is not None else ""
            if lacking and made_by:
                raise CannotSwap(
                    f"{made_by} makes `{lacking[1]}` with the change, and the objects of the recorded calls were made "
                    "without it"
                )
            return
        with self._with(change):
            with self._recorded() as result.folder:
                traced = self._compile(self._workload)
            if not traced.raised:
                traced = self._run(self._workload, self._traced)
        result.own["traced"] = self._judged("traced", self._workload, before, traced)

    def _own_in_eager(self, result: CheckResult, change: _Change, swap: Swap) -> tuple[Run, Compared]:
        """A run of the unchanged code, and the changed code compared with it."""
        first = self._as_it_is(self._workload, _FIRST)
        before = self._as_it_is(self._workload, "own", swap.codes)
        result.lines = sorted(before.lines)
        with self._with(change):
            # What happens once for all, as a message that is logged once, happens in the first run.
            self._remembering.forget()
            first_after = self._run(self._workload, self._eager)
            with self._watched(change):
                eager = self._run(self._workload, self._eager)
        judged = self._judged("eager", self._workload, first, first_after)
        if judged.equality != "different":
            judged = self._judged("eager", self._workload, before, eager)
        return before, judged

    def _draw(self, result: CheckResult, change: _Change, draws: int, seconds: float) -> None:
        began, seen, found = time.thread_time(), set(result.lines), result.draws  # However busy the machine is.
        kind: Kind = "alike"
        for number in range(draws):
            if number == _FEWEST_DRAWS:  # Other circumstances tell more than the same ones again.
                self._vary(result, change, kind, draws, began + 2 * seconds, seen)
            if found.different or (number >= _FEWEST_DRAWS and time.thread_time() - began > seconds):
                break
            before = self._one_draw(result, change, kind, "", number, seen)
            while before is not None and before.raised and kind in LESS:
                found.tried, found.raised = found.tried - 1, found.raised - 1
                kind = LESS[kind]
                before = self._one_draw(result, change, kind, "", number, seen)
        if draws <= _FEWEST_DRAWS:
            self._vary(result, change, kind, draws, began + 2 * seconds, seen)
        if not found.different and (sides := change.sides - seen):
            self._turn(result, change, sides, seen)
        result.lines = sorted(seen)
        result.unrun = change.swap.unrun(self._new_code_run) if change.swap is not None else []
        if found.tried and found.tried == found.raised:
            found.unproved = "all inputs that were drawn are refused: nothing is known about other inputs"
        elif change.swap is not None and not found.unproved and (unreached := change.swap.unreached(seen)):
            found.unproved = f"no call runs {unreached}, which is changed"
        elif not found.unproved and self._runs.held.cut:
            found.unproved = "its state is too large to be compared as a whole"

    def _vary(
        self, result: CheckResult, change: _Change, kind: Kind, draws: int, ends: float, seen: set[tuple[str, int]]
    ) -> None:  # fmt: skip
        """Compare on inputs of this kind in each other circumstance, and on values that lead to other sides."""
        found = result.draws
        others: list[tuple[Kind, Circumstance]] = [(kind, circumstance) for circumstance in CIRCUMSTANCES]
        for number, (kind, circumstance) in enumerate([*others, *((each, "gradients") for each in SEARCHING)]):
            if found.different or time.thread_time() > ends:
                break
            if kind in SEARCHING and "gradients" not in found.varied:
                circumstance = ""
            for again in range(1 if kind in SEARCHING else _MOST_REFUSED):
                before = self._one_draw(result, change, kind, circumstance, draws + number + 100 * again, seen)
                if before is None or not before.raised:
                    break
            if before is not None and not before.raised:
                result.gradients = result.gradients or has_gradients(before)
                if kind in SEARCHING:
                    found.kinds.append(kind)
                else:
                    found.varied.append(circumstance)

    def _turn(
        self, result: CheckResult, change: _Change, sides: Set[tuple[str, int]], seen: set[tuple[str, int]]
    ) -> None:  # fmt: skip
        """Look at sides that no input reaches, by negating their condition in both versions of the code."""
        for each in change.changes:
            lines = {line for path, line in sides if path == each.path}
            why = ""
            for was, becomes in turned(each, lines) if lines else ():
                others = [other for other in change.changes if other is not each]
                before = _Change(Swap([SourceChange(each.path, each.old, was)]), {})
                after = replace(change, swap=Swap([SourceChange(each.path, each.old, becomes), *others]))
                ran, why = self._compared_turned(result, before, after)
                if not why:
                    seen |= ran & sides
                    result.draws.kinds.append("turned round")
                    break
            if why:
                result.draws.unproved = (
                    f"with its condition turned round, line {min(lines)} gives something else: {why}"
                )

    def _compared_turned(
        self, result: CheckResult, before: _Change, after: _Change
    ) -> tuple[set[tuple[str, int]], str]:
        """The lines that ran before, and what differs; "" for nothing."""
        ran: set[tuple[str, int]] = set()
        circumstance: Circumstance = "gradients" if "gradients" in result.draws.varied else ""
        for workload in (self._workload, DrawnWorkload(self._workload, "near", _SEED, circumstance)):
            with self._with(before), lines_run(before.new_codes, ran):
                one = self._run(workload, self._eager)
            with self._with(after):
                eager = self._run(workload, self._eager)
                self._compile(workload)
                traced = self._run(workload, self._traced)
            dynamo.forget_compiled()
            for arm, other in (("eager", eager), ("traced", traced)):
                found, changed = unlike(arm, one, other)  # type: ignore[arg-type]
                if arm == "eager" and changed:
                    return ran, changed[0]
                if structural := [each for each in found if each.tensor is None or not is_inexact(one, each)]:
                    return ran, structural[0].text
                if found and (far := self._within_tolerance(workload, one, one, other, found, changed)).why:
                    return ran, far.why
                result.draws.effects += [text for text in changed if text not in result.draws.effects]
        return ran, ""

    def _one_draw(
        self, result: CheckResult, change: _Change, kind: Kind, circumstance: Circumstance, number: int,
        seen: set[tuple[str, int]],
    ) -> Run | None:  # fmt: skip
        """Compare on random inputs. Returns the run of the unchanged code; None if the circumstance does not apply."""
        found = result.draws
        try:
            drawn = DrawnWorkload(self._workload, kind, _SEED + 1000 * (number + 1), circumstance)
            with ended_after(self._patience):
                before = self._as_it_is(drawn, (kind, circumstance, number), change.codes_to_watch(seen))
        except (NoSuchDraw, Endless):
            return None
        if circumstance and kind not in SEARCHING and before.raised:
            return before  # What a model refuses it may refuse in another way.
        seen |= before.lines
        try:
            with self._with(change), ended_after(_PATIENCE_OF_COMPILER * self._patience):
                after = {}
                for arm, configuration in self._arms:
                    with self._watched(change) if arm == "eager" else contextlib.nullcontext():
                        after[arm] = self._run(drawn, configuration)
        except Endless:
            found.different = f"inputs drawn {kind}: it does not end, as it did before"
            return before
        if circumstance in UNUSED and "TorchDynamoException" in next(iter(after.values()), before).raised_types:
            return None  # torch.cond and torch.while_loop refuse sides of other strides or dtypes, and say so.
        judged = {arm: self._judged(arm, drawn, before, each) for arm, each in after.items()}
        if not circumstance and kind not in SEARCHING:
            found.tried += 1
            found.raised += bool(before.raised)
            found.bitwise += all(each.equality == "bitwise" for each in judged.values())
        for arm, each in judged.items():
            known = {without_numbers(text) for text in found.effects}
            found.effects += [text for text in each.effects if without_numbers(text) not in known]
            found.as_compiled = found.as_compiled or each.as_compiled
            if each.equality == "different" and not found.different:
                where = f", {circumstance}" if circumstance else ""
                found.different = f"{arm}, inputs drawn {kind}{where}: {each.why}"
        return before

    @contextlib.contextmanager
    def _watched(self, change: _Change) -> Iterator[None]:
        """Note what runs of the new code, until all of it has."""
        if change.swap is None or not change.swap.unrun(self._new_code_run):
            yield
            return
        with instructions_run(change.new_codes, self._new_code_run):
            yield

    def _as_it_is(self, workload: Workload, what: Hashable, codes: Collection[types.CodeType] = ()) -> Run:
        """A run of the unchanged code in which these functions are watched. It is made once for all changes that look
        at the same state, and again if one watches further functions.
        """
        held = self._runs.held
        key = what, len(held), frozenset(held.ignored)
        known = self._before.get(key)
        if known is not None and known.watched.issuperset(codes):
            return known
        watched, lines = frozenset(codes).union(known.watched if known is not None else ()), set[tuple[str, int]]()
        if what == _FIRST:
            self._remembering.forget()
        with lines_run(watched, lines) if watched else contextlib.nullcontext():
            made = replace(self._run(workload, self._eager), watched=watched, lines=lines)
        if known is None:
            self._room -= sum(each.nbytes for each in made.outputs.tensors.values())
        if self._room >= 0:
            self._before[key] = made
        return made

    def _compile(self, workload: Workload) -> Run:
        """Compile until nothing new is compiled, or it raises. Returns the last run."""
        dynamo.forget_compiled()
        first = self._run(workload, self._traced)
        return first if first.raised else self._run(workload, self._traced)

    @contextlib.contextmanager
    def _recorded(self) -> Iterator[str]:
        self._made += 1
        name = f"change{self._made}"
        folder = self._folder / name
        folder.mkdir(mode=0o700)
        recording = InProcess(folder)
        recording.start()
        try:
            yield name
        finally:
            recording.stop()

    @contextlib.contextmanager
    def _with(self, change: _Change) -> Iterator[None]:
        # In eager torch.cond compiles its sides, and has no backward where it may not.
        self._compiles_itself = change.swap is not None and bool(change.swap.new_names & _HIGHER_ORDER)
        try:
            with change.applied():
                yield
        finally:
            self._compiles_itself = False

    def _run(self, workload: Workload, how: Configuration) -> Run:
        target = configured(workload.model, how, self._device or "cpu")
        return self._runs.of(workload, target, stays_eager=not (how.compile or self._compiles_itself))

    def _share(self) -> CompiledShare:
        """How much of the program's own calls runs in compiled graphs now."""
        dynamo.forget_compiled()
        how = replace(self._traced, backend=BACKEND)
        steps = self._workload.steps(configured(self._workload.model, how, self._device or "cpu"))
        found: list[CompiledShare] = []
        with effects([]):
            for last in (False, False, True):  # Until nothing is compiled any more, each from the state as it was.
                self._runs.restore()
                for step in steps:
                    step.prepare()
                    if last:
                        found.append(share_of(step.run))
                    else:
                        step.run()
        self._runs.restore()
        dynamo.forget_compiled()
        return CompiledShare(sum(each.compiled for each in found), sum(each.operators for each in found))

    def _judged(self, arm: Arm, workload: Workload, before: Run, after: Run) -> Compared:
        """Compare two runs. What differs between two eager runs of the unchanged code as well (`again`), or between its
        eager and traced runs, is no difference.
        """
        found, changed = unlike(arm, before, after)
        if not (found or changed):
            return Compared("bitwise")
        again = self._run(workload, self._eager)
        found = excused(found, before, again, after)
        changed = self._not_again(changed, before, again, after)
        # Tracing alone takes nothing away that breaks the graph.
        lost = all(each.startswith("not ") for each in changed)
        if arm == "traced" and (not lost or any(each.tensor is None for each in found)):
            as_it_was = self._traced_before(workload)
            other, changed_anyway = unlike(arm, as_it_was, after)
            names = {each.name for each in other}
            found = [each for each in found if each.name in names]
            changed = [each for each in changed if each in changed_anyway]
        if arm == "eager" and changed:
            return Compared("different", f"side effects differ: {changed[0]}", changed)
        if structural := [each.text for each in found if each.tensor is None or not is_inexact(before, each)]:
            return Compared("different", structural[0], changed)
        if not found:
            return Compared("bitwise", "", changed)
        judged = self._within_tolerance(workload, before, again, after, found, changed)
        wrong = judged.equality == "different" and arm == "traced"
        if wrong and not unlike(arm, self._traced_before(workload), after)[0]:
            return Compared("bitwise", "", changed, as_compiled=True)
        return judged

    def _within_tolerance(
        self,
        workload: Workload,
        before: Run,
        again: Run,
        after: Run,
        found: list[RunDifference],
        changed: list[str],
    ) -> Compared:
        """Compare differing tensors with fp64; without it, with the tolerance alone."""
        keys = {each.tensor for each in found}
        of_copy = getattr(workload, "circumstance", "") in _OF_THE_MODEL
        exact = None if of_copy else self._runs.exact(workload, before)
        runs = [
            RunOutputs({k: t for k, t in each.tensors.items() if k in keys}, each.positions, each.draws)
            for each in (before.outputs, again.outputs, after.outputs)
        ]
        tolerance = tolerance_of(before) * (OF_GRADIENTS if any(key and key[1] == "gradient" for key in keys) else 1)
        for each in judge(Runs(runs[0], runs[1], runs[2], exact, tolerance)):
            anchored = each.facts.get("eager_rmse") is not None
            if not (each.verdict == "equal" or (each.verdict == "benign" and anchored)):
                return Compared("different", f"{each.name}: {each.why or 'another result'}", changed)
        return Compared("tolerance", "", changed)

    def _not_again(self, changed: list[str], before: Run, again: Run, after: Run) -> list[str]:
        """The side effects that differ, without those that differ between two runs of the same code, or happen once."""
        once = {in_addition(each) for each in self._once}
        changed = [each for each in changed if each not in once]
        if not changed or before.effects == again.effects:
            return changed
        if after.effects == again.effects:
            return [each for each in changed if each.startswith("raises")]
        bare = [[(what, without_numbers(text)) for what, text in each.effects] for each in (before, again, after)]
        return [] if bare[2] in bare[:2] else changed

    def _traced_before(self, workload: Workload) -> Run:
        """A traced run of the unchanged code; that of the program's own calls is made once."""
        key = len(self._runs.held), frozenset(self._runs.held.ignored)
        own = workload is self._workload
        if own and self._own_traced is not None and self._own_traced[0] == key:
            return self._own_traced[1]
        self._compile(workload)
        made = self._run(workload, self._traced)
        dynamo.forget_compiled()
        if own:
            self._own_traced = key, made
        return made


@dataclass(frozen=True)
class _Change:
    """A change to verify: other code for functions, settings of Dynamo, or both. `sides` are lines that random inputs
    should reach.
    """

    swap: Swap | None
    settings: dict[str, Any]
    sides: frozenset[tuple[str, int]] = frozenset()

    @classmethod
    def of(cls, request: CheckRequest) -> _Change:
        """Raises CannotSwap."""
        swap = Swap(request.changes) if request.changes else None
        return cls(swap, request.settings, frozenset(request.sides))

    @property
    def changes(self) -> Sequence[SourceChange]:
        return self.swap.changes if self.swap is not None else ()

    def codes_to_watch(self, seen: set[tuple[str, int]]) -> Collection[types.CodeType]:
        """The functions whose lines still matter: none once everything to be reached was seen."""
        if self.swap is None or not (self.sides - seen or self.swap.unreached(seen)):
            return ()
        return self.swap.codes

    @property
    def new_codes(self) -> set[types.CodeType]:
        """The code that functions have while it is applied."""
        return self.swap.new_codes if self.swap is not None else set()

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """Run the block with the change. What was compiled with it before is still there."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(settings_of_dynamo(self.settings))
            if self.swap is not None:
                stack.enter_context(self.swap.applied())
            yield

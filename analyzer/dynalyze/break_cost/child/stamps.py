"""Where the time of a call goes: stamps the beginning and end of each compiled graph, and of each rest of a function
after a graph break, in a process of its own whose compiles were recorded.

Nothing is recompiled for it: what compiled code calls by name is replaced by a function that stamps and calls on.
Passes with and without stamps take turns. Each interval between two stamps has an owner, found in a few untimed passes
in which a profile function sees which functions run; a pass takes the sum of its intervals.
"""

from __future__ import annotations

import contextlib
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch

from dynalyze.break_cost.child import GuardTime, Kind, Segment, StampedPasses
from dynalyze.break_cost.child.guards import guard_price
from dynalyze.capture.bench.timing import ClockTimer
from dynalyze.capture.bench.workload import Step, run_untimed
from dynalyze.capture.installed import is_torchs
from dynalyze.capture.torch_private import compiled_code, dynamo
from dynalyze.capture.torch_private.compiled_code import BACKWARD_NODE, RESUME_PREFIX, CompiledVersion
from dynalyze.capture.torch_private.runtime import GRAPH_PREFIX

_FEWEST_ROUNDS, _MOST_ROUNDS, _PATIENCE = 6, 2000, 4.0
_CALIBRATING_EVERY = 4
_SHORT_MS = 2.0  # Of a pass: below it, what another kind of pass left in the caches would make a difference.
_USUAL_STAMP_MS = 0.0005
_IN_COLD_CACHES = 5.0  # Times a stamp in a loop of nothing else: more is the machine's doing.
_CALLS = 2000
_CLEARLY, _ENOUGH = 3.0, 8
_LARGE = 0.25
_MOST_SEGMENTS = 4000

_WATCHED = 4
_OF_BACKWARD = "backward "

Mark = tuple[str, str]
"""What was stamped: ("graph", id), ("end", id), ("resume", name), ("back", name), of backward graphs too."""


@dataclass
class _PricedPlace:
    """A global that compiled code calls, and its replacements: `once` stamps, `twice` stamps its stamps again."""

    scope: dict[str, Any]
    name: str
    original: Any
    once: Any
    twice: Any


class Stamps:
    """Replaces graphs and rests of functions while passes are stamped."""

    def __init__(self) -> None:
        self.log: list[tuple[Mark, int]] = []
        self.met: Callable[[str, dict[str, Any]], None] | None = None
        self._places: list[_PricedPlace] = []

    def add(self, scope: dict[str, Any], name: str, version: CompiledVersion) -> None:
        """Stamp the global `name`, which `version` calls, from now on."""
        if any(place.scope is scope and place.name == name for place in self._places):
            return
        original = scope[name]
        ignored: list[tuple[Mark, int]] = []
        if name.startswith(GRAPH_PREFIX):
            once = self._graph(original, version.compile_id, self.log)
            twice = self._graph(once, version.compile_id, ignored)
        else:
            once = _resume(original, name, self.log)
            twice = _resume(once, name, ignored)
        self._places.append(_PricedPlace(scope, name, original, once, twice))

    @contextlib.contextmanager
    def installed(self, *, twice: bool = False) -> Iterator[None]:
        for place in self._places:
            place.scope[place.name] = place.twice if twice else place.once
        try:
            yield
        finally:
            for place in self._places:
                place.scope[place.name] = place.original

    def _graph(self, original: Callable[..., Any], compile_id: str, log: list[tuple[Mark, int]]) -> Callable[..., Any]:
        begun, ended, now = ("graph", compile_id), ("end", compile_id), time.perf_counter_ns
        backward, grad, own = _OF_BACKWARD + compile_id, torch.is_grad_enabled, log is self.log
        begun_backward, ended_backward = ("graph", backward), ("end", backward)

        # Everything in one frame: Dynamo looks at each function that is called from here.
        def graph(*args: Any) -> Any:
            if own and self.met is not None:  # With the arguments and in the state of torch that its guards have seen.
                self.met(compile_id, sys._getframe(1).f_locals)
            log.append((begun, now()))
            outputs = original(*args)
            log.append((ended, now()))
            if grad():
                for output in outputs:
                    node = getattr(output, "grad_fn", None)
                    if node is not None and type(node).__name__ == BACKWARD_NODE:
                        node.register_prehook(lambda *_: log.append((begun_backward, now())))
                        node.register_hook(lambda *_: log.append((ended_backward, now())))
                        break
            return outputs

        compiled_code.leave_in_eager(graph.__code__)
        return graph


def _resume(original: Callable[..., Any], name: str, log: list[tuple[Mark, int]]) -> Callable[..., Any]:
    begun, ended, now = ("resume", name), ("back", name), time.perf_counter_ns

    def resume(*args: Any) -> Any:
        log.append((begun, now()))
        try:
            return original(*args)
        finally:
            log.append((ended, now()))

    compiled_code.leave_in_eager(resume.__code__)
    return resume


def _warm_stamp_ms() -> float:
    """What a stamp takes in a function that does nothing else."""
    taken = []
    for _ in range(5):
        log: list[tuple[Mark, int]] = []
        stamped, began = _resume(lambda: None, "", log), time.perf_counter()
        for _ in range(_CALLS):
            stamped()
        taken.append((time.perf_counter() - began) * 1e3 / len(log))
    return min(taken)


def prices(steps: Sequence[Step], seconds: float) -> StampedPasses:
    """Measure the passes of warm `steps` for about this many seconds.

    `problem`, if not "", says why the segments cannot be trusted.
    """
    by_code = {id(version.code): version for version in compiled_code.versions()}  # Code with a slice has no hash.
    stamps = Stamps()
    for code, scope in _globals_of(steps, by_code).items():
        version = by_code[code]
        for name in (*version.names(GRAPH_PREFIX), *version.names(RESUME_PREFIX)):
            if name in scope:
                stamps.add(scope, name, version)
    with stamps.installed():
        layout = _layout(steps, stamps, by_code)
    segments = [segment for step in layout for _, segment in step]
    if len(segments) > _MOST_SEGMENTS:
        return StampedPasses(len(steps), f"a pass has {len(segments)} parts: too many to time")
    passes = _Passes(steps, stamps, layout)
    before, began = _waited(), time.perf_counter()
    passes.take_turns(seconds)
    after, took = _waited(), time.perf_counter() - began
    waited = None if before is None or after is None else min(1.0, (after - before) / took)
    stamp_ms = passes.stamp_ms()
    for segment in segments:
        segment.ms = [max(0.0, ms - stamp_ms) for ms in segment.ms]
        bare = segment.unguarded_ms if passes.can_skip_guards else []
        segment.unguarded_ms = [max(0.0, ms - stamp_ms) for ms in bare]
    stamped = [sum(each) for each in zip(*(segment.ms for segment in segments), strict=True)]
    hits = Counter(compile_id for step in layout for (what, compile_id), _ in step if what == "graph")
    guards = _guards(steps, stamps, {version.compile_id: version for version in by_code.values()})
    problem = ""
    if passes.odd > len(stamped):
        problem = f"{passes.odd} of {passes.odd + len(stamped)} passes took another way than the first"
    return StampedPasses(len(steps), problem, segments, passes.plain, stamped, dict(hits), guards, waited)


def _waited() -> float | None:
    """Seconds that this thread was ready to run without a core, as Linux counts them; None if unknown."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return None


def _globals_of(steps: Sequence[Step], codes: Container[int]) -> dict[int, dict[str, Any]]:
    """The globals with which each of these codes runs in a pass, by id."""
    seen: dict[int, dict[str, Any]] = {}

    def see(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and id(frame.f_code) in codes:
            seen.setdefault(id(frame.f_code), frame.f_globals)

    for step in steps:
        _watched(step, see, [])
    return seen


def _watched(step: Step, see: Callable[[FrameType, str, Any], None], log: list[tuple[Any, int]]) -> None:
    step.prepare()
    log.append((("begin", ""), time.perf_counter_ns()))
    sys.setprofile(see)
    try:
        step.run()
    finally:
        sys.setprofile(None)
    log.append((("finish", ""), time.perf_counter_ns()))


def _guards(steps: Sequence[Step], stamps: Stamps, by_id: dict[str, CompiledVersion]) -> dict[str, GuardTime]:
    """The cost of the guards of each version that ran, from a pass that stops at each of its graphs."""
    found: dict[str, GuardTime | None] = {}

    def met(compile_id: str, scope: dict[str, Any]) -> None:
        if compile_id not in found:
            with compiled_code.not_compiling():
                found[compile_id] = guard_price(by_id[compile_id], scope)

    # Else Dynamo looks at the very function that tells it not to look.
    for code in (met.__code__, compiled_code.not_compiling.__wrapped__.__code__):  # type: ignore[attr-defined]
        compiled_code.leave_in_eager(code)
    with stamps.installed():
        stamps.met = met
        run_untimed(steps)
        stamps.met = None
    stamps.log.clear()
    return {compile_id: price for compile_id, price in found.items() if price is not None}


StepLayout = list[tuple[Mark, Segment]]
"""The marks of one step in order, each with the segment that begins there; the first begins with the step."""


@dataclass
class _Active:
    """A running function: `version` if it is compiled; `opened_by` is the compile id whose break led to it.

    `ended`: the graph of the version has returned.
    """

    version: CompiledVersion | None
    function: tuple[str, str, int]
    opened_by: str = ""
    ended: bool = False


def _layout(steps: Sequence[Step], stamps: Stamps, by_code: dict[int, CompiledVersion]) -> list[StepLayout]:
    """What runs in each step, from passes that are watched and not timed."""
    compiled, codes = {id(version.original) for version in by_code.values()}, dynamo.tried_codes()
    tried = {id(code) for code in codes if id(code) not in compiled and not is_torchs(code.co_filename)}
    logs: list[list[_Interval]] = [[] for _ in steps]
    for _ in range(_WATCHED):
        for step, known in zip(steps, logs, strict=True):
            stamps.log.clear()

            def see(frame: FrameType, event: str, _: Any) -> None:
                code = frame.f_code
                if event in ("call", "return") and (id(code) in by_code or id(code) in tried):
                    stamps.log.append(((event, code), time.perf_counter_ns()))  # type: ignore[arg-type]

            _watched(step, see, stamps.log)
            found = list(_intervals(list(stamps.log), by_code))
            stamps.log.clear()
            if [each.first for each in known] != [each.first for each in found]:
                known[:] = found  # The first one, or one that took another way.
                continue
            for each, more in zip(known, found, strict=True):
                each.owners.update(more.owners)
    return [[(each.first, _segment(each)) for each in known] for known in logs]


class _Owner(NamedTuple):
    kind: Kind
    compile_id: str = ""
    function: tuple[str, str, int] | None = None
    opened_by: str = ""


class _Interval(NamedTuple):
    """The time between two marks: the nanoseconds of each owner in it."""

    first: Mark
    last: Mark
    owners: Counter[_Owner]


def _intervals(log: list[tuple[Any, int]], by_code: dict[int, CompiledVersion]) -> Iterator[_Interval]:
    active: list[_Active] = []
    inside = ""
    (first, began), owners = log[0], Counter[_Owner]()
    for mark, at in log[1:]:
        owners[_owner(active, inside)] += max(1, at - began)
        what, key = mark
        began = at
        if what in ("call", "return"):
            _move(active, what, key, by_code)
            continue
        yield _Interval(first, mark, owners)
        first, owners = mark, Counter()
        if what == "graph":
            inside = key
        elif what == "end":
            inside = ""
            current = next((a for a in reversed(active) if a.version and a.version.compile_id == key), None)
            if current is not None:
                current.ended = True


def _owner(active: list[_Active], inside: str) -> _Owner:
    """What runs now: a graph, else the innermost known function."""
    if inside:
        return _Owner("backward" if inside.startswith(_OF_BACKWARD) else "graph", inside)
    if not active:
        return _Owner("outside")
    each = active[-1]
    if each.version is None:
        return _Owner("break", "", each.function, each.opened_by)
    if each.ended:
        return _Owner("break", each.version.compile_id)
    return _Owner("resume" if each.opened_by else "entry", each.version.compile_id, None, each.opened_by)


def _segment(interval: _Interval) -> Segment:
    """The interval as a segment of what ran longest in it; before a graph, of getting into it.

    Watching makes torch's own way to the compiled code seem long: eager code of a break beside it counts more.
    """
    (what, key), owners = interval.last, interval.owners
    large = [owner for owner in owners if owner.kind == "break" and owners[owner] >= _LARGE * owners.total()]
    found = max(large or owners, key=lambda owner: owners[owner])
    key = key.removeprefix(_OF_BACKWARD)
    if what == "graph" and interval.first[0] == "resume":
        broken = next((each.compile_id for each in owners if each.kind == "break"), "")
        return Segment("resume", key, opened_by=broken)
    if what == "graph" and found.kind in ("outside", "entry", "resume") and not found.opened_by:
        return Segment("entry", key)
    return Segment(found.kind, found.compile_id.removeprefix(_OF_BACKWARD), found.function, found.opened_by)


def _move(active: list[_Active], what: str, code: CodeType, by_code: dict[int, CompiledVersion]) -> None:
    if what == "return":
        if active:
            active.pop()
        return
    version = by_code.get(id(code))
    own = dynamo.definition_of(version.original if version else code)
    above = active[-1] if active else None
    opened_by = above.version.compile_id if above is not None and above.version is not None and above.ended else ""
    # A break before the first operation leaves a version without a graph.
    ended = version is not None and not version.names(GRAPH_PREFIX)
    active.append(_Active(version, (own.file, own.name, own.line), opened_by, ended))


@dataclass
class _Passes:
    """Timed passes, in turns: without stamps, with them, with them but without guards, and stamped twice. `odd` passes
    went another way than the watched one.
    """

    steps: Sequence[Step]
    stamps: Stamps
    layout: list[StepLayout]
    plain: list[float] = field(default_factory=list)
    added: list[float] = field(default_factory=list)
    odd: int = 0
    can_skip_guards: bool = True
    short: bool = False

    def take_turns(self, seconds: float) -> None:
        """Go round for about this long; every round fills the segments once."""
        began, chance = time.perf_counter(), random.Random(0)
        self.short = ClockTimer("cpu").passes(self.steps, 1)[0] < _SHORT_MS
        for rounds in range(1, _MOST_ROUNDS):
            # A slow model gets more time, but not for ever.
            if time.perf_counter() - began > (seconds if rounds > _FEWEST_ROUNDS else _PATIENCE * seconds):
                break
            arms: list[Callable[[], list[tuple[Segment, float]] | None]] = [self._plain, self._stamped, self._unguarded]
            if self.short or rounds % _CALIBRATING_EVERY == 0:
                arms.append(self._twice)
            # In random order: what ran before has had the caches.
            taken = {arm: arm() for arm in chance.sample(arms, len(arms))}
            stamped, bare, again = taken[self._stamped], taken[self._unguarded], taken.get(self._twice)
            if stamped is None or bare is None:
                self.odd += 1
                continue
            if again is not None:
                self.added.append(sum(ms for _, ms in again) - sum(ms for _, ms in stamped))
            for segment, ms in stamped:
                segment.ms.append(ms)
            for segment, ms in bare:
                if segment.kind in ("entry", "resume"):
                    segment.unguarded_ms.append(ms)

    def _lead_in(self) -> None:
        """Run a short pass of the same kind untimed first."""
        run_untimed(self.steps if self.short else ())

    def _plain(self) -> list[tuple[Segment, float]]:
        self._lead_in()
        self.plain += ClockTimer("cpu").passes(self.steps, 1)
        return []

    def _twice(self) -> list[tuple[Segment, float]] | None:
        return self._stamped(twice=True)

    def _unguarded(self) -> list[tuple[Segment, float]] | None:
        """A stamped pass that checks few guards; empty if torch cannot do that without compiling."""
        if not self.can_skip_guards:
            return []
        try:
            with compiled_code.without_guards() as skipped:
                self.can_skip_guards = skipped
                return self._stamped() if skipped else []
        except RuntimeError:
            self.can_skip_guards = False
            return []

    def stamp_ms(self) -> float:
        """What one stamp adds to a pass: what stamping twice adds."""
        marks = sum(len(step) - 1 for step in self.layout)
        if not (self.added and marks):
            return 0.0
        added = sorted(self.added)
        found = statistics.median(added)
        low, high = added[len(added) // 4], added[3 * len(added) // 4]
        if len(added) < _ENOUGH or found < (high - low) / len(added) ** 0.5 * _CLEARLY:
            found = min(found, marks * _USUAL_STAMP_MS)  # Lost in the noise.
        return min(max(0.0, found / marks), _IN_COLD_CACHES * _warm_stamp_ms())

    def _stamped(self, *, twice: bool = False) -> list[tuple[Segment, float]] | None:
        """Milliseconds of each segment of one pass; None if it went another way."""
        taken: list[tuple[Segment, float]] = []
        with self.stamps.installed(twice=twice):
            self._lead_in()
            for step, known in zip(self.steps, self.layout, strict=True):
                step.prepare()
                self.stamps.log.clear()
                began = time.perf_counter_ns()
                outputs = step.run()
                ended = time.perf_counter_ns()
                del outputs
                if [mark for mark, _ in self.stamps.log] != [mark for mark, _ in known[1:]]:
                    return None
                at = [began, *(when for _, when in self.stamps.log), ended]
                spans = zip(known, pairwise(at), strict=True)
                taken += [(segment, (two - one) / 1e6) for (_, segment), (one, two) in spans]
        return taken

"""Proves a change: the model's calls with the code as it is, in eager, against the changed code in eager and traced.

Traced means compiled with the backend "eager": Dynamo's graph, run by eager's own kernels, so that what is equal is
equal to the bit. Everything runs on one model in one process: only the code of functions is exchanged (`swap`). After
the program's own calls come fresh draws of their inputs, and then draws that look for sides of a branch which nothing
has taken yet. What a call is compared by: its outputs, their structure, strides and aliases, inputs and buffers after
it, attributes and globals, gradients in training, the random numbers that it draws, exceptions, and its side effects.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch

from dynalyze.capture.attach import InProcess
from dynalyze.capture.bench.configure import configured
from dynalyze.capture.bench.failures import one_line
from dynalyze.capture.bench.fp64_reference import Fp64Reference
from dynalyze.capture.bench.judge import Runs, judge
from dynalyze.capture.bench.output_capture import Key, OutputCapture, Run, named_tensors
from dynalyze.capture.bench.protocol import Configuration
from dynalyze.capture.bench.state_snapshot import StateSnapshot, identical
from dynalyze.capture.bench.workload import Workload
from dynalyze.capture.fixing.draws import SEARCHING, DrawnWorkload, Kind
from dynalyze.capture.fixing.swap import CannotSwap, SourceChange, Swap
from dynalyze.capture.fixing.values import look
from dynalyze.capture.fixing.watching import Effect, aliases, attributes, effects, lines_run, outline
from dynalyze.capture.torch_private import dynamo, numerics
from dynalyze.capture.torch_private.dynamo_config import UnknownSetting, settings_of_dynamo

_SEED = 1337
_TOLERANCE, _TRAINING_TOLERANCE = 1e-3, 1e-2
_FEWEST_DRAWS = 3
_LONGEST_TOLD = 40

Equality = Literal["bitwise", "tolerance", "different"]
Arm = Literal["eager", "traced"]


@dataclass
class Compared:
    """One pass of the changed code against the same one of the code as it was; `why` says what differs, if anything.

    `effects` names the side effects that differ, which is for people to judge.
    """

    equality: Equality
    why: str = ""
    effects: list[str] = field(default_factory=list)
    raised: str = ""


@dataclass
class Draws:
    """How many draws were compared, and in how many both raised the same exception; what the first that differed was.

    `kinds` are the kinds of draws that were tried in search of a side.
    """

    tried: int = 0
    raised: int = 0
    bitwise: int = 0
    different: str = ""
    effects: list[str] = field(default_factory=list)
    kinds: list[Kind] = field(default_factory=list)


@dataclass
class Proof:
    """What was found. `own` is of the program's own calls; `lines` of the changed functions ran in them or in draws.

    `folder` holds the events of what the changed code compiled, None where it compiled nothing.
    """

    problem: str = ""
    own: dict[Arm, Compared] = field(default_factory=dict)
    draws: Draws = field(default_factory=Draws)
    lines: list[tuple[str, int]] = field(default_factory=list)
    gradients: bool = False
    folder: str | None = None


@dataclass
class _Pass:
    """All that one pass did."""

    run: Run = field(default_factory=Run)
    outlines: list[Any] = field(default_factory=list)
    aliases: list[Any] = field(default_factory=list)
    changed_inputs: list[dict[str, torch.Tensor]] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)
    effects: list[Effect] = field(default_factory=list)
    raised: str = ""


class Prover:
    """Proves changes for one workload. `folder` gets a folder of events for each thing that is compiled."""

    def __init__(self, workload: Workload, configuration: Configuration, device: str, folder: Path) -> None:
        self._workload = workload
        self._device = device
        self._folder = folder
        self._made = 0
        self._traced = replace(configuration, name="traced", compile=True, backend="eager", mode=None, fullgraph=False)
        self._eager = replace(self._traced, compile=False)
        self._state = StateSnapshot(workload.model, _SEED)
        self._spaces: list[dict[str, Any]] = []
        self._known: dict[tuple[str, int], _Pass] = {}

    def baseline(self) -> dict[str, Any]:
        """Record what the code as it is compiles, and whether it does the same twice.

        `problem` says why nothing can be proved about it.
        """
        once, again = self._pass(self._workload, self._eager), self._pass(self._workload, self._eager)
        if once.raised:
            return {"problem": f"the calls fail in eager: {once.raised}", "folder": None}
        answer: dict[str, Any] = {"problem": "", "repeatable": not _differences(once, again)}
        with self._recorded() as folder:
            self._compile(self._workload)
        return {**answer, "folder": folder}

    def values(self, places: Mapping[tuple[str, int], Sequence[str]]) -> list[dict[str, Any]]:
        """What expressions of some lines were in a pass in eager."""
        found = look(places, lambda: self._pass(self._workload, self._eager))
        return [{"file": file, "line": line, "values": known} for (file, line), known in found.items()]

    def prove(
        self, changes: Sequence[SourceChange], settings: dict[str, Any], draws: int, seconds: float,
        sides: Iterable[tuple[str, int]] = (),
    ) -> Proof:  # fmt: skip
        """Compare, and record what the changed code compiles. `sides` are lines, of the code as it is, one in each side
        of a branch, which draws are to reach. The draws take about `seconds` at most.
        """
        proof = Proof(gradients=self._workload.phase == "train")
        dynamo.forget_compiled()
        try:
            swap = Swap(changes) if changes else None
            self._spaces = swap.globals if swap is not None else []
            self._own(proof, swap, settings)
            if not proof.problem:
                self._draw(proof, swap, settings, draws, seconds, set(sides))
        except (CannotSwap, UnknownSetting) as error:
            proof.problem = str(error)
        finally:
            self._state.restore()
            dynamo.forget_compiled()
        return proof

    def _own(self, proof: Proof, swap: Swap | None, settings: dict[str, Any]) -> None:
        seen: set[tuple[str, int]] = set()
        before = self._before(self._workload, swap, seen)
        again = self._pass(self._workload, self._eager)
        with _changed(swap, settings):
            # Twice: what happens once for all, as a message that is logged once, is no difference.
            self._pass(self._workload, self._eager)
            eager = self._pass(self._workload, self._eager)
            with self._recorded() as folder:
                self._compile(self._workload)
            traced = self._pass(self._workload, self._traced)
        proof.folder = folder
        proof.own = {"eager": self._judged(before, again, eager), "traced": self._judged(before, again, traced)}
        proof.lines = sorted(seen)

    def _draw(
        self, proof: Proof, swap: Swap | None, settings: dict[str, Any], draws: int, seconds: float,
        sides: set[tuple[str, int]],
    ) -> None:  # fmt: skip
        began, seen = time.perf_counter(), set(proof.lines)
        kind: Kind = "alike"
        for number in range(draws):
            if number >= _FEWEST_DRAWS and time.perf_counter() - began > seconds:
                break
            kind = self._one_draw(proof, swap, settings, kind, number, seen)
            if proof.draws.different:
                return
        for number, searching in enumerate(SEARCHING):
            if sides <= seen or time.perf_counter() - began > 2 * seconds:
                break
            proof.draws.kinds.append(searching)
            self._one_draw(proof, swap, settings, searching, draws + number, seen)
            if proof.draws.different:
                return
        proof.lines = sorted(seen)

    def _one_draw(
        self, proof: Proof, swap: Swap | None, settings: dict[str, Any], kind: Kind, number: int,
        seen: set[tuple[str, int]],
    ) -> Kind:  # fmt: skip
        """Compare on one draw. Returns the kind to go on with: where integers drawn anew are refused, floats alone."""
        drawn = DrawnWorkload(self._workload, kind, _SEED + 1000 * (number + 1))
        before = self._before(drawn, swap, seen)
        if before.raised and kind == "alike":
            kind = "floats"
            drawn = DrawnWorkload(self._workload, kind, _SEED + 1000 * (number + 1))
            before = self._before(drawn, swap, seen)
        with _changed(swap, settings):
            after = {arm: self._pass(drawn, how) for arm, how in self._arms()}
        proof.draws.tried += 1
        proof.draws.raised += bool(before.raised)
        judged = {arm: self._judged(before, None, each, drawn) for arm, each in after.items()}
        proof.draws.bitwise += all(each.equality == "bitwise" for each in judged.values())
        for arm, each in judged.items():
            proof.draws.effects += [text for text in each.effects if text not in proof.draws.effects]
            if each.equality == "different" and not proof.draws.different:
                proof.draws.different = f"{arm}, inputs drawn {kind}: {each.why}"
        return kind

    def _arms(self) -> list[tuple[Arm, Configuration]]:
        return [("eager", self._eager), ("traced", self._traced)]

    def _before(self, workload: Workload, swap: Swap | None, seen: set[tuple[str, int]]) -> _Pass:
        with lines_run(swap.codes, seen) if swap is not None else contextlib.nullcontext():
            return self._pass(workload, self._eager)

    def _compile(self, workload: Workload) -> None:
        """Compile anew until nothing is compiled any more; what goes wrong shows in the next pass."""
        dynamo.forget_compiled()
        for _ in range(2):
            self._pass(workload, self._traced)

    @contextlib.contextmanager
    def _recorded(self) -> Iterator[str]:
        self._made += 1
        name = f"proof{self._made}"
        folder = self._folder / name
        folder.mkdir(mode=0o700)
        recording = InProcess(folder)
        recording.start()
        try:
            yield name
        finally:
            recording.stop()

    def _pass(self, workload: Workload, how: Configuration) -> _Pass:
        """Every call of the workload once, from the same state."""
        found = _Pass()
        target = configured(workload.model, how, self._device or "cpu")
        capture = OutputCapture(workload, self._state)
        self._state.restore()
        before = attributes(workload.model, self._spaces)
        modes = contextlib.nullcontext() if how.compile else numerics.nothing_compiled()
        with numerics.full_float32(), modes, effects(found.effects):
            try:
                found.run = capture.run(_noting(target, found), reference=True)
            except Exception as error:
                found.raised = f"{type(error).__name__}: {one_line(error)}"
        after = attributes(workload.model, self._spaces)
        found.attributes = {name: value for name, value in after.items() if before.get(name) != value}
        self._state.restore()
        return found

    def _judged(self, before: _Pass, again: _Pass | None, after: _Pass, drawn: Workload | None = None) -> Compared:
        """The passes against each other; `again` is a second one of the code as it is, where there is one."""
        told = _effects_that_differ(before, after)
        if before.raised or after.raised:
            kinds = [each.partition(":")[0] for each in (before.raised, after.raised)]
            if all(kinds) and kinds[0] != kinds[1]:
                told = [*told, f"raises {kinds[1]} in place of {kinds[0]}"]
            why = "" if all(kinds) else f"raises {after.raised or 'nothing'}, as it was {before.raised or 'nothing'}"
            return Compared("different" if why else "bitwise", why, told, after.raised)
        differences = _differences(before, after)
        if again is not None:  # What is never the same twice cannot be asked of the change.
            differences = [each for each in differences if each not in set(_differences(before, again))]
        structural = [each for each in differences if each.tensor is None]
        if structural:
            return Compared("different", structural[0].text, told)
        if not differences:
            return Compared("bitwise", effects=told)
        workload = drawn or self._workload
        training = self._workload.phase == "train"
        tolerance = _TRAINING_TOLERANCE if training else _TOLERANCE
        worst = judge(Runs(before.run, (again or before).run, after.run, self._exact(workload, before), tolerance))[0]
        if worst.verdict in ("equal", "benign"):
            return Compared("tolerance", effects=told)
        return Compared("different", f"{worst.name}: {worst.why or worst.verdict}", told)

    def _exact(self, workload: Workload, eager: _Pass) -> Run | None:
        """The pass in fp64, of the code as it is; None where there can be none."""
        try:
            with numerics.nothing_compiled():
                return OutputCapture(workload, self._state).run(Fp64Reference(workload.model, draws=eager.run.draws))
        except Exception:
            return None


@contextlib.contextmanager
def _changed(swap: Swap | None, settings: dict[str, Any]) -> Iterator[None]:
    """Run what follows with the change. What was compiled with it before is still there."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(settings_of_dynamo(settings))
        if swap is not None:
            stack.enter_context(swap.applied())
        yield


def _noting(target: Callable[..., Any], found: _Pass) -> Callable[..., Any]:
    """`target`, whose calls leave in `found` what tensors alone do not tell."""

    def called(*args: Any, **kwargs: Any) -> Any:
        given = [(name, tensor) for name, tensor in named_tensors((args, kwargs))]
        before = [
            (tensor._version if not tensor.is_inference() else -1, tensor.detach().clone()) for _, tensor in given
        ]
        outputs = target(*args, **kwargs)
        found.outlines.append(outline(outputs))
        found.aliases.append(aliases(given, list(named_tensors(outputs))))
        changed = {
            name: tensor.detach().clone()
            for (name, tensor), (version, value) in zip(given, before, strict=True)
            if (tensor.is_inference() or tensor._version != version) and not identical(tensor.detach(), value)
        }
        found.changed_inputs.append(changed)
        return outputs

    return called


@dataclass(frozen=True)
class _Difference:
    """Something that two passes do not have in common; of a tensor whose values differ, which."""

    text: str
    tensor: Key | None = None


def _differences(one: _Pass, other: _Pass) -> list[_Difference]:
    found = []
    if one.outlines != other.outlines:
        found.append(_Difference(_first(one.outlines, other.outlines, "it returns")))
    if one.aliases != other.aliases:
        found.append(_Difference(_first(one.aliases, other.aliases, "outputs share memory with")))
    for mine, theirs in zip(one.changed_inputs, other.changed_inputs, strict=False):
        if mine.keys() != theirs.keys():
            found.append(_Difference(_first(sorted(mine), sorted(theirs), "inputs changed in place:")))
        elif not all(identical(value, theirs[name]) for name, value in mine.items()):
            found.append(_Difference("an input that is changed in place has other values"))
    names = sorted({*one.attributes, *other.attributes})
    changed = [name for name in names if one.attributes.get(name) != other.attributes.get(name)]
    found += [_Difference(f"{name} is another one after the call") for name in changed]
    if one.run.positions != other.run.positions:
        found.append(_Difference("other random numbers are drawn"))
    for key in dict.fromkeys([*one.run.tensors, *other.run.tensors]):
        mine_, theirs_ = one.run.tensors.get(key), other.run.tensors.get(key)
        if mine_ is None or theirs_ is None:
            found.append(_Difference(f"{key[1]} {key[2]} is there only one time"))
        elif not identical(mine_, theirs_):
            found.append(_Difference(f"{key[1]} {key[2]} differs", key))
    return found


def _first(one: list[Any], other: list[Any], what: str) -> str:
    pairs = [(mine, theirs) for mine, theirs in zip(one, other, strict=False) if mine != theirs]
    mine, theirs = pairs[0] if pairs else (one, other)
    return f"{what} {_short(theirs)}, as it was {_short(mine)}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:117]}..."


def _effects_that_differ(one: _Pass, other: _Pass) -> list[str]:
    """The side effects that the second pass lacks, has in addition, or has in another order."""
    mine, theirs = _lines(one.effects), _lines(other.effects)
    if mine == theirs:
        return []
    lacking, more = Counter(mine) - Counter(theirs), Counter(theirs) - Counter(mine)
    told = [f"not {what} any more: {_quoted(text)}" for what, text in lacking]
    told += [f"{what} in addition: {_quoted(text)}" for what, text in more]
    return told or ["the same side effects, in another order"]


def _lines(effects: list[Effect]) -> list[Effect]:
    """What was printed, line by line."""
    return [(what, line) for what, text in effects for line in (text.splitlines() if what == "printed" else [text])]


def _quoted(text: str) -> str:
    text = text.strip()
    return repr(text if len(text) <= _LONGEST_TOLD else f"{text[:_LONGEST_TOLD]}...")


def as_answer(proof: Proof) -> dict[str, Any]:
    """A proof as the answer of a worker."""
    return asdict(proof)

"""One run of the calls of a workload with everything that can be seen of it, and the differences of two runs."""

from __future__ import annotations

import contextlib
import gc
import itertools
import signal
import threading
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle

from dynalyze.capture.bench.compare import identical
from dynalyze.capture.bench.failures import one_line
from dynalyze.capture.bench.fp64_reference import Fp64Reference
from dynalyze.capture.bench.output_capture import Key, OutputCapture, RunOutputs, named_tensors
from dynalyze.capture.bench.state_snapshot import StateSnapshot
from dynalyze.capture.bench.workload import Workload
from dynalyze.capture.fixing.object_state import HeldState
from dynalyze.capture.fixing.records import Arm
from dynalyze.capture.fixing.watching import Effect, Outline, aliases, effects, effects_that_differ, outlined
from dynalyze.capture.inspecting.settings import process_settings
from dynalyze.capture.nested_values import children
from dynalyze.capture.torch_private import numerics

_MOST_MADE = 10_000
_OF_DTYPES = {torch.float16: 3e-3, torch.bfloat16: 2e-2}
_TOLERANCE, OF_GRADIENTS = 1e-5, 10
"""How far a result may be off where an operation has changed, as a share of its size, and how much more a gradient."""


_Tensors = list[tuple[str, torch.Tensor]]


@dataclass
class Run:
    """What one run did. `values` are what each call returned, changed and left behind, by name; `lines` are those of
    `watched` functions that ran.
    """

    outputs: RunOutputs = field(default_factory=RunOutputs)
    values: dict[str, Any] = field(default_factory=dict)
    effects: list[Effect] = field(default_factory=list)
    raised: str = ""
    raised_types: tuple[str, ...] = ()
    watched: frozenset[types.CodeType] = frozenset()
    lines: set[tuple[str, int]] = field(default_factory=set)

    @property
    def error(self) -> str:
        """The type of the exception."""
        return self.raised_types[0] if self.raised_types else ""


class RunMaker:
    """Runs workloads over one model, each time from the same state. `held` is everything that calls can change."""

    def __init__(self, model: Callable[..., Any], state: StateSnapshot) -> None:
        self.held = HeldState()
        self.held.add("", model, own=True)
        self.held.add_environment()
        self._state = state
        state.put_back_elsewhere = {id(tensor) for _, tensor in self.held.shared()}
        self._next_hook = RemovableHandle.next_id

    def restore(self) -> None:
        """Put everything back."""
        self.held.restore()
        self._state.restore()
        RemovableHandle.next_id = self._next_hook  # Hooks that a first call puts on modules are kept by this number.

    def of(self, workload: Workload, target: Callable[..., Any], *, stays_eager: bool) -> Run:
        """Run every call of the workload once; with `stays_eager` nothing is compiled, whatever the program says."""
        found = Run()
        capture = _Capture(workload, self._state, found, self.held)
        self.restore()
        modes = numerics.nothing_compiled() if stays_eager else contextlib.nullcontext()
        with numerics.full_float32(), modes, effects(found.effects):
            try:
                capture.run(target, reference=True)
            except (Exception, SystemExit) as error:
                found.raised = one_line(error)
                found.raised_types = tuple(each.__name__ for each in type(error).__mro__)
                capture.note_state("when it raises")
        found.outputs = capture.so_far
        self.restore()
        return found

    def exact(self, workload: Workload, like: Run) -> RunOutputs | None:
        """The run in fp64; None if there can be none."""
        try:
            with numerics.nothing_compiled(), effects([]):
                reference = Fp64Reference(workload.model, draws=like.outputs.draws)
                return _Capture(workload, self._state, Run(), self.held).run(reference)
        except Exception:
            return None
        finally:
            self.restore()


class _Capture(OutputCapture):
    """Also notes what the returned tensors do not show: in `found`, and as tensors of its run."""

    def __init__(self, workload: Workload, state: StateSnapshot, found: Run, held: HeldState) -> None:
        super().__init__(workload, state, gradients=True)
        self._drawn = workload
        self._found = found
        self._held = held
        self._made = 0
        self._names = {id(tensor): path for path, tensor in held.shared()} | self._names

    @property
    def so_far(self) -> RunOutputs:
        """What was captured before the end, or before an exception."""
        return self._run

    def run(self, target: Callable[..., Any], *, reference: bool = False, seeds: int | None = None) -> RunOutputs:
        noted = target if isinstance(target, Fp64Reference) else self._noting(target)
        return super().run(noted, reference=reference, seeds=seeds)

    def note_state(self, when: str) -> None:
        """Note what differs from before the run."""
        self._note(f"state {when}: ", self._held.changes())

    def _noting(self, target: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> Any:
            set_before = process_settings()
            before = outlined((args, kwargs), "", Outline())
            outputs = target(*args, **kwargs)
            if isinstance(outputs, types.GeneratorType):
                outputs = list(itertools.islice(outputs, _MOST_MADE))
            self._made += 1
            self._note_call(f"call {self._made}: ", before, (args, kwargs), outputs)
            for name, value in process_settings().items():
                if value != set_before.get(name):
                    self._found.values[f"call {self._made}: {name}"] = value
            return outputs

        return called

    def _note_call(self, prefix: str, before: Outline, inputs: Any, outputs: Any) -> None:
        given, state = outlined(inputs, "", Outline()), self._held.changes()
        made = outlined(outputs, "", Outline())
        known = {name for name, _ in named_tensors(outputs)}
        made.tensors = {name: tensor for name, tensor in made.tensors.items() if (name or "output") not in known}
        self._note(f"{prefix}output ", made)
        changed = Outline({name: look for name, look in given.values.items() if before.values.get(name) != look})
        changed.values |= {name: "gone" for name in before.values if name not in given.values}
        for name, tensor in given.tensors.items():
            if name not in before.tensors or not identical(tensor, before.tensors[name], signs=True):
                changed.values[name], changed.tensors[name] = given.values[name], tensor
        self._note(f"{prefix}input after it ", changed)
        self._note(f"{prefix}state ", state)
        for path, held in self._held.shared():
            if held.is_leaf and held.grad is not None:
                self._note(f"{prefix}gradient of ", outlined(held.grad, path, Outline()))
        given_tensors, made_tensors = tensors_in(inputs), tensors_in(outputs)
        self._note_aliases(prefix, given_tensors, made_tensors)
        given_objects = [*containers_in(inputs), *given_tensors]
        names = {**self._held.containers(), **{id(each): f"input {path}" for path, each in given_objects}}
        self._found.values |= {
            f"{prefix}output {path} is": names[id(each)]
            for path, each in (*containers_in(outputs), *made_tensors) if id(each) in names
        }  # fmt: skip

    def _note_aliases(self, prefix: str, inputs: _Tensors, outputs: _Tensors) -> None:
        """Note which outputs and changed tensors share memory with what."""
        named = [(f"output {name}", tensor) for name, tensor in outputs]
        named += [(f"input {name}", tensor) for name, tensor in inputs]
        named += [(f"state {name}", tensor) for name, tensor in self._held.shared()]
        named += [(f"new state {name}", tensor) for name, tensor in self._held.new_tensors()]
        for name, others in aliases(named).items():
            if others and name.startswith(("output", "new state")):
                self._found.values[f"{prefix}{name} shares memory with"] = sorted(others)

    def _note(self, prefix: str, outline: Outline) -> None:
        self._found.values |= {prefix + path: value for path, value in outline.values.items()}
        for path, tensor in outline.tensors.items():
            self._run.tensors[self._step, "output", prefix + path] = tensor.to("cpu")

    def _differentiate(self, prefix: str, outputs: Any, inputs: dict[str, torch.Tensor]) -> None:
        self._own_names = {**self._own_names, **getattr(self._drawn, "names", {})}
        try:
            super()._differentiate(prefix, outputs, inputs)
        except Exception as error:
            if self._train:
                raise
            self._found.values[f"call {self._made}: backward"] = f"raises {type(error).__name__}"
        for name in list(self._unowned):
            if not self._is_reached(self._unowned[name]):
                self._run.tensors.pop((self._step, "gradient", prefix + name), None)

    def _is_reached(self, leaf: torch.Tensor) -> bool:
        """Whether the program still holds a leaf, so that its gradient can be read: not if a function made it for
        itself, as `torch.tensor(0.0, requires_grad=True)` that a loss is added to.
        """
        holders = (each for each in gc.get_referrers(leaf) if each is not self._unowned)
        return any(not isinstance(each, types.FrameType) for each in holders)


def tensors_in(value: Any) -> _Tensors:
    """The tensors themselves in a nested value, objects included, by path."""
    found = Outline()
    outlined(value, "", found, copies=False)
    return list(found.tensors.items())


def containers_in(value: Any) -> Iterator[tuple[str, Any]]:
    """The lists, dicts and sets themselves in a nested value, by path: whoever gets one can change it for others."""
    waiting: list[tuple[str, Any]] = [("", value)]
    seen: set[int] = set()
    while waiting and len(seen) < _MOST_MADE:
        path, each = waiting.pop()
        if id(each) in seen or isinstance(each, torch.Tensor | torch.nn.Module):
            continue
        seen.add(id(each))
        if isinstance(each, list | dict | set):
            yield path, each
        waiting += [(f"{path}[{key!r:.60}]", inner) for key, inner in children(each)]


@dataclass(frozen=True)
class RunDifference:
    """A difference between two runs, by name; for a tensor whose values differ, its key."""

    name: str
    text: str
    tensor: Key | None = None


def differences(one: Run, other: Run) -> list[RunDifference]:
    """What the second run did differently, except side effects and exceptions."""
    found = []
    for name in dict.fromkeys([*one.values, *other.values]):
        mine, theirs = one.values.get(name), other.values.get(name)
        if mine != theirs:
            found.append(RunDifference(name, f"{name.strip()} is {_short(theirs)}; it was {_short(mine)} before"))
    if one.outputs.positions != other.outputs.positions:
        found.append(RunDifference("random numbers", "other random numbers are drawn"))
    for key in dict.fromkeys([*one.outputs.tensors, *other.outputs.tensors]):
        mine_, theirs_ = one.outputs.tensors.get(key), other.outputs.tensors.get(key)
        if mine_ is None or theirs_ is None:
            there = mine_ if mine_ is not None else theirs_
            if key[1] == "gradient" and there is not None and not bool(there.any()):
                continue  # No gradient and a gradient of zeros are the same.
            found.append(RunDifference(f"{key}", f"{key[1]} {key[2]} is there only before or only after the change"))
        elif not identical(mine_, theirs_, signs=key[1] != "gradient"):  # Autograd adds zeros, which lose their sign.
            found.append(RunDifference(f"{key}", f"{key[1]} {key[2]} differs", key))
    return found


def excused(found: list[RunDifference], one: Run, again: Run, other: Run) -> list[RunDifference]:
    """Without the differences between two runs of the same code, unless the type changed."""
    never_the_same = {each.name for each in differences(one, again)}
    return [
        each for each in found
        if each.name not in never_the_same or _kind(one.values, each.name) != _kind(other.values, each.name)
    ]  # fmt: skip


def _kind(values: Mapping[str, Any], name: str) -> Any:
    value = values.get(name)
    return value[0] if isinstance(value, tuple) and value else type(value)


def _short(value: Any) -> str:
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= 120 else f"{text[:117]}..."


def unlike(arm: Arm, before: Run, after: Run) -> tuple[list[RunDifference], list[str]]:
    """The differences of two runs, and of their side effects, other exceptions among these."""
    changed = effects_that_differ(before.effects, after.effects)
    if bool(before.raised) != bool(after.raised) or (arm == "eager" and before.raised != after.raised):
        what = f"raises {after.raised or 'nothing'}, and {before.raised or 'nothing'} before the change"
        return [RunDifference("exception", what)], changed
    if before.raised and arm == "traced":  # Where a graph raises, what stands before it has not been written out yet.
        if before.error not in after.raised_types:
            changed = [*changed, f"raises {after.error} in place of {before.error}"]
        elif before.error == after.error and before.raised != after.raised:
            changed = [*changed, f"raises {after.error} with another message"]
        return [], changed
    return differences(before, after), changed


def is_inexact(one: Run, found: RunDifference) -> bool:
    """Whether a differing tensor holds numbers that may be rounded differently."""
    tensor = one.outputs.tensors.get(found.tensor) if found.tensor is not None else None
    return tensor is not None and (tensor.is_floating_point() or tensor.is_complex())


def tolerance_of(one: Run) -> float:
    return max((_OF_DTYPES.get(each.dtype, _TOLERANCE) for each in one.outputs.tensors.values()), default=_TOLERANCE)


def has_gradients(one: Run) -> bool:
    return any(kind == "gradient" for _, kind, _ in one.outputs.tensors)


class Endless(BaseException):
    """Calls did not end in time, as `while x.max() > 1: x = x / 2` with infinity. A BaseException, so that the program
    does not catch it.
    """


@contextlib.contextmanager
def ended_after(seconds: float) -> Iterator[None]:
    """Raise Endless if the block takes longer. Without signals, or in another thread, nothing ends it."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(_number: int, _frame: Any) -> None:
        raise Endless

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

"""Makes the recorded calls again, compiled: in their order, with the inputs and the surroundings they had.

Each distinct outermost module is compiled once. Buffers, training flags, random states and modes are restored for every
call and put back at the end; backward runs where the program ran it, and no `.grad` changes. Parameters are used as
the program left them. Losses are not compiled where the program called any other module.
"""

from __future__ import annotations

import types
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from dynalyze.capture.ambient import RandomState
from dynalyze.capture.calls import FEW, Call, Kind, Recorder, gradient_outputs
from dynalyze.capture.clone import CannotClone
from dynalyze.capture.module_state import ModuleState, ModuleStates
from dynalyze.capture.structure import leaves

CompileModule = Callable[[Any], Callable[..., Any]]
Emit = Callable[..., None]
_MOST_ERRORS = 3
_PARAMETERS_NOTE = "Parameters were used as the program left them, not as they were at each call."


def replay(
    recorder: Recorder, compile_module: CompileModule, emit: Emit, *, training: bool | None = None
) -> dict[str, Any]:
    """Replay what `recorder` holds and say how it went; each call is told through `emit` as soon as it is over.

    Args:
        compile_module: makes a callable out of a module, or out of a bound nn.Module.__call__ where the module's class
            overrides `__call__` (the inputs were recorded below that override).
        training: replay in this mode instead of the one that each call had.
    """
    recorder.stop()
    chosen = choose(recorder)
    replayer = _Replayer(compile_module, emit, training)
    with _left_as_found({id(call.module): call.module for call in chosen}.values()):
        for call in chosen:
            replayer.replay(call)
    return _summary(recorder, replayer)


def choose(recorder: Recorder) -> list[Call]:
    """The calls to replay: those of models if there are any, else those of losses; all while they are few."""
    kind: Kind = "model" if recorder.made("model") else "loss"
    ready = [call for call in recorder.calls if call.kind == kind and call.kept is not None]
    return ready if recorder.made(kind) <= FEW else [call for call in ready if call.wanted]


def mark_dynamic_inputs(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Tell Dynamo that the first dimension of every tensor among the inputs varies, where it is larger than 1."""
    import torch._dynamo

    for value in leaves((args, kwargs), objects=True):
        is_input = isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter)
        if is_input and value.dim() and value.shape[0] > 1:
            torch._dynamo.mark_dynamic(value, 0)


class _Replayer:
    def __init__(self, compile_module: CompileModule, emit: Emit, training: bool | None) -> None:
        self._compile = compile_module
        self._emit = emit
        self._training = training
        self._targets: dict[int, Callable[..., Any]] = {}
        self._failures: Counter[tuple[int, str]] = Counter()
        self._stopped: set[int] = set()
        self.replayed: Counter[int] = Counter()
        self.errors: list[dict[str, Any]] = []
        self.backwards = 0
        self.skipped = 0

    def replay(self, call: Call) -> None:
        if id(call.module) in self._stopped:
            self.skipped += 1
            return
        error = self._error_of(call)
        facts = {"index": call.index, "module": _name(call.module), "signature": call.signature}
        if error is None:
            self.replayed[call.signature] += 1
            self.backwards += call.backward
        else:
            self._failed(call, error)
            self.errors.append({**facts, "error": _text(error)})
        self._emit("replay_call", **facts, backward=call.backward, error=None if error is None else _text(error))

    def _failed(self, call: Call, error: Exception) -> None:
        key = (id(call.module), type(error).__name__)
        self._failures[key] += 1
        if self._failures[key] >= _MOST_ERRORS:
            self._stopped.add(id(call.module))

    def _error_of(self, call: Call) -> Exception | None:
        try:
            self._make(call)
        except Exception as error:
            return error
        return None

    def _make(self, call: Call) -> None:
        kept = call.kept
        assert kept is not None
        target = self._target(call.module)
        args, kwargs = kept.inputs.thaw()
        kept.state.restore()
        if self._training is not None:
            call.module.train(self._training)
        kept.random.restore()
        with kept.modes.applied():
            outputs = target(*args, **kwargs)
        if call.backward:
            run_backward(outputs)

    def _target(self, module: torch.nn.Module) -> Callable[..., Any]:
        target = self._targets.get(id(module))
        if target is None:
            target = self._targets[id(module)] = self._compile(as_called(module))
        return target


def run_backward(outputs: Any) -> None:
    """Backward from the sum of all outputs with a gradient.

    The gradients are handed out and dropped: nothing is accumulated, so neither `.grad` nor an optimizer that hangs on
    its accumulation notices.
    """
    parts = [value for value in gradient_outputs(outputs) if value.grad_fn is not None]
    if not parts:
        return
    with torch.inference_mode(False), torch.enable_grad():
        total = sum((torch.real(part) if part.is_complex() else part).sum().float() for part in parts)
    assert isinstance(total, torch.Tensor)
    reached = list(graph_leaves(total.grad_fn))
    if reached:
        torch.autograd.grad(total, reached, allow_unused=True)


def graph_leaves(root: Any) -> Iterator[torch.Tensor]:
    """Whatever the graph would accumulate a gradient into."""
    seen = {root}
    waiting = [root]
    while waiting:
        node = waiting.pop()
        variable = getattr(node, "variable", None)
        if isinstance(variable, torch.Tensor):
            yield variable
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append(following)


def as_called(module: Any) -> Any:
    """What the recorded inputs were given to: below an override of `__call__`, it is nn.Module's own."""
    module = getattr(module, "_orig_mod", module)
    if not isinstance(module, torch.nn.Module):
        return module
    overridden = not str(type(module).__call__.__module__).startswith("torch.")
    return types.MethodType(torch.nn.Module.__call__, module) if overridden else module


@contextmanager
def _left_as_found(modules: Any) -> Iterator[None]:
    """Put buffers, training flags and random states back as the program left them."""
    random = RandomState.now()
    states = [state for module in modules if (state := _state_of(module)) is not None]
    try:
        yield
    finally:
        for state in states:
            state.restore()
        random.restore()


def _state_of(module: torch.nn.Module) -> ModuleState | None:
    try:
        return ModuleStates().take(module, budget=1 << 62)[0]
    except CannotClone:
        return None


def _summary(recorder: Recorder, replayer: _Replayer) -> dict[str, Any]:
    signatures = [
        {
            "signature": number,
            "module": _name(seen.module),
            "calls": seen.calls,
            "replayed": replayer.replayed[number],
            "text": seen.text,
        }
        for number, seen in enumerate(recorder.signatures)
    ]
    return {
        "recorded": recorder.total,
        "kept": sum(call.kept is not None for call in recorder.calls),
        "replayed": sum(replayer.replayed.values()),
        "backwards": replayer.backwards,
        "skipped_after_errors": replayer.skipped,
        "signatures": signatures,
        "errors": replayer.errors,
        "cut": recorder.cut,
        "notes": [_PARAMETERS_NOTE] if replayer.backwards else [],
    }


def _name(module: torch.nn.Module) -> str:
    return type(getattr(module, "_orig_mod", module)).__qualname__


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:2000]

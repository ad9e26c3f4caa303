"""Peaks of memory, phase by phase, for a process of their own; how much memory a process can still take; and what a
training step keeps for its backward, tensor by tensor, with the most that it holds at once.

On CUDA a peak is what torch's allocator counts, and what CUDA graphs keep between calls, which it does not. On Linux
it is the process's own high-water mark, which can be set back, together with the memory of processes it started that
live on: compile workers. Elsewhere it is the peak of the whole process, which cannot be set back and is called so.

Eager and compiled steps are measured alike. What is kept is seen by hooks that autograd calls for each tensor that it
saves, and that is alive when the forward has ended. The peak is of what torch's allocators gave out since the step
began: of each allocation and release by torch's profiler on the CPU, by the allocator's own count on CUDA.
"""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Literal

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode

from dynalyze.capture.bench.call_workload import TrainStep, loss_of, tensors_in
from dynalyze.capture.bench.commands import MeasuredStep, Peaks, SavedForBackward
from dynalyze.capture.installed import is_torchs
from dynalyze.capture.process_tree import available_bytes, descendants, size_of
from dynalyze.capture.torch_private import compiled_code
from dynalyze.capture.torch_private.dynamo import frames_from

_KILO = 1024
_CLEAR = Path("/proc/self/clear_refs")
_MOST_STEPS = 8
_BACKWARD = "dynalyze: backward"


def peaks(device: str, run_passes: Callable[[], None]) -> Peaks:
    """The peak since the process began, and that of `run_passes` alone."""
    if device == "cuda":
        torch.cuda.synchronize()
        compile_peak = torch.cuda.max_memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        run_passes()
        torch.cuda.synchronize()
        steady = torch.cuda.max_memory_allocated() + _kept_by_graphs()
        return Peaks("cuda", steady, max(compile_peak, steady), torch.cuda.max_memory_reserved())
    if _CLEAR.exists():
        with contextlib.suppress(OSError):
            return _on_linux(run_passes)
    run_passes()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else _KILO)
    return Peaks("process", peak, peak)


def _kept_by_graphs() -> int:
    """Bytes that CUDA graphs keep and that count as free: nothing else can have what lies in the pool of a graph."""
    found = 0
    with contextlib.suppress(Exception):  # The snapshot's fields are no part of torch's documented interface.
        for segment in torch.cuda.memory_snapshot():
            if tuple(segment["segment_pool_id"]) != (0, 0):
                found += segment["total_size"] - segment["allocated_size"]
    return found


def _on_linux(run_passes: Callable[[], None]) -> Peaks:
    # Compilers that have ended are left out: what the kernel keeps of them is the size of the process that forked them.
    started = sum(size_of(f"{pid}/status", "VmHWM") for pid in descendants())
    compile_peak = size_of("self/status", "VmHWM") + started
    _CLEAR.write_text("5")
    run_passes()
    steady = size_of("self/status", "VmHWM")
    for pid in descendants():  # What they share counted in part: forked workers share most of their memory.
        steady += size_of(f"{pid}/smaps_rollup", "Pss") or size_of(f"{pid}/status", "VmRSS")
    return Peaks("rss", steady, max(compile_peak, steady))


def free_memory(model: Callable[..., Any]) -> int | None:
    """Free bytes where the model lies: on its GPU, or in the host's memory; None where that is not known."""
    device: Any = next((p.device for p in model.parameters()), None) if isinstance(model, torch.nn.Module) else None
    if device is not None and device.type == "cuda":
        # What torch's allocator holds and does not use can be had too.
        held = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0] + held)
    return available_bytes()


def step_memory(steps: Sequence[Any], model: Any, device: str, *, compiled: bool) -> list[MeasuredStep]:
    """Measure warm steps of a training, each by itself, without what the optimizer does."""
    found = []
    peak = _cuda_peak if device == "cuda" else _cpu_peak
    for step in [step for step in steps if isinstance(step, TrainStep)][:_MOST_STEPS]:
        saved = _saved(step, model, compiled)
        gc.collect()  # What goes away during the next pass would count as released by it.
        found.append(MeasuredStep(saved, *peak(step)))
    return found


def _forward(step: TrainStep) -> torch.Tensor:
    return loss_of(step.inner.run())


@dataclass(eq=False)
class _Packed:
    """What autograd holds in the place of a saved tensor; gone when autograd lets go of it."""

    tensor: torch.Tensor


class _Makers(TorchDispatchMode):  # type: ignore[misc]
    """Which operation of which line made each storage: that is what a compiled graph tells of its tensors too."""

    def __init__(self, module_of: Callable[[FrameType], str]) -> None:
        super().__init__()
        self.known: dict[Any, tuple[tuple[str, int, str] | None, str, str]] = {}
        self._module_of = module_of

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        given = {_storage(each) for each in tensors_in((args, kwargs))}
        made = [each for each in map(_storage, tensors_in(result)) if each not in given or func._schema.is_mutable]
        if made:
            frame = sys._getframe(1)
            maker = _line(frame), self._module_of(frame), func._schema.name.replace("::", ".")
            self.known.update(dict.fromkeys(made, maker))
        return result


@dataclass
class _Watch:
    modules: dict[int, str]
    makers: _Makers | None = None
    packed: list[tuple[SavedForBackward, weakref.ref[_Packed]]] = field(default_factory=list)
    graphs: dict[int, int] = field(default_factory=dict)

    def pack(self, tensor: torch.Tensor) -> _Packed:
        saved = SavedForBackward(0, str(tensor.dtype).removeprefix("torch."), list(tensor.shape))
        frame = sys._getframe(1)
        compiled = compiled_code.saving_graph(frame)
        if compiled is None:
            saved.place, saved.module = _line(frame), self.module(frame)
            if self.makers is not None and (maker := self.makers.known.get(_storage(tensor))) is not None:
                saved.place, saved.module, saved.op = maker
        else:
            saved.graph = self.graphs.setdefault(id(compiled), len(self.graphs))
        held = _Packed(tensor)
        self.packed.append((saved, weakref.ref(held)))
        return held

    def module(self, frame: FrameType) -> str:
        """The path of the innermost module whose method runs; "" where none does."""
        owners = (each.f_locals.get("self") for each in frames_from(frame) if "self" in each.f_code.co_varnames)
        return next((self.modules[id(owner)] for owner in owners if id(owner) in self.modules), "")


def _line(frame: FrameType) -> tuple[str, int, str] | None:
    """Where the innermost code that is not torch's stands."""
    outside = (each for each in frames_from(frame) if not is_torchs(each.f_code.co_filename))
    return next(((each.f_code.co_filename, each.f_lineno, each.f_code.co_name) for each in outside), None)


def _saved(step: TrainStep, model: Any, compiled: bool) -> list[SavedForBackward]:
    """What is saved when the forward of a step has ended, in the order in which it was saved."""
    step.prepare()
    named = model.named_modules() if isinstance(model, torch.nn.Module) else ()
    watch = _Watch({id(module): name for name, module in named})
    if not compiled:  # Nothing that Dynamo has compiled would run within such a mode.
        watch.makers = _Makers(watch.module)
    with torch.enable_grad():
        with saved_tensors_hooks(watch.pack, lambda held: held.tensor), watch.makers or contextlib.nullcontext():
            outputs = step.inner.run()
        loss = loss_of(outputs)
    held = [(saved, packed()) for saved, packed in watch.packed]
    alive = [(saved, packed.tensor) for saved, packed in held if packed is not None]
    alive += [
        (SavedForBackward(0, str(each.dtype).removeprefix("torch."), list(each.shape), graph=graph), each)
        for graph, each in _stashed(loss, watch.graphs)
    ]
    weights = (each for name in ("parameters", "buffers") for each in getattr(model, name, tuple)())
    known = {_storage(each) for each in (*weights, *tensors_in(list(step.given())))}
    for saved, tensor in alive:
        if (storage := _storage(tensor)) not in known:
            known.add(storage)
            saved.bytes = tensor.untyped_storage().nbytes()
    return [saved for saved, _ in alive]


def _storage(tensor: torch.Tensor) -> Any:
    try:
        return tensor.untyped_storage().data_ptr() or id(tensor)
    except (RuntimeError, NotImplementedError):  # A sparse tensor, or another without a storage of its own.
        return id(tensor)


def _stashed(loss: torch.Tensor, graphs: dict[int, int]) -> Iterator[tuple[int | None, torch.Tensor]]:
    """Tensors that functions in Python keep as attributes of their context, where no hook sees them."""
    nodes, seen = [loss.grad_fn], set()
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        for kept in vars(node).values() if hasattr(node, "__dict__") else ():
            for each in kept if isinstance(kept, (list, tuple)) else (kept,):
                if isinstance(each, torch.Tensor):
                    yield graphs.get(id(compiled_code.graph_of_node(node))), each
        nodes += [following for following, _ in node.next_functions]


def _cpu_peak(step: TrainStep) -> tuple[int, Literal["forward", "backward"]]:
    # Read when it is first used: it would report its own stages on standard error.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    from torch.profiler import ProfilerActivity, profile, record_function

    step.prepare()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded, torch.enable_grad():
        loss = _forward(step)
        with record_function(_BACKWARD):
            loss.backward()
    events = sorted(recorded.profiler.kineto_results.events(), key=lambda event: event.start_ns())
    held = peak = 0
    phase: Literal["forward", "backward"] = "forward"
    reached = phase
    for event in events:
        if event.name() == _BACKWARD:
            phase = "backward"
        elif event.name() == "[memory]":
            held += event.nbytes()
            if held > peak:
                peak, reached = held, phase
    return peak, reached


def _cuda_peak(step: TrainStep) -> tuple[int, Literal["forward", "backward"]]:
    step.prepare()

    def peak_of(run: Callable[[], Any]) -> tuple[Any, int]:
        torch.cuda.reset_peak_memory_stats()
        result = run()
        torch.cuda.synchronize()
        return result, torch.cuda.max_memory_allocated()

    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    with torch.enable_grad():
        loss, forward = peak_of(lambda: _forward(step))
        _, backward = peak_of(loss.backward)
    return max(forward, backward) - before, "backward" if backward > forward else "forward"

"""The calls that a program made, read in another process: each a step with the inputs and surroundings it had."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import importlib.machinery
import logging
import os
import pickle
import sys
import types
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from dynalyze.capture.bench import pickling
from dynalyze.capture.bench.call_workload import pass_sizes
from dynalyze.capture.bench.configure import CallableGroup
from dynalyze.capture.bench.failures import Failed, one_line
from dynalyze.capture.bench.language import LanguageWorkload
from dynalyze.capture.bench.monkey_patches import MonkeyPatch, apply_patches
from dynalyze.capture.bench.protocol import RERUN_HINT, WorkerRequest
from dynalyze.capture.bench.workload import Step, Workload
from dynalyze.capture.calls import CompiledAs, KeptCall
from dynalyze.capture.clone import freeze
from dynalyze.capture.compiling import moved, place
from dynalyze.capture.held import name_of
from dynalyze.capture.inputs import Inputs, Misuse
from dynalyze.capture.nested_values import leaves, reachable_modules
from dynalyze.capture.settings import LANGUAGE_PHASES, Generation, Placement, settings_of
from dynalyze.capture.shapes import resized

BUNDLE_FILE = "bundle.pt"
_NO_BUDGET = 1 << 62


@dataclass(slots=True)
class BundledCall:
    """One call: which of the bundle's callables it went to, and all that it needs to be made again."""

    target: int
    kept: KeptCall
    backward: bool
    backward_twice: bool = False


@dataclass(slots=True)
class Bundle:
    """`written` is how the program compiled each callable: None where it did not, b"" where that cannot travel;
    `levels` are those of its loggers, which decide what is logged; `patches` what it put into modules of others.
    """

    targets: list[Any]
    calls: list[BundledCall]
    names: list[str]
    written: list[bytes | CompiledAs | None]
    levels: dict[str, int] = field(default_factory=dict)
    patches: list[MonkeyPatch] = field(default_factory=list)


def digest_of(path: Path) -> str:
    """The SHA-256 of what is unpickled of a file, and its size. Its tensors are data, of gigabytes maybe."""
    with zipfile.ZipFile(path) as file:
        (name,) = (each for each in file.namelist() if each.endswith("/data.pkl"))
        digest = hashlib.sha256(file.read(name)).hexdigest()
    return f"{digest}-{path.stat().st_size}"


def open_bundle(request: WorkerRequest) -> Bundle:
    """The calls that a request names whose source is {"kind": "bundle", "file", "digest", "sys_path", "arguments",
    "folder"}, as the event of the recording has them; the process looks like the program's from here on. Raises Failed:
    not_replayable, with the reason.
    """
    path, digest = Path(request.source["file"]), request.source.get("digest")
    try:
        found = digest_of(path)
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise Failed("not_replayable", f"the recorded calls cannot be read: {error}") from error
    # Nothing is unpickled but the very file that our own child wrote in this run.
    if not digest or found != digest:
        raise Failed("not_replayable", "the file of recorded calls is not the one that was written in this run")
    _as_the_program(request.source)
    try:
        pickling.load_cloudpickle(request.cloudpickle)
        bundle: Bundle = pickling.load(path)
        for name, level in bundle.levels.items():
            logging.getLogger(name).setLevel(level)
        apply_patches(bundle.patches)
        pickling.note_recordable_outputs(bundle.targets)
    except Exception as error:
        reason = f"the recorded calls cannot be read here: {one_line(error)}; {RERUN_HINT}"
        raise Failed("not_replayable", reason) from error
    return bundle


def workload_of(bundle: Bundle, request: WorkerRequest) -> Workload:
    """The calls of a bundle, or a phase of its language model in the sizes of its first call."""
    if request.phase not in LANGUAGE_PHASES:
        return RecordedWorkload(bundle, request)
    recorded = RecordedWorkload(bundle, replace(request, phase="forward", shape=()))
    call = recorded.calls[0]
    call.kept.state.restore()
    alike = all(target is bundle.targets[0] for target in bundle.targets)
    model = bundle.targets[0] if alike else recorded.model
    return LanguageWorkload(
        model, request.phase, calls=[Inputs(*call.kept.inputs.thaw())], batch=request.batch, sequence=request.sequence,
        seed=request.seed, **settings_of(request, Generation),
    )  # fmt: skip


def check_sizes(request: WorkerRequest) -> None:
    """Refuse (Misuse) sizes for calls that have theirs, outside the phases of a language model."""
    sized = request.batch is not None or request.sequence is not None
    if sized and request.phase not in LANGUAGE_PHASES:
        raise Misuse("--batch and --sequence need a model that makes its inputs: these are the calls of a program")


class RecordedWorkload(Workload):
    """The recorded calls, in their order, without the program's backward.

    Phase "train" takes the calls that had one, with gradients, for a training step to be put around each.
    """

    def __init__(self, bundle: Bundle, request: WorkerRequest) -> None:
        trains = request.phase == "train"
        calls = [call for call in bundle.calls if call.backward] if trains else []
        self.calls = list(calls or bundle.calls)
        self._written = bundle.written
        train = True if trains and not calls and request.train is None else request.train
        self._placement = Placement(train=train, device=request.device, dtype=request.dtype)
        model = bundle.targets[0] if len(bundle.targets) == 1 else CallableGroup(bundle.targets)
        self._resize(request, bundle.targets)
        one_module = len(bundle.targets) == 1 and _module_behind(model) is not None
        sizes = pass_sizes([call.kept.inputs.thaw() for call in self.calls]) if one_module else {}
        twice = any(call.backward_twice for call in self.calls)
        super().__init__(model, phase="train" if trains else "forward", second_gradients=twice, **sizes)
        for module in map(_module_behind, bundle.targets):
            if module is not None:
                place(module, replace(self._placement, train=None))
        called = {bundle.names[call.target]: None for call in self.calls}
        if len({call.target for call in self.calls}) > 1:
            self.notes.append(f"A pass calls several parts of the program: {', '.join(called)}.")
        if left := dict.fromkeys(name for name in bundle.names if name not in called):
            self.notes.append(f"Calls of {', '.join(left)} have no backward, and are not in a training step.")
        if any(call.kept.random.numpy is not None for call in self.calls):
            importlib.import_module("numpy.random")

    def steps(self, target: Callable[..., Any]) -> list[Step]:
        stand_ins = _stand_ins(self.model, target)
        shared: list[Any] = []

        def step(call: BundledCall) -> Step:
            called = target
            if isinstance(target, CallableGroup):
                called = target.callables[call.target]
            elif isinstance(self.model, CallableGroup):
                called = functools.partial(target, call.target)
            kept = replace(call.kept, state=call.kept.state.of(stand_ins))
            return RecordedStep(called, kept, self._placement, self.phase == "train", shared)

        return list(map(step, self.calls))

    def tensors(self) -> Iterator[torch.Tensor]:
        for module in reachable_modules(self.model.callables if isinstance(self.model, CallableGroup) else self.model):
            yield from module.parameters()
            yield from module.buffers()
        inputs = leaves(self.calls[0].kept.inputs.thaw(), objects=True)
        yield from (leaf for leaf in inputs if isinstance(leaf, torch.Tensor))

    def referenced(self) -> Iterator[Any]:
        for call in self.calls:
            yield from call.kept.inputs.held()

    def as_written(self) -> Callable[..., Any]:
        parts = self.model.callables if isinstance(self.model, CallableGroup) else [self.model]
        made = []
        for part, written in zip(parts, self._written, strict=True):
            if written is None:
                raise Failed("misuse", f"the program does not compile {name_of(part)} by itself")
            if not written:
                reason = f"the program's own arguments of torch.compile cannot travel; {RERUN_HINT}"
                raise Failed("not_replayable", reason)
            how: CompiledAs = pickle.loads(written) if isinstance(written, bytes) else written
            made.append(how.compile(part))
        return CallableGroup(made) if isinstance(self.model, CallableGroup) else made[0]

    def _resize(self, request: WorkerRequest, targets: list[Any]) -> None:
        """Give the calls the sizes that are asked for; those that have no such input stay as they are."""
        shape = dict(request.shape)
        if not any(dim.name in shape for dim in request.dims):
            return
        for target in {call.target for call in self.calls}:
            own = [number for number, call in enumerate(self.calls) if call.target == target]
            inputs = [Inputs(*self.calls[number].kept.inputs.thaw()) for number in own]
            for number, each in zip(own, resized(inputs, request.dims, shape, targets[target]), strict=True):
                kept = replace(self.calls[number].kept, inputs=freeze(tuple(each), _NO_BUDGET))
                self.calls[number] = replace(self.calls[number], kept=kept)


@dataclass(eq=False)
class RecordedStep(Step):
    """One recorded call, with gradients where `grad`. `shared` holds the inputs of one step at a time."""

    target: Callable[..., Any]
    kept: KeptCall
    placement: Placement
    grad: bool
    shared: list[Any]

    def __post_init__(self) -> None:
        modes = replace(self.kept.modes, grad=True, inference=False) if self.grad else self.kept.modes
        # Nothing is entered where the modes are torch's defaults: this is inside the timed part.
        self._entered: Callable[[], contextlib.AbstractContextManager[Any]] = (
            modes.applied
            if modes.autocast or modes.inference
            else contextlib.nullcontext
            if modes.grad
            else torch.no_grad
        )
        self._parameters = [p for part in self.kept.state.parts for p in part._parameters.values() if p is not None]
        self._gradients: list[tuple[torch.Tensor, torch.Tensor]] | None = None

    def prepare(self) -> None:
        self.shared.clear()
        for parameter in self._parameters:
            parameter.grad = None
        self.shared.append(moved(self.kept.inputs.thaw(), self.placement))
        self.kept.state.restore()
        if self.placement.train is not None:
            for part in self.kept.state.parts:
                part.training = self.placement.train
        torch.set_default_dtype(self.kept.modes.default_dtype)
        if self.kept.with_gradient:
            self._give_gradients()
        self.kept.random.restore()

    def _give_gradients(self) -> None:
        """Some as large as the program's were, the same each time: its own are not kept."""
        if self._gradients is None:
            torch.manual_seed(0)
            known = [(each, norm) for ref, norm in self.kept.with_gradient if (each := ref()) is not None]
            made = [(each, torch.randn_like(each), norm) for each, norm in known]
            self._gradients = [
                (each, random * (norm / torch.linalg.vector_norm(random)).to(random.dtype))
                for each, random, norm in made
            ]
        for parameter, gradient in self._gradients:
            parameter.grad = gradient.clone()

    def run(self) -> Any:
        args, kwargs = self.shared[0]
        with self._entered():
            return self.target(*args, **kwargs)

    def given(self) -> Iterator[Any]:
        yield from leaves(self.shared[0], objects=False)
        for part in self.kept.state.parts:
            yield from (*part._parameters.values(), *part._buffers.values())


def _stand_ins(model: Any, target: Any) -> dict[int, torch.nn.Module]:
    """The modules of what stands in the model's place, as a copy in fp64 does, by the id of the original's. What only
    wraps the model has none.
    """
    original, other = _module_behind(model), _module_behind(target)
    if original is None or other is None or original is other:
        return {}
    if isinstance(original, CallableGroup) and isinstance(other, CallableGroup):
        pairs = zip(original.callables, other.callables, strict=True)
        return {token: part for one, two in pairs for token, part in _stand_ins(one, two).items()}
    theirs = dict(other.named_modules())
    return {id(part): theirs[name] for name, part in original.named_modules() if name in theirs}


def _module_behind(target: Any) -> torch.nn.Module | None:
    """The uncompiled module that a call of `target` ends in; None where it is a function."""
    for _ in range(10):
        if isinstance(target, torch.nn.Module):
            if target._modules.get("_orig_mod") is None:
                return target
            target = target._modules["_orig_mod"]
        else:
            held = (getattr(target, name, None) for name in ("__wrapped__", "model", "__self__"))
            target = next((each for each in held if each is not None), None)
    return None


def _as_the_program(source: dict[str, Any]) -> None:
    """Arguments, folder, import path and `__main__` as the program had them: classes are found by their names."""
    sys.argv = list(source.get("arguments") or sys.argv[:1])
    if source.get("folder"):
        with contextlib.suppress(OSError):
            os.chdir(source["folder"])
    own = [entry for entry in sys.path if entry not in source.get("sys_path", ())]
    sys.path[:] = [*source.get("sys_path", ()), *own]
    main = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = importlib.import_module("builtins")
    sys.modules["__main__"] = main

"""One run of a workload's pass for the accuracy test: every tensor that came out, by name, in host memory.

Gradients are not those of the training step's own loss. They are taken at the model: from its loss where it returns
one, else from all of its outputs in one fixed random direction, which reaches more of the backward than a sum would.
The step goes on with outputs that are cut off from the model.
"""

from __future__ import annotations

import dataclasses
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from dynalyze.capture.bench.contracts import Promises, kept_state
from dynalyze.capture.bench.fp64_reference import Fp64Reference, to_fp64
from dynalyze.capture.bench.state_snapshot import StateSnapshot, held_tensors, random_position
from dynalyze.capture.bench.workload import Workload
from dynalyze.capture.bench.workload import seed as set_seed
from dynalyze.capture.call_context import version_of
from dynalyze.capture.nested_values import Copier, children, container_base

Kind = Literal["output", "gradient"]
Key = tuple[int, Kind, str]  # The step, and what the tensor is.


@dataclass
class RunOutputs:
    """The tensors of one pass, what it kept beside their values, and where the random generators stood.

    `moves` is whether calls leave anything behind, beside in buffers, that later ones meet.
    """

    tensors: dict[Key, torch.Tensor] = field(default_factory=dict)
    positions: list[tuple[Any, ...]] = field(default_factory=list)
    draws: bool = False
    moves: bool = False
    promises: Promises = field(default_factory=Promises)


class OutputCapture:
    """Runs passes of one workload from one state, standing for the target to note what goes in and comes out.

    What one run finds out about names serves the next ones. With `gradients` these are taken of calls of any phase,
    where what comes out has them.
    """

    def __init__(self, workload: Workload, state: StateSnapshot, *, gradients: bool = False) -> None:
        self._workload = workload
        self._gradients = gradients
        self._state = state
        self._train = workload.phase == "train"
        self._mutated: set[Key] = set()
        self._changed: set[str] = set()
        self._names = _parameter_names(workload.model)
        self._directions: dict[Key, torch.Tensor] = {}
        self._unowned: dict[str, torch.Tensor] = {}
        self.rounds = 1
        """How often each call is made, of which the later ones meet what the earlier ones left behind."""

    def run(self, target: Callable[..., Any], *, reference: bool = False, seeds: int | None = None) -> RunOutputs:
        """One pass over `target`, which is an Fp64Reference, or has the workload's model behind it.

        `reference` marks the first run in eager: it decides which of the inputs are compared after the call. With
        `seeds` calls draw other random numbers, for each number others.
        """
        self._state.restore()
        run = self._run = RunOutputs()
        self._target = target
        self._own_names = _parameter_names(target.model) if isinstance(target, Fp64Reference) else {}
        held = kept_state(self._workload.model)
        for number, step in enumerate(self._workload.steps(self) * self.rounds):
            step.prepare()
            if not number:
                self._state.mark_start()
            if seeds is not None:
                set_seed(seeds + number)
            before = random_position()
            self._step, self._call = number, 0
            self._inputs: list[tuple[str, torch.Tensor, int]] = []
            outputs = step.run()
            run.positions.append(random_position())
            run.draws = run.draws or run.positions[-1] != before
            self._keep("", None if self._train else outputs)
            for name, tensor, version in self._inputs:
                key: Key = (number, "output", name)
                if reference and version != version_of(tensor):
                    self._mutated.add(key)
                    run.moves = run.moves or isinstance(tensor, torch.nn.Parameter)
                if key in self._mutated:
                    run.tensors[key] = on_host(tensor)
        run.promises.note_state(held, kept_state(self._workload.model))
        run.promises.left = self._state.held.plain_changes()
        run.moves = run.moves or bool(run.promises.left)
        changed = dict(self._state.changed_buffers())
        self._changed |= changed.keys() if reference else set()
        if isinstance(target, Fp64Reference):
            changed = {name: t for name, t in held_tensors(target.model) if name in self._changed}
        for name, tensor in changed.items():
            run.tensors[len(run.positions) - 1, "output", f"buffer {name}"] = on_host(tensor)
        self._state.restore()
        return run

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if isinstance(self._target, Fp64Reference):
            args, kwargs = to_fp64((args, kwargs))
        named = [*({str(number): value} for number, value in enumerate(args)), kwargs]
        inputs = {name: tensor for given in named for name, tensor in named_tensors(given)}
        self._inputs += [(f"{name} after the call", t, version_of(t)) for name, t in inputs.items()]
        outputs = self._target(*args, **kwargs)
        if not isinstance(self._target, Fp64Reference):
            given = {f"input {name}": tensor for name, tensor in inputs.items()}
            call = f"step {self._step}, call {self._call}: " if self._step or self._call else ""
            self._run.promises.note(call, outputs, (args, kwargs), given, dict(named_tensors(outputs)))
        if not self._train:
            if self._gradients:
                self._differentiate("", outputs, inputs)
            return outputs
        prefix = f"call {self._call}: " if self._call else ""
        self._call += 1
        self._keep(prefix, outputs)
        self._differentiate(prefix, outputs, inputs)
        return Copier(_cut_off).copy(outputs)

    def _keep(self, prefix: str, outputs: Any) -> None:
        for name, tensor in named_tensors(outputs):
            self._run.tensors[self._step, "output", prefix + name] = on_host(tensor)

    def _differentiate(self, prefix: str, outputs: Any, inputs: dict[str, torch.Tensor]) -> None:
        parts = {name: t for name, t in named_tensors(outputs) if t.grad_fn is not None}
        losses = {name: t for name, t in parts.items() if t.numel() == 1 and t.is_floating_point()}
        parts = losses or parts
        leaves = list({id(x): x for part in parts.values() for x in _graph_leaves(part.grad_fn)}.values())
        if not leaves:
            return
        directions = [self._direction(prefix + name, part) for name, part in parts.items()]
        twice = self._gradients and self._workload.second_gradients
        gradients = torch.autograd.grad(list(parts.values()), leaves, directions, allow_unused=True, create_graph=twice)
        own = self._own_names | {id(tensor): f"input {name}" for name, tensor in inputs.items()}
        numbered = self._numbered([leaf for leaf in leaves if id(leaf) not in own])
        names = [own.get(id(leaf)) or numbered[id(leaf)] for leaf in leaves]
        given = {name: each for name, each in zip(names, gradients, strict=True) if each is not None}
        again = {name: each for name, each in given.items() if each.grad_fn is not None} if twice else {}
        if again:
            directions = [self._direction(f"{prefix}gradient {name}", each) for name, each in again.items()]
            seconds = torch.autograd.grad(list(again.values()), leaves, directions, allow_unused=True)
            found = zip(names, seconds, strict=True)
            given |= {f"{name}, second order": each for name, each in found if each is not None}
        for name, gradient in given.items():
            self._run.tensors[self._step, "gradient", prefix + name] = on_host(gradient)

    def _numbered(self, leaves: Sequence[torch.Tensor]) -> dict[int, str]:
        """Names, by id, of leaves that the model does not own: a parameter that a function reaches keeps its number,
        and a tensor that each run makes anew takes the number that one like it had in the run before.
        """
        found = {id(leaf): self._names[id(leaf)] for leaf in leaves if id(leaf) in self._names}
        for leaf in leaves:
            if id(leaf) in found:
                continue
            free = (name for name in self._unowned if name not in found.values())
            name = next((each for each in free if self._unowned[each].shape == leaf.shape), None)
            if name is None:
                name = self._names[id(leaf)] = f"parameter {len(self._names)}"
                self._unowned[name] = leaf  # Kept, so that no other tensor has its id.
            found[id(leaf)] = name
        return found

    def _direction(self, name: str, part: torch.Tensor) -> torch.Tensor:
        """The same for every run: drawn once, in the type of eager's output."""
        key: Key = (self._step, "output", name)
        known = self._directions.get(key)
        if known is None or known.shape != part.shape:
            random = torch.Generator().manual_seed(zlib.crc32(name.encode()))
            drawn = torch.randn(part.shape, generator=random, dtype=torch.float32) / max(1, part.numel()) ** 0.5
            known = (torch.ones(part.shape) if part.numel() == 1 else drawn).to(part.dtype)
            self._directions[key] = known
        return known.to(part.device, part.dtype)


def named_tensors(outputs: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors of nested outputs with their paths: `logits`, `hidden_states[2]`, `[0].mean`; a single one: `output`.

    Arrays of numbers of NumPy count as tensors. Containers and dataclasses are opened. Caches and other objects are
    not: what is wrong in a cache shows in what is computed from it.
    """
    seen: set[int] = set()

    def walk(value: Any, path: str) -> Iterator[tuple[str, torch.Tensor]]:
        if isinstance(value, torch.Tensor):
            yield path or "output", value
            return
        if is_array(value):
            yield path or "output", torch.as_tensor(value)
            return
        base = container_base(value)
        if id(value) in seen or not (base is not None or dataclasses.is_dataclass(value)):
            return
        seen.add(id(value))
        for key, item in base.items(value) if base is not None and issubclass(base, dict) else children(value):
            step = f"[{key}]" if isinstance(key, int) else f".{key}"
            yield from walk(item, (path + step).lstrip("."))

    yield from walk(outputs, "")


def is_array(value: Any) -> bool:
    """Whether it is an array of NumPy, which Dynamo traces as a tensor, and of a type that torch has."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and type(value) is numpy.ndarray and value.dtype.kind in "biufc" and value.dtype.isnative


def _parameter_names(model: Callable[..., Any]) -> dict[int, str]:
    return {id(p): name for name, p in model.named_parameters()} if isinstance(model, torch.nn.Module) else {}


def on_host(tensor: torch.Tensor) -> torch.Tensor:
    dense = tensor.detach()
    dense = dense.to_dense() if dense.layout is not torch.strided else dense
    dense = dense.dequantize() if dense.is_quantized else dense
    return dense.to("cpu", copy=True).resolve_conj().resolve_neg()


def _cut_off(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().requires_grad_() if value.requires_grad else value
    return value if isinstance(value, torch.nn.Module) else NotImplemented


def _graph_leaves(root: Any) -> Iterator[torch.Tensor]:
    """The leaves that the graph accumulates gradients into."""
    seen, waiting = {root}, [root]
    while waiting:
        node = waiting.pop()
        variable = getattr(node, "variable", None)
        if isinstance(variable, torch.Tensor):
            yield variable
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append(following)

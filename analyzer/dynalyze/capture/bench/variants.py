"""Variants of the inputs of a workload that leave its meaning: other memory, other sizes, special values, gradients,
and further calls that meet what the ones before left.

Each is a change of all inputs of a call that works the same for eager, compiled and fp64. `protocol.VARIANTS` has the
names in the order in which they are tried.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch

from dynalyze.capture.bench.failures import one_line
from dynalyze.capture.bench.protocol import VARIANTS
from dynalyze.capture.bench.state_snapshot import StateSnapshot, held_tensors
from dynalyze.capture.bench.workload import Step, Workload, run_untimed
from dynalyze.capture.nested_values import Copier, leaves

Change = Callable[[Any], Any]
Around = Callable[[Any, Any], AbstractContextManager[Any]]
Tensors = Callable[[torch.Tensor], torch.Tensor]
_SEED = 1337
_IMAGES = {4: torch.channels_last, 5: torch.channels_last_3d}
_nothing: Around = lambda model, inputs: nullcontext()  # noqa: E731
_PRIME = 7
_EVERY = 3
_GAP = 2


class NoSuchVariant(Exception):
    """The variant makes no difference to these inputs, or they have no such thing."""


class VariedWorkload(Workload):
    """The steps of another workload, whose model gets other inputs."""

    def __init__(self, inner: Workload, variant: str) -> None:
        self._differentiates = variant == "gradients"
        super().__init__(inner.model, "train" if self._differentiates else inner.phase)
        self._inner = inner
        self._changes = _CHANGES[variant]
        self._around = _AROUND.get(variant, (_nothing,) * len(self._changes))

    def refusal(self) -> str | None:
        """What eager says to these inputs, "" where it takes them; None where they are the program's own.

        Everything is left as it was found.
        """
        state = StateSnapshot(self.model, _SEED, self.referenced())
        try:
            run_untimed(self.steps(self.model))
        except NoSuchVariant:
            return None
        except Exception as error:
            return one_line(error)
        finally:
            state.leave()
        return ""

    def referenced(self) -> Iterator[Any]:
        return self._inner.referenced()

    def steps(self, target: Callable[..., Any]) -> list[Step]:
        """The calls of one pass; where there are several changes, a pass of each in one step."""
        passes = zip(self._changes, self._around, strict=True)
        steps = [self._inner.steps(self._varied(target, change, around)) for change, around in passes]
        return steps[0] if len(steps) == 1 else [_InOrder([step for each in steps for step in each])]

    def _varied(self, target: Callable[..., Any], change: Change, around: Around) -> Callable[..., Any]:
        def varied(*args: Any, **kwargs: Any) -> Any:
            args, kwargs = change((args, kwargs))
            with around(self.model, (args, kwargs)):
                if not self._differentiates:
                    return target(*args, **kwargs)
                with torch.inference_mode(False), torch.enable_grad():
                    return target(*args, **kwargs)

        return varied


class _InOrder(Step):
    """Steps of which each meets the state of the model that the one before left; their inputs are fresh."""

    def __init__(self, steps: list[Step]) -> None:
        self._steps = steps

    def prepare(self) -> None:
        for step in self._steps:
            step.prepare()

    def run(self) -> Any:
        # A CUDA graph writes over what it gave in the call before.
        return [Copier(_off_the_graph).copy(step.run()) for step in self._steps]


def _off_the_graph(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.is_cuda:
        return value.detach().clone()
    return value if isinstance(value, (torch.Tensor, torch.nn.Module)) else NotImplemented


@contextmanager
def _other_mode(model: Any, inputs: Any) -> Iterator[None]:
    """After train() of a model that evaluates, or after eval() of one that trains."""
    if not isinstance(model, torch.nn.Module):
        raise NoSuchVariant
    before = [(part, part.training) for part in model.modules()]
    model.train(not model.training)
    try:
        yield
    finally:
        for part, training in before:
            part.training = training


def _autocast(model: Any, inputs: Any) -> AbstractContextManager[Any]:
    held = (tensor for _, tensor in held_tensors(model))
    device = next((each.device.type for each in (*_tensors(inputs), *held) if each.is_floating_point()), "")
    if not device or torch.is_autocast_enabled(device):
        raise NoSuchVariant
    made: AbstractContextManager[Any] = torch.autocast(device, torch.bfloat16)
    return made


def _each(change: Tensors, *, floating: bool | None = None) -> Change:
    """A change of every tensor that it fits: of `floating` ones alone, or of integers alone."""

    def whole(inputs: Any) -> Any:
        changed = []

        def leaf(each: Any) -> Any:
            if not _is_plain(each) or (floating is not None and each.is_floating_point() != floating):
                return each if isinstance(each, (torch.Tensor, torch.nn.Module)) else NotImplemented
            with torch.no_grad():
                made = change(each.detach())
            if made is None:
                return each
            changed.append(made)
            return made.requires_grad_(each.requires_grad)

        made = Copier(leaf).copy(inputs)
        if not changed:
            raise NoSuchVariant
        return made

    return whole


def _is_plain(value: Any) -> bool:
    plain = type(value) is torch.Tensor and value.layout is torch.strided and not value.is_quantized
    return plain and value.device.type != "meta" and value.numel() > 0


def _permuted(tensor: torch.Tensor) -> torch.Tensor | None:
    """The last dimensions first in memory; of an image or a volume its channels last."""
    if sum(size > 1 for size in tensor.shape) < 2 or not tensor.is_contiguous():
        return None
    image = _IMAGES.get(tensor.dim())
    if image is not None and not tensor.is_contiguous(memory_format=image):
        return tensor.contiguous(memory_format=image)
    order = list(range(tensor.dim()))[::-1]
    return tensor.permute(order).contiguous().permute(order)


def _gapped(tensor: torch.Tensor) -> torch.Tensor | None:
    if not tensor.dim():
        return None
    wide = tensor.new_zeros((*tensor.shape[:-1], _GAP * tensor.shape[-1]))
    wide[..., ::_GAP] = tensor
    return wide[..., ::_GAP]


def _spread(*values: float) -> Tensors:
    """Replace every third element of a tensor by these values in turn."""

    def change(tensor: torch.Tensor) -> torch.Tensor:
        made = tensor.clone(memory_format=torch.contiguous_format)
        places = made.view(-1)[::_EVERY]
        places.copy_(
            torch.tensor(values, dtype=torch.float64).repeat(math.ceil(len(places) / len(values)))[: len(places)]
        )
        return made

    return change


def _extremes(tensor: torch.Tensor) -> torch.Tensor | None:
    """The extreme numbers of the type, but where one would size an allocation, or end the process (CUDA)."""
    if tensor.dtype in (torch.bool, torch.int32) or tensor.is_complex() or tensor.device.type != "cpu":
        return None
    made, limits = tensor.clone(memory_format=torch.contiguous_format), torch.iinfo(tensor.dtype)
    made.view(-1)[::2], made.view(-1)[1::2] = limits.max, limits.min
    return made


def _batch(size: int | None) -> Change:
    """Another size of the first dimension, which all tensors share; None is one more than it is."""

    def whole(inputs: Any) -> Any:
        sizes = {each.shape[0] for each in leaves(inputs, objects=True) if _is_plain(each) and each.dim()}
        own = sizes.pop() if len(sizes) == 1 else 0
        wanted = own + 1 if size is None else size
        if own in (0, wanted):
            raise NoSuchVariant
        rows = torch.arange(wanted) % own
        return _each(lambda tensor: tensor[rows.to(tensor.device)] if tensor.dim() else None)(inputs)

    return whole


def _shared(inputs: Any) -> Any:
    """Make one tensor of those with equal shape, dtype, device and requires_grad."""
    first: dict[tuple[Any, ...], torch.Tensor] = {}
    known: set[int] = set()

    def one_of(tensor: torch.Tensor) -> torch.Tensor:
        known.add(id(tensor))
        return first.setdefault((tensor.shape, tensor.dtype, tensor.device, tensor.requires_grad), tensor)

    def leaf(each: Any) -> Any:
        if isinstance(each, (torch.Tensor, torch.nn.Module)):
            return one_of(each) if _is_plain(each) else each
        return NotImplemented

    made = Copier(leaf).copy(inputs)
    if len(first) == len(known):
        raise NoSuchVariant
    return made


def _with_gradients(inputs: Any) -> Any:
    """Let all floating inputs require a gradient; none, where all do already."""
    floats = [each for each in _tensors(inputs) if each.is_floating_point()]
    wanted = not all(each.requires_grad for each in floats)

    def leaf(each: Any) -> Any:
        if _is_plain(each) and each.is_floating_point():
            return each.detach().clone().requires_grad_(wanted)
        return each if isinstance(each, (torch.Tensor, torch.nn.Module)) else NotImplemented

    if not floats:
        raise NoSuchVariant
    return Copier(leaf).copy(inputs)


def _tensors(inputs: Any) -> Iterator[torch.Tensor]:
    return (each for each in leaves(inputs, objects=True) if _is_plain(each))


_own: Change = lambda inputs: inputs  # noqa: E731
_CHANGES: dict[str, tuple[Change, ...]] = {
    "other memory format": (_each(_permuted),),
    "not contiguous": (_each(_gapped),),
    "storage offset": (_each(lambda x: torch.cat([x.new_zeros(1), x.reshape(-1)])[1:].view(x.shape)),),
    "expanded": (_each(lambda x: x[:1].expand(x.shape) if x.dim() and x.shape[0] > 1 else None),),
    "batch 0": (_batch(0),),
    "batch 1": (_batch(1),),
    "batch 7": (_batch(_PRIME),),
    "a second call with another batch": (_own, _batch(None)),
    "a second call": (_own, _own),
    "a call in the other mode between two": (_own, _own, _own),
    "a second call under autocast": (_own, _own),
    "gradients": (_with_gradients,),
    "one tensor as several": (_shared,),
    "NaN": (_each(_spread(math.nan), floating=True),),
    "infinities": (_each(_spread(math.inf, -math.inf), floating=True),),
    "zeros of both signs": (_each(_spread(0.0, -0.0), floating=True),),
    "subnormal numbers": (_each(lambda x: torch.full_like(x, torch.finfo(x.dtype).tiny / 4), floating=True),),
    # With the same signs, and so large that squares can still be summed: what overflows first is chance.
    "large numbers": (_each(lambda x: x.sign() * torch.finfo(x.dtype).max ** 0.25, floating=True),),
    "largest and least integers": (_each(_extremes, floating=False),),
}
_AROUND: dict[str, tuple[Around, ...]] = {
    "a call in the other mode between two": (_nothing, _other_mode, _nothing),
    "a second call under autocast": (_nothing, _autocast),
}
assert _CHANGES.keys() == set(VARIANTS)

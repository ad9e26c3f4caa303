"""Random inputs like those of a call: other values, the same structure, strides, dtypes and devices; and the same call
in other circumstances: another batch or length, gradients or none, training or evaluation, autocast, other weights,
numbers and strides.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch

from dynalyze.capture.bench.workload import Step, Workload
from dynalyze.capture.nested_values import Copier, leaves, reachable_modules

Kind = Literal[
    "alike", "floats", "near", "zeros", "negated", "large", "tiny", "constant", "nan", "inf", "turned round"
]  # fmt: skip
"""How values are drawn: `alike` all of them from the range they had; `floats` those of floating tensors alone; `near`
these too, close by what they were; the others change floating tensors in one way, to come by another side of a branch.
The last one draws nothing: it says that conditions were negated (`flip_conditions`).
"""
Circumstance = Literal[
    "", "gradients", "other mode", "smaller batch", "larger batch", "other length", "other weights", "other numbers",
    "no gradients", "other strides", "channels last", "autocast", "other dtype",
]  # fmt: skip
"""What else is another than in the program's own calls: inputs that need gradients; training for evaluation or the
other way round, with gradients where weights need them; the size of the first dimension that all tensors share, or of
the second one wherever it stands; parameters with the other sign and buffers with other values, none of them zero;
floating numbers among the arguments, and those that the program's own modules hold; inference mode where the calls had
gradients; inputs that are not contiguous, and images with their channels last; autocast to bfloat16 where the calls had
none; float64 for all floating numbers, or float32 for those that are float64, without gradients.
"""
Reshape = Callable[[torch.Tensor], torch.Tensor]
LESS: dict[Kind, Kind] = {"alike": "floats", "floats": "near"}
"""What to draw where a model refuses all inputs of a kind."""
SEARCHING: tuple[Kind, ...] = get_args(Kind)[3:-1]
CIRCUMSTANCES: tuple[Circumstance, ...] = get_args(Circumstance)[1:]
UNUSED = CIRCUMSTANCES[-5:]
"""Those in which a change may refuse to run, loudly: the program never is."""
_MOST_MASK = 2
_TINY, _LARGE, _NEAR = 1e-4, 1e4, 1e-3
_EVENLY, _EVERY = 0.5, 7
_LARGER, _FROM_ZERO = 1.25, 0.0625
_MOST_WEIGHTS = 50_000_000


class NoSuchDraw(Exception):
    """The circumstance does not apply to the calls: no common batch, no module."""


class DrawnWorkload(Workload):
    """The steps of another workload with random inputs for each call of the model. `names` are those of the leaves that
    gradients flow to, by id. Raises NoSuchDraw if the circumstance does not apply.
    """

    def __init__(self, inner: Workload, kind: Kind, seed: int, circumstance: Circumstance = "") -> None:
        super().__init__(inner.model, phase=inner.phase, second_gradients=inner.second_gradients)
        self._inner = inner
        self.kind = kind
        self.circumstance = circumstance
        self.names: dict[int, str] = {}
        self._kept: list[torch.Tensor] = []
        self._seed = seed
        self._modules = reachable_modules(inner.model)
        parameters = [p for module in self._modules for p in module.parameters()]
        if circumstance == "other mode" and not self._modules:
            raise NoSuchDraw
        self._numbers = any(_numbers_of(self._modules))
        self._learns = any(p.requires_grad for p in parameters)
        weights = sum(p.numel() for p in parameters)
        if circumstance == "other weights" and not 0 < weights < _MOST_WEIGHTS:
            raise NoSuchDraw
        if circumstance == "other dtype" and (self.phase == "train" or weights >= _MOST_WEIGHTS):
            raise NoSuchDraw

    def steps(self, target: Callable[..., Any]) -> list[Step]:
        generator = torch.Generator()
        still = self._modules

        def drawn(*args: Any, **kwargs: Any) -> Any:
            nonlocal still
            still, changed = [], still
            if self.circumstance == "other weights":
                _change_weights(changed)
            if self.circumstance == "other numbers":
                _change_numbers(changed)
            with self._modes():
                args, kwargs = redrawn((args, kwargs), self.kind, generator, self._reshaped((args, kwargs)))
                if self.circumstance == "other numbers":
                    args, kwargs = tuple(map(_other, args)), {name: _other(value) for name, value in kwargs.items()}
                    if not self._numbers and not any(type(each) is float for each in (*args, *kwargs.values())):
                        raise NoSuchDraw
                if self.circumstance == "gradients":
                    args, kwargs = self._with_gradients((args, kwargs))
                return target(*args, **kwargs)

        steps = self._inner.steps(drawn)
        return [_Seeded(step, generator, self._seed + number) for number, step in enumerate(steps)]

    @contextlib.contextmanager
    def _modes(self) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            if self.circumstance == "gradients" or (self.circumstance == "other mode" and self._learns):
                stack.enter_context(torch.inference_mode(False))
                stack.enter_context(torch.enable_grad())
            if self.circumstance == "no gradients":
                if self.phase == "train" or not torch.is_grad_enabled():
                    raise NoSuchDraw
                stack.enter_context(torch.inference_mode())
            if self.circumstance == "autocast":
                device = next((p.device.type for module in self._modules for p in module.parameters()), "cpu")
                if torch.is_autocast_enabled(device):
                    raise NoSuchDraw
                stack.enter_context(torch.autocast(device, torch.bfloat16))
            if self.circumstance == "other dtype":
                stack.enter_context(torch.no_grad())
                for each in [w for module in self._modules for w in (*module.parameters(), *module.buffers())]:
                    stack.callback(setattr, each, "data", each.data)
                    each.data = _of_other_dtype(each.data)
            for part in [p for module in self._modules for p in module.modules()] * (self.circumstance == "other mode"):
                stack.callback(setattr, part, "training", part.training)
                part.training = not part.training
            yield

    def _reshaped(self, inputs: Any) -> Reshape | None:
        if self.circumstance == "other strides":
            return _not_contiguous
        if self.circumstance == "other dtype":
            return _of_other_dtype
        if self.circumstance == "channels last":
            if not any(map(_is_image, leaves(inputs, objects=True))):
                raise NoSuchDraw
            return lambda each: _channels_last(each) if _is_image(each) else each
        if self.circumstance not in ("smaller batch", "larger batch", "other length"):
            return None
        first = 1 if self.circumstance == "other length" else 0
        tensors = [
            each for each in leaves(inputs, objects=True) if isinstance(each, torch.Tensor) and each.dim() > first
        ]
        sizes = {each.shape[first] for each in tensors}
        size = sizes.pop() if len(sizes) == 1 else 0
        if not size or (size == 1 and self.circumstance == "smaller batch"):
            raise NoSuchDraw
        return Resize(first, size, 1 if self.circumstance == "smaller batch" else size + 1).apply

    def _with_gradients(self, inputs: Any) -> Any:
        """The inputs as results of an operation, so that they may be changed in place."""
        self.names, self._kept = {}, []

        def leaf(each: Any) -> Any:
            if isinstance(each, torch.nn.Module):
                return each
            if type(each) is not torch.Tensor or not each.is_floating_point() or each.requires_grad:
                return each if isinstance(each, torch.Tensor) else NotImplemented
            made = each.detach().clone().requires_grad_()
            self.names[id(made)] = f"input {len(self.names)}"
            self._kept.append(made)
            return made.view_as(made) if made.layout is torch.strided else made

        return Copier(leaf).copy(inputs)


def _change_weights(modules: list[torch.nn.Module]) -> None:
    """Negate parameters and scale buffers. Zeros, as biases are at first, become another number, so that adding or
    multiplying with them shows.
    """
    parameters = {id(p): p for module in modules for p in module.parameters() if p.is_floating_point()}
    buffers = {id(b): b for module in modules for b in module.buffers() if b.is_floating_point()}
    with torch.no_grad():
        for weights, factor in ((parameters, -1.0), (buffers, _LARGER)):
            for each in weights.values():
                each.data.mul_(factor)
                each.data.masked_fill_(each.data == 0, _FROM_ZERO)


def _numbers_of(modules: list[torch.nn.Module]) -> Iterator[tuple[dict[str, Any], str]]:
    """The float attributes of the program's own modules, each with the dict that holds it."""
    for part in {id(each): each for module in modules for each in module.modules()}.values():
        if type(part).__module__.partition(".")[0] != "torch":
            yield from ((vars(part), name) for name, value in list(vars(part).items()) if type(value) is float)


def _change_numbers(modules: list[torch.nn.Module]) -> None:
    for held, name in _numbers_of(modules):
        held[name] = _other(held[name])


def _other(value: Any) -> Any:
    """Another number for a float."""
    return value * _LARGER + _FROM_ZERO if type(value) is float else value


class _Seeded(Step):
    """A step with its own seed for its inputs."""

    def __init__(self, inner: Step, generator: torch.Generator, seed: int) -> None:
        self._inner = inner
        self._generator = generator
        self._seed = seed

    def prepare(self) -> None:
        self._inner.prepare()
        self._generator.manual_seed(self._seed)

    def run(self) -> Any:
        return self._inner.run()


@dataclass(frozen=True)
class Resize:
    """Changes the size `was` to `becomes`: in the first dimension, or in all from the second one on."""

    first: int
    was: int
    becomes: int

    def apply(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor with its contents repeated or cut."""
        made = tensor.detach()
        for dim in range(self.first, made.dim() if self.first else min(1, made.dim())):
            if made.shape[dim] == self.was:
                made = made.index_select(dim, torch.arange(self.becomes, device=made.device) % self.was)
        return made.requires_grad_(tensor.requires_grad)


def _not_contiguous(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor with its last dimension first in memory, and with gaps."""
    twice = torch.stack((tensor.detach(), tensor.detach()))
    return twice.transpose(0, -1).contiguous().transpose(0, -1)[0].requires_grad_(tensor.requires_grad)


def _of_other_dtype(tensor: torch.Tensor) -> torch.Tensor:
    if not tensor.is_floating_point():
        return tensor
    return tensor.float() if tensor.dtype == torch.float64 else tensor.double()


def _is_image(value: Any) -> bool:
    """Whether it is a tensor of images that is not channels-last yet."""
    batch_of_images = isinstance(value, torch.Tensor) and value.layout is torch.strided and value.dim() == 4
    return batch_of_images and not value.is_contiguous(memory_format=torch.channels_last)


def _channels_last(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().contiguous(memory_format=torch.channels_last).requires_grad_(tensor.requires_grad)


def redrawn(value: Any, kind: Kind, generator: torch.Generator, reshape: Reshape | None = None) -> Any:
    """A copy of nested inputs with random values, and perhaps other sizes; parameters, modules and tensor subclasses
    stay.
    """

    def leaf(each: Any) -> Any:
        if isinstance(each, torch.nn.Module | torch.nn.Parameter):
            return each
        if type(each) is not torch.Tensor or each.layout is not torch.strided or each.is_quantized:
            return each if isinstance(each, torch.Tensor) else NotImplemented
        if reshape is not None and each.dim():
            each = reshape(each)
        return _tensor(each, kind, generator)

    return Copier(leaf).copy(value)


def _tensor(tensor: torch.Tensor, kind: Kind, generator: torch.Generator) -> torch.Tensor:
    if not tensor.numel() or tensor.device.type == "meta":
        return tensor
    repeated = [dim for dim, (step, size) in enumerate(zip(tensor.stride(), tensor.shape, strict=True))
                if step == 0 and size > 1]  # fmt: skip
    if repeated:
        once = tensor
        for dim in repeated:
            once = once.narrow(dim, 0, 1)
        return _tensor(once, kind, generator).expand(tensor.shape)
    with torch.no_grad():
        values = tensor.detach().to("cpu")
        if values.is_floating_point():
            drawn = _floats(values, kind, generator) if kind in ("alike", "floats", "near") else _changed(values, kind)
        elif kind == "alike" and not values.is_complex():
            drawn = _integers(values, generator)
        else:
            drawn = values
        made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)
        made.copy_(drawn)
    return made.requires_grad_() if tensor.requires_grad else made


def _floats(values: torch.Tensor, kind: Kind, generator: torch.Generator) -> torch.Tensor:
    wide = values.double()
    finite = wide[torch.isfinite(wide)]
    if not finite.numel():
        return values
    if kind == "near":
        return wide * (1 + _NEAR * torch.randn(values.shape, generator=generator, dtype=torch.float64))
    low, high, mean = finite.min(), finite.max(), finite.mean()
    spread = finite.std() if finite.numel() > 1 else mean.abs().clamp(min=1.0) / 2
    random = torch.rand(values.shape, generator=generator, dtype=torch.float64)
    if bool(((finite == 0) | (finite == 1)).all()):
        drawn = (random < mean.clamp(0.1, 0.9)).double()
    elif bool((finite >= 0).all()) and finite.numel() > 1:
        drawn = low + (high - low) * random
    else:
        drawn = mean + spread * torch.randn(values.shape, generator=generator, dtype=torch.float64)
    return torch.where(torch.isfinite(wide), drawn, wide)


def _changed(values: torch.Tensor, kind: Kind) -> torch.Tensor:
    if kind == "zeros":
        return torch.zeros_like(values)
    if kind == "negated":
        return -values
    if kind in ("large", "tiny"):
        return values * (_LARGE if kind == "large" else _TINY)
    if kind == "constant":
        return torch.full_like(values, _EVENLY)
    spoiled = values.clone(memory_format=torch.contiguous_format)
    spoiled.view(-1)[::_EVERY] = float(kind)
    return spoiled


def _integers(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Random integers: masks stay masks, padding stays at its end, positions stay, the rest keeps its range."""
    if values.dtype is torch.bool:
        share = values.double().mean().clamp(0.1, 0.9)
        return torch.rand(values.shape, generator=generator) < share
    low, high = int(values.min()), int(values.max())
    if values.dim() and values.shape[-1] > 1:
        steps = values.long().diff(dim=-1)
        if low >= 0 and 0 < high < _MOST_MASK:
            return _mask(values, steps, generator)
        if bool((steps > 0).all()):
            return values
    return torch.randint(low, high + 1, values.shape, generator=generator).to(values.dtype)


def _mask(values: torch.Tensor, steps: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    length = values.shape[-1]
    if not bool((steps <= 0).all()) and not bool((steps >= 0).all()):
        return (torch.rand(values.shape, generator=generator) < _EVENLY).to(values.dtype)
    kept = torch.randint(1, length + 1, (*values.shape[:-1], 1), generator=generator)
    positions = torch.arange(length)
    padded_left = bool((steps > 0).any())
    return ((positions >= length - kept) if padded_left else (positions < kept)).to(values.dtype)

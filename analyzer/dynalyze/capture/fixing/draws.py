"""Fresh inputs of the kind that a call had: other values, the same structure, shapes, strides, dtypes and devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

import torch

from dynalyze.capture.bench.workload import Step, Workload
from dynalyze.capture.nested_values import Copier

Kind = Literal["alike", "floats", "zeros", "negated", "large", "tiny", "constant", "nan", "inf"]
"""How values are drawn: `alike` all of them from the range they had; `floats` those of floating tensors alone;
the others change the values of floating tensors in one way, to come by another side of a branch.
"""
SEARCHING: tuple[Kind, ...] = get_args(Kind)[2:]
_MOST_MASK = 2
_TINY, _LARGE = 1e-4, 1e4
_EVENLY, _EVERY = 0.5, 7


class DrawnWorkload(Workload):
    """The steps of another workload, whose inputs are drawn anew before each call of the model."""

    def __init__(self, inner: Workload, kind: Kind, seed: int) -> None:
        super().__init__(inner.model, phase=inner.phase)
        self._inner = inner
        self.kind = kind
        self._seed = seed

    def steps(self, target: Callable[..., Any]) -> list[Step]:
        generator = torch.Generator()

        def drawn(*args: Any, **kwargs: Any) -> Any:
            args, kwargs = redrawn((args, kwargs), self.kind, generator)
            return target(*args, **kwargs)

        steps = self._inner.steps(drawn)
        return [_Seeded(step, generator, self._seed + number) for number, step in enumerate(steps)]


class _Seeded(Step):
    """A step with its own place in the random numbers that its inputs are drawn from."""

    def __init__(self, inner: Step, generator: torch.Generator, seed: int) -> None:
        self._inner = inner
        self._generator = generator
        self._seed = seed

    def prepare(self) -> None:
        self._inner.prepare()
        self._generator.manual_seed(self._seed)

    def run(self) -> Any:
        return self._inner.run()


def redrawn(value: Any, kind: Kind, generator: torch.Generator) -> Any:
    """A copy of nested inputs with values drawn anew; parameters, modules and tensor subclasses stay what they are."""

    def leaf(each: Any) -> Any:
        if isinstance(each, torch.nn.Module | torch.nn.Parameter):
            return each
        if type(each) is not torch.Tensor or each.layout is not torch.strided or each.is_quantized:
            return each if isinstance(each, torch.Tensor) else NotImplemented
        return _tensor(each, kind, generator)

    return Copier(leaf).copy(value)


def _tensor(tensor: torch.Tensor, kind: Kind, generator: torch.Generator) -> torch.Tensor:
    overlaps = any(stride == 0 and size > 1 for stride, size in zip(tensor.stride(), tensor.shape, strict=True))
    if not tensor.numel() or overlaps or tensor.device.type == "meta":
        return tensor
    with torch.no_grad():
        values = tensor.detach().to("cpu")
        floating = values.is_floating_point()
        if floating:
            drawn = _floats(values, generator) if kind in ("alike", "floats") else _changed(values, kind)
        elif kind == "alike" and not values.is_complex():
            drawn = _integers(values, generator)
        else:
            drawn = values
        made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)
        made.copy_(drawn)
    return made.requires_grad_() if tensor.requires_grad else made


def _floats(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    wide = values.double()
    finite = wide[torch.isfinite(wide)]
    if not finite.numel():
        return values
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
    """Masks stay masks, and padding stays at its end; positions stay; all else is drawn from the range it had."""
    if values.dtype is torch.bool:
        share = values.double().mean().clamp(0.1, 0.9)
        return torch.rand(values.shape, generator=generator) < share
    low, high = int(values.min()), int(values.max())
    if values.dim() and values.shape[-1] > 1:
        steps = values.long().diff(dim=-1)
        if low >= 0 and high < _MOST_MASK:
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

"""Judges one tensor: what eager gave, what compiled gave, and what fp64 says it should have been.

Numbers, not opinions: `measure` makes them in one pass over pieces of the tensors, `ErrorSums` says what follows.
The whole method is described in docs/explanation/accuracy.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from dynalyze.capture.torch_private.compiled_calls import wraps_tensors

_PIECE = 1 << 22
_HALVES = (torch.float16, torch.bfloat16)
_SMALL = 1000
_FURTHEST = 10.0
_COSINE, _LENGTHS = 0.99, 0.1
_AKIN_COSINE, _AKIN_LENGTHS = 0.9, 0.5
_ABSURD = 10.0
_FAR = 0.5
_LOOSE = 0.04
_FLOOR = 1e-3
_LARGE = 4096  # Elements from which on a second look is worth its start.


@dataclass
class ErrorSums:
    """Sums and counts over all elements of a tensor. Errors are against fp64, over elements finite on all sides.

    `introduced` counts NaN and infinities that only compiled has; `lost` those that only eager has and that are not
    near fp64 in compiled. For integers and bools an error is 1 where the element differs. `furthest` is what eager and
    compiled gave where they are `largest` apart.
    """

    factor: float
    slack: float
    close: bool = True
    introduced: int = 0
    lost: int = 0
    elements: int = 0
    anchored: int = 0
    difference: float = 0.0
    largest: float = 0.0
    furthest: tuple[float, float] | None = None
    eager_square: float = 0.0
    compiled_square: float = 0.0
    eager_furthest: float = 0.0
    compiled_furthest: float = 0.0
    exact_norm: float = 0.0
    dot: float = 0.0
    eager_norm: float = 0.0
    compiled_norm: float = 0.0

    @property
    def eager_rmse(self) -> float | None:
        return math.sqrt(self.eager_square / self.anchored) if self.anchored else None

    @property
    def compiled_rmse(self) -> float | None:
        return math.sqrt(self.compiled_square / self.anchored) if self.anchored else None

    @property
    def rmse_between(self) -> float:
        return math.sqrt(self.difference / self.elements) if self.elements else 0.0

    @property
    def cosine(self) -> float:
        lengths = math.sqrt(self.eager_norm) * math.sqrt(self.compiled_norm)
        if lengths:
            return max(-1.0, min(1.0, self.dot / lengths))
        return 1.0 if self.eager_norm == self.compiled_norm else 0.0

    @property
    def longer(self) -> float:
        """Norm of compiled divided by the norm of eager."""
        return math.sqrt(self.compiled_norm / self.eager_norm) if self.eager_norm else math.inf

    @property
    def equal(self) -> bool:
        """Every element within the tolerance of eager's, NaN and infinities at the same places."""
        return self.close and not self.introduced and not self.lost

    @property
    def no_worse(self) -> bool:
        """Compiled is about as near to fp64 as eager is: as a whole, and in its furthest element."""
        if not self.anchored or self.introduced or self.lost:
            return False
        as_whole = math.sqrt(self.compiled_square) <= self.factor * math.sqrt(self.eager_square) + self.slack / 10 * (
            math.sqrt(self.anchored)
        )
        return as_whole and self.compiled_furthest <= _FURTHEST * self.eager_furthest + self.slack

    @property
    def eager_relative_error(self) -> float:
        """How far eager is from fp64, as a share of its size."""
        return math.sqrt(self.eager_square / self.exact_norm) if self.exact_norm else math.inf

    @property
    def alike(self) -> bool:
        """Without fp64: compiled points where eager points, and is as long."""
        return self._points(_COSINE, _LENGTHS)

    @property
    def akin(self) -> bool:
        """Compiled may be eager with other roundings: it points about where eager points, and is about as long."""
        return self._points(_AKIN_COSINE, _AKIN_LENGTHS)

    def _points(self, cosine: float, lengths: float) -> bool:
        if self.introduced or self.lost or self.cosine < cosine:
            return False
        longer = math.sqrt(max(self.eager_norm, self.compiled_norm))
        shorter = math.sqrt(min(self.eager_norm, self.compiled_norm))
        return longer - shorter <= lengths * longer

    @property
    def absurd(self) -> bool:
        """Compiled is so much further from fp64 than eager that no eager far from fp64 explains it."""
        ours, theirs = self.compiled_rmse, self.eager_rmse
        return ours is not None and theirs is not None and ours > _ABSURD * theirs + self.slack

    def beyond(self, spread: ErrorSums) -> bool:
        """Compiled is further from eager than two runs of eager are from each other, as far as so few values tell."""
        factor = self.factor if self.elements >= _SMALL else _ABSURD
        return self.lost > spread.lost or self.rmse_between > factor * spread.rmse_between + self.slack / 10

    def far_from_exact(self, reference: float) -> bool:
        """Eager itself is nowhere near fp64, in a tensor that matters: then fp64 cannot be the judge."""
        if not self.anchored:
            return True
        size = math.sqrt(self.exact_norm / self.anchored)
        return size >= reference / 10 and math.sqrt(self.eager_square) > _FAR * math.sqrt(self.exact_norm)


def size_of(tensor: torch.Tensor) -> float:
    """The root mean square of the finite elements."""
    total, count = 0.0, 0
    for (piece,) in _pieces(tensor):
        finite = piece[torch.isfinite(piece)]
        total += float(finite.square().sum())
        count += finite.numel()
    return math.sqrt(total / count) if count else 0.0


def measure(
    eager: torch.Tensor, compiled: torch.Tensor, exact: torch.Tensor | None, tolerance: float, reference: float
) -> ErrorSums:
    """Compare tensors of one shape; `exact` None leaves the errors out.

    `reference` is what its size is seen against: 1, or for gradients the largest of all (their root mean squares). A
    tensor is held to `tolerance` times its own size, never more than 1 and never less than a thousandth of `reference`.
    """
    floating = eager.is_floating_point() or eager.is_complex()
    slack = 0.0
    if floating:
        size = size_of(eager if exact is None else exact)
        slack = tolerance * min(1.0, max(size, _FLOOR * min(1.0, reference)))
    small = eager.numel() < _SMALL or eager.dtype in _HALVES
    measured = ErrorSums(factor=3.0 if small else 2.0, slack=slack)
    sides = (eager, compiled) if exact is None else (eager, compiled, exact)
    for piece in _pieces(*sides):
        if floating:
            _add_floats(measured, tolerance, *piece)
        else:
            _add_integers(measured, *piece)
    return measured


def _pieces(*tensors: torch.Tensor) -> Iterator[tuple[torch.Tensor, ...]]:
    """The tensors side by side, flat and in fp64, a few million elements at a time."""
    flat = [(torch.view_as_real(t) if t.is_complex() else t).reshape(-1) for t in tensors]
    exact = all(t.is_floating_point() for t in flat)
    for parts in zip(*(t.split(_PIECE) for t in flat), strict=True):
        yield tuple(part.double() if exact else part for part in parts)


def _add_floats(
    to: ErrorSums, tolerance: float, eager: torch.Tensor, compiled: torch.Tensor, exact: torch.Tensor | None = None
) -> None:
    eager_fine, compiled_fine = torch.isfinite(eager), torch.isfinite(compiled)
    new = (compiled.isnan() & ~eager.isnan()) | (compiled.isinf() & (compiled != eager) & ~eager.isnan())
    to.introduced += int(new.sum())
    to.close = to.close and not bool((compiled.isinf() & eager.isnan()).any())
    lost = compiled_fine & ~eager_fine
    if exact is not None:
        to.close = to.close and not bool(lost.any())
        near = (compiled - exact).abs() <= _LOOSE * (1 + exact.abs())
        lost = lost & ~(torch.isfinite(exact) & near)
    to.lost += int(lost.sum())
    both = eager_fine & compiled_fine
    e, c = eager[both], compiled[both]
    apart = (e - c).abs()
    to.elements += e.numel()
    to.close = to.close and bool((apart <= to.slack + tolerance * e.abs()).all())
    _note_furthest(to, e, c, apart)
    to.difference += float(apart.square().sum())
    to.dot += float((e * c).sum())
    to.eager_norm += float(e.square().sum())
    to.compiled_norm += float(c.square().sum())
    if exact is not None:
        fine = torch.isfinite(exact[both])
        x = exact[both][fine]
        eager_error, compiled_error = (e[fine] - x).abs(), (c[fine] - x).abs()
        to.anchored += x.numel()
        to.exact_norm += float(x.square().sum())
        to.eager_square += float(eager_error.square().sum())
        to.compiled_square += float(compiled_error.square().sum())
        to.eager_furthest = max(to.eager_furthest, _most(eager_error))
        to.compiled_furthest = max(to.compiled_furthest, _most(compiled_error - tolerance * x.abs()))


def _add_integers(
    to: ErrorSums, eager: torch.Tensor, compiled: torch.Tensor, exact: torch.Tensor | None = None
) -> None:
    """Integers and bools: an element is right or wrong, and the cosine is the share that is the same."""
    apart = eager != compiled
    to.close = to.close and not bool(apart.any())
    to.elements += eager.numel()
    to.difference += int(apart.sum())
    _note_furthest(to, eager, compiled, (eager.double() - compiled.double()).abs())
    to.dot += int((~apart).sum())
    to.eager_norm += eager.numel()
    to.compiled_norm += eager.numel()
    if exact is not None:
        to.anchored += eager.numel()
        to.exact_norm += eager.numel()
        to.eager_square += int((eager != exact).sum())
        to.compiled_square += int((compiled != exact).sum())


def _note_furthest(to: ErrorSums, eager: torch.Tensor, compiled: torch.Tensor, apart: torch.Tensor) -> None:
    if apart.numel() and (to.furthest is None or float(apart.max()) > to.largest):
        at = int(apart.argmax())
        to.largest, to.furthest = float(apart[at]), (float(eager[at]), float(compiled[at]))


def _most(values: torch.Tensor) -> float:
    return float(values.max()) if values.numel() else 0.0


def _same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether they are known to be the same bit by bit: for large tensors this takes less than half the time."""
    if one.numel() < _LARGE or not (one.is_contiguous() and other.is_contiguous()):
        return False
    try:
        return bool(torch.equal(one.flatten().view(torch.int64), other.flatten().view(torch.int64)))
    except RuntimeError:  # Their number of bytes, or their place in a storage, is not one of whole int64.
        return False


def identical(one: torch.Tensor, other: torch.Tensor, *, signs: bool = False) -> bool:
    """Whether two tensors hold the same, NaN at the same places included. With `signs` 0.0 and -0.0 differ."""
    if (one.shape, one.dtype, one.layout) != (other.shape, other.dtype, other.layout):
        return False
    if wraps_tensors(one) or wraps_tensors(other):
        return _same_inside(one, other, signs=signs)
    if one.layout is not torch.strided:
        one, other = one.to_dense(), other.to_dense()
    if _same_bits(one, other):
        return True
    same = torch.equal(one, other) or (
        one.is_floating_point() and bool(torch.all((one == other) | (one.isnan() & other.isnan())))
    )
    return same and (not signs or _same_signs(one, other))


def _same_inside(one: torch.Tensor, other: torch.Tensor, *, signs: bool) -> bool:
    """The same of tensors around others, as quantised weights are: of them few classes know how to be compared."""
    if type(one) is not type(other):
        return False
    (names, context), (theirs, their_context) = one.__tensor_flatten__(), other.__tensor_flatten__()
    return (
        list(names) == list(theirs)
        and bool(context == their_context)
        and all(identical(getattr(one, name), getattr(other, name), signs=signs) for name in names)
    )


def _same_signs(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether equal tensors have zeros of the same sign."""
    if one.is_complex():
        one, other = torch.view_as_real(one.resolve_conj()), torch.view_as_real(other.resolve_conj())
    if not one.is_floating_point():
        return True
    if one.element_size() == 1:  # Few operations take a float of 8 bits.
        one, other = one.float(), other.float()
    return bool(torch.all((torch.signbit(one) == torch.signbit(other)) | one.isnan()))

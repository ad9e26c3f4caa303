"""What two passes do not do alike."""

from __future__ import annotations

import torch

from dynalyze.capture.fixing.passes import Pass, PassDifference, differences
from dynalyze.capture.fixing.records import Arm
from dynalyze.capture.fixing.watching import effects_that_differ

_OF_DTYPES = {torch.float16: 3e-3, torch.bfloat16: 2e-2}
_TOLERANCE, OF_GRADIENTS = 1e-5, 10
"""How far a result may be off where an operation has changed, as a share of its size, and how much more a gradient."""


def unlike(arm: Arm, before: Pass, after: Pass) -> tuple[list[PassDifference], list[str]]:
    """What differs between two passes, and which side effects do, exceptions of another kind among them."""
    told = effects_that_differ(before.effects, after.effects)
    if bool(before.raised) != bool(after.raised) or (arm == "eager" and before.raised != after.raised):
        what = f"raises {after.raised or 'nothing'}, as it was {before.raised or 'nothing'}"
        return [PassDifference("exception", what)], told
    if before.raised and arm == "traced":  # Where a graph raises, what stands before it has not been written out yet.
        if before.error not in after.raised_types:
            told = [*told, f"raises {after.error} in place of {before.error}"]
        elif before.error == after.error and before.raised != after.raised:
            told = [*told, f"raises {after.error} with another message"]
        return [], told
    return differences(before, after), told


def is_inexact(one: Pass, found: PassDifference) -> bool:
    """Whether a tensor holds numbers that may be rounded in another way."""
    tensor = one.run.tensors.get(found.tensor) if found.tensor is not None else None
    return tensor is not None and (tensor.is_floating_point() or tensor.is_complex())


def tolerance_of(one: Pass) -> float:
    return max((_OF_DTYPES.get(each.dtype, _TOLERANCE) for each in one.run.tensors.values()), default=_TOLERANCE)


def has_gradients(one: Pass) -> bool:
    return any(kind == "gradient" for _, kind, _ in one.run.tensors)

"""What comes of comparing a change: the records of a proof, and what two passes do not do alike."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import torch

from dynalyze.capture.fixing.compiled_share import CompiledShare
from dynalyze.capture.fixing.draws import Circumstance, Kind
from dynalyze.capture.fixing.passes import Difference, Pass, differences
from dynalyze.capture.fixing.watching import effects_that_differ

_OF_DTYPES = {torch.float16: 3e-3, torch.bfloat16: 2e-2}
_TOLERANCE, OF_GRADIENTS = 1e-5, 10
"""How far a result may be off where an operation has changed, as a share of its size, and how much more a gradient."""

_KEYS = " keys"
"""What stands behind the name of a container, for the keys that it has."""

Equality = Literal["bitwise", "tolerance", "different"]
Arm = Literal["eager", "traced"]


@dataclass
class Compared:
    """One pass of the changed code against the same one of the code as it was; `why` says what differs, if anything.

    `effects` names the side effects that differ, which is for people to judge. `as_compiled`: the code as it was gives
    something else compiled than in eager already, and the changed code the same as that.
    """

    equality: Equality
    why: str = ""
    effects: list[str] = field(default_factory=list)
    raised: str = ""
    as_compiled: bool = False


@dataclass
class Draws:
    """How many draws were compared, and in how many both raised the same exception; what the first that differed was.

    `as_compiled` says of one at least what `Compared` says. `varied` are the circumstances in which calls were compared
    as well, `kinds` the values that were tried to come by other sides of branches; a circumstance or kind that the
    model refuses is in neither. `unproved` says what was not verified of other inputs, which is no difference.
    """

    tried: int = 0
    raised: int = 0
    bitwise: int = 0
    different: str = ""
    unproved: str = ""
    as_compiled: bool = False
    effects: list[str] = field(default_factory=list)
    varied: list[Circumstance] = field(default_factory=list)
    kinds: list[Kind] = field(default_factory=list)


@dataclass
class Proof:
    """What was found. `own` is of the program's own calls, in eager alone where that differs; `lines` of the changed
    functions ran in them or in draws, and `unrun` are those of the new code of which something never did. `gradients`
    says that some were compared. `folder` holds the events of what the changed code compiled, None where it compiled
    nothing, and `share` how much of the program's own calls that is.
    """

    problem: str = ""
    own: dict[Arm, Compared] = field(default_factory=dict)
    draws: Draws = field(default_factory=Draws)
    lines: list[tuple[str, int]] = field(default_factory=list)
    unrun: list[tuple[str, int]] = field(default_factory=list)
    gradients: bool = False
    folder: str | None = None
    share: CompiledShare | None = None


def unlike(arm: Arm, before: Pass, after: Pass) -> tuple[list[Difference], list[str]]:
    """What differs between two passes, and which side effects do, exceptions of another kind among them."""
    told = effects_that_differ(before.effects, after.effects)
    if bool(before.raised) != bool(after.raised) or (arm == "eager" and before.raised != after.raised):
        what = f"raises {after.raised or 'nothing'}, as it was {before.raised or 'nothing'}"
        return [Difference("exception", what)], told
    if before.raised and arm == "traced":  # Where a graph raises, what stands before it has not been written out yet.
        if before.error not in after.raised_types:
            told = [*told, f"raises {after.error} in place of {before.error}"]
        elif before.error == after.error and before.raised != after.raised:
            told = [*told, f"raises {after.error} with another message"]
        return [], told
    return differences(before, after), told


def no_longer_kept(
    found: list[Difference], before: Pass, again: Pass, after: Pass
) -> tuple[list[Difference], list[str]]:
    """What differs, without state that the code as it was sets to something else each time, as a time is, and that is
    not set any more; and that state, as side effects that are lacking.
    """
    anew = {each.name for each in differences(before, again)}
    left = [each for each in found if ": state " in each.name and _is_left_alone(each.name, before, after, anew)]
    names = [each.name.partition(": state ")[2].removesuffix(_KEYS) for each in left]
    return [each for each in found if each not in left], [f"not kept any more: {name}" for name in dict.fromkeys(names)]


def _is_left_alone(name: str, before: Pass, after: Pass, anew: set[str]) -> bool:
    was, now = before.values.get(name), after.values.get(name, [])
    if not name.endswith(_KEYS):
        return name in anew and name not in after.values
    if not isinstance(was, list) or not isinstance(now, list) or [key for key in was if key in now] != now:
        return False
    of = name.removesuffix(_KEYS)
    return all({f"{of}.{key}", f"{of}[{key}]"} & anew for key in was if key not in now)


def is_inexact(one: Pass, found: Difference) -> bool:
    """Whether a tensor holds numbers that may be rounded in another way."""
    tensor = one.run.tensors.get(found.tensor) if found.tensor is not None else None
    return tensor is not None and (tensor.is_floating_point() or tensor.is_complex())


def tolerance_of(one: Pass) -> float:
    return max((_OF_DTYPES.get(each.dtype, _TOLERANCE) for each in one.run.tensors.values()), default=_TOLERANCE)


def has_gradients(one: Pass) -> bool:
    return any(kind == "gradient" for _, kind, _ in one.run.tensors)


def as_answer(proof: Proof) -> dict[str, Any]:
    """A proof as the answer of a worker."""
    return asdict(proof)

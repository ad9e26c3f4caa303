"""From the tensors of all runs to verdicts: first for each tensor of each step, then the worst of each name. Runs of
the same calls in two interpreters too: one saves its tensors, and the other holds its own against them.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from dynalyze.capture.bench.compare import ErrorSums, identical, measure, size_of
from dynalyze.capture.bench.output_capture import Key, RunOutputs
from dynalyze.capture.bench.state_snapshot import held_tensors

WORST_LAST = ("equal", "benign", "rounding only", "not comparable", "suspicious")
_REPEATABLE = 0.99
_MOST_PERTURBED = 0.05  # Of its size: how far rounding may move a tensor of which "rounding only" is said.
_OTHER_NUMBERS = "compiled draws other random numbers than eager"


@dataclass
class Runs:
    """One workload, run in every way. `exact` and `emulated` may be missing.

    `more` are other runs of eager where `again` differs from the first one, or where compiled draws other random
    numbers: then with other seeds. `repeated` is compiled once more. `tokens` says that the integers that come out are
    generated text, where one near tie changes all that follows. `perturbed` are runs of eager with weights that were
    rounded once more (`Perturbed`).
    """

    eager: RunOutputs
    again: RunOutputs
    compiled: RunOutputs
    exact: RunOutputs | None
    tolerance: float
    tokens: bool = False
    emulated: RunOutputs | None = None
    more: list[RunOutputs] = field(default_factory=list)
    repeated: RunOutputs | None = None
    perturbed: list[RunOutputs] = field(default_factory=list)

    @property
    def repeatable(self) -> bool:
        """Whether eager gave the same twice."""
        return same_bits(self.eager, self.again)

    @property
    def drew_other_numbers(self) -> bool:
        return self.eager.draws and self.compiled.positions != self.eager.positions

    @property
    def same_bits(self) -> bool | None:
        """Whether compiled gave eager's answers to the bit; None where eager itself does not."""
        return same_bits(self.eager, self.compiled) if self.repeatable else None


def same_bits(one: RunOutputs, other: RunOutputs) -> bool:
    mine, theirs = one.tensors, other.tensors
    return mine.keys() == theirs.keys() and all(identical(mine[key], theirs[key]) for key in mine)


@dataclass
class Judged:
    """One tensor with its verdict, and for a bad one the sentence that says why."""

    name: str
    kind: str
    verdict: str
    why: str = ""
    facts: dict[str, Any] = field(default_factory=dict)

    def rank(self) -> tuple[int, float, float]:
        """The worse the higher; among equals, how much further from fp64 than eager, then how far from eager."""
        eager, compiled = self.facts.get("eager_rmse"), self.facts.get("compiled_rmse")
        ratio = (compiled or 0.0) / eager if eager else 0.0
        return WORST_LAST.index(self.verdict), ratio, self.facts.get("max_difference") or 0.0


def judge(runs: Runs) -> list[Judged]:
    """A verdict for each tensor that eager or compiled gave, the worst first."""
    gradients = [t for (_, kind, _), t in runs.eager.tensors.items() if kind == "gradient"]
    references = {"output": 1.0, "gradient": max((size_of(t) for t in gradients), default=1.0)}
    worst: dict[tuple[str, str], Judged] = {}
    for key in dict.fromkeys([*runs.eager.tensors, *runs.compiled.tensors]):
        found = _judge_one(runs, key, references[key[1]])
        if found is not None:
            known = worst.get((found.kind, found.name))
            if known is None or found.rank() > known.rank():
                worst[found.kind, found.name] = found
    return sorted(worst.values(), key=Judged.rank, reverse=True)


def _judge_one(runs: Runs, key: Key, reference: float) -> Judged | None:
    _, kind, name = key
    eager, compiled = runs.eager.tensors.get(key), runs.compiled.tensors.get(key)
    there = eager if eager is not None else compiled
    assert there is not None
    facts: dict[str, Any] = {
        "dtype": _dtype(eager) if eager is not None else "",
        "compiled_dtype": _dtype(compiled) if compiled is not None else "",
        "elements": there.numel(),
    }
    if eager is None or compiled is None:
        if kind == "gradient" and not bool(there.any()):
            return None  # No gradient and a gradient of zeros are the same.
        if kind == "gradient" and runs.drew_other_numbers:  # As of a layer that is left out by chance.
            return Judged(name, kind, "not comparable", _OTHER_NUMBERS, facts)
        side = "eager" if eager is not None else "compiled"
        return Judged(name, kind, "suspicious", f"only {side} gives it", facts)
    if mismatch := _mismatch(eager, compiled):
        return Judged(name, kind, "suspicious", mismatch, facts)
    exact = _usable(runs.exact, key, eager)
    measured = measure(eager, compiled, exact, runs.tolerance, reference)
    verdict, why = _verdict(runs, key, measured, reference)
    facts |= {
        "eager_rmse": _finite(measured.eager_rmse),
        "compiled_rmse": _finite(measured.compiled_rmse),
        "max_difference": _finite(measured.largest),
        "cosine": _finite(measured.cosine),
        "nonfinite": measured.introduced,
    }
    if measured.furthest is not None and not measured.equal:
        facts |= dict(zip(("eager_value", "compiled_value"), map(_finite, measured.furthest), strict=True))
    # Of values that can be told at all: one that changes from run to run, or is nowhere near eager's, was not rounded.
    same = _gives_it_twice(runs.eager, runs.again, key) and _gives_it_twice(runs.compiled, runs.repeated, key)
    may_be_rounding = verdict == "suspicious" and same and measured.akin
    rounded = runs.emulated.tensors.get(key) if runs.emulated is not None else None
    if rounded is not None and not _mismatch(eager, rounded):
        emulated = measure(eager, rounded, exact, runs.tolerance, reference)
        facts["emulated_rmse"] = _finite(emulated.compiled_rmse)
        # Where emulating eager's rounding removes the gap, only rounding was different.
        if may_be_rounding and (emulated.equal or emulated.no_worse):
            verdict, why = "rounding only", ""
    # So it was where eager gets as far from fp64 by rounding its weights: a value beside zero that a ReLU cuts off.
    others = [each.tensors.get(key) for each in runs.perturbed if may_be_rounding]
    moved = [
        measure(other, compiled, exact, runs.tolerance, reference)
        for other in others
        if other is not None and not _mismatch(other, compiled)
    ]
    if far := [each.eager_relative_error for each in moved if each.no_worse]:
        verdict, why = "rounding only", ""
        if min(far) > _MOST_PERTURBED:  # A fault of that size would not be seen beside it.
            verdict, why = "not comparable", "eager goes as far once its weights are rounded otherwise"
    if verdict == "suspicious" and not measured.introduced and measured.furthest is not None:
        why += "; at worst it is {:.6g} in eager and {:.6g} in compiled".format(*measured.furthest)
    if verdict == "suspicious" and not _gives_it_twice(runs.compiled, runs.repeated, key):
        why += "; compiled gives something else each time"
    return Judged(name, kind, verdict, why, facts)


def _gives_it_twice(run: RunOutputs, other: RunOutputs | None, key: Key) -> bool:
    """Whether a second run gave the same; True where there was none."""
    again = other.tensors.get(key) if other is not None else run.tensors[key]
    return again is not None and identical(run.tensors[key], again)


def _verdict(runs: Runs, key: Key, measured: ErrorSums, reference: float) -> tuple[str, str]:
    spread = _spread(runs, key, reference)
    if measured.introduced and not (spread is not None and spread.introduced):
        return "suspicious", f"compiling made {measured.introduced:,} NaN or infinite"
    if measured.equal:
        return "equal", ""
    eager, again = runs.eager.tensors[key], runs.again.tensors.get(key)
    if runs.drew_other_numbers:
        if spread is not None and measured.beyond(spread):
            return "suspicious", "it differs from eager by more than eager does from itself with another seed"
        return "not comparable", _OTHER_NUMBERS
    if again is None or not identical(eager, again):  # Compiled may differ from eager as much as that from itself.
        if spread is None:
            return "not comparable", "eager does not give it the same way twice"
        if measured.beyond(spread):
            return "suspicious", "it differs from eager by more than eager does from itself"
        if spread.cosine < _REPEATABLE or spread.introduced or spread.lost:
            return "not comparable", "eager gives something else each time"
        return "benign", ""
    if runs.tokens and not (eager.is_floating_point() or eager.is_complex()):
        return "not comparable", "other tokens: after one near tie all that follow differ"
    if measured.far_from_exact(reference):
        if measured.alike:
            return "benign", ""
        if not measured.anchored:
            return "suspicious", f"its cosine to eager is {measured.cosine:.4f}, its length {measured.longer:.3g} times"
        if not (measured.lost or measured.absurd):
            return "not comparable", "eager itself is far from fp64"
    if measured.no_worse:
        return "benign", ""
    if measured.lost:
        return "suspicious", f"{measured.lost:,} values that are NaN or infinite in eager are others in compiled"
    ours, theirs = measured.compiled_rmse or 0.0, measured.eager_rmse or 0.0
    return "suspicious", f"its error against fp64 is {ours:.3g}, that of eager {theirs:.3g}"


def _spread(runs: Runs, key: Key, reference: float) -> ErrorSums | None:
    """The two runs of eager furthest apart, compared; None where all agree, or cannot be compared."""
    eager = runs.eager.tensors[key]
    others = [run.tensors.get(key) for run in (runs.again, *runs.more)]
    if any(other is None or _mismatch(eager, other) for other in others):
        return None
    found = [measure(eager, other, None, runs.tolerance, reference) for other in others if other is not None]
    found = [each for each in found if each.difference or each.introduced or each.lost]
    return max(found, key=lambda each: (each.introduced + each.lost, each.rmse_between), default=None)


def _mismatch(eager: torch.Tensor, compiled: torch.Tensor) -> str:
    if eager.dtype != compiled.dtype:
        return f"compiled gives {_dtype(compiled)} where eager gives {_dtype(eager)}"
    if eager.shape != compiled.shape:
        return f"compiled gives the shape {tuple(compiled.shape)} where eager gives {tuple(eager.shape)}"
    return ""


def _usable(run: RunOutputs | None, key: Key, eager: torch.Tensor) -> torch.Tensor | None:
    """The fp64 reference, if it is fp64 and of eager's shape."""
    exact = run.tensors.get(key) if run is not None else None
    if exact is None or exact.shape != eager.shape:
        return None
    wanted = torch.float64 if eager.is_floating_point() else torch.complex128 if eager.is_complex() else eager.dtype
    return exact if exact.dtype is wanted else None


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def save_runs(file: Path, runs: Runs, model: Callable[..., Any]) -> None:
    """Write what eager gave, twice, compiled and fp64, with a digest of the weights. Tensors and words alone."""
    sides = {"eager": runs.eager, "again": runs.again, "compiled": runs.compiled, "exact": runs.exact}
    # What the random generators' positions are does not matter: whether they are the same does.
    documents = {
        name: {"tensors": run.tensors, "position": _said(run), "draws": run.draws}
        for name, run in sides.items()
        if run is not None
    }
    torch.save({**documents, "weights": weights_digest(model)}, file)


def judged_against(file: Path, runs: Runs, model: Callable[..., Any]) -> dict[str, Any]:
    """Eager and compiled of this interpreter against those of the one that saved: the verdict of each, and why.

    Of fp64 it is that one's too: where this one computes something else, its own would agree with it. `comparable` is
    false where the weights are not the same: then other values say nothing.
    """
    found = torch.load(file, weights_only=True)
    answer: dict[str, Any] = {"comparable": found.pop("weights") == weights_digest(model)}
    theirs = {name: RunOutputs(run["tensors"], [(run["position"],)], run["draws"]) for name, run in found.items()}
    for name, mine in (("eager", runs.eager), ("compiled", runs.compiled)):
        both = Runs(
            eager=theirs[name], again=theirs["again"] if name == "eager" else theirs[name],
            compiled=replace(mine, positions=[(_said(mine),)]), exact=theirs.get("exact"), tolerance=runs.tolerance,
            tokens=runs.tokens,
        )  # fmt: skip
        worst = (judge(both) or [Judged("", "output", "equal")])[0]
        answer[name] = {"verdict": worst.verdict, "tensor": worst.name, "why": worst.why}
    return answer


def weights_digest(model: Callable[..., Any]) -> str:
    """Digest of the parameters, buffers and other tensors of a module."""
    digest = hashlib.sha256()
    for name, tensor in held_tensors(model):
        value = tensor.detach().to("cpu")
        value = (value if value.layout is torch.strided else value.to_dense()).contiguous()
        digest.update(f"{name} {value.dtype} {tuple(value.shape)} ".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _said(run: RunOutputs) -> str:
    return hashlib.sha256(repr(run.positions).encode()).hexdigest()

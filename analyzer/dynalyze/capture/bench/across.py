"""What the same calls give in two interpreters: one saves its tensors, and the other holds its own against them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from dynalyze.capture.bench.judge import Judged, Runs, judge
from dynalyze.capture.bench.output_capture import RunOutputs
from dynalyze.capture.bench.state_snapshot import held_tensors


def save(file: Path, runs: Runs, model: Callable[..., Any]) -> None:
    """Write what eager gave, twice, compiled and fp64, with a digest of the weights. Tensors and words alone."""
    sides = {"eager": runs.eager, "again": runs.again, "compiled": runs.compiled, "exact": runs.exact}
    documents = {name: _document(run) for name, run in sides.items() if run is not None}
    torch.save({**documents, "weights": weights_digest(model)}, file)


def judged(file: Path, runs: Runs, model: Callable[..., Any]) -> dict[str, Any]:
    """Eager and compiled of this interpreter against those of the one that saved: the verdict of each, and why.

    Of fp64 it is that one's too: where this one computes something else, its own would agree with it. `comparable` is
    false where the weights are not the same: then other values say nothing.
    """
    found = torch.load(file, weights_only=True)
    theirs = {name: _run(document) for name, document in found.items() if name != "weights"}
    answer: dict[str, Any] = {"comparable": found["weights"] == weights_digest(model)}
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
    """The same for equal parameters, buffers and other tensors of a module."""
    digest = hashlib.sha256()
    for name, tensor in held_tensors(model):
        value = tensor.detach().to("cpu")
        value = (value if value.layout is torch.strided else value.to_dense()).contiguous()
        digest.update(f"{name} {value.dtype} {tuple(value.shape)} ".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _document(run: RunOutputs) -> dict[str, Any]:
    # What the random generators' positions are does not matter: whether they are the same does.
    return {"tensors": run.tensors, "position": _said(run), "draws": run.draws}


def _said(run: RunOutputs) -> str:
    return hashlib.sha256(repr(run.positions).encode()).hexdigest()


def _run(document: dict[str, Any]) -> RunOutputs:
    return RunOutputs(document["tensors"], [(document["position"],)], document["draws"])

"""The accuracy test: is compiled as right as eager, measured from fp64? The method is told in docs/accuracy.md.

| verdict        | what it says                                                                                     |
|----------------|--------------------------------------------------------------------------------------------------|
| equal          | every value within the tolerance of eager's, NaN and infinities at the same places               |
| benign         | it differs, and is about as near to fp64 as eager is: its error is at most `k` times eager's     |
| rounding only  | it is further from fp64; rounded where eager rounds, which Inductor can do, it is not any more   |
| not comparable | other random numbers were drawn, eager differs from itself as much, or memory ran out            |
| suspicious     | further from fp64 and not by rounding; or another dtype or shape; or NaN that compiling made     |

`k` is 2, or 3 for fp16, bf16 and tensors under 1000 elements. The tolerance is 1e-3, for training 1e-2, relative to
each value and to the size of the tensor; a tenth of it is added to the error that is allowed. Where there is no fp64,
the cosine to eager must be at least 0.99 and the lengths within 10 %.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch

from dynalyze.capture.bench.configure import configured
from dynalyze.capture.bench.failures import Failed, kind_of, one_line
from dynalyze.capture.bench.fp64_reference import CannotCopy, Fp64Reference, size_in_fp64
from dynalyze.capture.bench.judge import Judged, Runs, judge
from dynalyze.capture.bench.memory import free_memory
from dynalyze.capture.bench.output_capture import Key, OutputCapture, Run
from dynalyze.capture.bench.protocol import Configuration
from dynalyze.capture.bench.state_snapshot import StateSnapshot
from dynalyze.capture.bench.workload import Workload
from dynalyze.capture.torch_private import dynamo, numerics

_SEED = 1337
_LISTED = 100
TOLERANCES = {"train": 1e-2}
TOLERANCE = 1e-3

Target = Callable[..., Any]
_LOGITS_WIDTH = 16
_UNNAMED_WIDTH = 100


def accuracy(
    workload: Workload, make_target: Callable[[], Target], configuration: Configuration, device: str = "cpu"
) -> dict[str, Any]:
    """Compare what `make_target()` gives with eager and with fp64, in the fields of `measurements.Accuracy`.

    Everything is left as it was found, except that Dynamo forgets all that it has compiled in this process. Nothing
    that goes wrong in the target is raised: the answer is "not comparable" then, with the reason. `device` is the type
    of device that autocast is for.
    """
    answer = {
        "configuration": configuration.name,
        "phase": workload.phase,
        "verdict": "not comparable",
        "batch": workload.batch,
        "sequence": workload.sequence,
    }
    try:
        return answer | _Test(workload, make_target, configuration, device).run()
    except Exception as error:
        return answer | {"reason": _text(error)}


class _Test:
    def __init__(
        self, workload: Workload, make_target: Callable[[], Target], configuration: Configuration, device: str
    ) -> None:
        self._workload = workload
        self._make_target = make_target
        self._configuration = configuration
        self._device = device
        self._notes: list[str] = []

    def run(self) -> dict[str, Any]:
        state = StateSnapshot(self._workload.model, _SEED)
        try:
            with numerics.full_float32():
                return self._compare(OutputCapture(self._workload, state))
        finally:
            state.leave()
            dynamo.forget_compiled()

    def _compare(self, observer: OutputCapture) -> dict[str, Any]:
        eager, again = self._eager(observer, reference=True), self._eager(observer)
        exact = self._exact(observer, eager)
        compiled = self._compiled(observer)
        tokens = self._workload.phase == "generate"
        tolerance = TOLERANCES.get(self._workload.phase, TOLERANCE)
        runs = Runs(eager, again, compiled, exact, tolerance, tokens)
        tensors = judge(runs)
        if any(each.verdict == "suspicious" and "cosine" in each.facts for each in tensors):
            runs.emulated = self._emulated(observer)
            tensors = judge(runs) if runs.emulated is not None else tensors
        return self._answer(runs, tensors)

    def _eager(self, observer: OutputCapture, reference: bool = False) -> Run:
        try:
            as_eager = dataclasses.replace(self._configuration, compile=False)
            target = configured(self._workload.model, as_eager, self._device or "cpu")
            with numerics.nothing_compiled():
                return observer.run(target, reference=reference)
        except Exception as error:
            raise _failed("eager", error) from error

    def _exact(self, observer: OutputCapture, eager: Run) -> Run | None:
        """The run in fp64; None where there can be none, with a note that says why.

        Raises:
            Failed: memory does not suffice for it.
        """
        self._check_memory()
        reason = ""
        for lift in (True, False):
            try:
                with numerics.nothing_compiled():
                    run = observer.run(Fp64Reference(self._workload.model, draws=eager.draws, lift=lift))
            except CannotCopy as error:
                reason = f"the model cannot be copied ({error})"
                break
            except Exception as error:
                if kind_of(error, "internal") == "out_of_memory":
                    raise Failed("out_of_memory", f"memory ran out in fp64: {one_line(error)}") from error
                reason = reason or f"the model does not run in fp64 ({one_line(error)})"
                continue
            if not eager.draws or run.positions == eager.positions:
                return run
            reason = "in fp64 it draws other random numbers"
            break
        self._notes.append(f"Judged by its cosine to eager, for {reason}.")
        return None

    def _check_memory(self) -> None:
        model = self._workload.model
        needed = size_in_fp64(model) * (2 if self._workload.phase == "train" else 1)
        free = free_memory(model)
        if free is not None and needed > free:
            raise Failed(
                "out_of_memory", f"fp64 needs {needed / 2**30:.1f} GiB of memory, {free / 2**30:.1f} GiB are free"
            )

    def _compiled(self, observer: OutputCapture) -> Run:
        dynamo.forget_compiled()
        before = numerics.compiled_frames() or 0
        try:
            with numerics.comparable_code():
                run = observer.run(self._make_target())
        except Exception as error:
            raise _failed("compiled", error) from error
        if self._configuration.compile and numerics.compiled_frames() == before:
            raise Failed("compile", "nothing was compiled, so this would compare eager with itself")
        return run

    def _emulated(self, observer: OutputCapture) -> Run | None:
        """Compiled again, with the rounding of eager; None where that is not Inductor's to do or fails."""
        if not (self._configuration.compile and numerics.can_emulate(self._configuration.backend)):
            return None
        dynamo.forget_compiled()
        try:
            with numerics.comparable_code(emulate=True):
                return observer.run(self._make_target())
        except Exception as error:
            self._notes.append(f"Emulating eager's rounding failed: {one_line(error)}.")
            return None

    def _answer(self, runs: Runs, tensors: list[Judged]) -> dict[str, Any]:
        if not tensors:
            raise Failed("internal", "the calls return no tensor")
        repeatable = runs.repeatable
        worst = tensors[0]
        notes = [_sentence(worst, tensors)] if worst.why else []
        if not repeatable:
            notes.append("Eager is not deterministic: two runs of it differ.")
        return {
            "verdict": worst.verdict,
            "reason": " ".join(notes + self._notes),
            "anchored": any(each.facts.get("compiled_rmse") is not None for each in tensors),
            "deterministic": repeatable,
            "argmax_flips": argmax_flips(runs.eager, runs.compiled),
            "tensors": [
                {"name": each.name, "kind": each.kind, "verdict": each.verdict, **each.facts}
                for each in tensors[:_LISTED]
            ],
            "tensors_omitted": max(0, len(tensors) - _LISTED),
        }


def _sentence(worst: Judged, tensors: list[Judged]) -> str:
    alike = sum(each.verdict == worst.verdict for each in tensors)
    what = f"{'the gradient of ' if worst.kind == 'gradient' else ''}{worst.name}"
    others = f" ({alike - 1} more are {worst.verdict})" if alike > 1 else ""
    return f"{what[:1].upper() if worst.kind == 'gradient' else what[:1]}{what[1:]}: {worst.why}{others}."


def _failed(side: str, error: Exception) -> Failed:
    kind = kind_of(error, "eager" if side == "eager" else "compile")
    what = "runs out of memory" if kind == "out_of_memory" else "fails"
    return Failed(kind, f"{side} {what}: {one_line(error)}")


def _text(error: Exception) -> str:
    text = one_line(error)
    return text[:1].upper() + text[1:].rstrip(".") + "."


def argmax_flips(eager: Run, compiled: Run) -> float | None:
    """The share of rows whose largest entry differs, over all steps; None where nothing looks like logits."""
    flips = rows = 0
    for key in _logits_of(eager):
        one, other = eager.tensors[key], compiled.tensors.get(key)
        if other is None or other.shape != one.shape:
            continue
        differs = one.argmax(-1) != other.argmax(-1)
        flips += int(differs.sum())
        rows += differs.numel()
    return flips / rows if rows else None


def _logits_of(run: Run) -> list[Key]:
    """Outputs called `logits`, or each step's only output if it is floating and has a wide last dimension."""
    outputs = {key: tensor for key, tensor in run.tensors.items() if key[1] == "output"}
    named = [key for key, t in outputs.items() if key[2].rpartition(".")[2] == "logits" and _rows_of(t, _LOGITS_WIDTH)]
    if named:
        return named
    single = {name for _, _, name in outputs} == {"output"}
    return [key for key, t in outputs.items() if single and t.dim() in (2, 3) and _rows_of(t, _UNNAMED_WIDTH)]


def _rows_of(tensor: torch.Tensor, width: int) -> bool:
    return bool(tensor.is_floating_point() and tensor.dim() and tensor.shape[-1] >= width)

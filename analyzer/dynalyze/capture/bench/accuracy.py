"""The accuracy test: is compiled as right as eager, measured from fp64?

The verdicts, with the numbers that they go by, are in docs/explanation/accuracy.md.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import CodeType
from typing import Any

from dynalyze.capture.bench.configure import configured
from dynalyze.capture.bench.contracts import Broken, broken
from dynalyze.capture.bench.failures import Failed, kind_of, one_line
from dynalyze.capture.bench.fp64_reference import CannotCopy, Fp64Reference, size_in_fp64
from dynalyze.capture.bench.judge import Judged, Runs, judge, judged_against, save_runs
from dynalyze.capture.bench.memory import free_memory
from dynalyze.capture.bench.output_capture import Key, OutputCapture, RunOutputs
from dynalyze.capture.bench.perturbed import Perturbed
from dynalyze.capture.bench.protocol import RIGHT, Configuration, Failure
from dynalyze.capture.bench.state_snapshot import StateSnapshot
from dynalyze.capture.bench.validity import codes_run
from dynalyze.capture.bench.workload import Workload
from dynalyze.capture.torch_private import dynamo, numerics

_SEED = 1337
_LISTED = 100
_FEWEST_CALLS = 3  # Calls of a pass at least, where they leave something behind for later ones.
# Units in the last place: sums of some hundred terms differ by as much in another order. With three runs in the place
# of six one U-Net in eight was called wrong, for a kink that none of them met.
_UNITS = (4, 6, 8, 12, 14, 16)
_FULL = ("float32", "float64")
_SURELY_FAR, _SURELY_FURTHER = 0.998, 1000.0
_MORE_RUNS = 3  # Runs of eager beside two, where these differ or compiled draws other random numbers.
TOLERANCE, _TRAINING_TOLERANCE = 1e-3, 1e-2

Target = Callable[..., Any]
_LOGITS_WIDTH = 16
_UNNAMED_WIDTH = 100


def accuracy(
    workload: Workload, make_target: Callable[[], Target], configuration: Configuration, device: str = "cpu", *,
    save: str = "", against: str = "", compiled_now: Callable[[CodeType], bool] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Compare what `make_target()` gives with eager and with fp64, in the fields of `measurements.Accuracy`.

    The values go into the file `save`, for another interpreter; with those of another one, in the file `against`, they
    are compared too: `across`. With `compiled_now`, which knows code that calls a compiled graph, what
    this process has compiled by now is tested and nothing is compiled: where that decides nothing, or a call runs no
    compiled code, the verdict is "", and takes the whole test.

    Everything is left as it was found, except that Dynamo forgets all that it has compiled in this process. Nothing
    that goes wrong in the target is raised: the answer is "not comparable" then, with the reason. `device` is the type
    of device that autocast is for.
    """
    answer = {"configuration": configuration.name, "verdict": "not comparable"}
    try:
        state = StateSnapshot(workload.model, _SEED, workload.referenced())
        try:
            with numerics.full_float32():
                capture = OutputCapture(workload, state)
                test = _Test(workload, make_target, configuration, device, capture, save, against)
                return answer | (test.at_once(compiled_now) if compiled_now is not None else test.compare())
        finally:
            state.leave()
            dynamo.forget_compiled()
    except Exception as error:
        text = one_line(error)
        return answer | {"reason": text[:1].upper() + text[1:].rstrip(".") + "."}


@dataclass
class _Test:
    workload: Workload
    make_target: Callable[[], Target]
    configuration: Configuration
    device: str
    capture: OutputCapture
    save: str = ""
    against: str = ""
    notes: list[str] = field(default_factory=list)
    _draws: bool = True
    _target: Target = field(init=False)

    def compare(self) -> dict[str, Any]:
        try:
            eager = self._eager(reference=True)
        except Failed as refused:
            return self._refused(refused)
        if eager.moves and (calls := len(eager.positions)) < _FEWEST_CALLS:  # What they keep shows in later ones.
            self.capture.rounds = -(-_FEWEST_CALLS // calls)
            eager = self._eager(reference=True)
        again = self._eager()
        exact = self._exact(eager)
        self._draws = eager.draws or again.draws
        compiled = self._compiled()
        runs = Runs(eager, again, compiled, exact, self._tolerance, tokens=self.workload.phase == "generate")
        if not runs.repeatable or runs.drew_other_numbers:
            seeds = (_SEED * number if runs.drew_other_numbers else None for number in range(1, _MORE_RUNS + 1))
            runs.more = [self._eager(seeds=seed) for seed in seeds]
        tensors = judge(runs)
        if _may_be_rounding(tensors):
            runs.repeated = self._once_more("Compiled fails when it runs once more", lambda: self._target)
            runs.perturbed = self._perturbed()
            tensors = judge(runs)
        if _may_be_rounding(tensors):
            if self.configuration.compile and numerics.can_emulate(self.configuration.backend):
                dynamo.forget_compiled()
                runs.emulated = self._once_more("Emulating eager's rounding failed", self.make_target, emulate=True)
            tensors = judge(runs)
        faults = broken(eager.promises, again.promises, compiled.promises)
        if runs.drew_other_numbers:  # What eager too leaves otherwise with other numbers is no promise.
            own = {each[:2] for run in runs.more for each in broken(eager.promises, again.promises, run.promises)}
            faults = [each for each in faults if each[:2] not in own]
        answer = self._answer(runs, tensors, faults)
        answer["draws"] = self._draws and self.configuration.compile and self.configuration.backend == "inductor"
        if self.save:
            save_runs(Path(self.save), runs, self.workload.model)
        if self.against:
            answer["across"] = judged_against(Path(self.against), runs, self.workload.model)
        return answer

    def at_once(self, compiled_now: Callable[[CodeType], bool]) -> dict[str, Any]:
        """The answer of compiled code that is there: right, or so wrong that the whole test could say nothing else."""
        eager = self._eager(reference=True)
        if eager.moves:  # What calls keep shows in later ones, and is for the whole test.
            return {"verdict": ""}
        target, ran = self.make_target(), []

        def watched(*args: Any, **kwargs: Any) -> Any:
            outputs = []
            ran.append(bool(codes_run(lambda: outputs.append(target(*args, **kwargs)), compiled_now)))
            return outputs[0]

        again, compiled = self._eager(), self.capture.run(watched)
        runs = Runs(eager, again, compiled, None, self._tolerance, tokens=self.workload.phase == "generate")
        faults = broken(eager.promises, again.promises, compiled.promises)
        # Past the recompile limit, say, eager would be compared with itself.
        if not all(ran) or faults:
            return {"verdict": ""}
        tensors = judge(runs)
        sure = {each.verdict for each in tensors} == {"equal"}
        if not sure and runs.repeatable and not runs.drew_other_numbers:
            runs.exact = self._exact(eager)
            tensors = judge(runs)
            if _may_be_rounding(tensors):
                runs.repeated, runs.perturbed = self.capture.run(watched), self._perturbed()
                tensors = judge(runs)
            # On a GPU the whole test bars TF32 too.
            sure = {each.verdict for each in tensors} <= set(RIGHT) or (
                self.device == "cpu" and any(map(_surely_wrong, tensors))
            )
        return self._answer(runs, tensors, faults) if sure else {"verdict": ""}

    @property
    def _tolerance(self) -> float:
        return _TRAINING_TOLERANCE if self.workload.phase == "train" else TOLERANCE

    def _refused(self, refused: Failed) -> dict[str, Any]:
        """A broken contract where compiled answers what eager refuses. Raises Failed: it refuses too."""
        if refused.kind != "eager":
            raise refused
        try:
            self._compiled()
        except Failed as error:
            raise refused from error
        fault = Broken(
            "exception", "A call", refused.message.removeprefix("eager fails: ").rstrip("."), "gives an answer"
        )
        return {
            "verdict": "suspicious",
            "reason": f"Eager refuses what compiled answers: {fault.eager}.",
            "contracts": [fault._asdict()],
        }

    def _eager(self, reference: bool = False, seeds: int | None = None, units: int = 0) -> RunOutputs:
        try:
            target = configured(self.workload.model, replace(self.configuration, compile=False), self.device or "cpu")
            target = Perturbed(target, self.workload.model, units) if units else target
            with numerics.nothing_compiled():
                return self.capture.run(target, reference=reference, seeds=seeds)
        except Exception as error:
            raise _failed("eager", "eager", error) from error

    def _perturbed(self) -> list[RunOutputs]:
        found = []
        with contextlib.suppress(Failed):  # Weights of a class of their own may not be moved so.
            found += [self._eager(units=units) for units in _UNITS]
        return found

    def _exact(self, eager: RunOutputs) -> RunOutputs | None:
        """The run in fp64; None, and a note, where there is none. Raises Failed: memory does not suffice."""
        model, reason = self.workload.model, ""
        needed = size_in_fp64(model) * (2 if self.workload.phase == "train" else 1)
        free = free_memory(model)
        if free is not None and needed > free:
            raise Failed(
                "out_of_memory", f"fp64 needs {needed / 2**30:.1f} GiB of memory, {free / 2**30:.1f} GiB are free"
            )
        for lift in (True, False):
            try:
                with numerics.nothing_compiled():
                    run = self.capture.run(Fp64Reference(model, draws=eager.draws, lift=lift))
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
        self.notes.append(f"Judged by its cosine to eager, for {reason}.")
        return None

    def _compiled(self) -> RunOutputs:
        dynamo.forget_compiled()
        before = numerics.compiled_frames() or 0
        try:
            with numerics.comparable_code(draws=self._draws):
                self._target = self.make_target()
                run = self.capture.run(self._target)
        except Exception as error:
            raise _failed("compiled", "compile", error) from error
        if self.configuration.compile and numerics.compiled_frames() == before:
            raise Failed("compile", "nothing was compiled, so this would compare eager with itself")
        return run

    def _once_more(
        self, problem: str, make_target: Callable[[], Target], *, emulate: bool = False
    ) -> RunOutputs | None:
        """Another compiled run, with `emulate` in the rounding of eager; None, and a note, where it fails."""
        try:
            with numerics.comparable_code(draws=self._draws, emulate=emulate):
                return self.capture.run(make_target())
        except Exception as error:
            self.notes.append(f"{problem}: {one_line(error)}.")
            return None

    def _answer(self, runs: Runs, tensors: list[Judged], faults: list[Broken]) -> dict[str, Any]:
        if not tensors and not faults:
            raise Failed("internal", "the calls return no tensor")
        worst, notes = tensors[0] if tensors else Judged("", "output", "equal"), []
        if worst.why:
            alike = sum(each.verdict == worst.verdict for each in tensors)
            what = f"The gradient of {worst.name}" if worst.kind == "gradient" else worst.name
            what = f"Argument {what}" if what.endswith(" after the call") else what
            others = f" ({alike - 1} more are {worst.verdict})" if alike > 1 else ""
            notes.append(f"{what}: {worst.why}{others}.")
        if untold := [fault for fault in faults if not (worst.why and fault.contract in ("dtype", "shape"))]:
            others = f" ({len(untold) - 1} more)" if len(untold) > 1 else ""
            notes.append(f"{str(untold[0])[:1].upper()}{str(untold[0])[1:]}{others}.")
        if not runs.repeatable:
            notes.append("Eager is not deterministic: two runs of it differ.")
        return {
            "verdict": "suspicious" if faults else worst.verdict,
            "contracts": [fault._asdict() for fault in faults[:_LISTED]],
            "reason": " ".join(notes + self.notes),
            "anchored": any(each.facts.get("compiled_rmse") is not None for each in tensors),
            "deterministic": runs.repeatable,
            "same_bits": runs.same_bits,
            "calls": len(runs.eager.positions),
            "argmax_flips": argmax_flips(runs.eager, runs.compiled),
            "tensors": [
                {"name": each.name, "kind": each.kind, "verdict": each.verdict, **each.facts}
                for each in tensors[:_LISTED]
            ],
            "tensors_omitted": max(0, len(tensors) - _LISTED),
        }


def _may_be_rounding(tensors: list[Judged]) -> bool:
    return any(each.verdict == "suspicious" and "cosine" in each.facts for each in tensors)


def _surely_wrong(tensor: Judged) -> bool:
    """Whether the whole test could say nothing else: 6% off eager, by the cosine, where eager is right to five digits.

    So exact is float32 throughout. Under autocast eager is less so, and the whole test emulates how it rounds.
    """
    facts = tensor.facts
    if tensor.verdict != "suspicious" or facts["dtype"] not in _FULL or facts.get("compiled_rmse") is None:
        return False
    return bool(facts["cosine"] < _SURELY_FAR and facts["compiled_rmse"] > _SURELY_FURTHER * facts["eager_rmse"])


def _failed(side: str, kind: Failure, error: Exception) -> Failed:
    kind = kind_of(error, kind)
    what = "runs out of memory" if kind == "out_of_memory" else "fails"
    return Failed(kind, f"{side} {what}: {one_line(error)}")


def argmax_flips(eager: RunOutputs, compiled: RunOutputs) -> float | None:
    """The share of rows whose largest entry differs, over all steps; None where nothing looks like logits."""
    pairs = [(eager.tensors[key], compiled.tensors.get(key)) for key in _logits_of(eager)]
    differs = [
        one.argmax(-1) != other.argmax(-1) for one, other in pairs if other is not None and other.shape == one.shape
    ]
    rows = sum(each.numel() for each in differs)
    return sum(int(each.sum()) for each in differs) / rows if rows else None


def _logits_of(run: RunOutputs) -> list[Key]:
    """Outputs called `logits`, or each step's only output if it is floating and has a wide last dimension."""
    widths = {
        key: tensor.shape[-1]
        for key, tensor in run.tensors.items()
        if key[1] == "output" and tensor.is_floating_point() and tensor.dim()
    }
    named = [key for key in widths if key[2].rpartition(".")[2] == "logits" and widths[key] >= _LOGITS_WIDTH]
    if named:
        return named
    single = {name for _, kind, name in run.tensors if kind == "output"} == {"output"}
    wide = [key for key, width in widths.items() if width >= _UNNAMED_WIDTH]
    return [key for key in wide if single and run.tensors[key].dim() in (2, 3)]

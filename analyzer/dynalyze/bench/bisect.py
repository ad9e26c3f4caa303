"""Where wrong answers come from: first the stage of the compiler, then the operation, then a script that shows it."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

from dynalyze.bench.plan import Plan, worker_request
from dynalyze.bench.workers import Stopped, Worker, WorkerFailed, WorkerPool
from dynalyze.capture.bench.commands import BISECT_DATA, BISECT_SCRIPT, Bisect, Load
from dynalyze.capture.bench.protocol import Configuration, Work, WorkerRequest
from dynalyze.launch.spec import TargetSpec
from dynalyze.launch.streams import Streams, progress_line
from dynalyze.report import Report, printable
from dynalyze.report.audit import AskingPlace, Bisection, BisectStage, Reduced, StageRun
from dynalyze.report.measurements import Accuracy

DEFAULT_FOLDER = Path("dynalyze-reports")
_TIME_IS_UP = "The time was up before more could be found out."
_LADDER: tuple[tuple[BisectStage, str], ...] = (
    ("dynamo", "eager"), ("aot_autograd", "aot_eager"), ("decompositions", "aot_eager_decomp_partition"),
    ("inductor", "inductor"),
)  # fmt: skip
_PARTS = ("pre_grad_passes", "joint_graph_passes", "post_grad_passes", "lowerings")
_ALL = 1 << 30
_FAULT_SHOWN = 1  # The exit status of a script that shows the fault.
_SCRIPT_SECONDS = 120.0
_REDUCTION_SECONDS = 120.0
_REDUCTION_SHARE = 1 / 3  # Of the time that is left.


def bisect_suspicious(
    report: Report, target: TargetSpec, plan: Plan, folder: Path | None = DEFAULT_FOLDER
) -> list[Bisection]:
    """Find where the suspicious answers of a report come from; scripts that show it go to `folder`.

    `plan` is the one that was measured. Configurations whose answers are not suspicious are looked at too: of these,
    only an operation that is wrong beyond rounding becomes a record.
    """
    found: list[Bisection] = []
    searched = list(cases(report, plan))
    if not searched:
        return found
    streams = Streams(plan.label, quiet=plan.quiet, once=True)
    show = progress_line(streams)[0]
    with WorkerPool(
        streams, plan.timeout, plan.total, python=plan.python, untimed=True, sandboxed=plan.sandboxed
    ) as pool:
        for test, work, configuration in searched:
            request = worker_request(plan, work, configuration)
            name = f"{target.stem}.{configuration.name}.repro"
            search = Search(test, request, pool, folder, name, show)
            stopped = search.run()
            # Of answers that are right, only a wrong operation tells.
            if search.found.op or not search.found.hidden:
                found.append(search.found)
            if stopped == "interrupted":
                report.outcome.status = "interrupted"
                report.outcome.message = "Interrupted while searching for the source of the wrong answers."
            if stopped:
                break
    return found


def cases(report: Report, plan: Plan) -> Iterator[tuple[Accuracy, Work, Configuration]]:
    """Configurations of workloads whose answers were tested, the suspicious ones first."""
    device = plan.device or str(report.environment.get("device") or "cpu")
    configurations = {each.name: each for each in plan.configurations_on(device)}
    for test in sorted(report.accuracy, key=lambda test: test.verdict != "suspicious"):
        configuration = configurations.get(test.configuration)
        work = next(
            (
                work
                for work in plan.works
                if (work.phase, dict(work.shape)) == (test.phase, test.shape)
                and work.batch in (None, test.batch)
                and work.sequence in (None, test.sequence)
            ),
            None,
        )
        if test.verdict != "not comparable" and configuration is not None and work is not None:
            yield test, work, configuration


class Search:
    """The search in one configuration. `found` holds what is known so far, whatever ends it.

    Scripts are tried where the measuring processes run; the one that shows the fault goes to `keep_in` as `name`.
    """

    def __init__(
        self, test: Accuracy, request: WorkerRequest, pool: WorkerPool, keep_in: Path | None, name: str,
        show: Callable[[str], None],
    ) -> None:  # fmt: skip
        self._test = test
        self._request = request
        self._pool = pool
        self._keep_in = keep_in
        self._name = name
        self._show = show
        self._worst = next(iter(test.tensors), None)
        self._caches = pool.empty_caches()
        self._worker: Worker | None = None
        self._processes = ExitStack()
        hidden = test.verdict != "suspicious"
        tensor = self._worst.name if self._worst is not None and not hidden else ""
        self.found = Bisection(request.configuration.name, phase=test.phase, tensor=tensor, hidden=hidden)
        # The stages that its backend goes through, the last of them the backend itself.
        backend, names = request.configuration.backend, [name for _, name in _LADDER]
        ladder: tuple[tuple[BisectStage, str], ...] = (*_LADDER[:2], ("backend", backend))
        if backend in names:
            ladder = _LADDER[: names.index(backend) + 1]
        *self._before, self._last = ladder

    def run(self) -> str:
        """Search; returns why it ended early, "" where it did not."""
        began, stopped = time.monotonic(), ""
        try:
            with self._processes:
                self._hidden() if self.found.hidden else self._suspicious()
        except Stopped as stop:
            stopped = stop.reason
            self._note(_TIME_IS_UP if stopped == "out_of_time" else "It was interrupted.")
        except WorkerFailed as error:
            self._note(f"{error.message[:1].upper()}{error.message[1:]}.")
        self.found.seconds = round(time.monotonic() - began, 3)
        return stopped

    def _suspicious(self) -> None:
        """The answers are wrong: the stage, the operation with a script, and the part of the stage."""
        stage = self.found.stage = self.first_stage()
        if not stage:
            self._note("No stage alone gives the wrong answers again.")
        elif stage == "dynamo":
            if not self._of_the_program():
                self._note("The graphs that Dynamo captured compute something different from the Python code.")
        else:
            try:
                if (fault := self.wrong_operation(stage)) is not None:
                    self._take_over(fault)
            except WorkerFailed as error:
                self._note(f"The operations could not be judged: {error.message}.")
            self.show_alone(stage)
            if stage == "inductor":
                self.into_inductor()
            elif stage == "decompositions":
                part = "decomposition"
                self._into_part(stage, part if self._is_right(stage, part=part, kept=0) else "")

    def _hidden(self) -> None:
        """The answers are right: does each operation in the compiled code round as it may, and from which stage on?"""
        last, _ = self._last
        wrong = self.wrong_operation(last)
        if wrong is None:
            return
        for stage, backend in (*self._before, self._last):
            found = wrong if stage == last else self.wrong_operation(stage)
            rmse = found["compiled_rmse"] if found else None
            self.found.stages.append(StageRun(stage, backend, "suspicious" if found else "benign", rmse))
            if found is not None:
                self.found.stage = stage
                self._take_over(found)
                self.show_alone(stage)
                return

    def _of_the_program(self) -> bool:
        """Whether the program answers otherwise because it asks whether it is compiled; if so the stage is its own."""
        self._say("does the program ask whether it is compiled?")
        try:
            places = self._take("own_source")["places"]
        except WorkerFailed as error:
            self._note(f"Whether the program's own code causes the difference could not be tested: {error.message}.")
            return False
        self.found.asks = [AskingPlace(**place) for place in places]
        for first in self.found.asks[:1]:
            self.found.stage, self.found.file, self.found.line = "program", first.file, first.line
        return bool(places)

    def first_stage(self) -> BisectStage:
        """Up the ladder until the answers are suspicious; the last rung is the test that was made before."""
        for stage, name in self._before:
            self._say(f"stage {stage}")
            try:
                answer = self._take("stage", stage=stage)
            except WorkerFailed as error:
                self.found.stages.append(StageRun(stage, name, "not comparable", reason=error.message))
                continue
            verdict, nonfinite = answer["verdict"], answer["nonfinite"] or 0
            self.found.stages.append(StageRun(stage, name, verdict, answer["rmse"], nonfinite, answer["reason"]))
            if verdict == "suspicious":
                return self._or_decompositions(stage, name)
        # The accuracy test of the configuration itself, with and without eager's rounding.
        (last, backend), verdict, worst = self._last, self._test.verdict, self._worst
        rmse, nonfinite = (worst.compiled_rmse, worst.nonfinite) if worst else (None, 0)
        self.found.stages.append(StageRun(last, backend, verdict, rmse, nonfinite))
        if worst is not None and worst.emulated_rmse is not None:
            rounded = StageRun("emulated", f"{backend}, rounding as eager", verdict, worst.emulated_rmse)
            self.found.stages.append(rounded)
        return self._or_decompositions(last, backend)

    def _or_decompositions(self, stage: BisectStage, backend: str) -> BisectStage:
        """The stage with wrong answers: decompositions where AOTAutograd is right without its own."""
        if stage != "aot_autograd":
            return stage
        try:
            answer = self._take("stage", stage=stage, own_kernels=True)
        except WorkerFailed:
            return stage
        self.found.stages.append(
            StageRun(
                stage, f"{backend}, nothing decomposed", answer["verdict"], answer["rmse"], reason=answer["reason"]
            )
        )
        return "decompositions" if self._as_eager(answer) else stage

    def wrong_operation(self, stage: BisectStage) -> dict[str, Any] | None:
        """The first wrong operation of a stage, in fields of `Bisection`."""
        self._say(f"every operation, stage {stage}")
        answer = self._take("operations", stage=stage)
        self.found.judged = max(self.found.judged, answer["judged"])
        for problem in answer["problems"]:
            self._note(problem)
        fault: dict[str, Any] | None = answer["fault"]
        return fault

    def _take_over(self, facts: dict[str, Any]) -> None:
        for name, value in facts.items():
            setattr(self.found, name, value)

    def show_alone(self, stage: BisectStage) -> None:
        """The smallest program that shows it, as a script; where no operation is known, its last one is named."""
        self._say("a small program that shows it")
        folder = self._pool.empty_caches()
        seconds = min(_REDUCTION_SECONDS, self._pool.seconds_left * _REDUCTION_SHARE)
        try:
            answer = self._take("script", stage=stage, folder=str(folder), seconds=seconds)
        except WorkerFailed as error:
            self._note(f"No small program was found: {error.message}.")
            return
        if answer["reduced"] is None:
            self._note("No graph is wrong outside of the program.")
            return
        if not self.found.op and answer["place"] is not None:
            self._take_over(answer["place"])
            self.found.gradient = self._worst is not None and self._worst.kind == "gradient"
        if self._keep_in is None:
            self._note("A script that reproduces it would quote the program; it was not requested.")
            return
        status = None
        if answer["script"]:  # With empty caches: what a fault left there must not count.
            self._say("a script that shows it")
            status = self._pool.exit_status(folder / BISECT_SCRIPT, self._pool.empty_caches(), _SCRIPT_SECONDS)
        if status != _FAULT_SHOWN:
            self._note("No script shows the fault outside of the program.")
        else:
            self.found.repro = printable(str(_kept(folder, self._keep_in, self._name)))
            self.found.reduced = Reduced(**answer["reduced"])

    def into_inductor(self) -> None:
        """Which of torch's own switches makes the answers right, and down to which pass or lowering?"""
        part = next((part for part in _PARTS if self._is_right("inductor", part=part, kept=0)), "")
        self._into_part("inductor", part)
        passing = self.found.applied if part != "lowerings" else ""
        if passing and self._is_right("inductor", disabled=passing):
            self.found.workaround = f"torch._inductor.config.disabled_passes = '{passing}'"

    def _into_part(self, stage: BisectStage, part: str) -> None:
        """Of a part without which the answers are right, "" for none: how many of it may come until they are not?"""
        self.found.part = part
        if not part:
            return
        right, wrong = 0, self._take("stage", stage=stage, part=part, kept=_ALL)["applied"]
        while wrong - right > 1:
            middle = (right + wrong) // 2
            if self._is_right(stage, part=part, kept=middle):
                right = middle
            else:
                wrong = middle
        last = self._take("stage", stage=stage, part=part, kept=wrong)
        self.found.applied = last["last"] if last["verdict"] == "suspicious" else ""

    def _is_right(self, stage: BisectStage, **switched: Any) -> bool:
        """Whether the answers of a stage are, with something switched off that would have come."""
        self._say(f"without {str(switched.get('part') or switched['disabled']).replace('_', ' ')}")
        try:
            answer = self._take("stage", stage=stage, **switched)
        except WorkerFailed:
            return False
        return ("disabled" in switched or bool(answer["applied"])) and self._as_eager(answer)

    def _as_eager(self, answer: dict[str, Any]) -> bool:
        """Whether the answers are right; where eager refuses the calls: whether compiled does."""
        refuses = any(fault.contract == "exception" for fault in self._test.contracts)
        refused = refuses and answer["reason"].startswith("Eager fails")
        return refused or answer["verdict"] not in ("suspicious", "not comparable")

    def _take(self, step: Literal["stage", "own_source", "operations", "script"], **details: Any) -> dict[str, Any]:
        """The answer to a step, of one process as long as that lives. Raises WorkerFailed where it could not be taken,
        or cost the process its life, and Stopped where the time is up, or Ctrl-C was pressed.
        """
        try:
            if self._worker is None:
                self._worker = self._processes.enter_context(self._pool.worker(self._request, self._caches))
                self._worker.ask(Load())
            return self._worker.ask(Bisect(step, details))
        except WorkerFailed as error:
            if error.kind in ("died", "timed_out"):
                self._worker = None
                self._processes.__exit__(type(error), error, None)
            raise

    def _say(self, what: str) -> None:
        self._show(f"{self._request.configuration.name}: where the answers come from: {what}")

    def _note(self, text: str) -> None:
        if text not in self.found.reason:
            self.found.reason = f"{self.found.reason} {text}".strip()


def _kept(made_in: Path, keep_in: Path, name: str) -> Path:
    """The path of the script in `keep_in`, with its data beside it, under a name that no earlier one has."""
    keep_in.mkdir(parents=True, exist_ok=True)
    stem = re.sub(r"[^\w.-]+", "_", name).strip("._") or "fault"
    names = [stem, *(f"{stem}_{number}" for number in range(2, 1000))]
    path = next(path for each in names if not (path := keep_in / f"{each}.py").exists())
    text = (made_in / BISECT_SCRIPT).read_text(encoding="utf-8")
    if (data := made_in / BISECT_DATA).exists():
        shutil.copyfile(data, path.with_suffix(".pt"))
        text = text.replace(f'"{BISECT_DATA}"', f'"{path.stem}.pt"')
    path.write_text(text, encoding="utf-8")
    return path

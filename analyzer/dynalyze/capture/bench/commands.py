"""What the parent of a benchmark asks of a worker, and the records that come back: declared once for both sides.

Only the standard library is imported with it; what carries a command out is imported in the worker.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from dynalyze.capture.bench.protocol import Command
from dynalyze.capture.bench.workload import run_untimed
from dynalyze.capture.fixing.records import BaselineResult, CheckRequest, CheckResult

BISECT_SCRIPT, BISECT_DATA = "script.py", "inputs.pt"
"""In the folder of a bisection's step `script`; the second only where inputs are too large to stand in the first."""
_MEMORY_PASSES = 3
_FIRST_PASSES = 4  # The first compiles, the second warms up a CUDA graph, the third records it.

if TYPE_CHECKING:
    from dynalyze.capture.bench.worker import MeasuringSession


@dataclass
class Loaded:
    """`repeated`: whether the model has a list of repeated blocks, which `regional` compiles. `name` is its class.

    `made` are all calls of a program that was run again. `environment` are the fields of environment.py `TorchFacts`.
    """

    import_seconds: float | None = None
    load_seconds: float | None = None
    made: Any = None
    repeated: bool = True
    calls: int = 1
    items: float | None = None
    tokens: float | None = None
    batch: int | None = None
    sequence: int | None = None
    phase: str = ""
    notes: list[str] = field(default_factory=list)
    threads: int | None = None
    name: str = ""
    environment: dict[str, Any] = field(default_factory=dict)
    device: str = ""
    dtype: str = ""


@dataclass
class Load(Command[Loaded], do="load"):
    """Import torch, make the model and its calls."""

    def carry_out(self, session: MeasuringSession) -> Loaded:
        return session.load()


@dataclass
class Warmed:
    """Milliseconds of every pass, the first one first. `steady_after` so many they were steady; None: not reached.

    `counts` are those of `measurements.Counts`, `phases` and `cache` torch's own. After `Record` there is the folder
    of torch.
    """

    calls_ms: list[float] = field(default_factory=list)
    steady_after: int | None = None
    counts: dict[str, int] = field(default_factory=dict)
    phases: dict[str, float] = field(default_factory=dict)
    cache: dict[str, int] = field(default_factory=dict)
    torch_folder: str = ""


@dataclass
class Warm(Command[Warmed], do="warm"):
    """Pass after pass until steady, or one of the limits."""

    seconds: float = 60.0
    most: int = 1000

    def carry_out(self, session: MeasuringSession) -> Warmed:
        return session.warm(self.seconds, self.most)


@dataclass
class Record(Warm, do="record"):
    """As `Warm`, and what compiles meanwhile is recorded in the folder. Nothing is timed: no other command records."""

    def carry_out(self, session: MeasuringSession) -> Warmed:
        import torch

        from dynalyze.capture.attach import InProcess
        from dynalyze.capture.environment import torch_facts

        recording = InProcess(session.run)
        recording.start()
        try:
            warmed = session.warm(self.seconds, self.most)
        finally:
            recording.stop()
        warmed.torch_folder = torch_facts(torch).folder
        return warmed


@dataclass
class Samples:
    samples_ms: list[float]


@dataclass
class Block(Command[Samples], do="block"):
    """Timed passes: so many, or for so long."""

    seconds: float | None = None
    passes: int | None = None

    def carry_out(self, session: MeasuringSession) -> Samples:
        from dynalyze.capture.bench.timing import block, lead_in

        session.configure()
        return Samples(block(session.timer, session.steps, self.passes, self.seconds, lead_in(session.recent)))


@dataclass
class Checked:
    """What has compiled since `Warm` ended. `invalid` is why what was timed is not what was asked for; "" if it is."""

    counts: dict[str, int | None] = field(default_factory=dict)
    recompiles_while_timing: int = 0
    cudagraph_replays: int | None = None
    steps_in_eager: int = 0
    invalid: str = ""


@dataclass
class Check(Command[Checked], do="check"):
    def carry_out(self, session: MeasuringSession) -> Checked:
        from dynalyze.capture.bench.validity import look, reason_against

        session.configure()
        while_timing = session.compiles.since_mark()
        evidence = look(session.steps, session.compiles.runs_a_graph)
        replays = evidence.replays if session.device == "cuda" else None
        counts = session.compiles.counts() | {
            "recompiles_while_timing": while_timing, "cudagraph_replays": replays,
        }  # fmt: skip
        invalid = reason_against(session.configuration, counts, evidence, session.device)
        return Checked(counts, while_timing, replays, evidence.steps_in_eager, invalid)


@dataclass
class Peaks:
    """Bytes: since the process began, and of the next passes. `kind` says of what (capture/bench/memory.py)."""

    kind: Literal["cuda", "rss", "process"]
    steady_peak: int
    compile_peak: int | None = None
    reserved_peak: int | None = None


@dataclass
class MeasureMemory(Command[Peaks], do="memory"):
    def carry_out(self, session: MeasuringSession) -> Peaks:
        from dynalyze.capture.bench.memory import peaks

        if not session.steps:
            session.configure()
            run_untimed(session.steps * _FIRST_PASSES)
        return peaks(session.device, lambda: run_untimed(session.steps * _MEMORY_PASSES))


@dataclass
class SavedForBackward:
    """A tensor that autograd saves, `bytes` of its whole storage; 0 where that is a parameter's or an input's, which
    are there anyway, or was counted before.

    `place` is the file, line and function outside of torch that made it with `op`, `module` the innermost one that ran;
    where the maker is not known, that of the line that saves it. A tensor that a compiled graph saves has the number of
    that graph in `graph`, in the order of the first calls; each lists what it saves in the order of its backward
    graph's inputs.
    """

    bytes: int
    dtype: str
    shape: list[int]
    place: tuple[str, int, str] | None = None
    module: str = ""
    op: str = ""
    graph: int | None = None


@dataclass
class MeasuredStep:
    saved: list[SavedForBackward]
    peak_bytes: int
    peak_in: Literal["forward", "backward"]


@dataclass
class MeasuredSteps:
    """`problem` is why there are none: nothing else that was measured depends on it."""

    steps: list[MeasuredStep] = field(default_factory=list)
    problem: str = ""


@dataclass
class MeasureSteps(Command[MeasuredSteps], do="step_memory"):
    """What each training step keeps for its backward, and its peak."""

    def carry_out(self, session: MeasuringSession) -> MeasuredSteps:
        from dynalyze.capture.bench.memory import step_memory

        session.configure()
        compiled = session.configuration.compile
        return MeasuredSteps(step_memory(session.steps, session.workload().model, session.device, compiled=compiled))


@dataclass
class CheckedOperators:
    """Each with the fields of report/audit.py `OperatorCheck`."""

    operators: list[dict[str, Any]]


@dataclass
class CheckOperators(Command[CheckedOperators], do="operators"):
    """Custom operators that the calls reach, held to torch.library.opcheck."""

    seconds: float

    def carry_out(self, session: MeasuringSession) -> CheckedOperators:
        from dynalyze.capture.bench.operators import checked_operators

        return CheckedOperators(checked_operators(session.workload(), self.seconds))


@dataclass
class AttentionChoices:
    """Of a model of transformers: its class, the implementation that it has, and by each name what transformers takes
    for it (`used`), or why it cannot be had here (`refused`).
    """

    model: str
    own: str
    unsupported: list[str]
    names: dict[str, dict[str, str]]


@dataclass
class DescribeAttention(Command[AttentionChoices], do="attention"):
    """Without `names`, all that the model's class supports."""

    names: list[str] = field(default_factory=list)
    dtypes: list[str] = field(default_factory=list)

    def carry_out(self, session: MeasuringSession) -> AttentionChoices:
        from dynalyze.capture.transformers_attention import choices

        return choices(session.workload().model, self.names, self.dtypes)


@dataclass
class CompareAnswers(Command[dict[str, Any]], do="accuracy"):
    """The accuracy test; its answer has the fields of `measurements.Accuracy`, and what accuracy.py says of `save` and
    `against`, files for another interpreter and of one. `at_once` holds what is compiled by now against eager alone.

    With `variant` (one of VARIANTS) on other inputs: the verdict is "left out", with the reason, where eager refuses
    them, and "" where they are no others.
    """

    variant: str = ""
    save: str = ""
    against: str = ""
    at_once: bool = False

    def carry_out(self, session: MeasuringSession) -> dict[str, Any]:
        from dynalyze.capture.bench.accuracy import accuracy
        from dynalyze.capture.bench.variants import VariedWorkload

        workload = session.workload()
        if self.variant:
            workload = VariedWorkload(workload, self.variant)
            if refusal := workload.refusal():
                return {"verdict": "left out", "reason": refusal}
            if refusal is None:
                return {"verdict": ""}
        return accuracy(
            workload, session.target, session.configuration, session.device, save=self.save, against=self.against,
            compiled_now=session.compiles.runs_a_graph if self.at_once else None,
        )  # fmt: skip


@dataclass
class Bisect(Command[dict[str, Any]], do="bisect"):
    """One step towards the place of a wrong result, by the name of the method of `Bisector` that takes it."""

    step: Literal["stage", "own_source", "operations", "script"]
    arguments: dict[str, Any] = field(default_factory=dict)

    def carry_out(self, session: MeasuringSession) -> dict[str, Any]:
        from dynalyze.capture.bench.bisect import Bisector

        if session.bisector is None:
            session.bisector = Bisector(session.workload(), session.configuration, session.device)
        answer: dict[str, Any] = getattr(session.bisector, self.step)(**self.arguments)
        return answer


@dataclass
class Imported:
    modules: list[str] = field(default_factory=list)


@dataclass
class End(Command[Imported], do="end"):
    """The last command; with `modules` it asks what the worker has imported of installed packages."""

    modules: bool = False

    def carry_out(self, session: MeasuringSession) -> Imported:
        from dynalyze.capture.bench.forking import imported_modules

        return Imported(imported_modules() if self.modules else [])


@dataclass
class Baseline(Command[BaselineResult], do="baseline"):
    """The code as it is, before changes are verified. It comes first: it makes the checker of the process."""

    def carry_out(self, session: MeasuringSession) -> BaselineResult:
        from dynalyze.capture.fixing.prove import ChangeChecker

        session.changes = ChangeChecker(session.workload(), session.configuration, session.device, session.run)
        found: BaselineResult = session.changes.baseline()
        return found


@dataclass
class SeenValues:
    """By file and line what expressions were, in fields of fix/sites.py `Value`."""

    places: list[tuple[str, int, dict[str, dict[str, Any]]]]


@dataclass
class ReadValues(Command[SeenValues], do="values"):
    """What expressions of some lines were when these ran."""

    places: list[tuple[str, int, list[str]]]

    def carry_out(self, session: MeasuringSession) -> SeenValues:
        found = session.changes.values({(file, line): texts for file, line, texts in self.places})
        return SeenValues([(*place, known) for place, known in found.items()])


@dataclass
class CheckChange(Command[CheckResult], do="change"):
    """A change, held to the code as it is; `request` has the fields of `CheckRequest`."""

    request: dict[str, Any]

    def carry_out(self, session: MeasuringSession) -> CheckResult:
        found: CheckResult = session.changes.check(CheckRequest.of(self.request))
        return found

"""The attention matrix without a model: how its cells come about, and what is made of it."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from dynalyze.audit import attention_matrix as attention_matrix_module
from dynalyze.audit.attention_matrix import Trials, attention_matrix, check_target, combination_name, fill
from dynalyze.bench.measure import rebuilt_source
from dynalyze.bench.plan import Plan
from dynalyze.bench.workers import Stopped
from dynalyze.capture import transformers_attention
from dynalyze.capture.inputs import Misuse
from dynalyze.facts.audit import fastest, instead_of, right
from dynalyze.launch.observe import Observation, request_of
from dynalyze.launch.spec import TargetSpec, read_target
from dynalyze.privacy import showable
from dynalyze.render import html
from dynalyze.render.text import attention as words_attention
from dynalyze.report import GraphBreak, Location, Recompile, Report
from dynalyze.report.audit import AttentionCell, AttentionMatrix
from dynalyze.report.document import to_json
from dynalyze.report.measurements import Latency, Measurement
from dynalyze.rules.rule import judge
from dynalyze.sweep.rows import ItemVerdict
from dynalyze.text.errors import UsageError
from sample_attention import FP32, MASKS, cell, matrix, timed
from sample_reports import clean_report

BREAK = GraphBreak("b1", "GB0124", "Unsupported Tensor.item() call", "split", Location(MASKS, 713), [])
AGAIN = Recompile("r1", "0/1", "0/0", Location(MASKS, 9), "shape")
CANARY = "canary_of_the_source"


class FakeTrials(Trials):
    """Gives what it was told for a combination's name; an exception is raised."""

    def __init__(self, runs: dict[str, Any] | None = None, *, is_timed: bool = True, **steps: Any) -> None:
        self.runs = runs or {}
        self.steps = steps
        self.timed = is_timed
        self.asked: list[str] = []

    def recorded(self, cell: AttentionCell) -> tuple[Report, ItemVerdict]:
        return self._do("run", cell, self.runs.get(combination_name(cell), ran()))

    def accuracy(self, cell: AttentionCell) -> dict[str, Any]:
        return self._do("accuracy", cell, self.steps.get("accuracy", {"verdict": "equal"}))

    def speed(self, cell: AttentionCell) -> Measurement | None:
        return self._do("speed", cell, self.steps.get("speed"))

    def _do(self, what: str, cell: AttentionCell, given: Any) -> Any:
        self.asked.append(f"{what}: {combination_name(cell)}")
        if isinstance(given, BaseException):
            raise given
        return given


def ran(status: Any = "full_graph", error: str = "", file: str = "", **facts: Any) -> tuple[Report, ItemVerdict]:
    report = clean_report()
    for name, value in facts.items():
        setattr(report, name, value)
    return report, ItemVerdict(status, error, file, 7 if file else 0)


def made(
    trials: FakeTrials, names: tuple[str, ...] = ("eager", "sdpa"), refused: dict[str, str] | None = None
) -> AttentionMatrix:
    found = AttentionMatrix(attentions=list(names), dtypes=["float32", "bfloat16"])
    found.own_attention, found.own_dtype = "sdpa", "float32"
    fill(found, refused or {}, ("",), trials, lambda text: None)
    return found


def only(run: Any, **steps: Any) -> AttentionCell:
    """The first cell of a matrix whose first run was this."""
    return made(FakeTrials({"eager, float32": run}, **steps)).cells[0]


def with_matrix(found: AttentionMatrix | None = None) -> Report:
    report = clean_report()
    report.attention_matrix = found or matrix()
    return report


# --- how cells come about


def test_every_combination_becomes_a_cell_in_order() -> None:
    trials = FakeTrials()
    cells = made(trials).cells
    assert [(each.attention, each.dtype, each.status) for each in cells] == [
        ("eager", "float32", "runs"), ("eager", "bfloat16", "runs"),
        ("sdpa", "float32", "runs"), ("sdpa", "bfloat16", "runs"),
    ]  # fmt: skip
    assert [each.id for each in cells] == ["cell1", "cell2", "cell3", "cell4"]
    assert {each.accuracy for each in cells} == {"equal"}


def test_breaks_come_before_recompiles_and_tell_their_line() -> None:
    broken = only(ran("graph_break", graph_breaks=[BREAK], recompiles=[AGAIN]))
    assert (broken.status, broken.graph_breaks, broken.recompiles) == ("breaks", 1, 1)
    assert (broken.reason, broken.file, broken.line) == ("Unsupported Tensor.item() call", MASKS, 713)
    again = only(ran(recompiles=[AGAIN]))
    assert (again.status, again.file, again.line, again.facts["cause"]) == ("recompiles", MASKS, 9, "shape")


@pytest.mark.parametrize(
    ("status", "error", "expected"),
    [
        ("eager_error", f"eager: {FP32}", "eager_error"),
        ("create_error", "model: ValueError: no", "eager_error"),
        ("compile_error", "InductorError: no", "compile_error"),
        ("timeout", "Ended after 3 s", "timeout"),
        ("crash", "The program was killed by SIGSEGV.", "crash"),
        ("eager_error", "eager: RuntimeError: \"addmm_impl_cpu_\" not implemented for 'Half'", "not_here"),
        ("eager_error", "eager: RuntimeError: FlashAttention only supports Ampere GPUs or newer.", "not_here"),
        ("eager_error", "eager: NotImplementedError: FlexAttention does not support backward on CPU.", "not_here"),
    ],
)
def test_what_fails_costs_its_own_cell_and_says_why(status: str, error: str, expected: str) -> None:
    trials = FakeTrials({"eager, float32": ran(status, error, "/home/ada/model.py")})
    cells = made(trials).cells
    assert cells[0].status == expected
    assert (cells[0].reason, cells[0].file) == (error.removeprefix("eager: "), "/home/ada/model.py")
    assert cells[0].accuracy is None
    assert "accuracy: eager, float32" not in trials.asked
    assert [each.status for each in cells[1:]] == ["runs"] * 3


def test_what_cannot_be_had_here_is_never_run() -> None:
    trials = FakeTrials()
    cells = made(trials, ("sdpa", "flash_attention_2"), refused={"flash_attention_2": "no package"}).cells
    assert [(each.status, each.reason) for each in cells[2:]] == [("not_here", "no package")] * 2
    assert not any("flash" in asked for asked in trials.asked)


def test_times_stand_in_the_cell_only_where_they_are_valid() -> None:
    latency = Latency(2.0, 2.0, 2.0, 2.0, 2.0, None, 9)
    valid = Measurement("default", latency_ms=latency, speedup=timed(2.0)["speedup"])
    assert only(ran(), speed=valid).latency_ms == 2.0
    invalid = only(ran(), speed=Measurement("default", status="invalid", reason="no frame was compiled"))
    assert (invalid.latency_ms, invalid.speedup) == (None, None)
    assert invalid.notes == ["The speed is not known: no frame was compiled"]


def test_ctrl_c_keeps_the_finished_cells() -> None:
    found = made(FakeTrials({"sdpa, float32": Stopped("interrupted")}))
    assert (found.stopped, len(found.cells)) == ("interrupted", 2)
    assert "Interrupted: not every combination was tried." in words_attention.notes(found)


def test_speeds_come_last_so_that_a_time_limit_costs_no_cell() -> None:
    trials = FakeTrials(speed=Stopped("out_of_time"))
    found = made(trials)
    assert (found.stopped, len(found.cells)) == ("out_of_time", 4)
    assert [asked for asked in trials.asked if asked.startswith("speed")] == trials.asked[-1:]
    assert trials.asked[-1] == "speed: sdpa, float32"  # what the target has by itself comes first
    assert all(each.notes == ["The time was up before it was timed."] for each in found.cells)


def test_what_hangs_costs_a_quarter_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[Any] = []

    class Shop:
        def __init__(
            self, streams: Any, seconds: float, total: float, python: Any = None, sandboxed: bool = False
        ) -> None:
            limits.append((seconds, total))

        def __enter__(self) -> Shop:
            raise Stopped("interrupted")

        def __exit__(self, *error: object) -> None:
            """Never entered."""

    monkeypatch.setattr(attention_matrix_module, "WorkerPool", Shop)
    target = read_target("hf:LlamaModel", None, ())
    for plan in (Plan({}, timeout=600.0, total=400.0), Plan({}, timeout=600.0, total=3600.0)):
        with pytest.raises(Stopped):
            attention_matrix(target, plan)
    assert limits == [(100.0, 400.0), (600.0, 3600.0)]


def test_the_end_of_the_whole_is_not_told_as_a_hang_of_a_combination(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome_of_run = SimpleNamespace(status="timed_out")
    seen = nullcontext(SimpleNamespace(report=SimpleNamespace(outcome=outcome_of_run)))
    monkeypatch.setattr(attention_matrix_module, "observed", lambda observation: seen)
    clock = iter((0.0, 1.0, 99.0))
    monkeypatch.setattr(attention_matrix_module, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    pool: Any = SimpleNamespace(attend=lambda: None)
    trials = Trials(read_target("hf:LlamaModel", None, ()), Plan({}, total=10.0), pool)
    with pytest.raises(Stopped, match="out_of_time"):
        trials.recorded(AttentionCell("sdpa", "float32"))


# --- what is asked for


def test_the_attention_travels_with_the_target(tmp_path: Any) -> None:
    (tmp_path / "net.py").write_text("")
    spec = read_target(f"{tmp_path}/net.py:Net", None, ()).with_attention("sdpa")
    assert request_of(Observation(spec))["attention"] == "sdpa"
    assert rebuilt_source(spec)["attention"] == "sdpa"
    model = read_target("hf:LlamaModel", None, ()).with_attention("eager")
    assert request_of(Observation(model))["asked"]["attn_implementation"] == "eager"
    assert rebuilt_source(model)["attn_implementation"] == "eager"


@pytest.mark.parametrize(
    ("spec", "phase"),
    [
        (TargetSpec("script", "train.py", path="train.py"), "forward"),
        (TargetSpec("object", "net.py:Net", path="net.py", name="Net"), "decode"),
    ],
)
def test_what_has_no_attention_to_choose_is_refused_before_anything_runs(spec: TargetSpec, phase: str) -> None:
    with pytest.raises(UsageError, match="hf:NAME"):
        check_target(spec, phase)


# --- what transformers is asked


class Config:
    _attn_implementation = "sdpa"


class Model:
    """The part of a model of transformers that is spoken to."""

    _supports_sdpa = True
    _supports_flash_attn_2 = True  # as an earlier version calls it
    _supports_flex_attn = False

    def __init__(self) -> None:
        self.config = Config()

    def set_attn_implementation(self, name: str) -> None:
        self.config._attn_implementation = name

    def _check_and_adjust_attn_implementation(self, name: str) -> str:
        if name == "flash_attention_2":
            raise ImportError("the package flash_attn\nis not installed")
        return "kernels-community/fa3" if name == "flash_attention_3" else name


def test_flags_and_availability_are_read() -> None:
    assert transformers_attention.supported(Model()) == ["eager", "sdpa", "flash_attention_2"]
    told = transformers_attention.availability(Model(), ["sdpa", "flash_attention_2", "flash_attention_3"])
    assert told["sdpa"] == {"used": "sdpa", "refused": ""}
    assert told["flash_attention_2"] == {"used": "", "refused": "the package flash_attn is not installed"}
    assert told["flash_attention_3"] == {"used": "kernels-community/fa3", "refused": ""}


def test_attention_is_switched_or_refused() -> None:
    model = Model()
    transformers_attention.switch(model, "eager")
    assert transformers_attention.implementation(model) == "eager"

    class Fixed(Model):
        def set_attn_implementation(self, name: str) -> None: ...

    with pytest.raises(Misuse, match="hf:NAME"):
        transformers_attention.switch(Fixed(), "eager")
    with pytest.raises(Misuse, match="no model of transformers"):
        transformers_attention.switch(len, "eager")


# --- what is concluded


def test_the_fastest_is_named_only_where_it_was_measured() -> None:
    assert words_attention.conclusion(matrix()) == (
        "sdpa with bfloat16 is the fastest combination without breaks and with right answers: 2.00 ms."
    )
    untimed = matrix(cells=[cell("eager", "float32"), cell("sdpa", "float32"), cell("sdpa", "bfloat16", "breaks")])
    assert words_attention.conclusion(untimed) == ("2 of 3 combinations ran without breaks and gave right answers.")


def test_combinations_within_the_noise_are_all_the_fastest() -> None:
    near = [cell("eager", "float32", **timed(2.0)), cell("sdpa", "float32", **timed(2.08))]
    assert fastest(near) == near
    assert words_attention.conclusion(matrix(cells=near)) == (
        "eager with float32 and sdpa with float32 are the fastest combinations without breaks and with right answers; "
        "no difference between them is shown."
    )
    unknown = [cell("eager", "float32", **timed(2.0)), cell("sdpa", "float32", **timed(9.0, floor=None))]
    assert fastest(unknown) == []


def test_a_broken_combination_is_never_the_fastest() -> None:
    quick = [*matrix().cells, cell("x", "float32", "breaks", **timed(0.1)), cell("y", "float32", accuracy="suspicious")]
    assert words_attention.conclusion(matrix(cells=quick)).startswith("sdpa with bfloat16 is")
    assert {each.id for each in right(matrix(cells=quick))} == {"eager-float32", "sdpa-float32", "sdpa-bfloat16"}


def test_the_nearest_good_one_has_the_same_dtype() -> None:
    broken = next(each for each in matrix().cells if each.status == "breaks")
    assert (instead_of(broken, right(matrix())) or pytest.fail()).id == "sdpa-bfloat16"
    assert instead_of(broken, []) is None


# --- findings


def test_the_targets_own_combination_is_a_warning_and_others_are_told() -> None:
    found = [each for each in judge(with_matrix()) if each.rule == "attention-matrix"]
    told = {each.evidence[0]: each for each in found}
    own = told["flash_attention_2-bfloat16"]
    assert own.severity == "warning"
    assert own.advice == (
        'Load LlamaForCausalLM with `attn_implementation="sdpa"`: sdpa with bfloat16 runs without breaks and is right.'
    )
    assert (own.location or pytest.fail()).line == 713
    assert own.detail is not None
    assert own.detail.why == "Unsupported Tensor.item() call. Read from a run of each combination on this device."
    assert told["eager-bfloat16"].severity == told["flex_attention-bfloat16"].severity == "info"
    assert set(told) == {"flash_attention_2-bfloat16", "eager-bfloat16", "flex_attention-bfloat16"}


def test_cells_of_one_attention_are_one_finding() -> None:
    cells = [cell("flex_attention", dtype, "breaks") for dtype in ("float32", "bfloat16", "float16", "float64")]
    (found,) = [each for each in judge(with_matrix(matrix(cells=cells))) if each.rule == "attention-matrix"]
    assert found.title == "flex_attention with float32, bfloat16, float16 and 1 more breaks the graph"
    assert len(found.evidence) == 4
    assert f"`dynalyze explain {clean_report().target.spec} --dtype float32`" in found.advice


# --- what is shown


def test_no_source_leaves_no_word_of_an_exception() -> None:
    cells = [
        cell("a", "float32", "eager_error", None, reason=f"ValueError: {CANARY}", facts={"raised": True}),
        cell("b", "float32", "compile_error", None, reason=f"{CANARY} without a class", facts={"raised": True}),
        cell("c", "float32", "breaks", reason=CANARY, notes=[f"Accuracy: {CANARY}"]),
        cell("d", "float32", "breaks", reason="Unsupported Tensor.item() call"),
    ]
    report = with_matrix(matrix(cells=cells, notes=[f"Nothing could be tried: {CANARY}"]))
    shown = showable(report, no_source=True, redact=False, show_values=False)
    found = shown.attention_matrix or pytest.fail()
    assert found.cells[0].reason == "ValueError"
    assert CANARY not in to_json(shown)
    assert CANARY not in html.render(shown)


def test_secrets_and_long_strings_are_hidden_in_reasons() -> None:
    key, prompt = "hf_" + "a" * 30, "x" * 60
    cells = [cell("a", "float32", "compile_error", None, reason=f"KeyError: '{prompt}' {key}", notes=[key])]
    text = to_json(showable(with_matrix(matrix(cells=cells)), no_source=False, redact=False, show_values=False))
    assert key not in text
    assert prompt not in text

"""Rules about devices, precision, CUDA graphs, Accelerate and several processes."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from dynalyze.report import (
    Cause,
    Compilation,
    Finding,
    Graph,
    GraphBreak,
    GraphInput,
    Location,
    Outcome,
    Process,
    Recompile,
    Report,
    Target,
)
from dynalyze.report.measurements import Counts, Measurement, Memory, Speedup
from dynalyze.report.models import ModuleFacts
from dynalyze.rules.diagnoses.distributed import rank_divergence
from dynalyze.rules.diagnoses.recompiles import accelerate_settings
from dynalyze.rules.rule import judge
from sample_measurements import MEGABYTE, measured, speedup
from sample_reports import empty_report, found_by, graph_break, line_of, priced_report

AMPERE = {"torch.cuda.get_device_capability": [8, 0], "torch.cuda.get_device_name": "NVIDIA A100"}
TURING = {"torch.cuda.get_device_capability": [7, 5], "torch.cuda.get_device_name": "Tesla T4"}
DEFAULT = {"torch.float32_matmul_precision": "highest", "torch.backends.cuda.matmul.allow_tf32": False}
TORCH = "/opt/venv/lib/python3.11/site-packages/torch"


def test_costly_guards_name_what_the_code_holds() -> None:
    report = priced_report()
    assert found_by(report, "costly-guards") == [], "nothing that the source could do otherwise"
    prices = report.measurements[0].prices
    assert prices is not None
    group = prices.guards[0].groups[0]
    group.advice = "keep one number"
    (finding,) = found_by(report, "costly-guards")
    assert finding.severity == "info" and finding.location is not None
    assert finding.impact is not None and finding.impact.ms_per_call == pytest.approx(0.2)
    assert f"`{group.source}`" in finding.advice and "keep one number" in finding.advice


def graph(
    dtype: str = "float32", device: str = "cuda:0", ops: str = "linear", shape: Any = (8, 8), **more: Any
) -> Graph:
    inputs = [GraphInput("x", dtype=dtype, device=device, shape=list(shape))]
    return Graph("g1", "0/0", ops=4, inputs=inputs, histogram={ops: 3, "relu": 1}, location=line_of(41, 8, 20), **more)


def report_with(settings: dict[str, Any], *graphs: Graph) -> Report:
    report = empty_report()
    report.settings, report.graphs = settings, list(graphs)
    return report


def module(dtype: str = "float32", device: str = "cuda:0", **more: Any) -> ModuleFacts:
    return ModuleFacts("m1", "Net", "/home/ada/train.py", 12, parameters={dtype: 64}, devices={device: 64}, **more)


def test_float32_products_on_a_gpu_with_tf32() -> None:
    (finding,) = found_by(report_with({**AMPERE, **DEFAULT}, graph()), "float32-precision")
    assert finding.title == "3 matrix products run in full float32, without tensor cores"
    assert finding.evidence == ["g1", "torch.float32_matmul_precision"]
    assert 'torch.set_float32_matmul_precision("high")' in finding.advice and "NVIDIA A100" in finding.advice
    assert finding.detail is not None and "Read from the graph." in finding.detail.why


@pytest.mark.parametrize(
    ("settings", "one"),
    [
        (DEFAULT, graph()),  # No CUDA.
        ({**AMPERE, **DEFAULT}, graph(device="cpu")),
        ({**AMPERE, **DEFAULT}, graph(dtype="bfloat16")),
        ({**AMPERE, **DEFAULT}, graph(ops="add")),
        ({**TURING, **DEFAULT}, graph()),
        ({**AMPERE, **DEFAULT, "torch.float32_matmul_precision": "high"}, graph()),
        ({**AMPERE, **DEFAULT, "torch.backends.cuda.matmul.allow_tf32": True}, graph()),
        ({**AMPERE, "torch.backends.cuda.matmul.allow_tf32": False}, graph()),  # Names were mixed: unknown.
        ({**AMPERE, **DEFAULT, "torch.autocast.cuda.enabled": True, "torch.autocast.cuda.dtype": "float16"}, graph()),
    ],
)
def test_where_float32_is_no_loss_or_not_known(settings: dict[str, Any], one: Graph) -> None:
    assert found_by(report_with(settings, one), "float32-precision") == []


def test_bfloat16_on_a_gpu_without_it() -> None:
    (finding,) = found_by(report_with(TURING, graph("bfloat16")), "low-precision-device")
    assert finding.title == "bfloat16 on Tesla T4, which has no instructions for it"
    assert "model.to(torch.float16)" in finding.advice
    assert finding.detail is not None and "7.5" in finding.detail.why and "graph" in finding.detail.why


@pytest.mark.parametrize(
    ("settings", "one"),
    [
        ({}, graph("bfloat16")),
        (AMPERE, graph("bfloat16")),
        (TURING, graph("bfloat16", "cpu")),
        (TURING, graph("float16")),
    ],
)
def test_bfloat16_that_is_no_fault(settings: dict[str, Any], one: Graph) -> None:
    assert found_by(report_with(settings, one), "low-precision-device") == []


def autocast(dtype: str, *modules: ModuleFacts, device: str = "cuda") -> list[Finding]:
    report = report_with({f"torch.autocast.{device}.enabled": True, f"torch.autocast.{device}.dtype": dtype})
    report.modules = list(modules)
    return found_by(report, "autocast")


def test_autocast_around_parameters_of_its_own_dtype() -> None:
    (finding,) = autocast("bfloat16", module("bfloat16"))
    assert finding.title == "autocast to bfloat16 around parameters that are bfloat16 already"
    assert "`Net`" in finding.advice and finding.evidence == ["m1"]
    assert finding.location == Location("/home/ada/train.py", 12)


def test_autocast_as_it_is_meant() -> None:
    assert autocast("bfloat16", module("float32")) == []
    assert autocast("bfloat16", replace(module(), parameters={"float32": 1, "bfloat16": 9})) == []
    assert autocast("bfloat16") == []
    report = report_with({"torch.autocast.cuda.enabled": False, "torch.autocast.cuda.dtype": "bfloat16"})
    report.modules = [module("bfloat16")]
    assert found_by(report, "autocast") == []


def wrapped(wrapper: str, code: str, *below: str, **more: Any) -> Report:
    report = empty_report()
    place = line_of(41, 8, 20)
    stack = [place, *(Location(file, 1) for file in (f"{TORCH}/{code}", *below))]
    report.graph_breaks = [replace(graph_break("b1", "split", place), stack=stack)]
    report.modules = [module(wrappers=[wrapper], **more)]
    return report


def test_breaks_in_ddp_are_one_finding_that_says_the_order() -> None:
    report = wrapped("DistributedDataParallel", "nn/parallel/distributed.py", "/usr/lib/python3.11/contextlib.py")
    (finding,) = judge(report)
    assert finding.rule == "distributed-order"
    assert finding.title == "torch.compile traces DDP around Net: a graph break in torch's own code"
    assert finding.evidence == ["b1", "m1"] and finding.location == Location("/home/ada/train.py", 12)
    assert finding.advice == "Compile `Net` first and wrap it then: `model.compile()`, then `DDP(model)`."


def test_a_break_of_the_program_below_a_wrapper_is_its_own() -> None:
    report = wrapped("DistributedDataParallel", "nn/parallel/distributed.py", "/home/ada/work/ranker/model.py")
    assert [finding.rule for finding in judge(report)] == ["graph-break"]
    inside = wrapped("DistributedDataParallel", "nn/parallel/distributed.py", inside_wrapper=True)
    assert [finding.rule for finding in judge(inside)] == ["graph-break"]


def test_a_model_that_was_compiled_before_it_was_wrapped() -> None:
    report = empty_report()
    report.modules = [module(wrappers=["DistributedDataParallel"], inside_wrapper=True, compiled_unwrapped=True)]
    (finding,) = judge(report)
    assert finding.title == "Net was compiled before DDP was put around it"
    assert "torch._dynamo.reset()" in finding.advice


def measured_report(speed: Speedup, eager_ms: float = 0.3, **changes: Any) -> Report:
    report = report_with({}, graph(device="cpu"))
    report.measurements = [measured("default", eager_ms, speed, eager=eager_ms, **changes)]
    return report


def test_calls_too_small_to_gain() -> None:
    (finding,) = found_by(measured_report(speedup(0.98, 0.9, 1.05)), "small-model")
    assert "µs in eager, with 4 operations: there is little to gain" in finding.title
    assert finding.detail is not None and "0.98x eager's speed (0.90 to 1.05)" in finding.detail.why


def test_operations_of_a_call_are_those_of_one_version_of_each_function() -> None:
    report = measured_report(speedup(0.98, 0.9, 1.05))
    report.graphs += [replace(graph(), id=f"g{n}", compile_id=f"0/{n}", ops=5) for n in (1, 2)]
    report.graphs += [replace(graph(), id="g3", compile_id="1/0", ops=6)]
    (finding,) = found_by(report, "small-model")
    assert "with 11 operations" in finding.title


@pytest.mark.parametrize(
    "speed",
    [
        speedup(1.3, 1.2, 1.4),
        speedup(1.0, 0.9, 1.1, pairs=2),  # Too few to show anything.
        replace(speedup(1.0, 0.9, 1.1), floor=None),
    ],
)
def test_a_gain_or_no_good_measurement_is_no_finding(speed: Speedup) -> None:
    assert found_by(measured_report(speed), "small-model") == []


def test_cuda_graphs_of_changing_size() -> None:
    report = report_with({}, graph(shape=("s0", 8)))
    report.modules = [module(options={"mode": "reduce-overhead"})]
    (finding,) = found_by(report, "cudagraph-memory")
    assert finding.title == "1 graph of changing size under mode='reduce-overhead': recorded anew for every size"
    assert finding.evidence == ["g1"]
    report.settings = {"torch._inductor.config.triton.cudagraph_skip_dynamic_graphs": True}
    assert found_by(report, "cudagraph-memory") == []


def test_no_cuda_graphs_on_a_cpu_or_unasked() -> None:
    report = report_with({}, graph(shape=("s0", 8), device="cpu"))
    report.modules = [module(options={"mode": "reduce-overhead"})]
    assert found_by(report, "cudagraph-memory") == []
    report = report_with({}, graph(shape=("s0", 8)))
    assert found_by(report, "cudagraph-memory") == []


def with_memory(kind: Any, ratio: float, replays: int | None) -> list[Finding]:
    report = empty_report()
    memory = Memory(kind, int(1000 * ratio) * MEGABYTE, eager_steady_peak=1000 * MEGABYTE, ratio=ratio)
    row: Measurement = measured(
        "reduce-overhead", 10.0, speedup(2.0, 1.9, 2.1), options={"mode": "reduce-overhead"}, memory=memory,
        counts=Counts(compiled_frames=4, graphs=4, cudagraph_replays=replays),
    )  # fmt: skip
    report.measurements = [row]
    return found_by(report, "cudagraph-memory")


def test_measured_memory_of_cuda_graphs() -> None:
    (finding,) = with_memory("cuda", 1.5, 40)
    assert finding.title == "reduce-overhead needs 500 MB more than eager, 1.50 times as much"
    assert with_memory("cuda", 1.1, 40) == []
    assert with_memory("rss", 1.5, 40) == []
    assert with_memory("cuda", 1.5, 0) == []


PREPARE = "/opt/venv/lib/python3.11/site-packages/accelerate/accelerator.py"


def of_accelerate(file: str, options: dict[str, Any], *causes: Cause) -> list[Finding]:
    place = Location("/home/ada/train.py", 3, function="forward")
    report = Report(
        "0.1.0", "2026-11-21T00:00:00Z", [], {}, Target("script", "train.py:9"), Outcome("complete"),
        modules=[ModuleFacts("m1", "Ranker", file, 2073, options=options)],
        recompiles=[Recompile(f"r{n}", f"0/{n}", "0/0", place, cause) for n, cause in enumerate(causes, 1)],
    )  # fmt: skip
    return [finding for _, finding in accelerate_settings.judge(report)]


def test_its_settings_are_named_where_a_size_made_a_recompile() -> None:
    (found,) = of_accelerate(PREPARE, {"backend": "inductor"}, "dtype", "shape")
    assert found.severity == "info" and found.evidence == ["m1", "r2"]
    assert "Ranker" in found.title and "TorchDynamoPlugin(dynamic=True)" in found.advice


@pytest.mark.parametrize(
    ("file", "options", "causes"),
    [
        ("/home/ada/train.py", {}, ["shape"]),
        (PREPARE, {"dynamic": True}, ["shape"]),
        (PREPARE, {}, ["dtype"]),
        (PREPARE, {}, []),
    ],
    ids=["called by the program", "dynamic already", "no matter of sizes", "no recompile"],
)
def test_nothing_is_said_elsewhere(file: str, options: dict[str, Any], causes: list[Cause]) -> None:
    assert of_accelerate(file, options, *causes) == []


F = Location("/job/m.py", 3, function="f")


def run_of_ranks(ranks: list[int | None], compilations: list[Compilation]) -> Report:
    found = empty_report()
    found.processes = [Process(number, 100 + number, rank) for number, rank in enumerate(ranks)]
    found.compilations, found.graph_breaks, found.recompiles = compilations, [], []
    return found


def compilation(process: int, compile_id: str = "0/0", where: Location = F, ops: int = 5) -> Compilation:
    return Compilation(compile_id, process, 0, where, "compiled", ops=ops)


def divergence(found: Report) -> list[Finding]:
    return [finding for _, finding in rank_divergence.judge(found)]


def test_one_rank_compiled_more_often() -> None:
    found = run_of_ranks([0, 1, 2], [compilation(0), compilation(1), compilation(1, "0/1"), compilation(2)])
    found.recompiles = [Recompile("r1", "0/1", "0/0", F, "shape", process=1)]
    (finding,) = divergence(found)
    assert finding.title == "Ranks differ in f: compilations: 1 on ranks 0, 2; 2 on rank 1"
    assert "Recompiles: 0 on ranks 0, 2; 1 on rank 1." in finding.advice
    assert (finding.location, finding.evidence, finding.rule) == (F, ["r1"], "rank-divergence")


def test_a_break_on_some_ranks_only() -> None:
    found = run_of_ranks([0, 1, 2], [compilation(number) for number in range(3)])
    found.graph_breaks = [
        GraphBreak("b1", None, "T", "split", F, [F], compile_ids=["0/0"], process=0, processes=[0, 1, 2]),
        GraphBreak("b2", None, "T", "split", F, [F], compile_ids=["0/0"], process=1, processes=[1]),
    ]
    (finding,) = divergence(found)
    assert finding.title == "Ranks differ in f: graph breaks: 1 on ranks 0, 2; 2 on rank 1"


def test_the_rest_of_a_function_after_a_break_is_no_second_finding() -> None:
    rest = compilation(1, "1/0", Location("/job/m.py", 5, function="f"))
    rest.resumes = True
    assert len(divergence(run_of_ranks([0, 1], [compilation(0), compilation(1, ops=1), rest]))) == 1
    assert len(divergence(run_of_ranks([0, 1], [compilation(0), compilation(1), rest]))) == 1

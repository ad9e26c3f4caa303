"""Which workloads `--shapes` asks for, and which configuration stands for what a program wrote itself."""

from __future__ import annotations

from typing import Any

import pytest

from dynalyze.bench.configurations import DEFAULT, configuration, configurations, given, matrix, program_config
from dynalyze.bench.plan import Plan, Work, instead_of_default, shaped, with_written
from dynalyze.capture.bench.protocol import AS_WRITTEN, Configuration, Phase
from dynalyze.capture.bench.rerun import difference
from dynalyze.capture.hf.options import ModelOptions
from dynalyze.capture.shapes import Dim
from dynalyze.cli.explain import short_bench
from dynalyze.events.types import BundleWritten
from dynalyze.launch.spec import TargetSpec
from dynalyze.text.errors import UsageError

OBJECT = TargetSpec("object", "net.py:make", path="net.py", name="make")
SCRIPT = TargetSpec("script", "train.py", path="train.py")
MODEL = TargetSpec("transformers", "hf:LlamaModel", name="LlamaModel", asked=ModelOptions())
BATCH = Dim("batch", "0", 0)


def test_an_object_gets_each_combination() -> None:
    works = shaped((Work(), Work("train")), {"batch": (1, 4), "width": (8,)}, (), OBJECT)
    assert works == tuple(
        Work(phase, shape=(("batch", batch), ("width", 8))) for phase in ("forward", "train") for batch in (1, 4)
    )
    assert works[0].sizes == {"batch": 1, "width": 8}


def test_without_shapes_nothing_changes() -> None:
    assert shaped((Work("decode", 1, 128),), {}, (), SCRIPT) == (Work("decode", 1, 128),)


@pytest.mark.parametrize(("target", "phase"), [(MODEL, "forward"), (SCRIPT, "decode"), (OBJECT, "prefill")])
def test_who_makes_the_inputs_knows_batch_and_sequence(target: TargetSpec, phase: Phase) -> None:
    assert shaped((Work(phase),), {"batch": (2,), "sequence": (16, 32)}, (), target) == (
        Work(phase, 2, 16), Work(phase, 2, 32),
    )  # fmt: skip


def test_a_dim_has_the_name_to_itself() -> None:
    (work,) = shaped((Work(),), {"batch": (2,)}, (BATCH,), MODEL)
    assert (work.batch, work.shape) == (None, (("batch", 2),))
    assert shaped((Work(),), {"batch": (2,)}, (BATCH,), SCRIPT) == (work,)


@pytest.mark.parametrize(
    ("work", "sizes", "target", "says"),
    [
        (Work(), {"batch": (2,)}, SCRIPT, r"train\.py is a program; say which input has it, --dim batch=INPUT:AXIS"),
        (Work(), {"height": (2,)}, MODEL, "has the sizes batch and sequence; say which input"),
        (Work("decode"), {"height": (2,)}, OBJECT, "--phase decode makes its own inputs"),
        (Work(batch=4), {"batch": (2,)}, MODEL, "--batch and --shapes batch exclude each other"),
    ],
)
def test_a_name_that_nothing_takes_is_refused(
    work: Work, sizes: dict[str, tuple[int, ...]], target: TargetSpec, says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        shaped((work,), sizes, (), target)


# ---- as written


def event(*options: dict[str, object], names: list[str] | None = None) -> BundleWritten:
    return BundleWritten(written=bool(options), options=list(options), names=names or [])


def test_a_program_that_compiles_nothing_has_no_such_configuration() -> None:
    assert program_config(event()) is None


def test_what_one_compile_was_given() -> None:
    found = program_config(event({"mode": "reduce-overhead", "dynamic": True, "fullgraph": True}))
    assert found is not None
    assert (found.name, found.backend, found.mode) == (AS_WRITTEN, "inductor", "reduce-overhead")
    assert (found.dynamic, found.fullgraph) == ("on", True)
    assert given(found) == {"backend": "inductor", "mode": "reduce-overhead", "dynamic": True, "fullgraph": True}


def test_what_several_compiles_were_given() -> None:
    found = program_config(
        event({"backend": "aot_eager"}, {"mode": "max-autotune", "dynamic": False}, names=["f", "Net"])
    )
    assert found is not None
    # Inductor's rounding and CUDA graphs are looked for as soon as one of them asks for these.
    assert (found.backend, found.mode, found.dynamic, found.fullgraph) == ("inductor", "max-autotune", "auto", False)
    assert given(found) == {
        "1. f": "backend=aot_eager",
        "2. Net": "backend=inductor, mode=max-autotune, dynamic=False",
    }


@pytest.mark.parametrize("name", ["as written", "as-written", " as written "])
def test_its_name_on_the_command_line(name: str) -> None:
    assert configurations(name) == (Configuration(AS_WRITTEN),)
    assert [each.name for each in configurations(f"default,{name},regional")] == ["default", AS_WRITTEN, "regional"]


def test_it_joins_with_nothing() -> None:
    with pytest.raises(UsageError, match="stands alone"):
        configuration("as written+dynamic=on")


def test_where_it_stands() -> None:
    written = program_config(event({"dynamic": True}))

    def names(plan: Plan) -> list[str]:
        return [each.name for each in with_written(plan, written, "train.py").configurations_on("cpu")]

    assert names(Plan({}, adds_written=True)) == [AS_WRITTEN, "default"]
    assert names(Plan({}, configurations=None, adds_written=True)) == [AS_WRITTEN, *(m.name for m in matrix("cpu"))]
    assert names(Plan({}, configurations=configurations("regional"))) == ["regional"]
    assert names(Plan({}, configurations=configurations("regional,as written"))) == ["regional", AS_WRITTEN]
    assert names(Plan({}, configurations=())) == []


def test_the_program_decides_its_options_and_the_command_line_autocast() -> None:
    plan = Plan({}, configurations=configurations("as written"), autocast="bfloat16")
    (found,) = with_written(plan, program_config(event({"dynamic": True})), "train.py").configurations_on("cpu")
    assert given(found) == {"backend": "inductor", "dynamic": True, "autocast": "bfloat16"}


def test_asked_for_where_nothing_was_written_it_is_refused() -> None:
    plan = Plan({}, configurations=configurations("default,as written"))
    with pytest.raises(UsageError, match=r'--configs "as written" is for a program .*; train\.py does not'):
        with_written(plan, None, "train.py")
    assert with_written(Plan({}, adds_written=True), None, "train.py").configurations_on("cpu") == (DEFAULT,)


def test_ashort_benchmark_measures_what_was_written_instead_of_the_default() -> None:
    written = program_config(event({"mode": "reduce-overhead"}))
    assert instead_of_default(Plan({}), written).configurations_on("cpu") == (written,)
    assert instead_of_default(Plan({}), None).configurations_on("cpu") == (DEFAULT,)


def test_theshort_benchmark_has_just_enough_pairs_to_show_a_difference() -> None:
    options: dict[str, Any] = dict.fromkeys(("mode", "train", "device", "dtype", "python", "batch", "sequence"))
    options |= {"backend": "eager", "dynamic": "auto", "fullgraph": False, "bench_seconds": 3.0, "timeout": 60.0}
    options |= {"quiet_target": False, "static_cache": False, "new_tokens": 16}
    plan = short_bench(options, OBJECT)
    assert (plan.pairs, plan.seconds, plan.memory) == (5, 3.0, False)
    assert given(plan.configurations_on("cpu")[0]) == {"backend": "eager"}


# ---- run again


@pytest.mark.parametrize(
    ("now", "says"),
    [
        ([["Net", "(Tensor[2, 4] float32)", 3]], ""),
        ([["Net", "(Tensor[2, 4] float32)", 4]], "4 instead of 3"),
        ([["Net", "(Tensor[8, 4] float32)", 3]], "for example Net(Tensor[8, 4] float32), 3 times"),
        ([], "0 instead of 3"),
    ],
)
def test_in_what_two_runs_differ(now: list[list[object]], says: str) -> None:
    assert difference([("Net", "(Tensor[2, 4] float32)", 3)], now) == says
    assert difference(None, now) == ""

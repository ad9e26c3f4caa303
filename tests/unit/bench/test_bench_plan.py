"""The plan of a benchmark: configurations by name and as a program wrote them, sizes, and the order of timed blocks."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from dynalyze.bench.configurations import configuration, configurations, given, program_config
from dynalyze.bench.plan import Plan, shaped, with_written, works
from dynalyze.bench.progress import Progress
from dynalyze.bench.schedule import block_count, turns
from dynalyze.capture.bench.protocol import AS_WRITTEN, Configuration, Phase, Work
from dynalyze.capture.bench.rerun import difference
from dynalyze.capture.events import BundleWritten
from dynalyze.capture.settings import ModelOptions
from dynalyze.capture.shapes import Dim
from dynalyze.cli.explain import short_bench
from dynalyze.launch.spec import TargetSpec
from dynalyze.text.errors import UsageError

OBJECT = TargetSpec("object", "net.py:make", path="net.py", name="make")
SCRIPT = TargetSpec("script", "train.py", path="train.py")
MODEL = TargetSpec("library", "hf:LlamaModel", name="LlamaModel", library="hf", asked=ModelOptions())
BATCH = Dim("batch", "0", 0)


@pytest.mark.parametrize(
    ("name", "means"),
    [
        ("default", Configuration("default")),
        ("compile", Configuration("default")),
        ("reduce-overhead", Configuration("reduce-overhead", mode="reduce-overhead")),
        ("max-autotune", Configuration("max-autotune", mode="max-autotune")),
        ("dynamic", Configuration("dynamic=on", dynamic="on")),
        ("static", Configuration("dynamic=off", dynamic="off")),
        ("dynamic=mark", Configuration("dynamic=mark", dynamic="mark")),
        ("fullgraph", Configuration("fullgraph", fullgraph=True)),
        ("regional", Configuration("regional", region="blocks")),
        ("accelerate", Configuration("accelerate", region="accelerate")),
        ("backend=my.module:compiler", Configuration("backend=my.module:compiler", backend="my.module:compiler")),
        (
            "reduce-overhead+dynamic=on",
            Configuration("reduce-overhead+dynamic=on", mode="reduce-overhead", dynamic="on"),
        ),
        (
            "regional + fullgraph + backend=aot_eager",
            Configuration("regional+fullgraph+backend=aot_eager", backend="aot_eager", region="blocks", fullgraph=True),
        ),
    ],
)
def test_a_name_is_a_configuration(name: str, means: Configuration) -> None:
    assert configuration(name) == means


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ("reduce-overheads", r"did you mean reduce-overhead\?"),
        ("regoinal", r"did you mean regional\?"),
        ("dynamc=on", r"did you mean dynamic=on\?"),
        ("backend=", r"did you mean backend=NAME\?"),
        ("eager+dynamic=on", "eager is not compiled"),
        ("reduce-overhead+max-autotune", "mode is set twice"),
        ("dynamic=on+static", "dynamic is set twice"),
        ("", "is empty"),
        (" , ", "is empty"),
    ],
)
def test_what_is_no_configuration_is_refused(names: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        configurations(names)


def test_the_compile_options_are_for_default_alone() -> None:
    default = Configuration("default", backend="aot_eager", dynamic="on", fullgraph=True)
    first, second = configurations("default,regional", default)
    assert (first.backend, first.dynamic, first.fullgraph) == ("aot_eager", "on", True)
    assert (second.backend, second.dynamic, second.fullgraph) == ("inductor", "auto", False)
    assert given(first) == {"backend": "aot_eager", "dynamic": "on", "fullgraph": True}


def test_every_combination_of_sizes_is_a_workload() -> None:
    found = works("prefill,decode", "1,4", "128", train=None)
    assert found == tuple(Work(phase, batch, 128) for phase in ("prefill", "decode") for batch in (1, 4))
    assert works(None, None, None, train=None) == (Work("forward"),)
    assert works(None, None, None, train=True) == (Work("train"),)


@pytest.mark.parametrize(
    ("phases", "batches", "sequences", "says"),
    [
        ("prefil", None, None, "--phase prefil"),
        (None, "0", None, "--batch 0"),
        (None, "1,,2", None, "--batch"),
        (None, "four", None, "--batch four"),
        (None, None, "-1", "--sequence -1"),
        (None, None, "1.5", "--sequence 1.5"),
        ("", None, None, "--phase"),
    ],
)
def test_what_is_no_size_is_refused(phases: str | None, batches: str | None, sequences: str | None, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        works(phases, batches, sequences, train=None)


def test_blocks_alternate_in_random_order() -> None:
    order = turns(200, random.Random(1))
    assert Counter(order) == {0: 200, 1: 200}
    rounds = [tuple(order[at : at + 2]) for at in range(0, 400, 2)]
    assert set(rounds) == {(0, 1), (1, 0)}
    assert 60 < rounds.count((0, 1)) < 140


@pytest.mark.parametrize(
    ("seconds", "pass_ms", "blocks"),
    [(1.0, 0.01, 20), (0.5, 1.0, 10), (1.0, 200.0, 2), (1.0, 5000.0, 2), (0.01, 1.0, 2)],
)
def test_a_block_holds_two_passes_and_there_are_many(seconds: float, pass_ms: float, blocks: int) -> None:
    assert block_count(seconds, pass_ms) == blocks


def test_the_time_left_is_that_of_what_is_ahead() -> None:
    now = [0.0]
    said: list[str] = []
    progress = Progress(said.append, 0.0, pair_seconds=2.0, clock=lambda: now[0])
    progress.ahead = lambda: Counter({"first calls": 1, "pair": 10})
    assert progress.seconds_left() is None
    with progress.doing("first calls", "eager"):
        now[0] = 4.0
        progress.tick()
    progress.ahead = lambda: Counter({"pair": 10})
    # Two processes that start as the first one did, and what is timed in them.
    assert progress.seconds_left() == 10 * (4.0 * 2 + 2.0)
    with progress.doing("pair", "a pair"):
        now[0] = 7.0
    progress.ahead = lambda: Counter({"pair": 9})
    assert progress.seconds_left() == 9 * 3.0
    assert said[:2] == ["eager", "eager (4 s)"]
    assert said[2] == "a pair; at most about 2 min left"


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
    assert given(found) == {"1. f": "backend=aot_eager", "2. Net": "backend=inductor, mode=max-autotune, dynamic=False"}


def test_the_program_decides_its_options_and_the_command_line_autocast() -> None:
    plan = Plan({}, configurations=configurations("as written"), autocast="bfloat16")
    (found,) = with_written(plan, program_config(event({"dynamic": True})), "train.py").configurations_on("cpu")
    assert given(found) == {"backend": "inductor", "dynamic": True, "autocast": "bfloat16"}


def test_the_short_benchmark_has_just_enough_pairs_to_show_a_difference() -> None:
    options: dict[str, Any] = dict.fromkeys(("mode", "train", "device", "dtype", "python", "batch", "sequence"))
    options |= {"backend": "eager", "dynamic": "auto", "fullgraph": False, "bench_seconds": 3.0, "timeout": 60.0}
    options |= {"quiet_target": False, "static_cache": False, "new_tokens": 16, "allow_effects": False}
    plan = short_bench(options, OBJECT)
    assert (plan.pairs, plan.total, plan.memory) == (5, 3.0, False)
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

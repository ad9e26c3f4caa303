"""Configurations by their names, sizes, and the order in which blocks are timed."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from dynalyze.bench.configurations import configuration, configurations, given, matrix, names_default, with_options
from dynalyze.bench.plan import Work, works
from dynalyze.bench.progress import Progress
from dynalyze.bench.schedule import block_count, turns
from dynalyze.capture.bench.protocol import Configuration
from dynalyze.text.errors import UsageError


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


def test_a_list_holds_each_once_and_eager_is_no_part_of_it() -> None:
    assert [each.name for each in configurations("eager,default, regional,default,compile")] == ["default", "regional"]
    assert configurations("eager") == ()


def test_the_compile_options_are_for_default_alone() -> None:
    default = with_options("aot_eager", None, "on", fullgraph=True)
    first, second = configurations("default,regional", default)
    assert (first.backend, first.dynamic, first.fullgraph) == ("aot_eager", "on", True)
    assert (second.backend, second.dynamic, second.fullgraph) == ("inductor", "auto", False)
    assert given(first) == {"backend": "aot_eager", "dynamic": "on", "fullgraph": True}


def test_default_may_be_joined_or_called_otherwise() -> None:
    assert names_default("eager,default+fullgraph")
    assert names_default("compile")
    assert not names_default("regional,reduce-overhead")


def test_cuda_graphs_are_for_cuda() -> None:
    on_cpu, on_cuda = ({each.name for each in matrix(device)} for device in ("cpu", "cuda:1"))
    assert on_cpu == {"default", "dynamic=on", "fullgraph", "regional"}
    assert on_cuda - on_cpu == {"reduce-overhead", "max-autotune-no-cudagraphs"}


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


def test_training_and_evaluating_exclude_each_other() -> None:
    with pytest.raises(UsageError, match="exclude each other"):
        works("train", None, None, train=False)


def test_blocks_alternate_in_random_order() -> None:
    order = turns(200, random.Random(1))
    assert Counter(order) == {0: 200, 1: 200}
    rounds = [tuple(order[at : at + 2]) for at in range(0, 400, 2)]
    assert set(rounds) == {(0, 1), (1, 0)}
    assert 60 < rounds.count((0, 1)) < 140


@pytest.mark.parametrize(
    ("seconds", "pass_ms", "blocks"),
    [(1.0, 0.01, 20), (0.5, 1.0, 10), (1.0, 200.0, 5), (1.0, 5000.0, 2), (0.01, 1.0, 2)],
)
def test_a_block_holds_a_pass_and_there_are_many(seconds: float, pass_ms: float, blocks: int) -> None:
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

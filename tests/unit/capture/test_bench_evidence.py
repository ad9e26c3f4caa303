"""What a worker tells of failures, validity, memory and time, and when passes count as steady."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo

from dynalyze.capture import process_tree
from dynalyze.capture.bench import memory, timing
from dynalyze.capture.bench.failures import Failed, answer_of, kind_of, one_line
from dynalyze.capture.bench.protocol import AS_WRITTEN, Configuration
from dynalyze.capture.bench.timing import warm
from dynalyze.capture.bench.validity import Compiles, PassCounts, look, reason_against
from dynalyze.capture.bench.workload import Step
from dynalyze.capture.inputs import Misuse
from dynalyze.capture.torch_private import dynamo, runtime

DEFAULT = Configuration("default")
GOOD = {"compiled_frames": 1, "recompiles_while_timing": 0}


class Call(Step):
    def __init__(self, action: Any) -> None:
        self.action = action
        self.prepared = 0

    def prepare(self) -> None:
        self.prepared += 1

    def run(self) -> Any:
        return self.action()


def chained(outer: Exception, inner: Exception) -> Exception:
    outer.__cause__ = inner
    return outer


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (MemoryError(), "out_of_memory"),
        (torch.OutOfMemoryError("CUDA out of memory. Tried"), "out_of_memory"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"), "out_of_memory"),
        (chained(RuntimeError("backend failed"), MemoryError()), "out_of_memory"),
        (Misuse("no such mode"), "misuse"),
        (Failed("not_replayable", "x"), "not_replayable"),
        (ValueError("out of memory"), "compile"),
        (SystemExit(3), "compile"),
    ],
)
def test_kinds_of_failures(error: BaseException, kind: str) -> None:
    assert kind_of(error, "compile") == kind


def test_a_failure_is_one_line() -> None:
    assert one_line(ValueError("\n  first\nsecond")) == "ValueError: first"
    assert one_line(ValueError()) == "ValueError"
    assert one_line(Misuse("as it stands")) == "as it stands"
    assert len(one_line(ValueError("x" * 9999))) <= 500
    answer = answer_of(KeyError("k"), "load")
    assert answer == {"ok": False, "error": {"kind": "load", "message": "KeyError: 'k'"}}


@pytest.mark.parametrize(
    ("configuration", "counts", "evidence", "device", "reason"),
    [
        (DEFAULT, GOOD, PassCounts(2, 0, 0), "cpu", ""),
        (DEFAULT, {**GOOD, "compiled_frames": 0}, PassCounts(2, 2, 0), "cpu", "nothing was compiled"),
        (DEFAULT, {**GOOD, "recompiles_while_timing": 2}, PassCounts(2, 0, 0), "cpu", "(2 times)"),
        (DEFAULT, GOOD, PassCounts(2, 1, 0), "cpu", "1 of 2 calls ran no compiled code"),
        (Configuration("r", mode="reduce-overhead"), GOOD, PassCounts(1, 0, 0), "cuda", "none was replayed"),
        (Configuration("r", mode="reduce-overhead"), GOOD, PassCounts(1, 0, 1), "cuda", ""),
        (Configuration("r", mode="reduce-overhead"), GOOD, PassCounts(1, 0, 0), "cpu", ""),
        (Configuration("eager", compile=False), GOOD, PassCounts(1, 0, 0), "cpu", "compiled in the eager arm"),
    ],
)
def test_what_is_invalid(
    configuration: Configuration, counts: dict[str, Any], evidence: PassCounts, device: str, reason: str
) -> None:
    found = reason_against(configuration, counts, evidence, device)
    assert reason in found if reason else not found


@pytest.mark.parametrize(
    ("name", "in_eager", "reason"),
    [
        ("default", 1, ""),
        ("default", 2, "2 of 2 calls ran no compiled code: the recompile limit was reached"),
        (AS_WRITTEN, 2, ""),
    ],
)
def test_past_the_recompile_limit_a_program_is_timed_as_it_runs(
    name: str, in_eager: int, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "recompile_limit_hit", lambda: True)
    counts = {**GOOD, "compiled_frames": 2 - in_eager}
    assert reason_against(Configuration(name), counts, PassCounts(2, in_eager, 0), "cpu") == reason


def test_a_look_tells_compiled_from_eager_steps_and_puts_the_profiler_back() -> None:
    torch._dynamo.reset()
    compiles = Compiles()
    compiles.listen()
    x = torch.ones(2)
    compiled = torch.compile(lambda x: x + 1, backend="eager")
    compiled(x)
    steps = [Call(lambda: compiled(x)), Call(lambda: x + 1)]
    assert look(steps, compiles.runs_a_graph) == PassCounts(2, 1, 0, 1)
    assert [step.prepared for step in steps] == [1, 1]
    assert sys.getprofile() is None
    counts = compiles.counts()
    assert counts["compiled_frames"] == 1 and counts["recompiles"] == 0
    torch._dynamo.reset()


def test_compiles_while_timing_count_from_the_mark() -> None:
    torch._dynamo.reset()
    compiles = Compiles()
    compiles.listen()
    compiled = torch.compile(lambda x, n: x + n, backend="eager", dynamic=False)
    compiled(torch.ones(2), 1)
    compiles.mark()
    compiled(torch.ones(2), 1)
    assert compiles.since_mark() == 0
    compiled(torch.ones(2), 2)
    assert compiles.since_mark() == 1
    torch._dynamo.reset()


def test_code_with_a_constant_that_has_no_hash_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dynamo makes such code of frames that go on with a dict after a graph break."""
    heard: list[Any] = []
    monkeypatch.setattr(dynamo, "watch_bytecode", heard.append)
    compiles = Compiles()
    compiles.listen()
    code = compile(f"{runtime.GRAPH_PREFIX}_1()", "made.py", "exec").replace(co_consts=({"a": 1},))
    with pytest.raises(TypeError):
        hash(code)
    for _ in range(2):
        heard[0](code, code)
    assert compiles.runs_a_graph(code)
    assert compiles.counts()["compiled_frames"] == 1 and compiles.counts()["recompiles"] == 1


def test_a_torch_without_the_hooks_claims_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("torch._dynamo.convert_frame", "torch._dynamo.utils", "torch._inductor.config"):
        monkeypatch.setitem(sys.modules, name, type(sys)(name))
    monkeypatch.setitem(sys.modules, "torch._dynamo.callback", type(sys)("callback"))
    assert runtime.counters("frames") == {}
    assert runtime.phases() == {} and runtime.cache_counts() == {}
    assert not dynamo.watch_bytecode(lambda *_: None)
    assert not runtime.watch_compiles(lambda: None)
    assert not runtime.cudagraphs_wanted(None)
    assert not runtime.recompile_limit_hit()


def test_replays_of_cuda_graphs_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    class Graph:
        def replay(self) -> str:
            return "replayed"

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    original = Graph.replay
    with runtime.counted_replays() as count:
        assert Graph().replay() == "replayed"
        Graph().replay()
    assert count == [2] and Graph.replay is original
    monkeypatch.delattr(torch.cuda, "CUDAGraph")
    with runtime.counted_replays() as count:
        assert count == [0]


def test_a_block_times_only_run_and_keeps_the_collector_out() -> None:
    step = Call(gc.isenabled)
    timer = timing.timer_for("cpu")
    samples = timing.block(timer, [step], passes=4, lead=2)
    assert len(samples) == 4 and step.prepared == 6
    assert gc.isenabled()
    seen: list[bool] = []
    timing.block(timer, [Call(lambda: seen.append(gc.isenabled()))], passes=1)
    assert seen == [False]


def test_a_block_of_seconds_ends_when_its_timed_calls_fill_them() -> None:
    class Fixed:
        def passes(self, steps: Any, count: int, *, flush: bool = True) -> list[float]:
            return [100.0] * count

    assert timing.block(Fixed(), [], seconds=0.45) == [100.0] * 5


def test_cuda_passes_are_flushed_synchronised_and_read_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []

    class Event:
        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            told.append("record")

        def elapsed_time(self, other: Any) -> float:
            told.append("read")
            return 1.5

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: told.append("wait"))
    timer = timing.CudaTimer()
    monkeypatch.setattr(timer, "_flush_cache", lambda: told.append("flush"))
    steps = [Call(lambda: told.append("run")), Call(lambda: told.append("run"))]
    assert timer.passes(steps, 1) == [3.0]
    one = ["wait", "record", "run", "record"]
    assert told == ["flush", *one, *one, "wait", "read", "read"]
    told.clear()
    timer.passes(steps[:1], 1, flush=False)
    assert told == [*one, "wait", "read"]


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux")
def test_peaks_are_of_their_own_phase() -> None:
    size = 200 << 20
    spike = bytearray(size)
    spike[::4096] = b"x" * len(spike[::4096])
    del spike
    found = memory.peaks("cpu", lambda: None)
    assert found.kind == "rss"
    assert found.compile_peak - found.steady_peak > size / 2
    own, ended = (process_tree.size_of(f"{pid}/status", "VmHWM") for pid in ("self", 2**22 + 1))
    assert own > 0 and ended == 0


def run(times: Sequence[float], compiling: Sequence[int] = (), most: int = 1000, seconds: float = 60) -> Any:
    """Warm up on these times, the last of them repeating; something compiles in the passes of these numbers."""
    made: list[float] = []

    def one_pass() -> float:
        made.append(times[min(len(made), len(times) - 1)])
        return made[-1]

    return warm(one_pass, lambda: sum(number < len(made) for number in compiling), seconds, most)


def test_the_first_pass_is_logged_and_does_not_count_as_steady() -> None:
    warmed = run([5000.0, 20.0], compiling=[0])
    assert warmed.calls_ms[:2] == [5000.0, 20.0]
    assert warmed.steady_after == 1


def test_the_three_costly_calls_of_cuda_graphs_come_before_the_steady_state() -> None:
    warmed = run([9000.0, 300.0, 700.0, 2.0], compiling=[0, 1, 2])
    assert warmed.steady_after == 3


def test_it_is_not_steady_while_something_compiles_however_even_the_times() -> None:
    warmed = run([30.0], compiling=range(0, 1000, 4), most=60)
    assert warmed.steady_after is None and len(warmed.calls_ms) == 60


def test_it_goes_on_while_passes_get_faster() -> None:
    falling = [1000 * 0.8**number for number in range(200)]
    warmed = run([*falling[:20], falling[20]])
    assert warmed.steady_after is not None and warmed.steady_after >= 18


def test_what_a_cuda_graph_keeps_counts_as_free_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    segments = [
        {"segment_pool_id": (0, 0), "total_size": 900, "allocated_size": 100},
        {"segment_pool_id": (0, 1), "total_size": 500, "allocated_size": 200},
        {"segment_pool_id": (0, 2), "total_size": 50, "allocated_size": 0},
    ]
    monkeypatch.setattr(torch.cuda, "memory_snapshot", lambda: segments)
    assert memory._kept_by_graphs() == 350
    monkeypatch.setattr(torch.cuda, "memory_snapshot", lambda: [{"size": 1}])
    assert memory._kept_by_graphs() == 0

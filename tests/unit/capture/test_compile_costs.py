"""What a compile took itself in each phase, from steps told one by one; in milliseconds of torch's clock here."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from dynalyze.capture.compile_costs import CompileCosts

Steps = list[tuple[str, str, float]]
WHOLE: Steps = [
    ("B", "dynamo", 0), ("B", "entire_frame_compile", 1), ("B", "compile_attempt_0", 2), ("B", "bytecode_tracing", 3),
    ("E", "bytecode_tracing", 13), ("B", "backend_compile", 14), ("B", "inductor_compile", 24),
    ("B", "GraphLowering.run", 25), ("E", "GraphLowering.run", 30), ("B", "code_gen", 30), ("B", "compile_file", 31),
    ("E", "compile_file", 81), ("E", "code_gen", 84), ("E", "inductor_compile", 85), ("E", "backend_compile", 90),
    ("B", "build_guards", 90), ("E", "build_guards", 97), ("E", "compile_attempt_0", 98),
    ("E", "entire_frame_compile", 101),
]  # fmt: skip


def told(costs: CompileCosts, steps: Steps) -> None:
    for kind, name, ms in steps:
        costs.step(json.dumps({"ph": kind, "name": name, "ts": ms * 1000, "cat": "dynamo_timed", "args": {}}))


def own(*steps: Steps) -> dict[str, float]:
    costs = CompileCosts()
    for each in steps:
        told(costs, each)
    return {phase: pytest.approx(1000 * seconds) for phase, seconds in costs.of_compile()[0].items()}


def test_each_phase_has_what_no_step_inside_of_it_has_and_together_they_are_the_compile() -> None:
    found = own(WHOLE)
    assert found == {"dynamo": 17, "aot_autograd": 15, "inductor": 7, "code_generation": 4, "kernels": 50, "guards": 7}
    assert 17 + 15 + 7 + 4 + 50 + 7 == 101 - 1


def test_steps_that_an_exception_ended_end_with_the_one_around_them() -> None:
    steps: Steps = [("B", "dynamo", 0), ("B", "entire_frame_compile", 0), ("B", "backend_compile", 2),
                    ("B", "inductor_compile", 3), ("E", "entire_frame_compile", 10)]  # fmt: skip
    assert own(steps) == {"dynamo": 10}


def test_a_compile_begins_with_nothing_of_what_ran_before() -> None:
    alone: Steps = [("B", "CachingAutotuner.benchmark", 0), ("E", "CachingAutotuner.benchmark", 50)]
    assert own(alone, [("B", "dynamo", 60), ("B", "build_guards", 61), ("E", "build_guards", 62)]) == {"guards": 1}


def test_another_thread_has_its_own_clock() -> None:
    costs = CompileCosts()
    half = len(WHOLE) // 2
    told(costs, WHOLE[:half])
    other = threading.Thread(target=told, args=(costs, [("B", "compile_file", 5), ("E", "compile_file", 500)]))
    other.start()
    other.join()
    told(costs, WHOLE[half:])
    assert sum(costs.of_compile()[0].values()) == pytest.approx(0.100)


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_memory_that_is_freed_again_before_the_compile_ends_counts_for_its_peak() -> None:
    costs = CompileCosts()
    told(costs, WHOLE[:5])
    held = b"x" * (64 << 20)
    told(costs, WHOLE[5:9])
    del held
    told(costs, WHOLE[9:])
    memory = costs.of_compile()[1]
    assert memory is not None
    assert memory.added >= 60 << 20
    assert memory.kept < 60 << 20


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_what_is_started_to_build_kernels_counts_apart() -> None:
    costs = CompileCosts()
    with holding(64 << 20):
        told(costs, WHOLE[:10])
        with holding(64 << 20):
            told(costs, WHOLE[10:])
    memory = costs.of_compile()[1]
    assert memory is not None
    assert 64 << 20 <= memory.others < 128 << 20


@contextlib.contextmanager
def holding(size: int) -> Iterator[None]:
    """A process that holds so many bytes."""
    program = f"held = b'x' * {size}; print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as started:
        assert started.stdout is not None
        started.stdout.readline()
        yield
        started.communicate(b"\n")

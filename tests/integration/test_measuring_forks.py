"""Measuring processes off a fork server: what it may not do before it forks, and what they measure all the same."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from bench_process import of_object
from warm_starts import start_by_forks

from dynalyze.bench.workers import WorkerFailed, WorkerPool
from dynalyze.capture.bench.commands import Block, Check, Load, MeasureMemory, Warm
from dynalyze.capture.bench.protocol import Configuration, WorkerRequest
from dynalyze.launch.streams import Streams
from limits import WALL_SECONDS

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="measuring processes fork on Linux alone")

NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(600, 600)

    def forward(self, x):
        return torch.relu(self.layer(x))

def make():
    torch.ones(1 << 27)  # 512 MB, more than a compilation takes, that are free again before the first pass.
    return Net().eval(), (torch.randn(600, 600),)
"""
DEFAULT = Configuration("default")

# Everything that the server of a benchmark does before it forks, with every dispatch of ATen counted.
COUNTING = """
import json, sys
import torch
from torch.utils._python_dispatch import TorchDispatchMode

seen = []

class Dispatches(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        seen.append(str(function))
        return function(*args, **(kwargs or {}))

sys.path.insert(0, PACKAGES)
from dynalyze.capture import forkserver
from dynalyze.capture.bench import forking

forkserver.listen = lambda address, child, imports: print(json.dumps({"against": imports(MODULES)}))
with Dispatches():
    status = forking.serve("", ["inductor", "cpu", "hf"])
    before = list(seen)
    torch.zeros(2) + 1  # the counter does count
print(json.dumps({"status": status, "before": before, "after": len(seen)}))
"""


@pytest.fixture(autouse=True)
def _servers_are_forks(monkeypatch: pytest.MonkeyPatch) -> None:
    start_by_forks(monkeypatch, measures=True)


@pytest.fixture
def request_of(tmp_path: Path) -> WorkerRequest:
    (tmp_path / "net.py").write_text(NET)
    return replace(of_object(tmp_path / "net.py", "make", threads=2), configuration=DEFAULT)


@contextmanager
def worker_pool() -> Iterator[tuple[WorkerPool, io.StringIO]]:
    said = io.StringIO()
    with WorkerPool(Streams("net.py", stream=said, once=True), 300) as pool:
        yield pool, said


def told_by_server(modules: list[str]) -> list[dict[str, object]]:
    """What the server of a benchmark says that never comes to fork, and is asked to import these."""
    packages = str(Path(__file__).resolve().parents[2] / "analyzer")
    program = COUNTING.replace("PACKAGES", repr(packages)).replace("MODULES", repr(modules))
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=WALL_SECONDS, check=True
    )
    return [json.loads(line) for line in ended.stdout.splitlines()[-2:]]


@pytest.mark.slow
def test_no_tensor_operation_runs_before_the_fork() -> None:
    learned, told = told_by_server(["torch._inductor.codegen.cpp", "torch._dynamo.variables.builder"])
    assert (learned["against"], told["status"], told["before"]) == ("", 0, [])
    assert isinstance(told["after"], int) and told["after"] > 0


def test_what_is_forked_measures_with_the_thread_pool(request_of: WorkerRequest) -> None:
    """The multiplication hangs in a child of a process whose threads had started. Inductor tells its phases and caches,
    and the process its memory.
    """
    with worker_pool() as (pool, _):
        caches = pool.empty_caches()
        for new in (True, False):
            with pool.worker(request_of, caches, new=new) as worker:
                load = worker.ask(Load())
                warm = worker.ask(Warm(20, 10))
                assert worker.forked != new
                assert (load.threads, load.batch) == (2, 600)
                assert load.import_seconds > 0
                assert warm.counts["compiled_frames"] == 1
                assert ("fxgraph_cache_miss" in warm.cache, "fxgraph_cache_hit" in warm.cache) == (new, not new)
                if new:
                    phases, memory = warm.phases, worker.ask(MeasureMemory())
                    assert warm.calls_ms[0] > 10 * min(warm.calls_ms)
                    assert 0 < phases["inductor"] <= phases["aot_autograd"] <= phases["dynamo"]
                    assert (memory.compile_peak or 0) - 256 * 2**20 > memory.steady_peak > 0
                assert worker.ask(Block(passes=3)).samples_ms
                assert worker.ask(Check()).invalid == ""


def test_a_server_that_imported_beside_a_program_forks_at_full_priority(
    request_of: WorkerRequest, tmp_path: Path
) -> None:
    own = f"priority {os.getpriority(os.PRIO_PROCESS, 0)} of {os.getpid()}"
    (tmp_path / "net.py").write_text(
        f"{NET}\nimport os\nprint('priority', os.getpriority(os.PRIO_PROCESS, 0), 'of {os.getpid()}')\n"
    )
    with worker_pool() as (pool, said):
        pool.prepare_beside("inductor")
        with pool.worker(request_of, pool.empty_caches()) as worker:
            assert worker.ask(Load()).import_seconds > 0
            assert worker.forked
    assert own in said.getvalue()


def test_one_process_leaves_nothing_to_the_next(request_of: WorkerRequest, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        NET + "torch.set_default_dtype(torch.float64)\nprint('made with', torch.ones(1).dtype)\n"
    )
    with worker_pool() as (pool, _):
        dtypes = []
        for source in ("net.py", "plain.py"):
            (tmp_path / "plain.py").write_text(NET)
            request = replace(request_of, source={**request_of.source, "path": str(tmp_path / source)})
            with pool.worker(request, pool.empty_caches()) as worker:
                dtypes.append(worker.ask(Load()).dtype)
                assert worker.forked
    assert dtypes == ["float64", "float32"]


@pytest.mark.parametrize("act", ["os.abort()", "os.kill(os.getppid(), 9)"])
def test_a_death_costs_one_process(request_of: WorkerRequest, tmp_path: Path, act: str) -> None:
    """Its own, or that of the server: whoever comes next is forked by another one, or starts by itself."""
    (tmp_path / "dies.py").write_text(f"import os, time\n{act}\ntime.sleep(60)\n")
    dying = replace(request_of, allow_effects=True, source={**request_of.source, "path": str(tmp_path / "dies.py")})
    with worker_pool() as (pool, _):
        with pytest.raises(WorkerFailed) as failed, pool.worker(dying, pool.empty_caches()) as worker:
            worker.ask(Load())
        assert failed.value.kind == "died"
        with pool.worker(request_of, pool.empty_caches()) as worker:
            assert worker.ask(Load()).batch == 600


def test_where_an_import_starts_threads_nothing_is_forked_any_more(
    request_of: WorkerRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second process would be forked off a server that imported what the first one did."""
    packages = tmp_path / "site-packages"
    packages.mkdir()
    (packages / "eager_threads.py").write_text(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(packages), *filter(None, [os.environ.get("PYTHONPATH")])]))
    (tmp_path / "net.py").write_text("import eager_threads\n" + NET)
    with worker_pool() as (pool, _):
        forked = []
        for _ in range(2):
            with pool.worker(request_of, pool.empty_caches()) as worker:
                worker.ask(Load())
                forked.append(worker.forked)
    assert forked == [True, False]

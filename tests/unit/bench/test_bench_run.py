"""The parent's side of a benchmark, with workers that speak the protocol and measure nothing."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import fake_bench_worker as fake
import msgspec
import pytest

from dynalyze.bench import run as module
from dynalyze.bench.configurations import configurations
from dynalyze.bench.plan import Plan
from dynalyze.bench.progress import Progress
from dynalyze.bench.run import Benchmarks, run_in
from dynalyze.bench.workers import OUT_OF_TIME, WorkerFailed, WorkerPool
from dynalyze.capture.bench.commands import Loaded
from dynalyze.capture.bench.protocol import Command, Work, WorkerRequest
from dynalyze.capture.shapes import Dim
from dynalyze.launch.streams import Streams
from dynalyze.report.measurements import Measurement
from dynalyze.text.errors import UsageError

FAKE = Path(__file__).with_name("fake_bench_worker.py")


def bench(
    tmp_path: Path, names: str = "default", acts: dict[str, Any] | None = None, processes: bool = False, **settings: Any
) -> Benchmarks:
    """A benchmark of fake workers, in `processes` or here, that behave as `acts` says; `ms` is the time of a pass."""
    source = {"log": str(tmp_path / "log"), "acts": acts or {}, "ms": settings.pop("ms", {"default": 1.0})}
    source |= settings.pop("source", {})
    settings.setdefault("pairs", 2)
    plan = Plan(source=source, configurations=configurations(names), seconds=0.5, **settings)
    progress = Progress(lambda text: None, 1.0, 0.1)
    streams = Streams("fake", stream=io.StringIO())
    kind = WorkerPool if processes else AnsweringPool
    with kind(streams, plan.timeout, plan.total, python=sys.executable, start=FAKE, waiting=progress.tick) as pool:
        return run_in(pool, plan, progress)


class AnsweringPool(WorkerPool):
    """Its workers answer in this process, at once; what hangs has used up the time that there was."""

    def worker(self, request: WorkerRequest, *_: Any, **__: Any) -> Any:
        self.attend()
        return AnsweringWorker(self, asdict(request), self._seconds)


class AnsweringWorker(nullcontext["AnsweringWorker"]):
    forked = False

    def __init__(self, pool: AnsweringPool, request: dict[str, Any], seconds: float) -> None:
        super().__init__(self)
        self.load = Loaded()
        self.folder = pool._fresh("worker")
        self._pool, self._request, self._end = pool, request, time.monotonic() + seconds
        source, self._name = request["source"], request["configuration"]["name"]
        self._log = source["log"]
        self._number = fake.process_number(self._log, self._name)
        self._acts = fake.acts_of(source["acts"], self._name, self._number)
        if source.get("kind") == "program":
            fake.note(self._log, "made", self._name, self._number, json.dumps(source["made"]))

    def end_after(self, seconds: float) -> None:
        self._end = min(self._end, time.monotonic() + seconds)

    def ask(self, command: Command[Any]) -> Any:
        self.send(command)
        return self.receive(type(command))

    def send(self, command: Command[Any]) -> None:
        self._do = command.do
        fake.note(self._log, "begin", self._name, self._number, self._do)

    def receive(self, kind: type[Command[Any]]) -> Any:
        return msgspec.convert(self._received(), kind.answer)

    def _received(self) -> dict[str, Any]:
        act = self._acts.get(self._do, {})
        if act == "die":
            raise WorkerFailed("died", "the process was killed (SIGKILL)", self._name)
        if act == "hang":
            if self._end < self._pool._end:
                raise WorkerFailed("timed_out", OUT_OF_TIME, self._name)
            self._pool._end = 0.0
            self._pool.attend()
        answer = fake.answer(act, self._do, self._request)
        fake.note(self._log, "end", self._name, self._number, self._do)
        if not answer["ok"]:
            raise WorkerFailed(*answer["error"].values(), self._name)
        return answer


def row(found: Benchmarks, name: str) -> Measurement:
    return next(each for each in found.measurements if each.configuration == name)


def orders(tmp_path: Path, begins: str = "begin") -> list[tuple[str, int, str]]:
    """What was asked of whom, in the order in which it began: configuration, its process, order."""
    lines = [line.split() for line in (tmp_path / "log").read_text().splitlines()]
    return [(name, int(number), order) for word, name, number, order in lines if word == begins]


def test_a_configuration_twice_as_fast_is_told_so(tmp_path: Path) -> None:
    found = bench(tmp_path, pairs=3)
    measured, eager = row(found, "default"), row(found, "eager")
    assert (found.status, measured.status, eager.status) == ("complete", "valid", "valid")
    assert measured.speedup is not None
    assert measured.speedup.verdict == "faster"
    assert measured.speedup.ratio.value == pytest.approx(2.0)
    assert measured.speedup.pairs == 3
    assert (measured.latency_ms or pytest.fail()).p50 == 1.0
    assert (measured.eager_latency_ms or pytest.fail()).p50 == (eager.latency_ms or pytest.fail()).p50 == 2.0
    assert len(measured.samples) == len(eager.samples) == 3
    assert (measured.device, measured.threads) == ("cpu", 2)
    assert found.environment["threads"] == 2


def test_the_start_is_told_cold_and_warm(tmp_path: Path) -> None:
    acts = {
        "default": {
            "warm": {"calls_ms": [900.0, 1.0]},
            "warm@2": {"calls_ms": [80.0, 1.0]},
            "warm@3": {"calls_ms": [7.0]},
        }
    }
    startup = row(bench(tmp_path, acts=acts), "default").startup
    assert startup is not None
    assert (startup.cold_calls_ms, startup.warm_calls_ms) == ([900.0, 1.0], [80.0, 1.0])
    assert startup.eager_calls_ms == [9.0, 2.0, 2.0]
    assert (startup.import_seconds, startup.load_seconds, startup.steady_after) == (1.0, 0.5, 1)


@pytest.mark.parametrize("first", [True, False])
def test_answers_can_come_before_speed(tmp_path: Path, first: bool) -> None:
    found = bench(tmp_path, answers_first=first)
    order = [what for _, _, what in orders(tmp_path)]
    assert (order.index("accuracy") < order.index("block")) == first
    assert row(found, "default").status == "valid"
    assert found.accuracy[0].verdict == "equal"


def test_one_process_works_at_a_time_but_for_loading(tmp_path: Path) -> None:
    bench(tmp_path)
    working: set[tuple[str, str]] = set()
    for line in (tmp_path / "log").read_text().splitlines():
        word, name, number, order = line.split()
        if word == "end":
            working.discard((name, number))
            continue
        assert order == "load" or not working
        working.add((name, number))


def test_runs_of_one_program_never_load_at_the_same_time(tmp_path: Path) -> None:
    bench(tmp_path, source={"kind": "program", "made": []}, accuracy=False, memory=False)
    words = [line.split()[0] for line in (tmp_path / "log").read_text().splitlines() if line.endswith(" load")]
    assert words == ["begin", "end"] * (len(words) // 2)


@pytest.mark.parametrize("first", [None, [["Net", "(Tensor[2])", 3]]])
def test_every_run_of_a_program_is_held_against_the_first(tmp_path: Path, first: Any) -> None:
    """That is the one that was recorded, or the first process of eager where the recording was lost."""
    acts = {"eager": {"load": {"device": "cpu", "made": [["Net", "(Tensor[7])", 1]]}}}
    bench(tmp_path, acts=acts, source={"kind": "program", "made": first}, accuracy=False, memory=False)
    lines = [line for line in (tmp_path / "log").read_text().splitlines() if line.startswith("made")]
    held = [json.loads(line.split(" ", 3)[3]) for line in lines]
    assert held[0] == first
    assert held[1:] == [first or [["Net", "(Tensor[7])", 1]]] * (len(held) - 1)


def test_a_run_with_other_calls_makes_its_row_invalid(tmp_path: Path) -> None:
    acts = {"default": {"load@2": "error not_replayable run again, the program made other calls: 4 instead of 3"}}
    found = bench(tmp_path, acts=acts, source={"kind": "program", "made": []})
    failed = row(found, "default")
    assert (failed.status, failed.latency_ms, found.status) == ("invalid", None, "complete")
    assert "made other calls: 4 instead of 3" in failed.reason


def test_where_eager_has_no_calls_no_row_has_and_each_says_why(tmp_path: Path) -> None:
    acts = {"eager": {"load": "error not_replayable run again, the program failed: FileExistsError"}}
    found = bench(tmp_path, "default,regional", acts=acts)
    told = {(each.status, each.reason) for each in found.measurements}
    assert told == {("invalid", "run again, the program failed: FileExistsError")}
    assert (found.status, len(found.measurements)) == ("complete", 3)


def test_each_shape_is_measured_and_told(tmp_path: Path) -> None:
    works = tuple(Work(shape=(("batch", size),)) for size in (1, 8))
    found = bench(tmp_path, works=works, dims=(Dim("batch", "0", 0),))
    told = [(each.configuration, each.shape, each.status) for each in found.measurements]
    assert told == [(name, {"batch": size}, "valid") for size in (1, 8) for name in ("eager", "default")]
    assert [(each.configuration, each.shape) for each in found.accuracy] == [
        ("default", {"batch": 1}),
        ("default", {"batch": 8}),
    ]


def test_one_eager_process_of_a_round_takes_as_many_blocks_with_each_of_the_others(tmp_path: Path) -> None:
    bench(tmp_path, "default,regional", accuracy=False, memory=False, pairs=3)
    blocks = Counter((name, number) for name, number, order in orders(tmp_path) if order == "block")
    timed = [(name, number) for name, number, order in orders(tmp_path) if order == "load"]
    # The first calls of three; then in each round an eager process, and beside it another, default and regional.
    assert Counter(name for name, _ in timed[:3]) == Counter({"eager": 1, "default": 1, "regional": 1})
    per_round = [timed[at : at + 4] for at in range(3, len(timed), 4)]
    assert len(per_round) == 3
    for shared, *others in per_round:
        assert (shared[0], sorted(name for name, _ in others)) == ("eager", ["default", "eager", "regional"])
        assert blocks[shared] == sum(blocks[each] for each in others) == 3 * blocks[others[0]] == 3 * blocks[others[1]]
    assert len({tuple(name for name, _ in each) for each in per_round}) > 1


def test_an_eager_process_that_dies_costs_the_pair_that_it_was_in(tmp_path: Path) -> None:
    acts = {"eager": {"warm=4": "error internal broken"}}  # That of the second round.
    found = bench(tmp_path, "default,regional", acts, accuracy=False, memory=False, pairs=3)
    failed = [each for each in found.measurements if each.reason]
    assert all(each.reason.startswith("the eager process beside it: broken") for each in failed)
    notes = [note for each in found.measurements for note in each.notes if "broken" in note]
    assert len(failed) + len(notes) == 1
    assert all(len(each.samples) == 3 for each in found.measurements if each not in failed and not each.notes)


def test_each_process_of_first_calls_has_new_caches_and_pairs_find_them_filled(tmp_path: Path) -> None:
    source = tmp_path / "caches.py"
    source.write_text(
        f"import os, sys; sys.path.insert(0, {str(FAKE.parent)!r}); import fake_bench_worker as fake\n"
        "from pathlib import Path\n"
        "folder = Path(os.environ['TORCHINDUCTOR_CACHE_DIR'])\n"
        "seen = folder.exists(); folder.mkdir(parents=True, exist_ok=True)\n"
        f"open({str(tmp_path / 'seen')!r}, 'a').write(f'{{folder}} {{seen}} {{os.environ[\"TRITON_CACHE_DIR\"]}}\\n')\n"
        "fake.main(Path(sys.argv[2]))\n"
    )
    plan = Plan({"log": str(tmp_path / "log")}, configurations("default"), pairs=2, seconds=0.2, accuracy=False)
    with WorkerPool(Streams("fake", stream=io.StringIO()), 60, start=source) as pool:
        run_in(pool, plan, Progress(lambda text: None, 1.0, 0.1))
    lines = [line.split() for line in (tmp_path / "seen").read_text().splitlines()]
    folders = Counter(folder for folder, _, _ in lines)
    assert len(folders) == 2
    assert [seen for _, seen, _ in lines].count("False") == 2
    assert all(folder.rpartition("/")[0] == triton.rpartition("/")[0] for folder, _, triton in lines)
    assert not any(Path(folder).exists() for folder in folders)


def test_a_quiet_run_ends_before_its_last_pair(tmp_path: Path) -> None:
    assert (row(bench(tmp_path, pairs=10), "default").speedup or pytest.fail()).pairs == 3


@pytest.mark.parametrize("what", ["warm", "check", "load"])
def test_a_failing_configuration_is_a_row_and_the_others_go_on(tmp_path: Path, what: str) -> None:
    found = bench(tmp_path, "default,regional", acts={"regional": {what: "error out_of_memory no room for 3 GB"}})
    failed = row(found, "regional")
    assert (failed.status, failed.reason, failed.samples, failed.speedup) == (
        "failed",
        "out of memory: no room for 3 GB",
        [],
        None,
    )
    assert row(found, "default").speedup is not None
    assert found.status == "complete"


@pytest.mark.parametrize(
    ("order", "act", "says"),
    [
        ("load", "die", "killed (SIGKILL)"),
        ("warm", "leave", "exit status 7"),
        ("block", "die", "killed (SIGKILL)"),
        ("warm@3", "leave", "exit status 7"),
    ],
)
def test_a_dead_worker_is_a_failed_row(tmp_path: Path, order: str, act: str, says: str) -> None:
    found = bench(
        tmp_path, "default,regional", acts={"regional": {order: act}}, accuracy=False, memory=False, processes=True
    )
    assert row(found, "regional").status == "failed"
    assert says in row(found, "regional").reason
    assert row(found, "default").status == "valid"


def test_what_dies_in_an_extra_costs_that_alone(tmp_path: Path) -> None:
    found = bench(tmp_path, acts={"default": {"accuracy": "die", "memory@2": "error internal broken"}})
    assert row(found, "default").speedup is not None
    assert row(found, "default").memory is None
    assert [(each.verdict, "SIGKILL" in each.reason) for each in found.accuracy] == [("not comparable", True)]
    assert any("broken" in note for note in row(found, "default").notes)


def test_without_an_eager_run_there_is_nothing_to_compare(tmp_path: Path) -> None:
    found = bench(tmp_path, acts={"eager": {"warm": "error eager ValueError: wrong shape"}})
    assert (found.status, "wrong shape" in found.message) == ("failed", True)
    assert [each.status for each in found.measurements] == ["failed", "failed"]
    # All that is asked of the others is whether they refuse the calls as well.
    assert {order for name, _, order in orders(tmp_path) if name != "eager"} == {"load", "accuracy"}
    assert found.accuracy == []


def test_what_eager_refuses_and_compiled_answers_is_told_without_an_eager_run(tmp_path: Path) -> None:
    broken = {"contract": "exception", "place": "A call", "eager": "ValueError: wrong", "compiled": "gives an answer"}
    answers = {"verdict": "suspicious", "reason": "Eager refuses it.", "contracts": [broken]}
    found = bench(tmp_path, acts={"eager": {"warm": "error eager ValueError: wrong"}, "default": {"accuracy": answers}})
    assert [(each.verdict, each.contracts[0].eager) for each in found.accuracy] == [("suspicious", "ValueError: wrong")]


def test_a_mistake_of_the_user_ends_it_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no 'Nett' in net"):
        bench(tmp_path, acts={"*": {"load": "error misuse no 'Nett' in net"}})


@pytest.mark.parametrize("order", ["check", "check@3"])
def test_an_invalid_time_is_never_a_number(tmp_path: Path, order: str) -> None:
    check = {order: {"invalid": "it compiled again while it was timed", "recompiles_while_timing": 2}}
    found = row(bench(tmp_path, acts={"default": check}), "default")
    assert (found.status, found.reason) == ("invalid", "it compiled again while it was timed")
    assert (found.latency_ms, found.eager_latency_ms, found.speedup, found.break_even) == (None, None, None, None)
    assert (found.samples, found.throughput) == ([], {})
    assert found.counts is not None
    assert found.counts.recompiles_while_timing >= 2


def test_a_worker_that_hangs_is_ended_by_the_limit(tmp_path: Path) -> None:
    began = time.monotonic()
    acts = {"default": {"warm": "hang"}}
    found = bench(tmp_path, "default,regional", acts=acts, timeout=2.0, accuracy=False, memory=False, processes=True)
    assert found.status == "timed_out"
    assert "--timeout (2 s)" in row(found, "default").reason
    assert row(found, "regional").status == "valid"
    assert time.monotonic() - began < 60


def test_when_its_whole_time_is_up_it_keeps_what_it_has(tmp_path: Path) -> None:
    found = bench(tmp_path, acts={"default": {"accuracy": "hang"}}, total=6.0, pairs=2)
    assert found.status == "complete"
    assert (row(found, "default").latency_ms or pytest.fail()).p50 == 1.0


def test_with_a_budget_answers_come_from_the_process_that_was_timed(tmp_path: Path) -> None:
    found = bench(tmp_path, pairs=3, total=60.0, more_time="more", memory=False)
    asked = [number for name, number, order in orders(tmp_path) if order == "accuracy"]
    first_timed = next(number for name, number, order in orders(tmp_path) if (name, order) == ("default", "block"))
    assert asked[0] == first_timed
    assert [each.verdict for each in found.accuracy] == ["equal"]


@pytest.mark.parametrize(("seconds", "missing"), [(7.5, False), (None, True)])
def test_with_a_budget_the_cost_of_compiling_is_that_of_the_run(
    tmp_path: Path, seconds: float | None, missing: bool
) -> None:
    found = bench(tmp_path, pairs=3, total=60.0, more_time="more", memory=False, cold_seconds=seconds)
    measured = row(found, "default")
    assert (measured.startup or pytest.fail()).compile_seconds == seconds
    assert ((measured.break_even or pytest.fail()).passes is None) == missing
    assert any("empty caches" in note for note in found.notes) == missing


@pytest.mark.parametrize("act", ["die", "hang", {"verdict": ""}])
def test_answers_that_cannot_be_compared_there_have_a_process_of_their_own(tmp_path: Path, act: Any) -> None:
    acts = {"default": {"accuracy": act, "accuracy@2": {"verdict": "benign"}}}
    found = bench(tmp_path, pairs=3, total=20.0, more_time="more", memory=False, acts=acts)
    assert [each.verdict for each in found.accuracy] == ["benign"]
    assert row(found, "default").speedup is not None


def test_ctrl_c_keeps_what_is_there_and_leaves_no_process(tmp_path: Path) -> None:
    before = set(running())

    def press() -> None:
        while ("default", 3, "block") not in logged(tmp_path):
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    presser = threading.Thread(target=press)
    presser.start()
    found = bench(tmp_path, acts={"default": {"block": {}, "block@3": "hang"}}, processes=True)
    presser.join()
    assert (found.status, found.message) == ("interrupted", "Interrupted from the keyboard.")
    assert row(found, "default").status == "valid"
    assert row(found, "default").notes[0] == "interrupted after 1 of 2 pairs of processes"
    assert [line for line in set(running()) - before if line.split()[0] == str(os.getpid())] == []


def test_whatever_a_worker_started_ends_with_it(tmp_path: Path) -> None:
    bench(tmp_path, acts={"default": {"load": "child"}}, pairs=1, accuracy=False, memory=False, processes=True)
    assert [line for line in running() if str(tmp_path / "log") in line] == []


def logged(tmp_path: Path) -> list[tuple[str, int, str]]:
    return orders(tmp_path) if (tmp_path / "log").exists() else []


def running() -> list[str]:
    """Every process but the one that lists them: its parent's pid and its command line."""
    with subprocess.Popen(["ps", "-eo", "ppid,pid,args"], stdout=subprocess.PIPE, text=True) as listing:
        lines = listing.communicate()[0].splitlines()[1:]
    return [line for line in lines if line.split()[1] != str(listing.pid)]


STEP = {"saved": [{"bytes": 8, "dtype": "float32", "shape": [2], "place": None, "module": "", "op": "", "graph": None}],
        "peak_bytes": 20, "peak_in": "backward"}  # fmt: skip
RECORDED = {"torch_folder": "", "calls_ms": [2.0]}
NO_PRICES = {"calls": 1, "plain_ms": [], "stamped_ms": [], "problem": "too short"}


@pytest.mark.parametrize(("phase", "asked"), [("train", True), ("forward", False)])
def test_a_training_step_is_looked_at_when_all_else_of_its_process_is_done(
    tmp_path: Path, phase: Any, asked: bool
) -> None:
    acts = {"*": {"step_memory": {"steps": [STEP]}, "record": RECORDED, "prices": NO_PRICES}}
    found = bench(tmp_path, acts=acts, works=(Work(phase),), recorded=True, accuracy=False, memory=False)
    for name, before in (("eager", "check"), ("default", "prices")):
        made = [(number, order) for who, number, order in orders(tmp_path) if who == name]
        last = {number: [order for own, order in made if own == number][-1] for number, _ in made}
        assert sum(order == "step_memory" for _, order in made) == asked
        if asked:
            (process,) = [number for number, order in last.items() if order == "step_memory"]
            assert [order for own, order in made if own == process][-2] == before
    step = row(found, "default").step_memory
    assert (step is not None) == asked
    assert step is None or (step.eager_kept, step.compiled_kept, step.compiled_peak) == (8, 8, 20)


@pytest.mark.parametrize(("hangs", "told"), [("load@4", 3), ("load@3", None)])
def test_a_budget_that_ends_early_has_a_verdict_from_three_pairs_on(
    hangs: str, told: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "enough", lambda *pairs, **looks: False)
    found = bench(
        tmp_path, acts={"default": {hangs: "hang"}}, total=10.0, pairs=5, more_time="dynalyze bench net.py",
        accuracy=False, memory=False,
    )  # fmt: skip
    if told is None:
        assert found.measurements == [] and found.notes[0].startswith("Speed: not measured in 10 s")
    else:
        assert (row(found, "default").speedup or pytest.fail()).pairs == told


def test_with_a_budget_the_first_calls_of_a_configuration_are_those_of_its_first_pair(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "enough", lambda *pairs, **looks: False)
    found = bench(tmp_path, total=60.0, pairs=3, more_time="dynalyze bench net.py", accuracy=False, memory=False)
    assert len(row(found, "eager").samples) == len(row(found, "default").samples) == 3
    loads = [name for name, _, order in orders(tmp_path) if order == "load"]
    assert loads.count("eager") - 1 == 2 * loads.count("default") == 6, "beside the first calls of eager"


@pytest.mark.parametrize(("settings", "before"), [({}, True), ({"more_time": "dynalyze bench net.py"}, False)])
def test_without_a_budget_first_calls_from_empty_caches_come_before_prices(
    settings: dict[str, str], before: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[bool] = []

    def recorded(*_: Any) -> Any:
        called.append(any(name == "default" and order == "warm" for name, _, order in orders(tmp_path)))
        raise WorkerFailed("died", "it is not priced here")

    monkeypatch.setattr(module.schedule, "recorded", recorded)
    bench(tmp_path, recorded=True, recorded_first=True, accuracy=False, memory=False, total=60.0, **settings)
    assert called[0] is before

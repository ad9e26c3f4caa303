"""The parts of `--cluster` that need no Ray: what an item asks for, what travels, and who is to blame for what."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from msgspec.msgpack import decode, encode

from dynalyze.capture.settings import CompileOptions
from dynalyze.launch.spec import TargetSpec, read_target
from dynalyze.sweep.ray import node, node_work, ray_session
from dynalyze.sweep.ray.node_work import Delivery, ItemHost, Parcel
from dynalyze.sweep.ray.ray_pool import ClusterPool, Demand, demand_of
from dynalyze.sweep.records import Item
from dynalyze.sweep.rows import bare_row
from dynalyze.sweep.work import Finished, RunSettings


def item(name: str = "a", device: str | None = None, spec: TargetSpec | None = None, root: str = "") -> Item:
    spec = spec or TargetSpec("script", f"{name}.py", path=f"{name}.py")
    return Item(f"{name}.py", spec, CompileOptions(backend="eager", device=device), root=root, key=name)


SETTINGS = RunSettings(timeout=5.0)


# What an item asks for.


@pytest.mark.parametrize(
    ("device", "given", "gpus"),
    [
        (None, None, 0), ("cpu", None, 0), ("cuda", None, 1), ("cuda:0", None, 1), ("cuda", 0.5, 0.5),
        (None, 2.0, 2), ("cpu", 2.0, 0),
    ],
)  # fmt: skip
def test_gpus_of_a_program(device: str | None, given: float | None, gpus: float) -> None:
    assert demand_of(item(device=device), SETTINGS, given, 8).gpus == gpus


def test_a_demand_fits_a_node_that_has_all_of_it() -> None:
    demand = Demand(1, 1, 4 * 2**30)
    assert demand.fits({"CPU": 2, "GPU": 1, "memory": 8 * 2**30})
    assert not demand.fits({"CPU": 2, "memory": 8 * 2**30})
    assert not demand.fits({"CPU": 2, "GPU": 1, "memory": 2**30})
    assert str(demand) == "1 CPU, 1 GPU, 4.0 GiB of memory"


# What travels.


def test_torchs_switches_travel_and_paths_and_secrets_do_not(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in {
        "TORCHDYNAMO_VERBOSE": "1", "TORCH_HOME": "/models", "TORCH_TOKEN": "x", "HF_TOKEN": "x", "MY_KEY": "x",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    shipped = ray_session.runtime_env(tmp_path, None)
    assert shipped["env_vars"]["TORCHDYNAMO_VERBOSE"] == "1"
    assert not {"TORCH_HOME", "TORCH_TOKEN", "HF_TOKEN", "MY_KEY"} & set(shipped["env_vars"])
    assert "working_dir" not in shipped
    package = Path(shipped["py_modules"][0])
    assert (package / "sweep" / "ray" / "node.py").is_file() and (package / "templates" / "page.html.jinja").is_file()


# On a node.


class FakeRunner:
    """Tells where it was asked to run what."""

    def __init__(self, settings: RunSettings) -> None:
        self.settings = settings

    def run(self, item: Item) -> Finished:
        row = bare_row(item, "eager_error", f"{item.spec.path} of {item.root} in {Path.cwd()}")
        return Finished(row, output=f"{item.root}/x")

    def close(self) -> None:
        pass


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[node_work.NodeWork]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(node_work, "Runner", FakeRunner)
    monkeypatch.setattr(node_work, "_versions", lambda python: {"torch": "2.13.0"})
    yield node_work.NodeWork()


def delivered(work: node_work.NodeWork, parcel: Parcel) -> Delivery:
    return decode(work.delivery(encode(parcel)), type=Delivery)


@pytest.mark.parametrize(
    ("path", "on_node"), [("/home/me/p/a.py", "{here}/a.py"), ("sub/a.py", "sub/a.py"), ("/opt/b.py", "/opt/b.py")]
)
def test_a_shipped_file_is_found_in_the_copy_and_named_as_at_home(
    work: node_work.NodeWork, tmp_path: Path, path: str, on_node: str
) -> None:
    seen: list[Item] = []
    original = FakeRunner.run
    FakeRunner.run = lambda self, item: (seen.append(item), original(self, item))[1]  # type: ignore[method-assign]
    try:
        sent = item(spec=TargetSpec("script", path, path=path), root="/home/me/p")
        back = delivered(work, Parcel(sent, SETTINGS, "/home/me/p", '~/p "q"', shipped=True))
    finally:
        FakeRunner.run = original  # type: ignore[method-assign]
    assert seen[0].spec.path == on_node.format(here=tmp_path)
    assert seen[0].key == sent.key
    assert back.finished is not None
    assert str(tmp_path) not in str(msgspec.to_builtins(back))
    assert '~/p "q"' in (back.finished.row.error or "")
    assert back.finished.row.node == f"{socket.gethostname()} (torch 2.13.0)"


def test_a_node_that_lacks_something_says_so_and_touches_no_item(work: node_work.NodeWork, tmp_path: Path) -> None:
    model = item(spec=read_target("hf:BertModel", None, ()))
    assert "no transformers" in delivered(work, Parcel(model, SETTINGS)).unusable
    missing = delivered(work, Parcel(item(), SETTINGS, root=str(tmp_path / "nowhere")))
    assert "no folder" in missing.unusable and missing.finished is None


# The driver, against a cluster of our own making.


class Errors:
    class NodeDiedError(Exception): ...

    class ObjectLostError(Exception): ...

    class WorkerCrashedError(Exception): ...

    class OutOfMemoryError(Exception): ...

    class RuntimeEnvSetupError(Exception): ...

    class RayTaskError(Exception):
        def __init__(self, cause: Exception) -> None:
            self.cause = cause


class FakeRay:
    """Answers each task with what `script` has next for its item: an error to raise, or the node that ran it."""

    exceptions = Errors

    def __init__(self, script: dict[str, list[Any]], cpus: int = 2) -> None:
        self.script = script
        self.cpus = cpus
        self.submitted: list[str] = []
        self.cancelled: list[int] = []
        self.most_in_flight = 0
        self._open: dict[int, Parcel] = {}

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": self.cpus}

    def nodes(self) -> list[dict[str, Any]]:
        return [{"Alive": True, "Resources": {"CPU": self.cpus, "memory": 2**40}}]

    def remote(self, function: Any) -> Any:
        assert function is node.run
        return SimpleNamespace(options=lambda **_: SimpleNamespace(remote=self._submit))

    def _submit(self, parcel: bytes) -> int:
        opened = decode(parcel, type=Parcel)
        self.submitted.append(opened.item.key)
        self._open[len(self.submitted)] = opened
        self.most_in_flight = max(self.most_in_flight, len(self._open))
        return len(self.submitted)

    def wait(self, references: list[int], num_returns: int, timeout: float) -> tuple[list[int], list[int]]:
        return references[:num_returns], references[num_returns:]

    def get(self, reference: int) -> bytes:
        item = self._open.pop(reference).item
        answer = self.script[item.key].pop(0)
        if isinstance(answer, Exception):
            raise answer
        return encode(Delivery(answer, Finished(bare_row(item, "full_graph", ""))))

    def cancel(self, reference: int, *, force: bool) -> None:
        assert force
        self.cancelled.append(reference)


NODE = ItemHost("one", "torch 2")


def pool_on(ray: FakeRay, **options: Any) -> ClusterPool:
    pool = ClusterPool("auto", options.pop("settings", SETTINGS), **options)
    pool._ray = ray
    return pool


def run(pool: ClusterPool, names: str, keep_on: Any = lambda: True) -> list[tuple[str, str, int]]:
    rows: list[tuple[str, str, int]] = []
    pool.run(
        (item(name) for name in names),
        lambda item, finished: rows.append((item.key, finished.row.status, finished.row.attempts)),
        keep_on,
    )
    return rows


def lost_agent() -> Exception:
    return Errors.RayTaskError(node.AgentLost("died"))


@pytest.mark.parametrize("error", [Errors.WorkerCrashedError, Errors.OutOfMemoryError, lost_agent])
def test_an_item_that_kills_its_worker_twice_is_a_crash(error: Any) -> None:
    assert run(pool_on(FakeRay({"a": [error(), NODE]})), "a") == [("a", "full_graph", 2)]
    assert run(pool_on(FakeRay({"a": [error(), error()]})), "a") == [("a", "crash", 2)]


def test_a_lost_node_is_no_fault_of_the_item() -> None:
    died = Errors.NodeDiedError
    ray = FakeRay({"a": [died(), died(), Errors.WorkerCrashedError(), died(), NODE]})
    assert run(pool_on(ray), "a") == [("a", "full_graph", 5)]
    assert run(pool_on(FakeRay({"a": [died() for _ in range(9)]})), "a") == [("a", "crash", 5)]


def test_what_flies_is_cancelled_when_the_sweep_is_to_end() -> None:
    ray = FakeRay({name: [NODE] for name in "abcdef"})
    answers = iter([True, False])
    assert len(run(pool_on(ray, workers=3), "abcdef", lambda: next(answers))) == 1
    assert ray.cancelled == [2, 3]
    assert ray.submitted == ["a", "b", "c"]


def test_with_redact_the_folder_is_named_as_it_may_be_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    pool = pool_on(FakeRay({}), settings=replace(SETTINGS, redact=True), folder=tmp_path / "work")
    parcel = pool._parcel(item())
    assert (parcel.root, parcel.shown_root) == (os.fspath((tmp_path / "work").resolve()), "~/work")

"""A program that compiles nothing is told what torch logs of it with `net = torch.compile(net)` in its own lines."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from in_place_programs import (
    APART,
    BACKEND,
    DRIVER,
    TOGETHER,
    Log,
    logs_of_programs,
    read_log,
    torch_log,
    written,
)
from program import TRACEBACK, Outcome, dynalyze, explain, in_process, plain_python
from shared_runs import made_once

from dynalyze.capture.in_place import InPlace
from slow_siblings import mostly_slow

Json = dict[str, Any]
_ADDRESS = re.compile(r"\d{9,}")
EXCEPTION = "GB0088"
"""torch logs an exception of the program's own as a break; the program would have raised it all the same."""


@dataclass(frozen=True)
class Runs:
    """Several programs in one process: what dynalyze told, torch's own log, and what the programs printed."""

    report: Json
    truth: dict[str, Log]
    printed: dict[str, tuple[str, str]]


def runs_of(folder: Path, names: tuple[str, ...]) -> Runs:
    told, true = folder / "told", folder / "true"
    for where in (told, true):
        where.mkdir()
        (where / "driver.py").write_text(DRIVER, encoding="utf-8")
        for name in names:
            (where / f"{name}.py").write_text(written(name, truth=where is true), encoding="utf-8")
    truth = logs_of_programs(torch_log(true, "driver.py", *names))
    options = ("--backend", "eager", "--show-values", "driver.py", "--", *names)
    ended, report = explain(*options, cwd=told, seconds=600)
    assert ended.status == 0, ended.stderr[-3000:]
    printed = {name: ((told / f"{name}.out").read_text(), (true / f"{name}.out").read_text()) for name in names}
    return Runs(report, truth, printed)


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Each program is an epoch of the report."""
    return made_once(tmp_path_factory, "in-place-together", lambda folder: runs_of(folder, TOGETHER))


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Each compiles in a process of its own, the last one in the main process."""
    return made_once(tmp_path_factory, "in-place-apart", lambda folder: runs_of(folder, APART))


def same_as(report: Json, truth: Log, **where: int) -> None:
    """The breaks by line and id; the recompiles by compile id, place and the guard that failed, in their order."""
    breaks, recompiles = (
        [each for each in report[kind] if all(each[key] == value for key, value in where.items())]
        for kind in ("graph_breaks", "recompiles")
    )
    assert {(place_of(each), each["gb_id"]) for each in breaks} == {
        each for each in truth.breaks if each[1] != EXCEPTION
    }
    assert len(breaks) == len({(place_of(each), each["location"]["column"]) for each in breaks})
    again = [each for each in recompiles if each["cause"] != "limit"]
    assert sorted(each["compile_id"] for each in again) == sorted(compile_id for compile_id, _ in truth.recompiles)
    places = dict(truth.recompiles)
    for each in again:
        true = places[each["compile_id"]]
        if not true.startswith(("external_utils.py", "generic.py")):
            assert place_of(each) == true
        assert each["guard"] and _ADDRESS.sub("", each["guard"]) in _ADDRESS.sub(
            "", truth.failures[each["compile_id"], true]
        )
    assert len(recompiles) - len(again) == truth.limits


def place_of(found: Json) -> str:
    return f"{Path(found['location']['file']).name}:{found['location']['line']}"


@pytest.mark.parametrize("name", TOGETHER)
def test_what_torch_logs_is_told(together: Runs, name: str) -> None:
    same_as(together.report, together.truth[name], process=0, epoch=TOGETHER.index(name))


@pytest.mark.parametrize("name", TOGETHER)
def test_the_program_prints_what_it_prints_when_it_compiles_by_itself(together: Runs, name: str) -> None:
    told, true = together.printed[name]
    assert told == true


def test_the_truth_holds_something_to_tell(together: Runs) -> None:
    """A log that could not be read would be equal to a report of nothing."""
    logs = together.truth.values()
    assert len(logs) == len(TOGETHER)
    assert sum(len(log.breaks) for log in logs) >= 5 and sum(len(log.recompiles) for log in logs) >= 20
    breaks = {name: {line for line, _ in log.breaks} for name, log in together.truth.items() if log.breaks}
    assert breaks["hooks_for_a_while"] == {"hooks_for_a_while.py:10"}
    assert breaks["own_call"] == {"own_call.py:9"}
    assert "transform_of_a_dataset" not in breaks and "checkpointed" not in breaks


def test_nothing_is_compiled_outside_of_the_main_process(together: Runs) -> None:
    """The workers of a DataLoader only load, though a dataset of theirs calls a module with parameters."""
    assert len(together.report["processes"]) > 1
    assert {each["process"] for each in together.report["compilations"]} == {0}


def rows(report: Json, class_name: str) -> list[Json]:
    return [row for row in report["candidates"] if row["class_name"] == class_name]


@pytest.mark.parametrize(
    ("class_name", "calls", "parameters"),
    [
        ("Decoder", 7, 50 * 8 + 8 * 50 + 50),  # the prompt and six tokens
        ("Judge", 9, 5),
        ("Scaled", 3, 3 + 12),
        ("Kernel", 3, 3),  # by the program; those inside of Scaled are Scaled's
        ("LlamaForCausalLM", 6, None),
        ("Annealed", 4, 12),
        ("Projection", 3, 6),
        ("Fold", 9, 8 + 16 + 16),  # three of them, without a name of their own by the end
        ("Picky", 4, 12),  # those that raised are calls, too
    ],
)
def test_what_ran_compiled_is_in_the_table(together: Runs, class_name: str, calls: int, parameters: int | None) -> None:
    (row,) = rows(together.report, class_name)
    assert (row["compiled"], row["reason"], row["calls"]) == (True, "", calls)
    assert row["parameters"] == parameters or parameters is None
    assert row["seconds"] > 0 and 0 < row["share"] <= 1


@pytest.mark.parametrize(
    ("class_name", "reason", "calls"),
    [
        ("Standardize", "no_parameters", 20),
        ("CrossEntropyLoss", "no_parameters", 6),
        ("BCEWithLogitsLoss", "no_parameters", 9),
        ("RecursiveScriptModule", "torchscript", 2),
    ],
)
def test_what_is_left_alone_is_in_the_table_with_the_reason(
    together: Runs, class_name: str, reason: str, calls: int
) -> None:
    (row,) = rows(together.report, class_name)
    assert (row["compiled"], row["reason"], row["calls"]) == (False, reason, calls)


def test_a_module_that_only_backward_calls_is_left_alone(together: Runs) -> None:
    assert [
        (row["compiled"], row["calls"]) for row in together.report["candidates"] if row["reason"] == "backward"
    ] == [(False, 0)]


def test_names_are_those_of_the_program_and_callers_are_told(together: Runs) -> None:
    named = {row["name"]: row for row in together.report["candidates"]}
    assert {"main:backbone", "fit:trainer.net"} <= set(named)
    callers = {row["location"]["function"]: row["kind"] for row in together.report["candidates"] if row["location"]}
    assert callers["Codec.encode"] == callers["Codec.decode"] == "method"
    assert callers["main"] == "function"


def test_what_a_fork_of_the_program_trains_is_compiled_there(apart: Runs) -> None:
    same_as(apart.report, apart.truth["forked_training"], process=1)
    assert [row["compiled"] for row in rows(apart.report, "Loud")] == [True]


@pytest.mark.slow
def test_what_another_process_of_the_program_trains_is_compiled_there(tmp_path: Path) -> None:
    runs = runs_of(tmp_path, ("started_training",))
    same_as(runs.report, runs.truth["started_training"], process=1)
    assert len(runs.truth["started_training"].recompiles) == 1


def test_the_first_64_modules_are_compiled(apart: Runs) -> None:
    same_as(apart.report, apart.truth["seventy_modules"], process=0)
    assert sorted((row["compiled"], row["reason"], row["calls"]) for row in rows(apart.report, "Layer")) == [
        (False, "too_many", 2 * 6),
        (True, "", 2 * 64),
    ]


# With a command line of their own.


@pytest.mark.slow
def test_what_was_compiled_before_the_program_compiles_by_itself_is_forgotten(tmp_path: Path) -> None:
    (tmp_path / "compiles_late.py").write_text(written("compiles_late"), encoding="utf-8")
    truth = read_log(torch_log(tmp_path, "compiles_late.py").splitlines())
    assert len(truth.breaks) == 1 and len(truth.recompiles) == 1
    ended, report = explain("compiles_late.py", cwd=tmp_path)
    assert ended.status == 0
    same_as(report, truth)
    assert report["capture"]["mode"] == "observed"
    assert report["candidates"] == [] and report["regions"] == []
    ids = [each["compile_id"] for each in report["compilations"]]
    assert len(set(ids)) == len(ids) and {each["epoch"] for each in report["compilations"]} == {0}


@pytest.mark.slow
def test_what_is_compiled_is_the_users_choice(tmp_path: Path) -> None:
    (tmp_path / "true").mkdir()
    (tmp_path / "true" / "chosen.py").write_text(written("chosen", truth=True), encoding="utf-8")
    truth = read_log(torch_log(tmp_path / "true", "chosen.py").splitlines())
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").touch()
    source = written("chosen")
    (tmp_path / "chosen.py").write_text(source, encoding="utf-8")
    (package / "chosen.py").write_text(source, encoding="utf-8")
    options: list[str] = ["--backend", "eager"]
    for name in ("model.backbone", "model.score", "rescale", "main:net"):
        options += ["--compile", name]
    for target in (["chosen.py"], ["-m", "package.chosen"]):
        ended, report = explain(*options, *target, cwd=tmp_path)
        assert ended.status == 0, ended.stderr[-3000:]
        same_as(report, truth)
        assert len(report["graph_breaks"]) == 3
        compiled = {(row["name"], row["kind"], row["calls"]) for row in report["candidates"] if row["compiled"]}
        assert compiled == {
            ("model.backbone", "module", 3),
            ("main:net", "module", 2),
            ("model.score", "method", 3),
            ("rescale", "function", 3),
        }
        left = {row["name"] for row in report["candidates"] if row["reason"] == "not_chosen"}
        assert left >= {"model", "model.head", "main:other"}


def refused(ended: Outcome, *says: str) -> None:
    """One line of ours, and exit status 2."""
    assert ended.status == 2 and TRACEBACK not in ended.stderr
    (line,) = [line for line in ended.stderr.splitlines() if line.startswith("dynalyze: --")]
    for part in says:
        assert part in line


THROUGH_FUNC = """
import torch
from torch.func import functional_call, vmap

net = torch.nn.Linear(4, 2)

def score(parameters, x):
    return vmap(lambda row: functional_call(net, parameters, (row,)).square().sum())(x).mean()

def main():
    parameters = dict(net.named_parameters())
    for rows in (5, 5, 7):
        score(parameters, torch.randn(rows, 4)).backward()
        print(sorted(parameters))

#: score = torch.compile(score, backend="eager")
main()
"""


def test_a_model_that_is_called_through_torch_func_alone_is_compiled_in_its_function(tmp_path: Path) -> None:
    (tmp_path / "meta.py").write_text(THROUGH_FUNC, encoding="utf-8")
    ended, report = explain("meta.py", "--backend", "eager", cwd=tmp_path)
    assert ended.status == 0 and ended.stderr.count("['bias', 'weight']") == 3
    (row,) = [row for row in report["candidates"] if row["compiled"]]
    assert (row["kind"], row["name"], row["calls"], row["error"]) == ("function", "score", 3, "")
    # As torch logs for `score = torch.compile(score)`: another size, and no break.
    assert report["graph_breaks"] == [] and len(report["recompiles"]) == 1


def test_a_function_of_another_file_that_calls_a_model_through_torch_func_is_named(tmp_path: Path) -> None:
    apart, main = THROUGH_FUNC.split("def main")
    (tmp_path / "parts.py").write_text(apart, encoding="utf-8")
    (tmp_path / "meta.py").write_text(f"from parts import *\ndef main{main}", encoding="utf-8")
    _, report = explain("meta.py", "--backend", "eager", cwd=tmp_path)
    assert report["outcome"]["status"] == "nothing_compiled"
    assert "--compile score" in report["outcome"]["message"]
    followed, report = explain("meta.py", "--compile", "score", "--backend", "eager", cwd=tmp_path)
    assert followed.status == 0
    assert [row["name"] for row in report["candidates"] if row["compiled"]] == ["score"]


def test_a_choice_that_the_program_does_not_have(tmp_path: Path) -> None:
    (tmp_path / "chosen.py").write_text(written("chosen"), encoding="utf-8")
    options = ("--backend", "eager", "--compile", "model.spine", "--compile", "model.backbone")
    refused(dynalyze("explain", *options, "chosen.py", cwd=tmp_path), "model.spine", "main:net")


def test_a_choice_in_place_of_what_the_program_compiles(tmp_path: Path) -> None:
    """What torch.compile would have given back is the module itself: its calls are those of `net`, before and after."""
    (tmp_path / "compiles_late.py").write_text(written("compiles_late"), encoding="utf-8")
    ended, report = explain("--backend", "eager", "--compile", "net", "compiles_late.py", cwd=tmp_path)
    assert ended.status == 0, ended.stderr[-3000:]
    assert [(row["name"], row["calls"]) for row in report["candidates"] if row["compiled"]] == [("net", 5)]
    assert [each["line"] for each in report["capture"]["left_out"]] == [17]
    assert [found["location"]["line"] for found in report["graph_breaks"]] == [10]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--compile", "model.", "chosen.py"), "'model.' is no expression"),
        (("--compile", "model", "chosen.py:Model"), "--compile is for a program"),
    ],
)
def test_a_choice_that_makes_no_sense(tmp_path: Path, arguments: tuple[str, ...], says: str) -> None:
    (tmp_path / "chosen.py").write_text(written("chosen"), encoding="utf-8")
    refused(in_process("explain", *arguments, cwd=tmp_path), says)


def test_what_raises_under_compile_runs_in_eager_from_there_on(tmp_path: Path) -> None:
    (tmp_path / "hard_to_compile.py").write_text(written("hard_to_compile"), encoding="utf-8")
    (tmp_path / "poor.py").write_text(BACKEND, encoding="utf-8")
    torch_log(tmp_path, "hard_to_compile.py")
    plain = (tmp_path / "waves.out").read_text()
    ended, report = explain("--backend", "poor:without_sine", "hard_to_compile.py", cwd=tmp_path)
    assert (ended.status, report["outcome"]["status"]) == (0, "complete")
    assert (tmp_path / "waves.out").read_text() == plain
    ((wave,), (net,)) = rows(report, "Wave"), rows(report, "Linear")
    assert (wave["compiled"], wave["reason"], wave["calls"]) == (False, "raised", 4)
    assert "no sine in this backend" in wave["error"]
    assert (net["compiled"], net["reason"], net["calls"]) == (True, "", 4)
    assert [note for note in report["capture"]["notes"] if "no sine in this backend" in note]
    assert "compile-failed" in {finding["rule"] for finding in report["findings"]}
    # The second call with a sine did not try again.
    assert sorted(each["status"] for each in report["compilations"]) == ["compiled", "compiled", "failed"]


# A program that compiles by itself sees nothing of us.


class CountingBackend:
    """The eager backend; every graph it is handed is one entry of `graphs`."""

    def __init__(self) -> None:
        self.graphs: list[int] = []

    def __call__(self, graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        self.graphs.append(sum(node.op == "call_function" for node in graph.graph.nodes))
        return graph.forward


class Branches(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.linear(x)
        print("", end="")
        return self.linear(x)


class OwnCall(Branches):
    def __call__(self, x: torch.Tensor) -> Any:
        return super().__call__(x + 1)


def graphs_of(kind: type[Branches], *, hooks: bool) -> list[Any]:
    """The sizes of the graphs, and the functions that were compiled: none of ours may be among them."""
    torch._dynamo.reset()
    torch._dynamo.utils.clear_compilation_metrics()
    model, backend = kind(), CountingBackend()
    if hooks:
        model.linear.register_forward_hook(lambda module, args, output: output + 1)
        model.register_forward_hook(lambda module, args, output: output * 2)
    run = torch.compile(model, backend=backend)
    for size in (2, 2, 5):
        run(torch.ones(size, 4))
    compiled = [(metrics.co_name, metrics.co_firstlineno) for metrics in torch._dynamo.utils.get_compilation_metrics()]
    return [*backend.graphs, *compiled]


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.filterwarnings("ignore:The .grad attribute")  # Dynamo's own, with or without us.
@pytest.mark.parametrize(("kind", "hooks"), mostly_slow([(Branches, False), (OwnCall, True)]))
def test_a_program_that_compiles_sees_the_same_graphs_while_watched(kind: type[Branches], hooks: bool) -> None:
    plain = graphs_of(kind, hooks=hooks)
    modules = InPlace(lambda _: None, None)
    modules.install()
    try:
        while_watched = graphs_of(kind, hooks=hooks)
    finally:
        modules.remove()
    assert plain and while_watched == plain
    assert graphs_of(kind, hooks=hooks) == plain


AT_ITS_END = """
import atexit
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.calls = torch.nn.BatchNorm1d(8), 0
        self.book = torch.nn.Parameter(torch.ones(1), requires_grad=False)

    def forward(self, x):
        self.calls += 1
        self.book.mul_(0.9)
        print("seen")
        return torch.dropout(self.norm(x), 0.5, True)
torch.manual_seed(0)
net = Net()
for _ in range(3):
    net(torch.randn(4, 8))

@atexit.register
def save():
    print("left", net.norm.running_mean.tolist(), net.book.item(), net.calls, torch.rand(1).item())
"""


def test_a_model_that_is_saved_at_the_end_is_what_it_is_without_us(tmp_path: Path) -> None:
    """Its parts are timed before that, by a call more."""
    (tmp_path / "net.py").write_text(AT_ITS_END)
    ended, report = explain("net.py", "--backend", "eager", cwd=tmp_path)
    (left,) = (line for line in ended.stderr.splitlines() if line.startswith("left"))
    assert report["graph_breaks"]
    assert left == plain_python("net.py", cwd=tmp_path).stdout.splitlines()[-1]


ONE_AFTER_THE_OTHER = """
import copy
import weakref
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(26_000_000))  # 100 MB, of which four bytes are touched.

    def forward(self, x):
        return x + self.weight.numel()

class Closing(torch.nn.Linear):
    def __del__(self):
        print("closed")

def fold(net):
    seen.append(weakref.ref(net))
    for _ in range(2):
        net(torch.ones(4, 4))

seen, base = [], Net()
for make in (Net, lambda: copy.deepcopy(base), lambda: torch.compile(Net(), backend="eager"), lambda: Closing(4, 4)):
    for _ in range(6):
        fold(make())
    print("there", sum(each() is not None for each in seen))
"""


def test_models_that_the_program_lets_go_of_are_not_all_kept(tmp_path: Path) -> None:
    """256 MiB of them are, for their calls to be made again, and none whose end the program would notice."""
    (tmp_path / "folds.py").write_text(ONE_AFTER_THE_OTHER)
    ended, report = explain("folds.py", "--backend", "eager", cwd=tmp_path)
    assert plain_python("folds.py", cwd=tmp_path).stdout.split() == [*["there", "0"] * 3, *["closed"] * 6, "there", "0"]
    told = [line.split() for line in ended.stderr.splitlines() if line.startswith(("there", "closed"))]
    assert all(int(count) <= 3 for _, count in (each for each in told if len(each) == 2))
    assert [each[0] for each in told] == [*["there"] * 3, *["closed"] * 6, "there"]
    assert not report["recompiles"]

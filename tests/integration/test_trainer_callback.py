"""The callback in the real Trainer and the recipe for the real Accelerator, on tiny models with backend eager."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from in_your_code import example, run_example
from torch import nn
from torch._dynamo.utils import counters

from dynalyze.report.document import from_json
from limits import WALL_SECONDS

with warnings.catch_warnings():  # Of the libraries that it imports.
    warnings.simplefilter("ignore")
    accelerate = pytest.importorskip("accelerate")
    transformers = pytest.importorskip("transformers")
    from transformers import Trainer, TrainingArguments

    from dynalyze.integrations.transformers import DynalyzeCallback

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    torch.compiler.reset()
    counters.clear()
    yield
    torch.compiler.reset()


class Talking(nn.Module):
    """Breaks once, and fails for a batch whose sum is negative."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        y = self.layer(x)
        check(x)
        return {"loss": (y.squeeze(-1) - labels).pow(2).mean()}


@torch.compiler.disable
def check(x: torch.Tensor) -> None:
    if x.sum() < 0:
        raise ValueError("a bad batch")


def rows(*sums: float) -> list[dict[str, Any]]:
    return [{"x": torch.full((4,), each), "labels": 0.0} for each in sums]


def trainer(folder: Path, model: nn.Module, data: list[dict[str, Any]], *callbacks: Any, **more: Any) -> Any:
    args = TrainingArguments(
        str(folder / "out"), torch_compile=True, torch_compile_backend="eager", per_device_train_batch_size=1,
        max_steps=len(data), report_to="none", use_cpu=True, save_strategy="no", disable_tqdm=True, **more,
    )  # fmt: skip
    return InOrder(model=model, args=args, train_dataset=data, callbacks=list(callbacks))


class InOrder(Trainer):  # type: ignore[misc]
    def _get_train_sampler(self, *args: Any, **kwargs: Any) -> Any:
        return torch.utils.data.SequentialSampler(self.train_dataset)


def test_accelerates_variable_makes_the_trainer_compile_for_any_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the finding accelerate-settings advises."""

    class Summing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(()))

        def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"loss": (x * self.scale - labels).pow(2).mean()}

    def grown() -> tuple[int, set[str]]:
        torch.compiler.reset()
        callback = DynalyzeCallback()
        data = [{"x": torch.ones(size), "labels": 0.0} for size in (3, 5, 7)]
        trainer(tmp_path, Summing(), data, callback).train()
        assert callback.seen is not None
        return len(callback.seen.recompiles), {finding.rule for finding in callback.seen.findings}

    assert grown() == (1, {"recompile", "accelerate-settings"})
    monkeypatch.setenv("ACCELERATE_DYNAMO_USE_DYNAMIC", "true")
    assert grown() == (0, set())


@pytest.mark.parametrize("late", [False, True], ids=["given to the Trainer", "added to it"])
def test_an_exception_goes_on_and_the_report_is_written(tmp_path: Path, late: bool) -> None:
    callback = DynalyzeCallback(json=tmp_path / "compile.json")
    made = trainer(tmp_path, Talking(), rows(1.0, 2.0, -1.0, 3.0), *(() if late else (callback,)))
    if late:
        made.add_callback(callback)
    with pytest.raises(ValueError, match="a bad batch"):
        made.train()
    report = from_json((tmp_path / "compile.json").read_bytes())
    assert report.outcome.status == "failed" and "a bad batch" in report.outcome.message
    assert [each.location.code for each in report.graph_breaks] == ["check(x)"]


def test_it_stops_after_the_steps_that_were_asked_for(tmp_path: Path) -> None:
    callback = DynalyzeCallback(stop_after_steps=1)
    made = trainer(tmp_path, Talking(), [*rows(1.0, 2.0), {"x": torch.ones(2, 4), "labels": 0.0}], callback)
    made.train()
    assert made.state.global_step == 3
    assert callback.seen is not None and not callback.seen.recompiles and len(callback.seen.graph_breaks) == 1
    assert sum("graph_breaks" in each for each in made.state.log_history) == 1


WATCHED = """
import torch
from transformers import Trainer, TrainingArguments
from dynalyze.integrations.transformers import DynalyzeCallback

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def forward(self, x, labels):
        return {"loss": (self.layer(x.unsqueeze(-1)).mean() - labels).pow(2).mean()}

class InOrder(Trainer):
    def _get_train_sampler(self, *args, **kwargs):
        return torch.utils.data.SequentialSampler(self.train_dataset)

data = [{"x": torch.ones(4 if step < 30 else 7), "labels": 0.0} for step in range(40)]
callback = DynalyzeCallback(watch="job", json="seen.json")
args = TrainingArguments(
    "out", torch_compile=True, torch_compile_backend="eager", per_device_train_batch_size=1, max_steps=40,
    report_to="none", use_cpu=True, save_strategy="steps", save_steps=20, disable_tqdm=True,
)
trainer = InOrder(model=Net(), args=args, train_dataset=data, callbacks=[callback])
trainer.train()
assert trainer.state.log_history[-1]["recompiles"] == len(callback.seen.recompiles) == 1
trainer.train(resume_from_checkpoint="out/checkpoint-20")
"""


@pytest.mark.slow
def test_a_watched_training_counts_the_steps_of_its_trainer(tmp_path: Path) -> None:
    """Its second training resumes at step 20: what it compiles then is told with that step, or later."""
    (tmp_path / "train.py").write_text(WATCHED)
    done = subprocess.run(
        [sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True, timeout=WALL_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "seen.json").read_text())
    (rank,) = report["job"]["ranks"]
    assert (rank["steps"], rank["counted_by"]) == (40, "step")
    notice = report["job"]["notices"][0]
    assert (notice["kind"], notice["step"], notice["expected"], notice["actual"]) == ("recompile", 30, "4", "7")
    assert all(each["step"] >= 20 for each in report["job"]["notices"])


def test_a_file_that_cannot_be_written_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"ends in \.html"):
        DynalyzeCallback(html=tmp_path / "report.json")
    with pytest.raises(ValueError, match="no such directory"):
        DynalyzeCallback(json=tmp_path / "missing" / "report.json")


def test_a_report_that_fails_ends_no_training(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "reports").mkdir()
    callback = DynalyzeCallback(json=tmp_path / "reports" / "compile.json")
    (tmp_path / "reports").rmdir()
    made = trainer(tmp_path, Talking(), rows(1.0), callback)
    with caplog.at_level("WARNING"):
        made.train()
    assert made.state.global_step == 1
    assert "could not write its report" in caplog.text


def test_the_documented_trainer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = run_example("The Trainer of transformers", tmp_path)
    assert (tmp_path / "compile.html").is_file() and (tmp_path / "compile.json").is_file()
    assert any("graph_breaks" in each for each in names["trainer"].state.log_history)


def test_the_documented_accelerator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    accelerate.state.AcceleratorState._reset_state(True)
    names = run_example("Accelerate", tmp_path)
    seen = names["seen"]
    assert [(each.cause, each.expected, each.actual) for each in seen.recompiles] == [("shape", "4", "6")]
    assert seen.report.modules[0].file.endswith("accelerator.py")
    (hint,) = [finding for finding in seen.findings if finding.rule == "accelerate-settings"]
    assert "TorchDynamoPlugin(dynamic=True)" in hint.advice
    # What it advises mends it.
    torch.compiler.reset()
    accelerate.state.AcceleratorState._reset_state(True)
    plugin = 'dynamo_plugin=accelerate.utils.TorchDynamoPlugin(backend="eager", dynamic=True)'
    code = f"import accelerate\n{example('Accelerate')}".replace('dynamo_backend="eager"', plugin)
    again: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(code, "example.py", "exec"), again)
    assert not again["seen"].recompiles and not again["seen"].findings

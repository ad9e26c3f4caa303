"""The callback in the real Trainer of Lightning, on a tiny model with backend eager."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from dynalyze.report.document import from_json

with warnings.catch_warnings():  # Of the libraries that it imports.
    warnings.simplefilter("ignore")
    try:
        import lightning.pytorch as lightning
    except ImportError:
        lightning = pytest.importorskip("pytorch_lightning")
    from dynalyze.integrations.lightning import DynalyzeCallback

pytestmark = pytest.mark.filterwarnings("ignore")


class Talking(lightning.LightningModule):  # type: ignore[misc]
    """Breaks once, and fails for a batch whose sum is negative."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 1)
        self.score = torch.compile(self.scored, backend="eager")

    def scored(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer(x)
        check(x)
        return y.square().mean()

    def training_step(self, batch: torch.Tensor, number: int) -> torch.Tensor:
        return self.score(batch)

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)


@torch.compiler.disable
def check(x: torch.Tensor) -> None:
    if x.sum() < 0:
        raise ValueError("a bad batch")


class Logged(lightning.pytorch.loggers.Logger if hasattr(lightning, "pytorch") else lightning.loggers.Logger):  # type: ignore[misc]
    name, version = "logged", "0"

    def __init__(self) -> None:
        super().__init__()
        self.metrics: dict[str, Any] = {}

    def log_metrics(self, metrics: Any, step: Any = None) -> None:
        self.metrics.update(metrics)

    def log_hyperparams(self, *_: Any, **kwargs: Any) -> None:
        pass


def fit(folder: Path, batches: list[float], callback: Any, logger: Any = False) -> None:
    torch.compiler.reset()
    trainer = lightning.Trainer(
        max_epochs=1, accelerator="cpu", devices=1, callbacks=[callback], logger=logger, default_root_dir=folder,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    data = [torch.full((2, 4), each) for each in batches]
    trainer.fit(Talking(), torch.utils.data.DataLoader(data, batch_size=None))


def test_a_training_leaves_its_report_and_its_counts(tmp_path: Path) -> None:
    logger = Logged()
    callback = DynalyzeCallback(html=tmp_path / "seen.html", json=tmp_path / "seen.json")
    fit(tmp_path, [1.0, 2.0], callback, logger)

    report = from_json((tmp_path / "seen.json").read_bytes())
    assert [found.gb_id for found in report.graph_breaks] == ["GB0098"]
    assert report.outcome.status == "complete"
    assert (tmp_path / "seen.html").stat().st_size > 10_000
    assert logger.metrics == {"graph_breaks": 1, "recompiles": len(report.recompiles)}


def test_a_training_that_fails_leaves_its_report_too(tmp_path: Path) -> None:
    callback = DynalyzeCallback(json=tmp_path / "seen.json")
    with pytest.raises(ValueError, match="a bad batch"):
        fit(tmp_path, [1.0, -1.0], callback)

    report = from_json((tmp_path / "seen.json").read_bytes())
    assert len(report.graph_breaks) == 1 and "a bad batch" in report.outcome.message


def test_only_the_steps_that_were_asked_for(tmp_path: Path) -> None:
    callback = DynalyzeCallback(stop_after_steps=1)
    fit(tmp_path, [1.0, 2.0], callback)
    assert callback.seen is not None and len(callback.seen.graph_breaks) == 1


def test_a_file_that_cannot_be_written_is_told_before_the_training(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"ends in \.html"):
        DynalyzeCallback(html=tmp_path / "seen.txt")

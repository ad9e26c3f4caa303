"""Values of one interpreter held against those of another, through the file between them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from dynalyze.capture.bench.judge import Runs, judged_against, save_runs
from dynalyze.capture.bench.output_capture import RunOutputs


def runs_of(
    values: torch.Tensor, compiled: torch.Tensor | None = None, position: int = 0, *, anchored: bool = False
) -> Runs:
    def run(tensor: torch.Tensor) -> RunOutputs:
        return RunOutputs({(0, "output", "output"): tensor}, [(position,)], draws=bool(position))

    other = values if compiled is None else compiled
    exact = run(values.double()) if anchored else None
    return Runs(run(values), run(values), run(other), exact, tolerance=1e-3)


@pytest.mark.parametrize("anchored", [True, False])
def test_what_another_interpreter_gave_is_judged_tensor_by_tensor(tmp_path: Path, anchored: bool) -> None:
    """With fp64 of each as well: that of the second agrees with the second, whatever that computes."""
    file, model, values = tmp_path / "values.pt", nn.Linear(2, 2), torch.arange(1.0, 9.0)
    save_runs(file, runs_of(values, anchored=anchored), model)

    def verdicts(runs: Runs) -> list[str]:
        found = judged_against(file, runs, model)
        assert found["comparable"]
        return [found[name]["verdict"] for name in ("eager", "compiled")]

    assert verdicts(runs_of(values, anchored=anchored)) == ["equal", "equal"]
    assert verdicts(runs_of(values, values.flip(0))) == ["equal", "suspicious"]
    assert verdicts(runs_of(values * 1.5, anchored=anchored)) == ["suspicious", "suspicious"]


def test_other_random_numbers_or_other_weights_say_nothing(tmp_path: Path) -> None:
    file, model, values = tmp_path / "values.pt", nn.Linear(2, 2), torch.arange(1.0, 9.0)
    save_runs(file, runs_of(values, position=1), model)
    drawn = judged_against(file, runs_of(values.flip(0), position=2), model)
    assert drawn["eager"]["verdict"] == "not comparable"
    assert judged_against(file, runs_of(values, position=1), model)["eager"]["verdict"] == "equal"
    assert judged_against(file, runs_of(values), nn.Linear(2, 2))["comparable"] is False

"""Trajectories: states, actions, rewards, the returns still wanted, and the time steps."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.inputs import values
from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.request import ModelRequest


def inputs(model: Any, request: ModelRequest, given: dict[str, Any]) -> dict[str, Any]:
    made = Made(model, request, given)
    if not made.wants("states"):
        return given
    shape = (made.batch, made.sequence)
    given["states"] = values.floats(made, (*shape, model.config.state_dim))
    given["actions"] = values.floats(made, (*shape, model.config.act_dim))
    given["rewards"] = values.floats(made, (*shape, 1))
    given["returns_to_go"] = values.floats(made, (*shape, 1))
    given["timesteps"] = values.arange(made, made.batch, made.sequence)
    given["attention_mask"] = values.ones(made, shape)
    return given

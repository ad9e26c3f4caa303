"""The stages of a compile, as people call them."""

from __future__ import annotations

from dynalyze.report.audit import Bisection, BisectStage

STAGES: dict[BisectStage, str] = {
    "eager": "eager", "dynamo": "Dynamo", "aot_autograd": "AOTAutograd", "decompositions": "decompositions",
    "inductor": "Inductor", "emulated": "Inductor, rounding as eager", "backend": "the backend itself",
}  # fmt: skip


def stage_name(found: Bisection) -> str:
    """The first suspicious stage; a backend of the user's own goes by its name."""
    own = next((run.backend for run in found.stages if run.stage == "backend"), "")
    return own if found.stage == "backend" and own else STAGES.get(found.stage, found.stage)

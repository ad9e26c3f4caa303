"""What a measuring process is asked for, out of a plan."""

from __future__ import annotations

from dynalyze.bench.plan import Plan, Work
from dynalyze.capture.bench.wire import Configuration, WorkerRequest
from dynalyze.launch.observe import folder_of


def worker_request(plan: Plan, work: Work, configuration: Configuration) -> WorkerRequest:
    """One configuration of one workload."""
    return WorkerRequest(
        source=plan.source,
        configuration=configuration,
        phase=work.phase,
        seed=plan.seed,
        threads=plan.threads,
        device=plan.device,
        dtype=plan.dtype,
        train=True if work.phase == "train" else plan.train,
        batch=work.batch,
        sequence=work.sequence,
        new_tokens=plan.new_tokens,
        static_cache=plan.static_cache,
        shape=dict(work.shape),
        dims=[(dim.name, dim.input, dim.axis) for dim in plan.dims],
        cloudpickle=folder_of("cloudpickle"),
    )

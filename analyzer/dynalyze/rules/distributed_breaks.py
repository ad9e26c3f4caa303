"""Graph breaks in torch's own wrappers for distributed training: one finding tells of all of them."""

from __future__ import annotations

from dynalyze.report import GraphBreak, Report

WRAPPERS = {
    "DistributedDataParallel": "nn/parallel/distributed.py",
    "DataParallel": "nn/parallel/data_parallel.py",
    "FullyShardedDataParallel": "distributed/fsdp/",
    "FSDPModule": "distributed/fsdp/",
}
"""The wrapper and its code, below torch's folder."""


def breaks_of_wrappers(report: Report) -> dict[str, list[GraphBreak]]:
    """The breaks that tracing a wrapper's own code led to, by the wrapper; only wrappers that stand inside of what
    was compiled.
    """
    wrapped = [module for module in report.modules if not module.inside_wrapper]
    kinds = dict.fromkeys(name for module in wrapped for name in module.wrappers if name in WRAPPERS)
    found: dict[str, list[GraphBreak]] = {}
    for each in report.graph_breaks:
        kind = next((name for name in kinds if _is_in(each, WRAPPERS[name])), None)
        if kind is not None:
            found.setdefault(kind, []).append(each)
    return found


def _is_in(found: GraphBreak, code: str) -> bool:
    """Whether the wrapper's code is the last of torch's on the way to the break, and no line of the program follows."""
    files = [place.file.replace("\\", "/") for place in found.stack]
    at = max((number for number, file in enumerate(files) if f"/torch/{code}" in file), default=None)
    return at is not None and all(_is_plumbing(file) for file in files[at + 1 :])


def _is_plumbing(file: str) -> bool:
    return "/torch/" in file or file.endswith(("/contextlib.py", "/functools.py"))

"""bfloat16 on a GPU that has no instructions for it."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.report import Advice, Example, Finding, Report
from dynalyze.rules.report_queries import (
    FROM_GRAPH,
    FROM_SETTINGS,
    autocast_dtype,
    capability,
    device_name,
    evidence_of,
    graphs_on_cuda,
    module_on_cuda,
)
from dynalyze.rules.rule import Rule

_RANK = 60
_SINCE = (8, 0)
_LINK = "https://github.com/pytorch/pytorch/issues/118581"


def _judge(report: Report) -> Iterator[tuple[int, Finding]]:
    found = capability(report)
    if found is None or found >= _SINCE:
        return
    graphs = [graph for graph in graphs_on_cuda(report) if any(each.dtype == "bfloat16" for each in graph.inputs)]
    modules = [module for module in report.modules if module_on_cuda(module) and module.parameters.get("bfloat16")]
    autocast = autocast_dtype(report, "cuda") == "bfloat16"
    if not (graphs or modules or autocast):
        return
    where = "autocast" if autocast and not (graphs or modules) else "the model"
    change = 'torch.autocast("cuda", dtype=torch.float16)' if where == "autocast" else "model.to(torch.float16)"
    yield (
        _RANK,
        RULE.finding(
            title=f"bfloat16 on {device_name(report)}, which has no instructions for it",
            location=graphs[0].location if graphs else None,
            evidence=[*evidence_of(graphs), *evidence_of(modules), "torch.cuda.get_device_capability"],
            advice=Advice(
                action=f"Use float16 in {where}: `{change}`, with a GradScaler where you train. Or use a GPU of "
                "compute capability 8.0 or later.",
                why=(
                    f"{FROM_GRAPH if graphs else FROM_SETTINGS} Its compute capability is {found[0]}.{found[1]}; "
                    "Triton has bfloat16 from 8.0 on. Inductor leaves such a graph in eager, which emulates it slowly."
                ),
                config=change,
                link=_LINK,
            ),
        ),
    )


RULE = Rule(
    id="low-precision-device",
    title="bfloat16 on a GPU without it",
    severity="warning",
    description=(
        "Kernels in bfloat16 need a GPU of compute capability 8.0 (Ampere). On an older one Inductor generates none "
        "for such a graph, and eager emulates the arithmetic. float16 is fast there."
    ),
    fix="Use float16 on such a GPU.",
    example=Example("model.to(torch.bfloat16)", "model.to(torch.float16)"),
    passed="No dtype was used that the device has no instructions for.",
    judge=_judge,
)

"""Matrix products in float32 on a GPU whose tensor cores they leave idle."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.report import Advice, Finding, Graph, Report
from dynalyze.rules.report_queries import (
    FROM_GRAPH,
    autocast_dtype,
    capability,
    device_name,
    evidence_of,
    graphs_on_cuda,
)
from dynalyze.rules.rule import Rule

_RANK = 450
_SINCE = (8, 0)  # Ampere: the first with tensor cores for TF32.
_PRODUCTS = ("linear", "matmul", "mm", "bmm", "addmm", "baddbmm", "addbmm", "einsum", "__matmul__")
_LINK = "https://docs.pytorch.org/docs/stable/generated/torch.set_float32_matmul_precision.html"
_MATMUL = "torch.backends.cuda.matmul"


def _judge(report: Report) -> Iterator[tuple[int, Finding]]:
    found = capability(report)
    if found is None or found < _SINCE or not _at_default(report) or autocast_dtype(report, "cuda") is not None:
        return
    graphs = [graph for graph in graphs_on_cuda(report) if _products(graph) and _only_float32(graph)]
    if not graphs:
        return
    number = sum(_products(graph) for graph in graphs)
    yield (
        _RANK,
        RULE.finding(
            title=f"{_counted(number)} in full float32, without tensor cores",
            location=graphs[0].location,
            evidence=[*evidence_of(graphs), "torch.float32_matmul_precision"],
            advice=Advice(
                action='Try `torch.set_float32_matmul_precision("high")` before the first call, and check the answers: '
                f"{device_name(report)} then multiplies float32 matrices as TF32, with 10 bits of mantissa, not 23.",
                why=(
                    f'{FROM_GRAPH} The precision of float32 products is "highest", torch\'s default. It is a choice '
                    "between speed and digits, and the same in eager."
                ),
                config='torch.set_float32_matmul_precision("high")',
                link=_LINK,
            ),
        ),
    )


def _at_default(report: Report) -> bool:
    """Whether TF32 is known to be off; unknown where the program mixed torch's old and new names for it."""
    settings = report.settings
    return settings.get("torch.float32_matmul_precision") == "highest" and not settings.get(f"{_MATMUL}.allow_tf32")


def _products(graph: Graph) -> int:
    return sum(count for name, count in graph.histogram.items() if name.rpartition(".")[2] in _PRODUCTS)


def _only_float32(graph: Graph) -> bool:
    dtypes = {each.dtype for each in graph.inputs if each.dtype.startswith(("float", "bfloat"))}
    return dtypes == {"float32"}


def _counted(number: int) -> str:
    return "A matrix product runs" if number == 1 else f"{number} matrix products run"


RULE = Rule(
    id="float32-precision",
    title="float32 matrix products without TF32",
    severity="info",
    description=(
        "GPUs of compute capability 8.0 and later multiply float32 matrices several times as fast as TF32, which torch "
        "leaves off by default because it has fewer digits. Said only of a CUDA device whose graphs hold such products."
    ),
    fix='Try `torch.set_float32_matmul_precision("high")` before the first call, and check the answers.',
    passed="No float32 matrix product leaves the tensor cores of a GPU idle.",
    judge=_judge,
)

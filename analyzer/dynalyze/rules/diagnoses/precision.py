"""float32 without tensor cores, bfloat16 without instructions for it, autocast without effect."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.report import Advice, Example, Finding, Graph, Location, Report
from dynalyze.report.models import ModuleFacts
from dynalyze.rules.report_queries import (
    FROM_GRAPH,
    FROM_SETTINGS,
    HALVES,
    autocast_dtype,
    capability,
    device_name,
    dtype_of,
    graphs_on_cuda,
    ids,
    module_on_cuda,
)
from dynalyze.rules.rule import Rule

_RANK_FLOAT32 = 450
_SINCE_FLOAT32 = (8, 0)  # Ampere: the first with tensor cores for TF32.
_PRODUCTS = ("linear", "matmul", "mm", "bmm", "addmm", "baddbmm", "addbmm", "einsum", "__matmul__")
_LINK_FLOAT32 = "https://docs.pytorch.org/docs/stable/generated/torch.set_float32_matmul_precision.html"
_MATMUL = "torch.backends.cuda.matmul"


def _judge_float32(report: Report) -> Iterator[tuple[int, Finding]]:
    found = capability(report)
    if found is None or found < _SINCE_FLOAT32 or not _at_default(report) or autocast_dtype(report, "cuda") is not None:
        return
    graphs = [graph for graph in graphs_on_cuda(report) if _products(graph) and _only_float32(graph)]
    if not graphs:
        return
    number = sum(_products(graph) for graph in graphs)
    yield (
        _RANK_FLOAT32,
        FLOAT32.finding(
            title=f"{_counted(number)} in full float32, without tensor cores",
            location=graphs[0].location,
            evidence=[*ids(graphs), "torch.float32_matmul_precision"],
            advice=Advice(
                action='Try `torch.set_float32_matmul_precision("high")` before the first call, and check the answers: '
                f"{device_name(report)} then multiplies float32 matrices as TF32, with 10 bits of mantissa, not 23.",
                why=(
                    f'{FROM_GRAPH} The precision of float32 products is "highest", torch\'s default. It is a choice '
                    "between speed and digits, and the same in eager."
                ),
                config='torch.set_float32_matmul_precision("high")',
                link=_LINK_FLOAT32,
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


FLOAT32 = Rule(
    id="float32-precision",
    title="float32 matrix products without TF32",
    severity="info",
    description=(
        "GPUs of compute capability 8.0 and later multiply float32 matrices several times as fast as TF32, which torch "
        "leaves off by default because it has fewer digits. Said only of a CUDA device whose graphs hold such products."
    ),
    fix='Try `torch.set_float32_matmul_precision("high")` before the first call, and check the answers.',
    passed="No float32 matrix product leaves the tensor cores of a GPU idle.",
    judge=_judge_float32,
)


_RANK_BFLOAT16 = 60
_SINCE_BFLOAT16 = (8, 0)
_LINK_BFLOAT16 = "https://github.com/pytorch/pytorch/issues/118581"


def _judge_bfloat16(report: Report) -> Iterator[tuple[int, Finding]]:
    found = capability(report)
    if found is None or found >= _SINCE_BFLOAT16:
        return
    graphs = [graph for graph in graphs_on_cuda(report) if any(each.dtype == "bfloat16" for each in graph.inputs)]
    modules = [module for module in report.modules if module_on_cuda(module) and module.parameters.get("bfloat16")]
    autocast = autocast_dtype(report, "cuda") == "bfloat16"
    if not (graphs or modules or autocast):
        return
    where = "autocast" if autocast and not (graphs or modules) else "the model"
    change = 'torch.autocast("cuda", dtype=torch.float16)' if where == "autocast" else "model.to(torch.float16)"
    yield (
        _RANK_BFLOAT16,
        BFLOAT16.finding(
            title=f"bfloat16 on {device_name(report)}, which has no instructions for it",
            location=graphs[0].location if graphs else None,
            evidence=[*ids(graphs), *ids(modules), "torch.cuda.get_device_capability"],
            advice=Advice(
                action=f"Use float16 in {where}: `{change}`, with a GradScaler where you train. Or use a GPU of "
                "compute capability 8.0 or later.",
                why=(
                    f"{FROM_GRAPH if graphs else FROM_SETTINGS} Its compute capability is {found[0]}.{found[1]}; "
                    "Triton has bfloat16 from 8.0 on. Inductor leaves such a graph in eager, which emulates it slowly."
                ),
                config=change,
                link=_LINK_BFLOAT16,
            ),
        ),
    )


BFLOAT16 = Rule(
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
    judge=_judge_bfloat16,
)


_RANK_AUTOCAST = 550
_DEVICES = ("cuda", "cpu")
_LINK_AUTOCAST = "https://docs.pytorch.org/docs/stable/amp.html"


def _judge_autocast(report: Report) -> Iterator[tuple[int, Finding]]:
    for device in _DEVICES:
        dtype = autocast_dtype(report, device)
        if dtype is None:
            continue
        there = [module for module in report.modules if _is_on(module, device)]
        same = [module for module in there if dtype in HALVES and dtype_of(module) == dtype]
        if same:
            yield _RANK_AUTOCAST, _for_nothing(same, device, dtype)
        elif report.modules and not there and all(module.devices for module in report.modules):
            yield _RANK_AUTOCAST, _elsewhere(report.modules, device)


def _for_nothing(modules: list[ModuleFacts], device: str, dtype: str) -> Finding:
    names = ", ".join(dict.fromkeys(f"`{module.class_name}`" for module in modules))
    return _finding(
        modules,
        f"autocast to {dtype} around parameters that are {dtype} already",
        f'Call {names} without `torch.autocast("{device}")`, or keep its parameters in float32 and let autocast cast '
        "them: one of the two.",
        "With both, matrix products are as they were, and autocast only raises some other operations to float32 and "
        "back, which costs kernels.",
    )


def _elsewhere(modules: list[ModuleFacts], device: str) -> Finding:
    kinds = sorted({name.partition(":")[0] for module in modules for name in module.devices})
    return _finding(
        modules,
        f'autocast is on for "{device}", and the model is on {" and ".join(kinds)}',
        f'Write `torch.autocast("{kinds[0]}")`: autocast casts only the operations of the device that it is given.',
        "All of the model runs in its own dtype.",
    )


def _finding(modules: list[ModuleFacts], title: str, action: str, why: str) -> Finding:
    first = next((module for module in modules if module.file), None)
    return AUTOCAST.finding(
        title=title,
        location=Location(first.file, first.line) if first is not None else None,
        evidence=ids(modules),
        advice=Advice(action=action, why=f"{why} {FROM_SETTINGS}", link=_LINK_AUTOCAST),
    )


def _is_on(module: ModuleFacts, device: str) -> bool:
    return any(name.partition(":")[0] == device for name in module.devices)


AUTOCAST = Rule(
    id="autocast",
    title="autocast without effect",
    severity="info",
    description=(
        "autocast casts float32 operations of one kind of device while they run. Around a model that is in the lower "
        "dtype already, or on another device, it does not do what it is there for. A switch of autocast between calls "
        "is the finding recompile."
    ),
    fix=(
        "Name the device that the model is on, and keep its parameters in float32 for autocast to cast; or cast "
        "the model and leave autocast out."
    ),
    example=Example(
        'with torch.autocast("cuda"):\n    model.to("cpu")(x)', 'with torch.autocast("cpu"):\n    model.to("cpu")(x)'
    ),
    passed="autocast is off, or has float32 parameters of its device to cast.",
    judge=_judge_autocast,
)

RULES = (FLOAT32, BFLOAT16, AUTOCAST)

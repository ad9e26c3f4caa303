"""float32 without tensor cores, bfloat16 without instructions for it, autocast without effect."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.report import Example, Graph, Location, Report
from dynalyze.report.models import ModuleFacts
from dynalyze.rules import report_queries as queries
from dynalyze.rules.rule import Ranked, Rule

# Ampere: the first with tensor cores for TF32, and with instructions for bfloat16.
_AMPERE = (8, 0)
_PRODUCTS = ("linear", "matmul", "mm", "bmm", "addmm", "baddbmm", "addbmm", "einsum", "__matmul__")


@Rule(
    title="float32 matrix products without TF32",
    severity="info",
    rank=450,
    link="https://docs.pytorch.org/docs/stable/generated/torch.set_float32_matmul_precision.html",
    description="GPUs of compute capability 8.0 and later multiply float32 matrices several times as fast as TF32, "
    "which torch leaves off by default because it has fewer digits. Said only of a CUDA device whose graphs hold such "
    "products.",
    fix='Try `torch.set_float32_matmul_precision("high")` before the first call, and check the answers.',
)
def float32_precision(report: Report) -> Iterator[Ranked]:
    found, settings = queries.capability(report), report.settings
    # TF32 is known to be off; unknown where the program mixed torch's old and new names for it.
    highest = settings.get("torch.float32_matmul_precision") == "highest"
    if found is None or found < _AMPERE or not highest or settings.get("torch.backends.cuda.matmul.allow_tf32"):
        return
    graphs = [
        graph
        for graph in queries.graphs_on_cuda(report)
        if _products(graph)
        and {each.dtype for each in graph.inputs if each.dtype.startswith(("float", "bfloat"))} == {"float32"}
    ]
    if not graphs or queries.autocast_dtype(report, "cuda") is not None:
        return
    number = sum(map(_products, graphs))
    counted = "A matrix product runs" if number == 1 else f"{number} matrix products run"
    yield float32_precision.finding(
        f"{counted} in full float32, without tensor cores",
        'Try `torch.set_float32_matmul_precision("high")` before the first call, and check the answers: '
        f"{queries.device_name(report)} then multiplies float32 matrices as TF32, with 10 bits of mantissa, not 23.",
        why=f'{queries.FROM_GRAPH} The precision of float32 products is "highest", torch\'s default. It is a choice '
        "between speed and digits, and the same in eager.",
        config='torch.set_float32_matmul_precision("high")',
        location=graphs[0].location,
        evidence=[*queries.ids(graphs), "torch.float32_matmul_precision"],
    )


def _products(graph: Graph) -> int:
    return sum(count for name, count in graph.histogram.items() if name.rpartition(".")[2] in _PRODUCTS)


@Rule(
    title="bfloat16 on a GPU without it",
    rank=60,
    link="https://github.com/pytorch/pytorch/issues/118581",
    description="Kernels in bfloat16 need a GPU of compute capability 8.0 (Ampere). On an older one Inductor generates "
    "none for such a graph, and eager emulates the arithmetic. float16 is fast there.",
    fix="Use float16 on such a GPU.",
    example=Example("model.to(torch.bfloat16)", "model.to(torch.float16)"),
)
def low_precision_device(report: Report) -> Iterator[Ranked]:
    found = queries.capability(report)
    if found is None or found >= _AMPERE:
        return
    graphs = [
        graph for graph in queries.graphs_on_cuda(report) if any(each.dtype == "bfloat16" for each in graph.inputs)
    ]
    modules = [
        module
        for module in report.modules
        if module.parameters.get("bfloat16") and any(device.startswith("cuda") for device in module.devices)
    ]
    if graphs or modules:
        where, change = "the model", "model.to(torch.float16)"
    elif queries.autocast_dtype(report, "cuda") == "bfloat16":
        where, change = "autocast", 'torch.autocast("cuda", dtype=torch.float16)'
    else:
        return
    yield low_precision_device.finding(
        f"bfloat16 on {queries.device_name(report)}, which has no instructions for it",
        f"Use float16 in {where}: `{change}`, with a GradScaler where you train. Or use a GPU of compute capability "
        "8.0 or later.",
        why=f"{queries.FROM_GRAPH if graphs else queries.FROM_SETTINGS} Its compute capability is "
        f"{found[0]}.{found[1]}; Triton has bfloat16 from 8.0 on. Inductor leaves such a graph in eager, which "
        "emulates it slowly.",
        config=change,
        location=graphs[0].location if graphs else None,
        evidence=[*queries.ids(graphs), *queries.ids(modules), "torch.cuda.get_device_capability"],
    )


@Rule(
    title="autocast without effect",
    severity="info",
    rank=550,
    link="https://docs.pytorch.org/docs/stable/amp.html",
    description="autocast casts float32 operations of one kind of device while they run. Around a model that is in the "
    "lower dtype already, or on another device, it does not do what it is there for. A switch of autocast between "
    "calls is the finding recompile.",
    fix="Name the device that the model is on, and keep its parameters in float32 for autocast to cast; or cast "
    "the model and leave autocast out.",
    example=Example(
        'with torch.autocast("cuda"):\n    model.to("cpu")(x)', 'with torch.autocast("cpu"):\n    model.to("cpu")(x)'
    ),
)
def autocast(report: Report) -> Iterator[Ranked]:
    for device in ("cuda", "cpu"):
        dtype = queries.autocast_dtype(report, device)
        if dtype is None:
            continue
        there = [each for each in report.modules if any(name.partition(":")[0] == device for name in each.devices)]
        same = [module for module in there if dtype in queries.HALVES and queries.dtype_of(module) == dtype]
        if same:
            names = ", ".join(dict.fromkeys(f"`{module.class_name}`" for module in same))
            yield _autocast(
                same,
                f"autocast to {dtype} around parameters that are {dtype} already",
                f'Call {names} without `torch.autocast("{device}")`, or keep its parameters in float32 and let '
                "autocast cast them: one of the two.",
                "With both, matrix products are as they were, and autocast only raises some other operations to "
                "float32 and back, which costs kernels.",
            )
        elif report.modules and not there and all(module.devices for module in report.modules):
            kinds = sorted({name.partition(":")[0] for module in report.modules for name in module.devices})
            yield _autocast(
                report.modules,
                f'autocast is on for "{device}", and the model is on {" and ".join(kinds)}',
                f'Write `torch.autocast("{kinds[0]}")`: autocast casts only the operations of the device that it is '
                "given.",
                "All of the model runs in its own dtype.",
            )


def _autocast(modules: list[ModuleFacts], title: str, action: str, why: str) -> Ranked:
    place = next((Location(module.file, module.line) for module in modules if module.file), None)
    return autocast.finding(
        title, action, why=f"{why} {queries.FROM_SETTINGS}", location=place, evidence=queries.ids(modules)
    )

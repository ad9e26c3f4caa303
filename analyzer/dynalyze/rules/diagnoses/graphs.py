"""What graphs and kernels say: too small to gain, loops that were unrolled, operations without code in Inductor."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dynalyze.facts.stacks import Places
from dynalyze.files.paths import library_of
from dynalyze.report import Example, Graph, Impact, Kernel, LineKey, Report
from dynalyze.report.measurements import Measurement
from dynalyze.rules.report_queries import once, operators_in_graphs
from dynalyze.rules.rule import Ranked, Rule
from dynalyze.text.amounts import count_of, listed

_SMALL_MS = 1.0
_FEW_OPS = 50
_MOSTLY = 0.5
_LIBRARY = ("mm", "addmm", "bmm", "baddbmm", "convolution", "_int_mm", "_scaled_mm")
# Kernels that eager has as one piece because nothing generated comes near them.
_ATTENTION = ("_scaled_dot_product_", "_flash_attention_", "_efficient_attention_", "_cudnn_attention_")


@Rule(
    title="Too small, or too bound by libraries, to gain",
    severity="info",
    rank=600,
    description="A measurement whose interval shows no gain, where the run says why: calls far under a millisecond, or "
    "graphs whose kernels are mostly matrix products of a library. Never said without a measurement.",
    fix="Compile a larger piece of work, raise the batch, or leave it in eager.",
)
def small_model(report: Report) -> Iterator[Ranked]:
    for measured in report.measurements:
        if _no_gain(measured) and (found := _too_small(report, measured) or _bound_by_libraries(report, measured)):
            yield found


def _no_gain(measured: Measurement) -> bool:
    """Whether it was measured well, and no gain was shown: too few pairs show nothing either way."""
    speed = measured.speedup
    if measured.status != "valid" or measured.configuration == "eager" or speed is None or speed.floor is None:
        return False
    return speed.pairs >= 5 and speed.ratio.low <= 1.0


def _too_small(report: Report, measured: Measurement) -> Ranked | None:
    latency, ops = measured.eager_latency_ms, operators_in_graphs(report)
    one_call = latency.p50 / max(measured.calls, 1) if latency is not None else _SMALL_MS
    if not report.graphs or one_call >= _SMALL_MS or ops > _FEW_OPS:
        return None
    return _finding(
        report,
        measured,
        f"A call takes {one_call * 1000:.0f} µs in eager, with {ops} operations: there is little to gain",
        "Leave it in eager; or raise the batch, or compile a function of yours that makes many of these calls, where "
        "all that it calls can be compiled.",
        "Each compiled call first checks its guards. Beside so little work that costs as much as fusing saves.",
    )


def _bound_by_libraries(report: Report, measured: Measurement) -> Ranked | None:
    """Most of what the compiled code calls is what eager calls too."""
    calls = sum(kernel.calls for kernel in report.kernels)
    libraries = [each for each in report.kernels if each.kind in ("extern", "fallback")]
    same = sum(kernel.calls for kernel in libraries if _is_heavy(kernel.name))
    if not calls or same / calls < _MOSTLY:
        return None
    return _finding(
        report,
        measured,
        f"{same} of {calls} kernel calls are matrix products and the like from libraries, as in eager",
        "Look for the gain elsewhere: a lower precision, a larger batch, mode='max-autotune' for other kernels. "
        "Compiling fuses what stands between these calls, and there is little of it.",
        "Kernels from libraries are the same in eager. These are counts of calls, not of time: a profile would tell.",
    )


def _is_heavy(name: str) -> bool:
    parts = name.removeprefix("extern_kernels.").removeprefix("aten.").split(".")
    return parts[0] in _LIBRARY or parts[0].startswith(_ATTENTION) or "mkldnn" in name or "mkl_linear" in name


def _finding(report: Report, measured: Measurement, title: str, action: str, why: str) -> Ranked:
    assert measured.speedup is not None
    ratio = measured.speedup.ratio
    return small_model.finding(
        title,
        action,
        why=f"Measured: {measured.configuration} is {ratio.value:.2f}x eager's speed ({ratio.low:.2f} to "
        f"{ratio.high:.2f}). {why}",
        location=report.graphs[0].location if report.graphs else None,
        evidence=[measured.configuration, *(graph.id for graph in report.graphs)],
    )


_MOST_NAMED = 4


@Rule(
    title="Kernels that Inductor does not generate",
    severity="info",
    rank=500,
    description="Inductor has no code of its own for these operations and calls PyTorch's eager kernels from the "
    "compiled code. The results are right; the call is not fused with what stands around it.",
)
def fallback_kernels(report: Report) -> Iterator[Ranked]:
    places = Places()
    fallbacks = [
        kernel
        for kernel in report.kernels
        if kernel.kind == "fallback" and not _op(kernel).startswith(_ATTENTION)
        # A library's code is as it is, and a backward that autograd makes has no line to be changed.
        if any(places.origin(each.file) == "user" for each in kernel.places)
        if not _on_complex(report, kernel) and _op(kernel) != "convolution_backward"
    ]
    if not fallbacks:
        return
    calls = sum(kernel.calls for kernel in fallbacks)
    names = list(dict.fromkeys(f"`{_op(kernel)}`" for kernel in fallbacks))
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    yield fallback_kernels.finding(
        f"Inductor calls eager kernels for {', '.join(names[:_MOST_NAMED])}{more}",
        f"{'One place' if calls == 1 else f'{calls} places'} in the compiled code {'calls' if calls == 1 else 'call'} "
        "ATen as eager code does, and nothing is fused into such a call. Leave it where the operation itself is the "
        "work (a sort, an FFT); replace it by elementwise operations and reductions where it stands between cheap "
        "ones.",
        location=next((place for kernel in fallbacks for place in kernel.places), None),
        evidence=dict.fromkeys(kernel.graph for kernel in fallbacks),
    )


_MAKES_COMPLEX = ("view_as_complex", "polar", "complex", "view_as_real")
_ROTATE = Example(
    "turns = torch.polar(torch.ones_like(angles), angles)\n\n"
    "def rotate(x):\n"
    "    z = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))\n"
    "    return torch.view_as_real(z * turns).flatten(-2).type_as(x)",
    "cos, sin = angles.cos(), angles.sin()\n\n"
    "def rotate(x):\n"
    "    a, b = x.float().unflatten(-1, (-1, 2)).unbind(-1)\n"
    "    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2).type_as(x)",
)


@Rule(
    title="Complex numbers have no code in Inductor",
    rank=480,
    description="Inductor generates no code for complex tensors: it calls PyTorch's eager kernels for every operation "
    "on them, also for views and multiplications, and fuses nothing into these calls.",
)
@once
def complex_numbers(report: Report) -> Iterator[Ranked]:
    for graph in report.graphs:
        calls = sum(each.calls for each in report.kernels if each.graph == graph.id and _on_complex(report, each))
        if not calls:
            continue
        made = [line for line in graph.complex_lines if any(name in (line.code or "") for name in _MAKES_COMPLEX[:3])]
        held = dict.fromkeys(f"`{each.source}`" for each in graph.inputs if each.dtype.startswith("complex"))
        stored = f" Keep its cosines and sines in place of {listed(list(held), _MOST_NAMED)}." if held else ""
        at = next(iter([*made, *graph.complex_lines]))
        by_fft = not made and any("fft" in (line.code or "") for line in graph.complex_lines)
        rotate = (
            "Compute with real numbers: turning the pairs (a, b) is `a * cos - b * sin` and `a * sin + b * cos`, with "
            f"`cos` and `sin` of the angles in place of `torch.polar` and `torch.view_as_complex`.{stored}"
        )
        around = (
            "Compute on real and imaginary parts (`torch.view_as_real`) between the FFTs, which are calls in any case."
        )
        yield complex_numbers.finding(
            complex_numbers.title,
            f"{count_of(calls, 'place')} in the compiled code {'calls' if calls == 1 else 'call'} eager kernels for "
            f"complex tensors. {around if by_fft else rotate}",
            why="Read from the graph and from Inductor's code. Inductor generates no code for complex tensors: each "
            "operation on them is a call of PyTorch's eager kernel, and nothing is fused into it.",
            example=None if by_fft else _ROTATE,
            location=at,
            # A library's code is as it is.
            severity="warning" if Places().origin(at.file) == "user" else "info",
            evidence=[graph.id],
        )


def _on_complex(report: Report, kernel: Kernel) -> bool:
    """Whether Inductor calls ATen because the numbers are complex."""
    if kernel.kind != "fallback":
        return False
    lines = {line.at for graph in report.graphs if graph.id == kernel.graph for line in graph.complex_lines}
    inside = bool(kernel.places) and all(place.at in lines for place in kernel.places)
    return bool(lines) and (_op(kernel) in _MAKES_COMPLEX or inside)


def _op(kernel: Kernel) -> str:
    """`sort` for aten.sort.stable."""
    parts = kernel.name.split(".")
    return parts[1] if len(parts) > 1 else kernel.name


_MANY_OPS = 150
_MOST_OF_IT = 0.4
_ENTRY = re.compile(r"(?P<all>[\w.]+)\[(?!\d+\]).+\]")


@Rule(
    title="A Python loop was unrolled into one graph",
    rank=350,
    link="https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/torch.compiler_troubleshooting.html",
    description="Dynamo runs a Python loop while it traces, so that the graph holds every round of it. Compile time "
    "and memory grow with the rounds, and with a loop over a size each new size is compiled anew.",
)
def unrolled_loop(report: Report) -> Iterator[Ranked]:
    seconds = {each.key: each.whole_seconds or 0.0 for each in report.compilations}
    loops: dict[LineKey, list[Graph]] = {}
    for graph in report.graphs:
        top = graph.top_line
        if top is None or top.loop is None or top.rounds_ops < _MANY_OPS or top.rounds_ops < _MOST_OF_IT * top.all_ops:
            continue
        loops.setdefault(top.loop.at, []).append(graph)
    for graphs in loops.values():
        graph = max(graphs, key=lambda each: each.ops)
        top = graph.top_line
        assert top is not None
        took = sum(seconds.get(key, 0.0) for key in {each.key for each in graphs})
        most = f", in the largest of {len(graphs)} graphs" if len(graphs) > 1 else ""
        yield unrolled_loop.finding(
            unrolled_loop.title,
            f"{top.rounds_ops:,} of {top.all_ops:,} operations are rounds of this loop{most}, {top.ops:,} from "
            f"{top.location.short}. {_alone(graph)}",
            why="Read from the graph. Dynamo runs the loop while it traces: the graph holds every round, and the "
            "compiler works on each as if it were other code. The step alone is one small graph that all rounds use.",
            location=top.loop,
            evidence=[part for each in graphs for part in (each.id, each.compile_id)],
            impact=Impact(compile_seconds=round(took, 6), what="of compile time") if took else None,
        )


def _alone(graph: Graph) -> str:
    """How the step is compiled alone, or what can be done from outside where the loop is in a package."""
    top = graph.top_line
    assert top is not None and top.loop is not None
    whole = graph.location.function if graph.location is not None else "the function around it"
    if "/torch/optim/" in top.loop.file and top.loop.function.startswith("_single_tensor"):
        return (
            "Create the optimizer with `foreach=True`: then one operation works on all parameters together. Not where "
            "its `lr` is a tensor, which asks for `capturable=True` too."
        )
    if package := library_of(top.loop.file):
        return f"The loop is in {package}: compile the parts of the program around it, each by itself, or leave it."
    scan = "A scan (one operator for all rounds) is the other way."
    if not top.step:
        return (
            "Compile the step alone: move the body of the loop into a function and compile that, in place of "
            f"compiling `{whole}`. {scan}"
        )
    once = " once, in `__init__`," if top.step.startswith("self.") else ""
    each = more = ""
    if (entry := _ENTRY.fullmatch(top.step)) is not None:
        each = f" for each of `{entry['all']}`,"
        more = " They share one code: where more than 8 are built differently, `recompile_limit` has to be as high."
    step = f"`{top.step} = torch.compile({top.step})`{each}{once}"
    return f"Compile the step alone: {step} in place of compiling `{whole}`.{more} {scan}"

"""A report as large as that of a big training job."""

from __future__ import annotations

from dynalyze.report import (
    Compilation,
    Finding,
    Graph,
    GraphBreak,
    GraphCode,
    Kernel,
    Location,
    Recompile,
    Report,
    Snippet,
    Stage,
)
from dynalyze.report.code import SourceFile, SourceFunction, SourceLine
from sample_reports import empty_report

LINES = 6_000


def large_report(breaks: int, recompiles: int, graphs: int) -> Report:
    report = empty_report()
    report.graph_breaks = [_break(number) for number in range(breaks)]
    report.recompiles = [_recompile(number) for number in range(recompiles)]
    report.compilations = [
        Compilation(f"{number}/0", 0, 0, _place(number), "compiled", {"total": 0.5}, began=number * 0.5)
        for number in range(graphs)
    ]
    report.compilations += [
        Compilation(each.compile_id, 0, 0, each.location, "compiled", {"total": 0.3}, began=1000 + at * 0.3)
        for at, each in enumerate(report.recompiles)
    ]
    report.graphs = [_graph(number) for number in range(graphs)]
    report.kernels = [kernel for number in range(graphs) for kernel in _kernels(number)]
    report.findings = [
        Finding(
            "graph-break", "warning", "Take the print out of the compiled code", each.location, [each.id], "Return it."
        )
        for each in report.graph_breaks
    ]
    report.sources = [_source(report)]
    return report


def _place(number: int) -> Location:
    line = 10 + number * 7 % (LINES - 20)
    return Location("/home/ada/project/model.py", line, 8, f"Block{number % 40}.forward", f"print(h{number})", 20)


def _break(number: int) -> GraphBreak:
    place = _place(number)
    lines = [f"        h{number} = self.layer(x, {at})" for at in range(7)]
    return GraphBreak(
        f"b{number}", "GB0059", "Failed to trace builtin operator", "split", place, [_place(at) for at in range(12)],
        explanation="Dynamo does not know how to trace builtin operator `print`.",
        hints=["Avoid calling print()."], occurrences=3, compile_ids=[f"{number}/0"],
        snippet=Snippet(place.line - 3, lines), expression=f"print(h{number})",
    )  # fmt: skip


def _recompile(number: int) -> Recompile:
    return Recompile(
        f"r{number}", f"{number % 200}/{1 + number // 200}", f"{number % 200}/0", _place(number), "shape",
        f"L['x{number % 9}'].size()[0]", "4", str(number),
        f"tensor 'x' size mismatch at index 0. expected 4, actual {number}", seconds=0.3,
    )  # fmt: skip


def _graph(number: int) -> Graph:
    text = "\n".join(f'    add_{at}: "f32[8, 64]" = torch.add(x, {at});  x = None' for at in range(120))
    return Graph(
        f"g{number}", f"{number}/0", ops=120, location=_place(number), histogram={"add": 120},
        stages=[Stage("dynamo", "", 120), Stage("aten", "forward", 150), Stage("kernels", "forward", 12)],
        code=[GraphCode("computation_graph", text), GraphCode("output_code", text)] if number < 40 else [],
    )  # fmt: skip


def _kernels(number: int) -> list[Kernel]:
    return [
        Kernel(f"g{number}", f"cpp_fused_add_relu_{at}", "cpp", "forward", 2, ["aten.add", "aten.relu"], ["add"],
               [_place(number + at)], [2])
        for at in range(12)
    ]  # fmt: skip


def _source(report: Report) -> SourceFile:
    broken = {each.location.line: each.id for each in report.graph_breaks}
    lines = [
        SourceLine(at, f"        h = self.layer_{at}(x) + {at}", "broken" if at in broken else "compiled", 3,
                   [f"g{at % max(len(report.graphs), 1)}"], [broken[at]] if at in broken else [])
        for at in range(1, LINES)
    ]  # fmt: skip
    functions = [SourceFunction(f"Block{at}.forward", at * 150 + 1, at * 150 + 150, "broken") for at in range(40)]
    return SourceFile("/home/ada/project/model.py", "user", functions, lines)

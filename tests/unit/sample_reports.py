"""Reports written by hand, for the tests of the renderers."""

from __future__ import annotations

from msgspec.structs import replace

from dynalyze.comparison.reports import compare
from dynalyze.comparison.types import Comparison
from dynalyze.report import (
    Advice,
    BackwardCompile,
    Candidate,
    Capture,
    Compilation,
    Effect,
    Example,
    Finding,
    Graph,
    GraphBreak,
    GraphCode,
    GraphInput,
    Impact,
    Kernel,
    Location,
    Outcome,
    Process,
    Recompile,
    Recomputed,
    Region,
    Report,
    SavedTensor,
    Snippet,
    Stage,
    Status,
    Target,
    TracedFile,
    TracedFunction,
)
from dynalyze.report.code import LineState, SourceFile, SourceFunction, SourceLine
from dynalyze.report.fixes import (
    BranchSide,
    CompileCounts,
    CompiledOperators,
    Evidence,
    Fix,
    Fixed,
    Unfixed,
    WholeProgram,
)
from dynalyze.report.measurements import Measurement
from dynalyze.rules.rule import judge
from sample_measurements import (
    accuracies,
    hostile_accuracies,
    hostile_measurements,
    latency,
    measured,
    measurements,
    speedup,
    step_memory,
)

MODEL = "/home/ada/work/ranker/model.py"
LIBRARY = "/opt/venv/lib/python3.11/site-packages/layers/attention.py"

SOURCE = [
    "    def forward(self, x, history):",
    "        hidden = self.encode(x)",
    "        if hidden.sum() > 0:",
    "            score = self.head(hidden).item() + 1",
    '            print("score", score)',
    "        return self.mix(hidden, history)",
]
SOURCE_START = 40


def line_of(number: int, column: int, end: int, function: str = "forward", file: str = MODEL) -> Location:
    """A location in SOURCE."""
    code = SOURCE[number - SOURCE_START].strip()
    return Location(file, number, column, function, code, end)


def snippet() -> Snippet:
    return Snippet(SOURCE_START, list(SOURCE))


def empty_report(status: Status = "complete", message: str = "") -> Report:
    """A report of a run in which nothing was recorded."""
    ended_by_us = status in ("timed_out", "interrupted")
    return Report(
        dynalyze="0.1.0",
        created="2026-11-20T22:00:00Z",
        command=["explain", "model.py"],
        environment={"python": "3.11.7", "torch": "2.13.0", "device": "cpu", "threads": 2},
        target=Target("script", "model.py"),
        outcome=Outcome(status, message, None if ended_by_us else int(status == "failed"), 12.3),
    )


def clean_report() -> Report:
    """A model that compiled into whole graphs."""
    report = empty_report()
    report.compilations = [compilation("0/0", ops=42, seconds=1.4), compilation("1/0", ops=7, seconds=0.3)]
    report.graphs = [trained_graph("g1"), Graph("g2", "1/0", ops=7)]
    report.kernels = [
        Kernel("g1", "addmm", "extern", "forward", 2, ["aten.addmm"], ["linear"], [line_of(41, 17, 31)], [2]),
        Kernel(
            "g1",
            "cpp_fused_add_relu_0",
            "cpp",
            "forward",
            1,
            ["aten.add", "aten.relu"],
            places=[line_of(41, 17, 31), line_of(43, 20, 44)],
            place_calls=[1, 1],
            provenance="inductor",
        ),
        Kernel("g1", "mm", "extern", "backward", 1, ["aten.mm"], places=[line_of(41, 17, 31)], place_calls=[1]),
    ]
    report.traced_files = [traced(MODEL)]
    report.traced_hash = "9f2c" * 16
    report.capture = Capture(events=31)
    return report


def trained_graph(identity: str) -> Graph:
    """A graph of compile 0/0 with everything that can be known of it."""
    return Graph(
        identity, "0/0", ops=42, location=Location(MODEL, SOURCE_START, 4, "Ranker.forward", SOURCE[0].strip()),
        stages=[
            Stage("dynamo", "", 42), Stage("aten", "forward", 60), Stage("post_grad", "forward", 31),
            Stage("kernels", "forward", 3), Stage("aten", "backward", 75), Stage("kernels", "backward", 1),
        ],
        histogram={"linear": 30, "relu": 12},
        inputs=[
            GraphInput("L_x_", "input", "float32", ["s77", 8], "cpu", "x"),
            GraphInput("L_self_parameters_w_", "parameter", "bfloat16", [8, 8], "cpu", "self.w", 128),
        ],
        code=[GraphCode("computation_graph.py", "def forward(self, L_x_):\n    return (L_x_,)")],
        saved=[SavedTensor("relu", "aten.relu", "float32", ["s77", 8], 4096, Location(MODEL, SOURCE_START))],
        saved_bytes=4096,
        recomputed=[Recomputed(["aten.sin", "aten.cos"], Location(MODEL, SOURCE_START))],
    )  # fmt: skip


def compilation(
    compile_id: str, ops: int | None = None, seconds: float = 1.0, process: int = 0, resumes: bool = False
) -> Compilation:
    location = Location(MODEL, SOURCE_START, None, "forward", SOURCE[0].strip())
    return Compilation(
        compile_id, process, 0, location, "compiled", {"total": seconds}, {}, "Ranker.forward", ops, 9, resumes
    )


def traced(path: str) -> TracedFile:
    functions = [TracedFunction("forward", 40), TracedFunction("encode", 22)]
    return TracedFile(path, "3b1e" * 16, functions, "library" if "site-packages" in path else "user")


def graph_break(identity: str, effect: Effect, location: Location, **changes: object) -> GraphBreak:
    """One graph break; `changes` are other fields."""
    fields: dict[str, object] = {
        "gb_id": "GB0059",
        "gb_type": "Failed to trace builtin operator",
        "stack": [Location(MODEL, 88, 11, "main", "loss = model(batch)"), location],
        "explanation": "Dynamo does not know how to trace the builtin `print`.",
        "hints": ["Move the call out of the compiled region.", "Use torch._higher_order_ops.print."],
        "url": "https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0059.html",
        "occurrences": 3,
        "compile_ids": ["0/0", "0/1"],
        "callers": [Location(MODEL, 88, 11, "main", "loss = model(batch)")],
        "snippet": snippet() if location.file == MODEL else None,
    }
    return GraphBreak(id=identity, effect=effect, location=location, **(fields | changes))  # type: ignore[arg-type]


def recompile(identity: str, compile_id: str, **changes: object) -> Recompile:
    fields: dict[str, object] = {
        "previous": "0/0",
        "location": Location(MODEL, SOURCE_START, 4, "Ranker.forward", SOURCE[0].strip()),
        "cause": "shape",
        "source": "x.size()[0]",
        "expected": "4",
        "actual": "5",
        "guard": "tensor 'x' size mismatch at index 0. expected 4, actual 5",
        "seconds": 0.81,
    }
    return Recompile(id=identity, compile_id=compile_id, **(fields | changes))  # type: ignore[arg-type]


def rich_report() -> Report:
    """Six breaks of every effect, three recompiles, two processes and ranked findings."""
    report = clean_report()
    report.processes = [Process(0, 4711, 0, ["python", "model.py"]), Process(1, 4712, 1, ["python", "model.py"])]
    report.compilations += _compilations()
    _place_in_time(report.compilations)
    report.graph_breaks = _breaks()
    report.recompiles = [
        recompile("r1", "0/1"),
        recompile("r2", "0/2", cause="value", source="self.scale", expected="1", actual="7", guard="self.scale == 1"),
        recompile("r3", "0/3", cause="limit", source=None, expected=None, actual=None, guard="", seconds=None),
    ]
    report.traced_files.append(traced(LIBRARY))
    report.candidates = _candidates()
    part = line_of(SOURCE_START, 0, 3)
    report.regions = [
        Region(
            "main:ranker",
            "encoder.layers.0",
            "Layer",
            part,
            count=2,
            parameters=600,
            share=0.64,
            pattern="encoder.layers.*",
        )
    ]
    report.findings = _findings(report.graph_breaks)
    report.sources = [_lines(report)]
    report.capture = Capture(events=210, mode="in_place", recorded_calls=12, notes=["Two calls were cut to 64 MB."])
    report.fix_command = ["fix", "model.py", "--batch", "4"]
    return report


def _candidates() -> list[Candidate]:
    """The model that was compiled, a loss, what was not chosen, what raised, and the function that calls them all."""
    forward = Location(MODEL, SOURCE_START, None, "forward", SOURCE[0].strip())
    main = Location(MODEL, 88, None, "main", "def main():")
    return [
        Candidate("module", "main:ranker", "Ranker", forward, 12, 1_000, 4.2, 0.61, compiled=True),
        Candidate("module", "main:judge", "Judge", forward, 3, 10, 0.5, 0.07, reason="raised", error="ValueError: no"),
        Candidate("module", "main:loss", "CrossEntropyLoss", None, 12, 0, 0.1, 0.01, reason="no_parameters"),
        Candidate("module", "", "Encoder", forward, None, 990, None, None, reason="not_chosen"),
        Candidate("function", "main", "", main, reason="function"),
    ]


def _lines(report: Report) -> SourceFile:
    """SOURCE line by line: what broke, the rest compiled, but for its last line."""
    breaks = {found.location.line: found.id for found in report.graph_breaks if found.location.file == MODEL}
    last = SOURCE_START + len(SOURCE) - 1
    lines = []
    for number, code in enumerate(SOURCE, SOURCE_START):
        state: LineState = "broken" if number in breaks else "eager" if number == last else "compiled"
        ids = [breaks[number]] if number in breaks else []
        lines.append(SourceLine(number, code, state, 2, ["g1"], ids, ["r1"] if number == SOURCE_START else []))
    return SourceFile(MODEL, "user", [SourceFunction("Ranker.forward", SOURCE_START, last, "broken")], lines)


def _compilations() -> list[Compilation]:
    items = [compilation(f"0/{number}", ops=42 - number, seconds=0.4 * number) for number in (1, 2)]
    items.append(compilation("2/0", ops=12, seconds=3.2, resumes=True))
    items[-1].status = "broken"
    items.append(compilation("3/0", seconds=0.02, process=1))
    items[-1].status = "eager"
    items[-1].reason = "The frame holds a graph break from which Dynamo cannot resume."
    items.append(compilation("4/0", seconds=0.05))
    items[-1].status = "failed"
    return items


def _place_in_time(compilations: list[Compilation]) -> None:
    """One after the other, with all phases; the first has a backward graph, compiled later."""
    began = 2.5
    for item in compilations:
        total = item.seconds["total"]
        item.began = round(began, 6)
        item.seconds |= {"dynamo": total, "aot_autograd": total * 0.75, "inductor": total * 0.5}
        item.exclusive = {"other": 0.0, "dynamo": total * 0.25, "aot_autograd": total * 0.25, "inductor": total * 0.5}
        began += total
    whole = {"total": 0.7, "inductor": 0.6, "code_generation": 0.5}
    own = {"other": 0.1, "inductor": 0.1, "code_generation": 0.5}
    compilations[0].backward = [BackwardCompile(began, whole, own)]
    compilations[0].seconds["backward"] = whole["total"]


def _breaks() -> list[GraphBreak]:
    in_library = Location(LIBRARY, 210, 8, "attend", "logger.info(scores.shape)", 33)
    return [
        graph_break("b1", "split", line_of(44, 12, 33)),
        graph_break("b2", "partly_eager", line_of(43, 20, 44), gb_type="Unsupported Tensor.item() call"),
        graph_break("b3", "split", line_of(42, 11, 27), gb_id="GB0170", gb_type="Data-dependent branching"),
        graph_break("b4", "eager", line_of(45, 15, 40), gb_id=None, url="", gb_type="Attempted to call a C++ op"),
        graph_break("b5", "error", line_of(41, 17, 31), gb_type="Reconstruction failure", occurrences=1),
        graph_break("b6", "split", in_library, gb_type="logging.Logger method not supported"),
    ]


def _findings(breaks: list[GraphBreak]) -> list[Finding]:
    return [
        Finding(
            "graph-break",
            "error",
            "Take `.item()` out of forward",
            breaks[1].location,
            ["b2"],
            "Return the tensor and read its value after the compiled call.",
            Impact(compile_seconds=1.24, what="of compile time went into frames set off by this line"),
            Advice(
                "Return the tensor and read its value after the compiled call.",
                "`.item()` needs the number now, so the compiler must run everything before it and stop.",
                Example(
                    "score = self.head(hidden).item() + 1\nreturn score",
                    "score = self.head(hidden) + 1\nreturn score  # .item() by the caller",
                ),
                "torch._dynamo.config.capture_scalar_outputs = True",
                "https://docs.pytorch.org/docs/stable/torch.compiler_faq.html",
            ),
        ),
        Finding(
            "recompile-shape", "warning", "Mark the batch size of `x` as dynamic", None, ["r1", "g9"],
            "Call torch._dynamo.mark_dynamic(x, 0) before the first call.",
        ),
        Finding("print", "info", "Print after the call", breaks[0].location, ["b1"], "Move the print."),
    ]  # fmt: skip


HOSTILE = (
    '<script>window.pwned=1</script></script><img src=x onerror=window.pwned=1>" onmouseover=window.pwned=1 '
    "'{{7*7}} \u2028\u2029 \u202eesrever \x1b[31mred\x07 \x00nul \ufeff\u200b &lt;b&gt; ]]> <!-- "
)


def _hostile_graph(location: Location) -> Graph:
    return Graph(
        HOSTILE + "g", HOSTILE, ops=1, location=location, histogram={HOSTILE: 1}, cudagraph_skip=HOSTILE,
        inputs=[GraphInput(HOSTILE, "input", HOSTILE, [HOSTILE], HOSTILE, HOSTILE)],
        code=[GraphCode(HOSTILE, HOSTILE)], code_omitted=[HOSTILE],
        saved=[SavedTensor(HOSTILE, HOSTILE, HOSTILE, [HOSTILE], 1, location)],
        recomputed=[Recomputed([HOSTILE], location)],
    )  # fmt: skip


def hostile_report() -> Report:
    """Every free text is an attack on the page."""
    location = Location(f"/tmp/{HOSTILE}.py", 3, 4, HOSTILE, HOSTILE, 12)
    lines = ["x = 1", HOSTILE, f"    {HOSTILE}", "y" * 100_000]
    report = empty_report("failed", HOSTILE)
    report.command = ["explain", HOSTILE]
    report.environment = {HOSTILE: HOSTILE, "nested": {"a": [HOSTILE]}}
    report.target = Target("script", HOSTILE)
    report.compilations = [
        Compilation(HOSTILE, 0, 0, location, "failed", {"total": 1.0}, function=HOSTILE, reason=HOSTILE)
    ]
    report.graph_breaks = [
        graph_break(
            HOSTILE, "split", location, gb_id=HOSTILE, gb_type=HOSTILE, explanation=HOSTILE, hints=[HOSTILE],
            url="javascript:window.pwned=1", compile_ids=[HOSTILE], context=HOSTILE, consequence=HOSTILE,
            callers=[location], stack=[location], snippet=Snippet(1, lines),
        )
    ]  # fmt: skip
    report.recompiles = [
        recompile(
            HOSTILE + "r", HOSTILE, location=location, source=HOSTILE, expected=HOSTILE, actual=HOSTILE, guard=HOSTILE
        )
    ]
    hostile_lines = [SourceLine(number, code, "broken", 1, [HOSTILE]) for number, code in enumerate(lines, 1)]
    report.sources = [SourceFile(location.file, "user", [SourceFunction(HOSTILE, 1, 4, "broken")], hostile_lines)]
    report.graphs = [_hostile_graph(location)]
    report.candidates = [
        Candidate("module", HOSTILE, HOSTILE, location, 1, 1, 1.0, 1.0, reason="raised", error=HOSTILE)
    ]
    report.regions = [Region(HOSTILE, HOSTILE, HOSTILE, location, parameter_share=0.5)]
    report.kernels = [Kernel(HOSTILE + "g", HOSTILE, "triton", "forward", 1, [HOSTILE], [HOSTILE], [location])]
    report.traced_files = [TracedFile(HOSTILE, HOSTILE, [TracedFunction(HOSTILE, 1)])]
    report.traced_hash = HOSTILE
    detail = Advice(HOSTILE, HOSTILE, Example(HOSTILE, HOSTILE), HOSTILE, "javascript:window.pwned=1", HOSTILE)
    impact = Impact(1.0, 0.5, 1.0, HOSTILE)
    report.findings = [Finding(HOSTILE, "error", HOSTILE, location, [HOSTILE], HOSTILE, impact, detail)]
    report.capture = Capture(listener_errors=[HOSTILE], unreadable_lines=2, notes=[HOSTILE])
    report.measurements, report.accuracy = hostile_measurements(HOSTILE), hostile_accuracies(HOSTILE)
    return report


def priced_report() -> Report:
    """The rich report, with the time of a call taken apart: b1 takes most of it."""
    from sample_break_cost import prices  # Where the feature is.

    report = rich_report()
    first, second = report.graph_breaks[:2]
    found = prices((first.location, first.gb_type, first.id), (second.location, second.gb_type, second.id))
    step = step_memory(first.location, second.location)
    report.measurements = [measured("default", 3.1, speedup(1.5, 1.4, 1.6), 4.6, prices=found, step_memory=step)]
    return report


def measured_report() -> Report:
    """Compiled whole, and measured in every way that may come out."""
    report = clean_report()
    report.measurements, report.accuracy = measurements(), accuracies()
    return report


def benched_report() -> Report:
    """The same as `dynalyze bench` writes it: nothing listened to the compiler."""
    report = empty_report()
    report.command = ["bench", "model.py", "--matrix"]
    report.measurements, report.accuracy = measurements(), accuracies()
    return report


def fixed_report() -> Report:
    """As `dynalyze fix` writes it: of six breaks two end, by a change and by a setting, and one change is rejected."""
    report = rich_report()
    report.command = ["fix", "model.py"]
    before, after = CompileCounts(6, 7, 3), CompileCounts(4, 5, 3)
    ways = [BranchSide(line_of(44, 12, 33), taken=True), BranchSide(line_of(45, 12, 33))]
    evidence = Evidence(
        calls=3, draws=20, raised=1, searched=["zeros", "nan"], outputs="bitwise", sides=ways, before=before,
        after=after, effects=["not printed any more: 'x'"], backend="inductor", accuracy="rounding only",
        compiled_before=CompiledOperators(14, 16), compiled_after=CompiledOperators(16, 16),
        program=WholeProgram(2, sandboxed=True, compared=["exit status", "printed lines", "files"]),
    )  # fmt: skip
    patch = "--- a/model.py\n+++ b/model.py\n@@ -44 +44 @@\n-    y = x.max().item()\n+    y = x.max().detach()\n"
    report.fixes = [
        Fix("f1", ["b1"], "source", "rejected", "Let `torch.cond` choose", "cond", "it returns another dtype"),
        Fix(
            "f2",
            ["b1"],
            "source",
            "verified",
            "Keep the number in the tensor",
            "read",
            "",
            ["model.py"],
            patch,
            "",
            evidence,
        ),
        Fix("f3", ["b2"], "setting", "verified", "Set it", "setting", setting="torch._dynamo.config.a = True"),
    ]
    left = [Unfixed(each.id, each.gb_type, each.location, "nothing fits") for each in report.graph_breaks[2:]]
    report.fixed = Fixed(["f2", "f3"], left, patch, "torch._dynamo.config.a = True", evidence, before, after)
    report.fixed.reproduce = report.command
    return report


def compared() -> Comparison:
    """The rich report before and after a change: a break fixed, one new, one worse; lines moved; newer torch."""
    before, after = rich_report(), rich_report()
    after.environment = {**after.environment, "torch": "2.14.0"}
    moved = [replace(item, location=replace(item.location, line=item.location.line + 7)) for item in after.graph_breaks]
    new = graph_break("b7", "split", line_of(45, 15, 40), gb_id="GB0124", gb_type="Unsupported Tensor.item() call")
    after.graph_breaks = [replace(moved[0], effect="eager"), *moved[2:], new]
    after.findings = [
        Finding("graph-break", "warning", "Take it out", None, ["b7"], "Keep `history` out of the compiled part.")
    ]
    after.recompiles = [recompile("r1", "0/1", cause="dtype", source="history"), *after.recompiles[1:2]]
    after.compilations[0].seconds = {"total": 0.7}
    for report, milliseconds, speed in ((before, 4.0, speedup(1.5, 1.4, 1.6)), (after, 3.0, speedup(2.0, 1.9, 2.1))):
        taken = latency([milliseconds] * 9)
        report.measurements = [measured("default", milliseconds, speed, 6.0, batch=None, latency_ms=taken)]
    return compare(before, after)


def compared_hostile() -> Comparison:
    """Everything that two reports say is an attack on the page."""
    before, after = empty_report(), hostile_report()
    before.measurements = [Measurement(HOSTILE, HOSTILE)]
    return compare(before, after)


def found_by(report: Report, *rules: str) -> list[Finding]:
    """The findings of these rules, none of which may fail."""
    found = [finding for finding in judge(report) if finding.rule in rules]
    assert not [note for note in report.capture.notes if "failed, please report" in note]
    return found

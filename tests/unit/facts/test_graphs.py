"""Graphs as torch prints them, and what the report says of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dynalyze.capture.events import CudagraphSkipped, GraphSeen
from dynalyze.events.log import RunLog
from dynalyze.facts import graphs as module
from dynalyze.facts.compilations import compilations
from dynalyze.facts.graph_text import GraphText, Node, graph_input, parse
from dynalyze.facts.graphs import graphs, texts_of
from dynalyze.facts.sources import Sources
from dynalyze.facts.stacks import Places
from dynalyze.facts.unrolled import top_line
from dynalyze.render.text.report import compile_time
from dynalyze.report import Compilation, Graph, GraphInput, Location
from dynalyze.report.graphs import TopLine
from records import TORCH, end, graphs_run, run_of, start, write_source
from sample_reports import clean_report, compilation, empty_report, found_by

DYNAMO = """class GraphModule(torch.nn.Module):
    def forward(self, L_x_: "f32[2, 8][8, 1]cpu", L_self_modules_a_parameters_weight_: "f32[4, 8][8, 1]cpu"):
        l_x_ = L_x_

        # File: /home/ada/model.py:12 in forward, code: h = self.a(x).relu()
        linear: "f32[2, 4][4, 1]cpu" = torch._C._nn.linear(l_x_, w);  l_x_ = None
        h: "f32[2, 4][4, 1]cpu" = linear.relu();  linear = None

        # File: /home/ada/model.py:13 in forward, code: h += 1
        h += 1;  h_1: "f32[2, 4][4, 1]cpu" = h;  h = None
        return (h_1,)
"""
ATEN = """class <lambda>(torch.nn.Module):
    def forward(
        self,
        primals_1: "f32[4, 8][8, 1]cpu",  # PlainAOTInput(idx=0)
        {tangent}
    ):
        permute: "f32[8, 4][1, 8]cpu" = torch.ops.aten.permute.default(primals_1, [1, 0])
        return (
            permute,  # PlainAOTOutput(idx=0)
        )
"""
FORWARD = ATEN.format(tangent="")
BACKWARD = ATEN.format(tangent='tangents_1: "f32[2, 4][4, 1]cpu",')
CODE = """# AOT ID: ['{part}']
cpp_fused_relu_0 = async_compile.cpp_pybinding(['float*'], r'''
''')

def call(args):
    # Topologically Sorted Source Nodes: [linear], Original ATen: [aten.t, aten.addmm]
    extern_kernels.addmm(a, b, c, out=buf0)
    cpp_fused_relu_0(buf0)
    return (buf0, )
"""


def compiled(run: RunLog) -> list[Compilation]:
    return compilations(run, Places(TORCH), Sources())


# Printed graphs.


def test_the_line_of_a_checkpointed_operation() -> None:
    marked = DYNAMO.replace("# File", "# ac_graph_id: 3 - PREFER_RECOMPUTE File", 1)
    assert parse(marked).origins == parse(DYNAMO).origins


@pytest.mark.parametrize(
    ("line", "op"),
    [
        ('cos: "f32[2]" = torch.cos(x);  x = None', "cos"),
        ('y: "f32[2]" = x * 3.5;  x = None', "mul"),
        ('y: "f32[2]" = 2.0 / x', "truediv"),
        ('y: "f32[2]" = x @ w', "matmul"),
        ('gt: "b8[2]" = x > 0', "gt"),
        ('neg: "f32[2]" = -x', "neg"),
        ("getitem = sort[0];  sort = None", "getitem"),
        ('getitem: "f32[2]" = x[(slice(None, None, None), 0)]', "getitem"),
        ("x[0] = 2;  setitem = x;  setitem = None", "setitem"),
        ('x -= y;  isub: "f32[2]" = x;  x = y = None', "isub"),
        ("size = x.size();  x = None", "size"),
        ("shape = x.shape", "getattr"),
        ("sym: \"Sym(s77)\" = torch.ops.aten.sym_size.int(x, 0)", "aten.sym_size"),
        ("own = torch.ops.mylib.scale.default(x, 2.0)", "mylib.scale"),
        ('linear: "f32[2, 4]" = self.L__self___layer(x)', "L__self___layer"),
    ],
)  # fmt: skip
def test_one_operation(line: str, op: str) -> None:
    assert [node.op for node in parse(f"def forward(self, x):\n    {line}\n").nodes] == [op]


@given(st.text(max_size=400))
def test_no_text_is_too_strange(text: str) -> None:
    parse(text)
    parse(DYNAMO.replace("torch._C._nn.linear(l_x_, w)", text))


def arithmetic(x: Any, y: Any) -> Any:
    return ((x + y) * 2 - x / 3) ** 2 // 1 % 5, -x, x @ y, x > y, x == y, ~(x < 0), 1 - x


def in_place(x: Any, y: Any) -> Any:
    z = x.clone()
    z += y
    z[0] = 3
    z[:, 1] *= 2
    z.add_(1)
    return z


def methods(x: Any, y: Any) -> Any:
    return x.softmax(-1).cumsum(0), torch.sort(x)[0], x.shape[0] * y, torch.cat([x, y]).view(-1), x.to(torch.float64)


def branches(x: Any, y: Any) -> Any:
    return torch.cond(x.sum() > 0, lambda a, b: a.sin() + b, lambda a, b: a.cos() * b, (x, y))


def attention(x: Any, y: Any) -> Any:
    q = x.view(1, 2, 4, 2)
    return torch.nn.functional.scaled_dot_product_attention(q, q, y.view(1, 2, 4, 2), is_causal=True)


def strings(x: Any, y: Any) -> Any:
    return torch.einsum("ij,jk->ik", x, y), torch.nn.functional.gelu(x, approximate="tanh")


@pytest.mark.parametrize("function", [arithmetic, in_place, methods, branches, attention, strings])
def test_what_is_counted_is_what_fx_holds(function: Callable[..., Any]) -> None:
    """The truth is the graph itself: every node that is a call, those of inner graphs too."""
    seen: list[torch.fx.GraphModule] = []

    def backend(gm: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
        seen.append(gm)
        return gm.forward

    torch._dynamo.reset()
    torch.compile(function, backend=backend, dynamic=False)(torch.randn(4, 4), torch.randn(4, 4))
    (gm,) = seen
    text = gm.print_readable(print_output=False, include_stride=True, include_device=True)
    graphs = [each.graph for each in gm.modules() if isinstance(each, torch.fx.GraphModule)]
    nodes = [node for graph in graphs for node in graph.nodes]
    calls = [node.name for node in nodes if node.op.startswith("call")]
    found = parse(text)
    assert Counter(node.name for node in found.nodes) == Counter(calls)
    assert "other" not in found.histogram()
    placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
    shapes = [graph_input(*each).shape for each in found.inputs]
    assert shapes == [list(node.meta["example_value"].shape) for node in placeholders]


# Inputs.


@pytest.mark.parametrize(
    ("name", "annotation", "expected"),
    [
        ("L_x_", "f32[2, 8][8, 1]cpu", GraphInput("L_x_", "input", "float32", [2, 8], "cpu", "x", 64)),
        (
            "L_self_modules_blocks_modules_0_parameters_q_weight_",
            "bf16[4][1]cuda:0",
            GraphInput(
                "L_self_modules_blocks_modules_0_parameters_q_weight_",
                "parameter", "bfloat16", [4], "cuda:0", "self.blocks.0.q_weight", 8,
            ),
        ),
        (
            "L_self_buffers_mean_",
            "f32[][]cpu",
            GraphInput("L_self_buffers_mean_", "buffer", "float32", [], "cpu", "self.mean", 4),
        ),
        ("L_x_", "b8[s77, 3][3, 1]cpu", GraphInput("L_x_", "input", "bool", ["s77", 3], "cpu", "x", None)),
        ("L_x_", "i64[2*s1]", GraphInput("L_x_", "input", "int64", ["2*s1"], "", "x", None)),
        ("L_x_", "f8e4m3fn[16][1]cuda:1", GraphInput("L_x_", "input", "float8_e4m3fn", [16], "cuda:1", "x", 16)),
        ("L_x_", "c64[2][1]cpu", GraphInput("L_x_", "input", "complex64", [2], "cpu", "x", 16)),
        ("s77", "Sym(s77)", GraphInput("s77", "symbol", "Sym(s77)", source="s77")),
        ("L_x_", "DTensor(f32[2, 8][8, 1]cpu)", GraphInput("L_x_", "input", "float32", [2, 8], "cpu", "x", 64)),
        ("L_x_", "", GraphInput("L_x_", "input", "", source="x")),
    ],
)  # fmt: skip
def test_an_input(name: str, annotation: str, expected: GraphInput) -> None:
    assert graph_input(name, annotation) == expected


# Texts of a compile.


def test_forward_and_backward_are_told_apart() -> None:
    run = graphs_run(
        ("dynamo", DYNAMO), ("joint", BACKWARD), ("forward", FORWARD), ("backward", BACKWARD),
        ("runnable", "class Repro:\n    def forward(self, primals_1):\n"), ("post_grad", FORWARD),
        ("output_code", CODE.format(part="0_forward")),
        ("runnable", "class Repro:\n    def forward(self, primals_1, tangents_1):\n"), ("post_grad", BACKWARD),
        ("output_code", CODE.format(part="0_backward")), ("transformed", "def f(): ..."),
    )  # fmt: skip
    (texts,) = texts_of(run)
    assert [file for file, _ in texts.named()] == [
        "computation_graph.py", "aot_joint.py", "aot_forward.py", "aot_backward.py",
        "fx_graph_runnable.py", "post_grad.py", "output_code.py",
        "fx_graph_runnable_backward.py", "post_grad_backward.py", "output_code_backward.py", "transformed_code.py",
    ]  # fmt: skip


def test_a_graph_that_a_backend_cut_in_pieces_keeps_each() -> None:
    code = [("output_code", CODE.format(part=f"{number}_inference")) for number in (0, 1)]
    run = graphs_run(("dynamo", DYNAMO), ("post_grad", FORWARD), code[0], ("post_grad", FORWARD), code[1])
    ((graph,), kernels) = graphs(run, compiled(run), Sources())
    assert [(s.stage, s.direction, s.ops) for s in graph.stages] == [
        ("dynamo", "", 3), ("post_grad", "inference", 2), ("kernels", "inference", 4),
    ]  # fmt: skip
    assert [(kernel.name, kernel.calls) for kernel in kernels] == [("addmm", 2), ("cpp_fused_relu_0", 2)]


def test_code_that_inductor_wrote_twice_for_one_graph_counts_once() -> None:
    code = ("output_code", CODE.format(part="0_inference"))
    run = graphs_run(("dynamo", DYNAMO), ("post_grad", FORWARD), code, ("post_grad", FORWARD), code)
    ((graph,), kernels) = graphs(run, compiled(run), Sources())
    assert [(s.stage, s.ops) for s in graph.stages] == [("dynamo", 3), ("post_grad", 1), ("kernels", 2)]
    assert [kernel.calls for kernel in kernels] == [1, 1]


def test_a_graph_on_its_way_down() -> None:
    run = graphs_run(
        ("dynamo", DYNAMO), ("inference", FORWARD), ("post_grad", FORWARD),
        ("output_code", CODE.format(part="0_inference")),
        events=(end(graph_op_count=3, cudagraph_skip_reason="skipping cudagraphs due to mutated inputs"),),
    )  # fmt: skip
    ((graph,), (addmm, relu)) = graphs(run, compiled(run), Sources())
    assert (graph.ops, graph.histogram) == (3, {"iadd": 1, "linear": 1, "relu": 1})
    assert [(s.stage, s.direction, s.ops) for s in graph.stages] == [
        ("dynamo", "", 3), ("aten", "inference", 1), ("post_grad", "inference", 1), ("kernels", "inference", 2),
    ]  # fmt: skip
    assert graph.cudagraph_skip.endswith("mutated inputs")
    assert [each.source for each in graph.inputs] == ["x", "self.a.weight"]
    assert [code.name for code in graph.code] == [
        "computation_graph.py", "aot_inference.py", "post_grad.py", "output_code.py"
    ]  # fmt: skip
    assert (addmm.kind, addmm.ops, [place.line for place in addmm.places]) == ("extern", ["aten.addmm"], [12])
    assert (relu.kind, relu.ops, relu.direction) == ("cpp", ["aten.relu"], "inference")


def test_a_long_code_is_cut_at_a_line_and_all_together_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_CODE", 1000)
    monkeypatch.setattr(module, "_MOST_TEXT", 700)
    line = "    y = torch.cos(x)\n"
    run = graphs_run(("dynamo", "def forward(self, x):\n" + line * 100), ("inference", line * 100), ("post_grad", line))
    ((graph,), _) = graphs(run, compiled(run), Sources())
    first, second = graph.code
    assert sum(len(code.text) for code in graph.code) <= 1000
    assert len(first.text.splitlines()) + first.lines_omitted == 101
    assert len(second.text.splitlines()) + second.lines_omitted == 100
    assert all(each.lines_omitted for each in graph.code)
    assert graph.code_omitted == ["post_grad.py"]


def test_a_graph_that_a_restart_traced_again_is_one() -> None:
    run = run_of(
        start(), GraphSeen(id="0/0"), GraphSeen(id="0/0", attempt=1), end(graph_op_count=3),
        start("1/0"), end("1/0", has_guarded_code=False),
        start("0/0", epoch=1), GraphSeen(id="0/0", epoch=1), end("0/0", epoch=1, graph_op_count=4),
    )  # fmt: skip
    found, _ = graphs(run, compiled(run), Sources())
    assert [(g.id, g.compile_id, g.epoch, g.ops) for g in found] == [("g1", "0/0", 0, 3), ("g2", "0/0", 1, 4)]
    assert all(g.location is not None and g.location.line == 10 for g in found)


FORWARD_OF_TWO = """class GraphModule(torch.nn.Module):
    def forward(self, primals_1: "f32[4, 8][8, 1]cpu"):
        # File: /home/ada/model.py:12 in forward, code: h = x.sin().t()
        sin: "f32[4, 8][8, 1]cpu" = torch.ops.aten.sin.default(primals_1)
        permute: "f32[8, 4][1, 8]cpu" = torch.ops.aten.permute.default(sin, [1, 0])

        # File: /home/ada/model.py:13 in forward, code: return h.exp()
        exp: "f32[8, 4][1, 8]cpu" = torch.ops.aten.exp.default(permute)
        return (exp, primals_1, exp)
"""
BACKWARD_OF_TWO = """class GraphModule(torch.nn.Module):
    def forward(self, primals_1: "f32[4, 8][8, 1]cpu", exp: "f32[8, 4][1, 8]cpu", tangents_1: "f32[8, 4][1, 8]cpu"):
        # File: /home/ada/model.py:12 in forward, code: h = x.sin().t()
        sin: "f32[4, 8][8, 1]cpu" = torch.ops.aten.sin.default(primals_1)
        permute: "f32[8, 4][1, 8]cpu" = torch.ops.aten.permute.default(sin, [1, 0])
        cos: "f32[4, 8][8, 1]cpu" = torch.ops.aten.cos.default(primals_1)
        mul: "f32[8, 4][1, 8]cpu" = torch.ops.aten.mul.Tensor(tangents_1, exp)
        return (mul,)
"""


def test_what_backward_computes_again_are_operations_of_the_forward_but_no_views() -> None:
    run = graphs_run(("dynamo", DYNAMO), ("forward", FORWARD_OF_TWO), ("backward", BACKWARD_OF_TWO))
    ((graph,), _) = graphs(run, [], Sources())
    assert [(each.name, each.op) for each in graph.saved] == [("exp", "aten.exp")]
    assert [(each.place and each.place.line, each.ops) for each in graph.recomputed] == [(12, ["aten.sin"])]


def test_a_cuda_graph_that_is_skipped_when_the_graph_runs() -> None:
    skipped = CudagraphSkipped(id="0/0", reason="skipping cudagraphs due to mutated inputs (1 instances)")
    run = graphs_run(("dynamo", DYNAMO), events=(end(graph_op_count=3), skipped))
    ((graph,), _) = graphs(run, compiled(run), Sources())
    assert graph.cudagraph_skip == skipped.reason


def test_operations_on_complex_numbers_and_their_lines_are_known() -> None:
    text = """
def forward(self, arg0_1: "f32[3, 8][8, 1]cpu", arg1_1: "c64[4][1]cpu"):
    # File: /m.py:14 in forward, code: pairs = torch.view_as_complex(h.unflatten(-1, (-1, 2)))
    view: "f32[3, 4, 2][8, 2, 1]cpu" = torch.ops.aten.view.default(arg0_1, [3, 4, 2]);  arg0_1 = None
    pairs: "c64[3, 4][4, 1]cpu" = torch.ops.aten.view_as_complex.default(view);  view = None
    # File: /m.py:15 in forward, code: return torch.view_as_real(pairs * self.phases)
    mul: "c64[3, 4][4, 1]cpu" = torch.ops.aten.mul.Tensor(pairs, arg1_1);  pairs = arg1_1 = None
    out: "f32[3, 4, 2][8, 2, 1]cpu" = torch.ops.aten.view_as_real.default(mul);  mul = None
    return (out,)
"""
    read = parse(text)
    assert [(node.op, read.origins[node.name].line) for node in read.complex] == [
        ("aten.view_as_complex", 14), ("aten.mul", 15),
    ]  # fmt: skip


PROGRAM = """class Net:
    def step(self, x, h):
        return x * 2 + h.tanh()

    def forward(self, xs):
        h = xs[0]
        for x in xs:
            h = self.step(x.relu(), h)
        return h

    def inline(self, xs):
        while xs:
            h = xs.pop() * 3
        return h

    def deep(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
"""


def graph(*lines: tuple[str, int, str, int]) -> GraphText:
    """Operations by file, line and function, each so many times."""
    found = GraphText()
    for file, line, function, times in lines:
        for number in range(times):
            for op in ("mul", "add"):
                name = f"{op}_{line}_{number}"
                found.nodes.append(Node(name, op))
                found.origins[name] = Location(file, line, function=function)
    return found


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([(3, "step", 60), (8, "forward", 59), (6, "forward", 1)], (3, 120, 7, 238, "self.step")),
        ([(13, "inline", 20), (14, "inline", 1)], (13, 40, 12, 40, "")),
        ([(3, "step", 4), (6, "forward", 1)], (3, 8, None, 0, "")),  # Too few rounds to be a loop.
        ([(3, "other", 60)], (3, 120, None, 0, "")),  # No loop calls it.
        ([(18, "deep", 30)], (18, 60, None, 0, "")),  # Each round is another layer.
    ],
)
def test_the_loop_that_holds_or_calls_the_line(
    tmp_path: Path, lines: list[tuple[int, str, int]], expected: tuple[int, int, int | None, int, str]
) -> None:
    file = write_source(tmp_path, PROGRAM)
    found = top_line(graph(*((file, line, name, times) for line, name, times in lines)), Sources())
    assert found is not None
    loop = found.loop.line if found.loop is not None else None
    assert (found.location.line, found.ops, loop, found.rounds_ops, found.step) == expected
    assert found.all_ops == 2 * sum(times for _, _, times in lines)


def test_a_loop_of_a_function_that_was_not_traced_is_not_told(tmp_path: Path) -> None:
    file = write_source(tmp_path, PROGRAM)
    text = graph((file, 3, "step", 60), ("/other.py", 1, "forward", 60))
    # GIVEN two functions with a loop over the step THEN the one that was compiled is meant, and none where neither was
    for compiled, line in ((Location(file, 5), 7), (Location(file, 11), None), (None, None)):
        found = top_line(text, Sources(), compiled)
        assert found is not None and (found.loop.line if found.loop else None) == line


def test_a_graph_of_no_known_line_has_none_and_without_source_no_loop_is_known() -> None:
    assert top_line(GraphText(nodes=[Node("add", "add")]), Sources()) is None
    found = top_line(graph(("/gone.py", 3, "step", 60)), Sources(readable=False))
    assert found is not None and found.loop is None


@pytest.mark.parametrize(("rounds", "told"), [(420, True), (150, False), (100, False)])
def test_a_loop_is_told_where_most_of_many_operations_are_its_rounds(rounds: int, told: bool) -> None:
    report = clean_report()
    top = TopLine(Location("/net.py", 13), rounds, Location("/net.py", 18), rounds, "self.step", all_ops=482)
    report.graphs = [Graph("g1", "0/0", ops=100, top_line=top)]  # Torch leaves out bodies of higher-order operators.
    found = found_by(report, "unrolled-loop")
    assert [(each.location, each.evidence) for each in found] == [(top.loop, ["g1", "0/0"])] * told
    assert all("self.step = torch.compile(self.step)" in each.advice and each.impact for each in found)
    words = compile_time(report)
    assert "482" in words and "net.py:13" in words and f"{rounds}" in words
    assert compile_time(empty_report()) == ""


@pytest.mark.parametrize(("step", "listed"), [("self.blocks[i - 1]", True), ("self.blocks[0]", False)])
def test_each_entry_of_a_list_that_a_loop_counts_through_is_compiled(step: str, listed: bool) -> None:
    report = empty_report()
    loop = Location("/net.py", 13)
    report.graphs = [Graph("g1", "0/0", ops=300, top_line=TopLine(loop, 300, loop, 300, step, 300))]
    (finding,) = found_by(report, "unrolled-loop")
    assert f"{step} = torch.compile({step})" in finding.advice
    assert ("for each of `self.blocks`" in finding.advice) == ("recompile_limit" in finding.advice) == listed


@pytest.mark.parametrize(
    ("file", "function", "says"),
    [
        ("torch/optim/adam.py", "_single_tensor_adam", "`foreach=True`"),
        ("mambapy/mamba.py", "selective_scan", "in mambapy"),
    ],
)
def test_the_loop_of_a_package_is_not_to_be_rewritten(file: str, function: str, says: str) -> None:
    report = empty_report()
    loop = Location(f"/env/lib/python3.11/site-packages/{file}", 13, function=function)
    report.graphs = [Graph("g1", "0/0", ops=300, top_line=TopLine(loop, 300, loop, 300, "self.step", 300))]
    (finding,) = found_by(report, "unrolled-loop")
    assert says in finding.advice and "self.step" not in finding.advice


def test_one_loop_of_several_versions_is_told_once_with_what_all_of_them_took() -> None:
    report = empty_report()
    loop, step = Location("/net.py", 13), Location("/net.py", 18)
    report.graphs = [
        Graph(f"g{number}", f"0/{number}", ops=ops, top_line=TopLine(step, ops - 2, loop, ops - 2, "self.step", ops))
        for number, ops in enumerate((302, 482))
    ]
    report.compilations = [compilation("0/0", seconds=2.0), compilation("0/1", seconds=3.5)]
    (finding,) = found_by(report, "unrolled-loop")
    assert "480 of 482" in finding.advice and {"g0", "0/0", "g1", "0/1"} == {*finding.evidence}
    assert finding.impact is not None and finding.impact.compile_seconds == 5.5

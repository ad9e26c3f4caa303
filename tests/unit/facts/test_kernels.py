"""Kernels in Inductor's output code. The samples are written by hand, in the shapes that torch 2.8 to 2.13 writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynalyze.capture.events import GraphSeen
from dynalyze.events.log import RunLog
from dynalyze.facts.graphs import graphs, texts_of
from dynalyze.facts.kernels import KernelFound, Tracked, kernels_of, split_name
from dynalyze.facts.sources import Sources
from dynalyze.facts.stacks import Places
from dynalyze.launch.artifacts import write_artifacts
from dynalyze.launch.observe import Observation, _environment
from dynalyze.launch.spec import TargetSpec
from dynalyze.report import Kernel
from records import TORCH, run_of, start

CPU = """# AOT ID: ['0_inference']
import torch
aten = torch.ops.aten
async_compile = AsyncCompile()


cpp_fused__softmax_add_0 = async_compile.cpp_pybinding(['const float*', 'float*'], r\'\'\'
extern "C" void kernel(const float* in_ptr0, float* out_ptr0)
{
    extern_kernels.not_called(in_ptr0);
    cpp_fused_never_9(in_ptr0);
}
\'\'\')


cpp_fused_never_1 = async_compile.cpp_pybinding(['float*'], r\'\'\'
void kernel() {}
\'\'\')

async_compile.wait(globals())
del async_compile

class Runner:
    def call(self, args):
        arg0_1, = args
        args.clear()
        assert_size_stride(arg0_1, (8, ), (1, ), 'input')
        buf0 = empty_strided_cpu((8, ), (1, ), torch.float32)
        # Topologically Sorted Source Nodes: [linear], Original ATen: [aten.t, aten.addmm]
        extern_kernels.addmm(arg1_1, arg0_1, reinterpret_tensor(arg2_1, (8, 4), (1, 8), 0), alpha=1, out=buf0)
        del arg1_1
        cpp_fused__softmax_add_0(buf0, buf1)
        # Topologically Sorted Source Nodes: [linear_1], Original ATen: [aten.t, aten.addmm]
        extern_kernels.addmm(arg3_1, buf1, arg4_1, alpha=1, beta=1, out=buf2)
        # Topologically Sorted Source Nodes: [add, sort], Original ATen: [aten.add, aten.sort]
        buf3 = torch.ops.aten.sort.stable(buf2, stable=False, dim=1, descending=False)
        buf4 = buf3[0]
        assert_alignment(buf4, 16, 'torch.ops.aten.sort.default')
        # buffer buf4 (op: torch.ops.aten.sort.default) is assumed to be not aligned
        aten.index_put_(buf4, [buf5], buf6, True)
        # Topologically Sorted Source Nodes: [scaled], Original ATen: [mylib.scale]
        buf7 = torch.ops.mylib.scale.default(buf4, 2.0)
        return (buf7, )

runner = Runner(partitions=[])
call = runner.call


def get_args():
    return [torch.ops.aten.rand.default((8, ))]


def benchmark_compiled_module(args, times=10, repeat=10):
    extern_kernels.mm(args)
"""


def by_name(code: str, *known: str) -> dict[str, KernelFound]:
    found = kernels_of(code, known)
    assert found is not None
    return {kernel.name: kernel for kernel in found}


def test_calls_on_the_cpu() -> None:
    found = by_name(CPU)
    assert [(kernel.name, kernel.kind, kernel.calls) for kernel in found.values()] == [
        ("addmm", "extern", 2),
        ("cpp_fused__softmax_add_0", "cpp", 1),
        ("aten.sort.stable", "fallback", 1),
        ("aten.index_put_", "fallback", 1),
        ("mylib.scale.default", "extern", 1),
    ]


def test_what_each_kernel_computes() -> None:
    found = by_name(CPU)
    assert {name: (kernel.ops, kernel.source_nodes) for name, kernel in found.items()} == {
        "addmm": (["aten.addmm"], ["linear", "linear_1"]),
        "cpp_fused__softmax_add_0": (["aten._softmax", "aten.add"], []),
        "aten.sort.stable": (["aten.sort"], ["sort"]),
        "aten.index_put_": (["aten.index_put_"], []),
        "mylib.scale.default": (["mylib.scale"], ["scaled"]),
    }


@pytest.mark.parametrize(
    ("method", "kind"),
    [("cpp", "cpp"), ("cpp_pybinding", "cpp"), ("cuda", "cpp"), ("rocm", "cpp"), ("triton", "triton"),
     ("multi_kernel", "triton"), ("halide", "other"), ("metal", "other"), ("cutedsl", "other")],
)  # fmt: skip
def test_kinds(method: str, kind: str) -> None:
    code = f"k_0 = async_compile.{method}('k_0', '''\n''')\ndef call(args):\n    k_0.run(x)\n"
    assert by_name(code)["k_0"].kind == kind


def test_calls_that_are_written_in_cpp_are_unknown_not_none() -> None:
    assert kernels_of("cpp_wrapper_src = '''\nvoid inductor_entry_impl() {}\n'''\n") is None
    assert kernels_of("def call(args):\n    return ()\n") == []


@pytest.mark.parametrize(
    ("name", "known", "ops"),
    [
        ("cpp_fused_add_cos_mul_sin_0", (), ["add", "cos", "mul", "sin"]),
        ("cpp_fused__softmax_backward_data_flip_1", (), ["_softmax_backward_data", "flip"]),
        ("triton_red_fused_native_layer_norm_native_layer_norm_backward_sum_3", (),
         ["native_layer_norm", "native_layer_norm_backward", "sum"]),
        ("cpp_fused_add_my_own_op_2", ("my_own_op",), ["add", "my_own_op"]),
        ("cpp_fused_add_my_own_op_2", (), ["add", "my", "own", "op"]),
        ("triton_poi_fused_0", (), []),
        ("cpp_fused_3", (), []),
        ("scale_kernel_0", (), []),
    ],
)  # fmt: skip
def test_a_name_is_taken_apart(name: str, known: tuple[str, ...], ops: list[str]) -> None:
    assert split_name(name, known) == ops


@given(st.text(max_size=300))
def test_no_code_is_too_strange(text: str) -> None:
    kernels_of(text)
    kernels_of(CPU.replace("arg0_1, = args", text))
    split_name(f"cpp_fused_{text}_0")


FILE = "/home/ada/model.py"
DYNAMO = f"""class GraphModule(torch.nn.Module):
    def forward(self, L_x_: "f32[8, 8][8, 1]cuda:0"):
        # File: {FILE}:12 in forward, code: a = x.sin()
        a: "f32[8, 8][8, 1]cuda:0" = l_x_.sin()

        # File: {FILE}:13 in forward, code: b = a * 2
        b: "f32[8, 8][8, 1]cuda:0" = a * 2

        # File: {FILE}:14 in forward, code: return torch.mm(b, b).relu()
        mm: "f32[8, 8][8, 1]cuda:0" = torch.mm(b, b)
        relu: "f32[8, 8][8, 1]cuda:0" = mm.relu()
        return (relu,)
"""
# In the backward graph, `b` of Dynamo's is nothing; `mul` is its own.
BACKWARD = f"""class <lambda>(torch.nn.Module):
    def forward(self, tangents_1: "f32[8, 8][8, 1]cuda:0"):
        # File: {FILE}:14 in forward, code: return torch.mm(b, b).relu()
        mm_1: "f32[8, 8][8, 1]cuda:0" = torch.ops.aten.mm.default(tangents_1, tangents_1)

        # File: {FILE}:13 in forward, code: b = a * 2
        a: "f32[8, 8][8, 1]cuda:0" = torch.ops.aten.mul.Tensor(mm_1, 2)
        return (a,)
"""
FORWARD_CODE = """# AOT ID: ['0_forward']
# Topologically Sorted Source Nodes: [a, b], Original ATen: [aten.sin, aten.mul]
triton_poi_fused_mul_sin_0 = async_compile.triton('triton_poi_fused_mul_sin_0', '''
''', device_str='cuda')

def call(args):
    # Topologically Sorted Source Nodes: [a, b], Original ATen: [aten.sin, aten.mul]
    # [Provenance debug handles] triton_poi_fused_mul_sin_0:1
    stream0 = get_raw_stream(0)
    triton_poi_fused_mul_sin_0.run(arg0_1, buf0, 64, stream=stream0)
    # Topologically Sorted Source Nodes: [a, b, mm], Original ATen: [aten.sin, aten.mul, aten.mm]
    # [Provenance debug handles] extern_kernels.mm:2
    extern_kernels.mm(buf0, buf0, out=buf1)
    # Topologically Sorted Source Nodes: [mm, mm_again], Original ATen: [aten.mm]
    # [Provenance debug handles] extern_kernels.mm:3
    extern_kernels.mm(buf1, buf1, out=buf2)
    return (buf2, )
"""
BACKWARD_CODE = """# AOT ID: ['0_backward']
def call(args):
    # Topologically Sorted Source Nodes: [a], Original ATen: [aten.mul]
    # [Provenance debug handles] extern_kernels.mm:4
    extern_kernels.mm(tangents_1, tangents_1, out=buf0)
    return (buf0, )
"""
NODES = {
    "postToPre": {"sin": ["a"], "mul": ["b"], "mm": ["mm"], "mm_3": ["mm_again"]},
    "cppCodeToPost": {
        "triton_poi_fused_mul_sin_0:1": ["mul", "sin"], "extern_kernels.mm:2": ["mm", "mul"],
        "extern_kernels.mm:3": ["mm_3"],
    },
    "version": 2.0,
}  # fmt: skip


def stack(*lines: int, code: str = "code()") -> str:
    """A stack as torch prints it, outermost line first."""
    return "".join(f'  File "{FILE}", line {n}, in forward\n    {code}\n    ^^^^^^\n' for n in lines)


STACKS = {
    "triton_poi_fused_mul_sin_0:1": [stack(90, 13), stack(90, 12)],
    "extern_kernels.mm:2": [stack(14), stack(13)],
    "extern_kernels.mm:3": [stack(14)],
}


def run_with(*seen: tuple[str, Any]) -> RunLog:
    """A run whose compile 0/0 wrote these (stage, text); what is no text is JSON."""
    texts = {str(n): text if isinstance(text, str) else json.dumps(text) for n, (_, text) in enumerate(seen)}
    run = run_of(start(), *(GraphSeen(id="0/0", stage=stage, text=str(n)) for n, (stage, _) in enumerate(seen)))
    run.read_text = lambda name: texts.get(name, "")
    return run


def forward(*notes: tuple[str, Any]) -> RunLog:
    return run_with(("dynamo", DYNAMO), ("output_code", FORWARD_CODE), *notes)


def kernels(run: RunLog) -> dict[str, Kernel]:
    return {kernel.name: kernel for kernel in graphs(run, [], Sources(), Places(TORCH))[1]}


def lines(kernel: Kernel) -> dict[int, int]:
    """The lines of a kernel, each with the number of its calls."""
    return dict(zip([place.line for place in kernel.places], kernel.place_calls, strict=True))


def test_without_tracking_the_comments_tell() -> None:
    found = kernels(forward())
    assert lines(found["triton_poi_fused_mul_sin_0"]) == {12: 1, 13: 1}
    assert lines(found["mm"]) == {14: 1}  # Of the second call's nodes, the last is unknown.
    assert {kernel.provenance for kernel in found.values()} == {"comments"}
    assert {tuple(kernel.post_grad_nodes) for kernel in found.values()} == {()}


def test_what_inductor_tracked_comes_first() -> None:
    found = kernels(forward(("kernel_nodes", NODES), ("kernel_stacks", STACKS)))
    fused, mm = found["triton_poi_fused_mul_sin_0"], found["mm"]
    assert lines(fused) == {12: 1, 13: 1}
    assert (fused.post_grad_nodes, fused.source_nodes, fused.provenance) == (["mul", "sin"], ["b", "a"], "inductor")
    # A library call computes one operation: line 13 led to the input of the first.
    assert lines(mm) == {14: 2}
    assert (mm.post_grad_nodes, mm.source_nodes) == (["mm", "mm_3"], ["mm", "mm_again"])


def test_a_backward_graph_has_its_own_record_and_its_own_nodes() -> None:
    code = ("output_code", BACKWARD_CODE)
    before = (("dynamo", DYNAMO), ("output_code", FORWARD_CODE), ("kernel_stacks", STACKS))
    tracked = run_with(*before, ("post_grad", BACKWARD), code, ("kernel_stacks", {"extern_kernels.mm:4": [stack(31)]}))
    both = [kernel for kernel in graphs(tracked, [], Sources())[1] if kernel.name == "mm"]
    assert [(kernel.direction, lines(kernel)) for kernel in both] == [("forward", {14: 2}), ("backward", {31: 1})]
    told = graphs(run_with(*before, ("post_grad", BACKWARD), code), [], Sources())[1][-1]
    # `a` is line 12 to Dynamo; the backward graph has an `a` of its own.
    assert (told.direction, lines(told), told.provenance) == ("backward", {13: 1}, "comments")


@pytest.mark.parametrize(
    "broken",
    ["{", "[]", "null", '{"cppCodeToPost": 3}', '{"a": {"b": 1}}', '{"triton_poi_fused_mul_sin_0:1": [1]}', "[" * 9**5],
)
def test_a_damaged_record_is_counted_and_the_comments_stay(broken: str) -> None:
    for stage in ("kernel_stacks", "kernel_nodes"):
        run = forward((stage, broken))
        found = kernels(run)
        assert lines(found["triton_poi_fused_mul_sin_0"]) == {12: 1, 13: 1}
        if stage == "kernel_nodes" and broken.startswith('{"') and "cppCodeToPost" not in broken:
            assert run.unreadable == 0  # It names nothing that we know: a record of another version.
        else:
            assert run.unreadable == 1


def test_a_record_belongs_to_the_code_before_it() -> None:
    (texts,) = texts_of(forward(("kernel_nodes", NODES), ("kernel_stacks", STACKS)))
    assert [file for file, _ in texts.named()][-2:] == ["kernel_nodes.json", "kernel_stacks.json"]
    assert {text.part for text in texts.texts[1:]} == {"0_forward"}
    (alone,) = texts_of(run_with(("dynamo", DYNAMO), ("kernel_stacks", STACKS)))
    assert [text.stage for text in alone.texts] == ["dynamo"]


def test_the_records_are_artifacts_and_a_later_run_replaces_them(tmp_path: Path) -> None:
    folder = tmp_path / "artifacts"
    assert write_artifacts(forward(("kernel_nodes", NODES), ("kernel_stacks", STACKS)), folder) == []
    assert json.loads((folder / "0_0" / "kernel_stacks.json").read_text()) == STACKS
    assert write_artifacts(forward(("kernel_nodes", NODES)), folder) == []
    assert sorted(path.name for path in (folder / "0_0").iterdir()) == [
        "computation_graph.py", "kernel_nodes.json", "output_code.py"
    ]  # fmt: skip


@given(
    st.text() | st.recursive(st.none() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))
)
def test_no_record_is_too_strange(content: Any) -> None:
    text = content if isinstance(content, str) else json.dumps(content)
    for stage in ("kernel_nodes", "kernel_stacks"):
        Tracked().take(stage, text)
    Tracked(stacks={"k:1": [text]}).origins("k:1", Places())


# What the option asks for, and what is said where that fails.


def test_what_the_user_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    target = TargetSpec("script", "model.py", path="model.py")
    monkeypatch.delenv("INDUCTOR_PROVENANCE", raising=False)
    assert "INDUCTOR_PROVENANCE" not in _environment(Observation(target))
    assert _environment(Observation(target, provenance=True))["INDUCTOR_PROVENANCE"] == "1"
    monkeypatch.setenv("INDUCTOR_PROVENANCE", "2")
    assert _environment(Observation(target, provenance=True))["INDUCTOR_PROVENANCE"] == "2"

"""Kernels in Inductor's output code. The samples are written by hand, in the shapes that torch 2.8 to 2.13 writes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynalyze.facts.kernels import KernelFound, kernels_of, split_name

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

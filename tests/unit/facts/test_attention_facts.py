"""Attention read from texts of graphs. The texts are torch 2.13's own, of small functions, shortened."""

from __future__ import annotations

from dynalyze.capture.events import Event
from dynalyze.events.log import RunLog
from dynalyze.facts.attention_calls import attention, traced
from dynalyze.facts.compilations import compilations
from dynalyze.facts.graphs import graphs, texts_of
from dynalyze.facts.sources import Sources
from dynalyze.facts.stacks import Places
from dynalyze.report.models import AttentionCall, AttentionInput
from records import TORCH, end, frame, graphs_run

SHAPE = "1, 2, 8, 16][256, 128, 16, 1]cpu"
LIKE = AttentionInput("float32", [1, 2, 8, 16], [256, 128, 16, 1])
INPUTS = ", ".join(f'L_{name}_: "f32[{SHAPE}"' for name in "qkv")
LINE = "# File: /home/ada/net.py:9 in attend, code: return F.scaled_dot_product_attention(q, k, v)"
OTHER_LINE = "# File: /home/ada/net.py:15 in blend, code: h = F.scaled_dot_product_attention(h, k, v)"
CALL = "torch._C._nn.scaled_dot_product_attention(l_q_, l_k_, l_v_{});  l_q_ = None"
FLASH = "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default(arg0_1, arg1_1, arg2_1);  arg0_1 = None"
SOFTMAX = "torch.ops.aten._safe_softmax.default(view_2, -1);  view_2 = None"


def dynamo(*lines: str, inputs: str = INPUTS) -> str:
    body = "\n".join(f"        {line}" for line in lines)
    names = "\n".join(f"        l_{name}_ = L_{name}_" for name in "qkv")
    return f"class GraphModule(torch.nn.Module):\n    def forward(self, {inputs}):\n{names}\n\n{body}\n"


def aten(*lines: str) -> str:
    inputs = "".join(f'        arg{n}_1: "f32[{SHAPE}",  # PlainAOTInput(idx={n})\n' for n in range(3))
    body = "\n".join(f"        {line}" for line in lines)
    return f"class <lambda>(torch.nn.Module):\n    def forward(\n        self,\n{inputs}    ):\n{body}\n"


def run_with(*seen: tuple[str, str], ended: Event | None = None) -> RunLog:
    return graphs_run(*seen, events=(ended or end(),))


def calls(run: RunLog) -> list[AttentionCall]:
    compiled = compilations(run, Places(TORCH), Sources())
    texts = texts_of(run)
    found, _ = graphs(run, compiled, Sources(), None, texts)
    return attention(run.read_text, texts, found, compiled, Places(TORCH))


def call(name: str = "out", more: str = "") -> str:
    return f'{name}: "f32[{SHAPE}" = {CALL.format(more)}'


def test_a_mask_and_sizes_that_may_change() -> None:
    inputs = f'{INPUTS}, L_m_: "b8[s7, 8][8, 1]cuda:0"'
    text = dynamo("l_m_ = L_m_", LINE, call(more=", attn_mask = l_m_, dropout_p = 0.1"), inputs=inputs)
    (found,) = calls(run_with(("dynamo", text)))
    assert found.mask == AttentionInput("bool", ["s7", 8], [8, 1])
    assert (found.causal, found.dropout) == (False, 0.1)


def test_alike_calls_are_counted_and_others_are_not() -> None:
    text = dynamo(LINE, call("a"), call("b"), OTHER_LINE, call("c"))
    assert [(found.line, found.count) for found in calls(run_with(("dynamo", text)))] == [(9, 2), (15, 1)]


def test_the_softmax_of_a_gpu_stands_at_no_line() -> None:
    softmax = "p = torch.ops.prims.prepare_softmax_online.default(view, -1)"
    online = f"    # No stacktrace found for following nodes\n        {softmax}"
    run = run_with(
        ("dynamo", dynamo(LINE, call())),
        ("inference", aten(LINE, 'amax: "f32[2, 8, 8]" = torch.ops.aten.amax.default(view_2, [-1], True)')),
        ("post_grad", aten(LINE, 'bmm: "f32[2, 8, 8]" = torch.ops.aten.bmm.default(view, view_1)', online)),
    )
    assert [found.backend for found in calls(run)] == ["math"]


def test_two_kernels_at_one_line_are_told_apart_by_their_order() -> None:
    text = dynamo(LINE, call("a"), call("b", ", is_causal = True"))
    run = run_with(("dynamo", text), ("inference", aten(LINE, f"soft = {SOFTMAX}", f"flash = {FLASH}")))
    assert [(found.causal, found.backend) for found in calls(run)] == [(False, "math"), (True, "cpu_flash")]


def test_hand_written_attention_that_inductor_knows() -> None:
    text = dynamo(OTHER_LINE, 'h: "f32[1, 2, 8, 8]" = l_q_ @ l_k_')
    post = aten("# No stacktrace found for following nodes", f"flash = {FLASH}", OTHER_LINE, "getitem = flash[0]")
    (found,) = calls(run_with(("dynamo", text), ("post_grad", post)))
    assert (found.op, found.name) == ("other", "aten._scaled_dot_product_flash_attention_for_cpu")
    assert (found.backend, found.line, found.query) == ("cpu_flash", 15, LIKE)


def test_a_line_of_torch_gives_way_to_the_compiled_function() -> None:
    inside = f"# File: {TORCH}/nn/functional.py:6488 in multi_head_attention_forward, code: attn_output = x("
    (found,) = calls(run_with(("dynamo", dynamo(inside, call()))))
    assert (found.file, found.line) == (frame(10).file, 10)


def test_flex_attention_by_stage() -> None:
    inside = f"# File: {TORCH}/nn/attention/flex_attention.py:2462 in flex_attention, code: out = flex_attention_hop("
    made = f"# File: {TORCH}/nn/attention/flex_attention.py:1720 in create_mask, code: mask = mask_mod(b, h, m, n)"
    flex = "out = torch.ops.higher_order.flex_attention({}, score_mod_0, (8, 8, mask_fn_0), 0.25, {{'BACKEND': 'A'}})"
    text = dynamo(made, "ge = l_q_ >= l_k_", inside, flex.format("l_q_, l_k_, l_v_"))
    low = aten(inside, flex.format("arg0_1, arg1_1, arg2_1"))
    backends = {
        stage: calls(run_with(("dynamo", text), *given))[0]
        for stage, given in {"": [], "math": [("inference", low)], "flex": [("post_grad", low)]}.items()
    }
    assert {stage: found.backend for stage, found in backends.items()} == {stage: stage for stage in backends}
    assert backends[""].mask_made and backends[""].query == LIKE


def test_operators_of_libraries() -> None:
    text = dynamo(
        LINE,
        f'a: "f32[{SHAPE}" = torch.ops.flash_attn._flash_attn_forward(l_q_, l_k_, l_v_, 0.0, 0.25, True, -1, -1)',
        f'b: "f32[{SHAPE}" = torch.ops.xformers.efficient_attention_forward_cutlass.default(l_q_, l_k_, l_v_)',
        f'c: "f32[{SHAPE}" = torch.ops.flash_attn._flash_attn_backward(a, l_q_, l_k_, l_v_)',
        "d = torch.ops.mine.make_attention_mask.default(l_q_)",
    )
    found = traced(text).calls
    assert [(op, written.op) for op, written in found] == [
        ("flash_attn", "flash_attn._flash_attn_forward"),
        ("other", "xformers.efficient_attention_forward_cutlass"),
    ]
    first = calls(run_with(("dynamo", text)))[0]
    assert (first.backend, first.causal, first.value) == ("external", True, LIKE)


def test_the_body_of_an_operator_has_names_of_its_own() -> None:
    text = dynamo(LINE, "out = torch.ops.higher_order.autograd_function_apply(fwd_body_0, l_q_)") + (
        "\n    class fwd_body_0(torch.nn.Module):\n"
        '        def forward(self, q: "bf16[2, 8, 4, 16][512, 64, 16, 1]cpu", k: "bf16[2, 8, 2, 16]cpu", v: "f32"):\n'
        f"            {LINE}\n            o = torch.ops.flash_attn._flash_attn_forward.default(q, k, v, False)\n"
    )
    ((_, written),) = traced(text).calls
    assert written.annotation(0, "query") == "bf16[2, 8, 4, 16][512, 64, 16, 1]cpu"
    assert written.origin is not None and written.origin.line == 9

"""Two starts by hand: which component of a key differs, of what kind that is, and what the user is told."""

from __future__ import annotations

import pytest

from dynalyze.comparison.caches import differences, vllm_differences
from dynalyze.privacy import redact, without_source
from dynalyze.render.cache_text import render_caches
from dynalyze.render.text import caches as words
from dynalyze.report import BackwardCompile, Compilation, Graph, GraphCode, GraphInput, Location, Report
from dynalyze.report.caches import (
    CacheComparison,
    CacheDifference,
    CacheKey,
    Caches,
    CacheUse,
    KeyComponent,
    Move,
    SettingBlock,
    Start,
)
from sample_reports import MODEL, empty_report

GRAPH = (
    "GraphModule()\n\n\n\ndef forward(self, p_0):\n"
    "    relu = p_0.relu();  p_0 = None\n    mul = relu * 3.0;  relu = None\n"
)
PRINTED = (
    'class GraphModule(torch.nn.Module):\n    def forward(self, L_x_: "f32[4, 8]"):\n        l_x_ = L_x_\n\n'
    f"        # File: {MODEL}:7 in forward, code: h = x.relu()\n"
    '        relu: "f32[4, 8]" = l_x_.relu();  l_x_ = None\n\n'
    f"        # File: {MODEL}:8 in forward, code: return h * SCALE\n"
    '        mul: "f32[4, 8]" = relu * 3.0;  relu = None\n        return (mul,)'
)
INPUT = (
    "TensorMetadata(dtype=torch.float32, shape=torch.Size([4, 8]), stride=(8, 1), device=device(type='cpu'), "
    "requires_grad=False)"
)
PARTS = {
    "gm": GRAPH,
    "example_inputs[0]": INPUT,
    "torch_version": "aa",
    "grad_enabled": "True",
    "autocast_state[cpu]": "",
}
SETTINGS = {"max_autotune": "False", "fusion": "{'a': {}, 'b': {}}", "output_path": ""}


def start(
    changed: dict[str, str] | None = None, settings: dict[str, str] | None = None,
    variables: dict[str, str] | None = None, *, cache: str = "autograd", key: str = "k", state: str = "miss",
    printed: str = PRINTED, backward: bool = False, more: tuple[CacheKey, ...] = (),
) -> Report:  # fmt: skip
    report = empty_report()
    parts = {**PARTS, **(changed or {})}
    components = [KeyComponent(name, f"digest of {value}", value) for name, value in parts.items()]
    own = CacheKey(cache, state, "0/0", key=key, components=components, settings=[0])  # type: ignore[arg-type]
    report.caches = Caches([own, *more], [SettingBlock("inductor_config", {**SETTINGS, **(settings or {})})])
    report.caches.variables = dict(variables or {})
    compiled = Compilation("0/0", 0, 0, Location(MODEL, 6, function="forward"), "compiled", {"total": 2.0})
    compiled.backward = [BackwardCompile(None)] if backward else []
    report.compilations = [compiled]
    graph = Graph("g1", "0/0", inputs=[GraphInput("L_x_", source="x")], code=[GraphCode("graph", printed)])
    report.graphs = [graph]
    return report


def only(before: Report, after: Report) -> CacheDifference:
    (found,) = differences(before, after)
    return found


def test_a_constant_is_told_with_its_line_and_both_values() -> None:
    after = start({"gm": GRAPH.replace("3.0", "4.0")}, key="l", printed=PRINTED.replace("3.0", "4.0"))
    found = only(start(), after)
    assert (found.kind, found.component, found.says) == (
        "constant",
        "gm",
        "a constant in the graph: relu * 3.0 -> relu * 4.0",
    )
    assert found.location is not None and (found.location.file, found.location.line) == (MODEL, 8)


def test_a_tensor_that_the_text_of_a_graph_does_not_show() -> None:
    before, after = start(), start(key="l")
    for report, value in ((before, "[1.0]"), (after, "[2.0]")):
        assert report.caches is not None
        report.caches.keys[0].components.append(KeyComponent("gm[_tensor_constant0]", value, value))
    assert [(each.kind, each.before, each.after) for each in differences(before, after)] == [
        ("constant", "[1.0]", "[2.0]")
    ]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        (("Size([4, 8])", "Size([6, 8])"), "an input: x, shape [4, 8] -> [6, 8]"),
        (("stride=(8, 1)", "stride=(1, 4)"), "an input: x, stride (8, 1) -> (1, 4)"),
        (("requires_grad=False", "requires_grad=True"), "an input: x, requires_grad False -> True"),
        (("float32", "bfloat16"), "an input: x, dtype torch.float32 -> torch.bfloat16"),
        (
            ("device(type='cpu')", "device(type='cuda', index=0)"),
            "an input: x, device type='cpu' -> type='cuda', index=0",
        ),
        (("Size([4, 8])", "Size([s77, 8])"), "its sizes are dynamic now"),
    ],
)
def test_an_input_is_told_by_its_name_and_what_differs_of_it(changed: tuple[str, str], says: str) -> None:
    found = only(start(), start({"example_inputs[0]": INPUT.replace(*changed)}, key="l"))
    assert found.kind == "inputs" and says in found.says


@pytest.mark.parametrize(
    ("changed", "kind"),
    [
        ({"torch_version": "bb"}, "torch"),
        ({"grad_enabled": "False"}, "state"),
        ({"autocast_state[cpu]": "torch.bfloat16"}, "state"),
        ({"cache_key_tag": "v2"}, "tag"),
        ({"system_info[device]": "{'name': 'NVIDIA H200'}"}, "device"),
        ({"post_grad_custom_post_pass": "two"}, "pass"),
        ({"user_defined_triton_source[0]": "(src)"}, "kernel"),
        ({"aot_config": "LocalSource(local_name='z')"}, "names"),
        ({"something_of_a_newer_torch": "1"}, "other"),
    ],
)
def test_each_component_has_its_kind(changed: dict[str, str], kind: str) -> None:
    assert only(start(), start(changed, key="l")).kind == kind


def test_a_setting_and_the_variable_that_it_comes_from() -> None:
    component, value = "inductor_config[max_autotune]", "TORCHINDUCTOR_MAX_AUTOTUNE=1"
    plain = only(start(), start(settings={"max_autotune": "True"}, key="l"))
    assert (plain.kind, plain.says, plain.before, plain.after) == (
        "setting", "torch._inductor.config.max_autotune", "False", "True"
    )  # fmt: skip
    by_variable = only(start(), start(settings={"max_autotune": "True"}, variables={component: value}, key="l"))
    assert by_variable.kind == "variable"
    assert by_variable.says.endswith("TORCHINDUCTOR_MAX_AUTOTUNE not set -> TORCHINDUCTOR_MAX_AUTOTUNE=1")


def test_a_path_and_the_order_of_a_dict_are_told_as_such() -> None:
    assert only(start(), start(settings={"output_path": "/srv/models"}, key="l")).kind == "path"
    assert only(start(), start(settings={"fusion": "{'b': {}, 'a': {}}"}, key="l")).kind == "order"
    assert only(start(), start(settings={"fusion": "{'b': {}}"}, key="l")).kind == "setting"


def test_what_follows_in_inductors_key_is_not_told_again() -> None:
    below = [CacheKey("fx_graph", "miss", "0/0", key=key) for key in "mn"]
    for key, value in zip(below, ("mul(3.0)", "mul(4.0)"), strict=True):
        key.components = [KeyComponent("gm", value, value), KeyComponent("cache_key_tag", "", "")]
    after = start({"gm": GRAPH.replace("3.0", "4.0")}, key="l", printed=PRINTED.replace("3.0", "4.0"), more=(below[1],))
    assert [each.caches for each in differences(start(more=(below[0],)), after)] == [["autograd"]]


def test_one_cause_in_many_graphs_is_told_once() -> None:
    def of(value: str) -> Report:
        second = CacheKey("autograd", "miss", "1/0", key=f"2{value}")
        report = start({"cache_key_tag": value}, key=f"1{value}", more=(second,))
        assert report.caches is not None
        second.components, second.settings = report.caches.keys[0].components, [0]
        report.compilations.append(Compilation("1/0", 0, 0, Location(MODEL, 20, function="g"), "compiled"))
        return report

    assert [each.compile_ids for each in differences(of("a"), of("b"))] == [["0/0", "1/0"]]


def test_an_equal_key_that_was_kept_nowhere() -> None:
    (kept_none,) = differences(start(), start(), shared=True)
    assert kept_none.kind == "not_kept" and "its backward was never compiled" in kept_none.says
    (other,) = differences(start(), start(backward=True), shared=True)
    assert other.kind == "not_kept" and "backward" not in other.says
    assert differences(start(), start(state="hit"), shared=True) == []


ENV = {
    "VLLM_XLA_CACHE_PATH": "/root/.cache/vllm/xla_cache",
    "VLLM_USE_V1": True,
    "VLLM_CONFIG_ROOT": "/root/.config/vllm",
}
FACTORS = {"env": ENV, "config_hash": "84b7", "compiler_hash": "a92d", "code_hash": "1ae1"}


def test_a_moved_home_is_the_two_paths_of_vllm_47573() -> None:
    moved = {key: str(value).replace("/root", "/home/u") if "/" in str(value) else value for key, value in ENV.items()}
    found = vllm_differences(FACTORS, {**FACTORS, "env": moved})
    assert [(each.component, each.kind) for each in found] == [
        ("env.VLLM_XLA_CACHE_PATH", "path"), ("env.VLLM_CONFIG_ROOT", "path")
    ]  # fmt: skip
    assert vllm_differences(FACTORS, FACTORS) == []
    text = render_caches(CacheComparison(None, None, words.vllm_verdict(found), True, found), width=200)
    assert "/root/.config/vllm → /home/u/.config/vllm" in text


def compared() -> CacheComparison:
    use = CacheUse("autograd", 0, 1, 1, reasons=["Unsupported call_function target secret_name"])
    side = Start("model.py", "2026-11-22T00:00:00Z", "complete", 10.0, 8.0, [use, CacheUse("kernels", made=2)])
    found = CacheComparison(side, side, "A second start compiles again.", True)
    found.differences = differences(start(), start({"gm": GRAPH.replace("3.0", "4.0")}, key="l"))
    found.portability = [
        Move("again", True, side),
        Move("artifacts", False, side, advice=words.advice(Move("artifacts", False, side))),
    ]
    return found


def test_without_source_nothing_of_the_program_is_left() -> None:
    inputs = compared()
    changed = start({"example_inputs[0]": INPUT.replace("[4, 8]", "[6, 8]")}, key="l")
    changed.graphs[0].inputs[0].source = before_colon = "canary_input"
    inputs.differences = differences(start(), changed)
    assert before_colon in render_caches(inputs, width=200)
    assert before_colon not in render_caches(without_source(inputs), width=200)
    text = render_caches(without_source(redact(compared())), width=200)
    assert "relu" not in text and "secret_name" not in text and "AOTAutograd" in text

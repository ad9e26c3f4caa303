"""What is read from real modules and from torch: in this process, on tensors that hold no data where they can."""

from __future__ import annotations

import gc
import itertools
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from dynalyze.capture.events import Event, ModuleSeen, SettingsSeen
from dynalyze.capture.inspecting import modules
from dynalyze.capture.inspecting.module_watch import Inspection, shown_options
from dynalyze.capture.inspecting.modules import inspected
from dynalyze.capture.inspecting.settings import settings_seen
from dynalyze.capture.torch_private import runtime
from dynalyze.report.models import ModuleFacts


class Block(torch.nn.Module):
    def __init__(self, device: str = "cpu") -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4, device=device)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x)


class Net(torch.nn.Module):
    def __init__(self, device: str = "cpu") -> None:
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block(device) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x


@pytest.fixture
def group(tmp_path: Path) -> Iterator[None]:
    """A process group of this process alone."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


def facts_of(module: Any) -> ModuleFacts:
    """The facts as the report has them; no note says that anything failed."""
    facts = msgspec.convert({**inspected(module), "id": "m1"}, ModuleFacts)
    assert facts.notes == []
    return facts


def test_a_module_on_the_meta_device_in_two_dtypes() -> None:
    net = Net("meta").eval()
    net.blocks[0].bfloat16()
    facts = facts_of(net)
    assert (facts.class_name, facts.training) == ("Net", False)
    assert facts.parameters == {"bfloat16": 20, "float32": 40}
    assert facts.devices == {"meta": 60}
    assert (facts.wrappers, facts.family, facts.config) == ([], "", {})


def test_shared_and_lazy_parameters() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(4, 4, bias=False), torch.nn.LazyLinear(2))
    net.append(net[0])
    assert facts_of(net).parameters == {"float32": 16}


def test_parts_that_are_compiled_by_themselves() -> None:
    net = Net()
    net.blocks[0].compile(backend="eager")
    net.blocks[1] = torch.compile(net.blocks[1], backend="eager")
    assert facts_of(net).compiled_parts == 2
    net.compile(backend="eager")
    assert facts_of(net).compiled_parts == 2
    assert facts_of(torch.compile(Net(), backend="eager")).class_name == "Net"


def test_nothing_of_the_program_hears_of_the_look() -> None:
    class Heard(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            raise AssertionError(function)

    net = Net()
    with Heard():
        facts = inspected(net)
    assert facts["parameters"] == {"float32": 60}
    assert facts["notes"] == []


@pytest.mark.slow
def test_the_wrappers_of_both_orders(group: None) -> None:
    plain, outside, inside = Net(), Net(), Net()
    around_inside = torch.nn.parallel.DistributedDataParallel(torch.compile(inside, backend="eager"))
    around_outside = torch.nn.parallel.DistributedDataParallel(outside)
    assert facts_of(plain).wrappers == []
    given = facts_of(around_outside)
    assert (given.class_name, given.wrappers, given.inside_wrapper) == ("Net", ["DistributedDataParallel"], False)
    facts = facts_of(inside)
    assert (facts.wrappers, facts.inside_wrapper) == (["DistributedDataParallel"], True)
    assert facts_of(inside.blocks[0]).inside_wrapper
    del around_inside


def test_a_module_sharded_in_place(group: None) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh, net = init_device_mesh("cpu", (1,)), Net()
    for block in net.blocks:
        fully_shard(block, mesh=mesh)
    block_only = facts_of(net.blocks[0])
    assert (block_only.class_name, block_only.wrappers, block_only.inside_wrapper) == ("Block", ["FSDPModule"], False)
    fully_shard(net, mesh=mesh)
    facts = facts_of(net)
    assert (facts.class_name, facts.wrappers, facts.inside_wrapper) == ("Net", ["FSDPModule"], False)
    assert facts.parameters == {"float32": 60}
    assert facts_of(net.blocks[0]).inside_wrapper


def test_a_model_of_transformers() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, vocab_size=32
    )
    config._attn_implementation = "sdpa"
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(config)
    model.generation_config.cache_implementation = "static"
    facts = facts_of(model)
    assert (facts.class_name, facts.family, facts.attention) == ("LlamaForCausalLM", "llama", "sdpa")
    expected = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "cache_implementation": "static"}
    assert facts.config.items() >= expected.items()


def test_a_configuration_that_raises_costs_only_itself() -> None:
    class Strange(Net):
        @property
        def config(self) -> Any:
            raise ValueError("not now")

    facts = inspected(Strange())
    assert facts["parameters"] == {"float32": 60}
    assert any(note.startswith("Not all could be read (configuration): ") for note in facts["notes"])


def test_a_contributor_that_fails_becomes_a_note_and_costs_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def layers(module: Any) -> dict[str, Any]:
        return {"layers": [{"library": "a", "kind": "b", "count": 1}]}

    def configuration(module: Any) -> dict[str, Any]:
        return {"config": {"rank": 8}}

    def failing(module: Any) -> dict[str, Any]:
        raise RuntimeError("no such layer")

    monkeypatch.setattr(modules, "CONTRIBUTORS", {"one": layers, "layers": failing, "another": configuration})
    facts = inspected(Net())
    assert facts["layers"] == [{"library": "a", "kind": "b", "count": 1}]
    assert facts["config"] == {"rank": 8}
    assert facts["notes"] == ["Not all could be read (layers): RuntimeError: no such layer"]


def test_the_settings_are_torchs_own() -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        seen = settings_seen()
    assert seen["torch.autocast.cpu.enabled"] is True
    assert seen["torch.autocast.cpu.dtype"] == "bfloat16"
    assert seen["torch.is_grad_enabled"] is False
    assert seen["torch.float32_matmul_precision"] == torch.get_float32_matmul_precision()
    assert seen["torch.backends.cuda.matmul.allow_tf32"] is False
    assert seen["torch.backends.cuda.flash_sdp_enabled"] is True
    assert seen["torch.num_threads"] == torch.get_num_threads()
    import torch._dynamo.config as config

    with config.patch(capture_scalar_outputs=True):
        assert settings_seen()["torch._dynamo.config.capture_scalar_outputs"] is True
    if not torch.cuda.is_available():
        assert not any(name.startswith("torch.cuda.") for name in seen)


def test_what_a_version_of_torch_lacks_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch._dynamo

    assert runtime.config_values("torch._dynamo.config", ["no_such_name", "a.b"]) == {}
    assert runtime.config_values("torch.no_such_config", ["recompile_limit"]) == {}
    for name in ("_DATA_PARALLEL", "_SHARDED_MODULES"):
        monkeypatch.setattr(runtime, name, ())
    monkeypatch.delattr(torch._C, "DisableTorchFunction")
    assert facts_of(Net()).wrappers == []


def test_a_module_is_told_when_it_is_given_and_when_it_has_changed() -> None:
    events: list[Event] = []
    inspection = Inspection(events.append, at_once=True)
    net = Net()
    inspection.given(net.forward, "train.py", 7, {"mode": "reduce-overhead"})
    inspection.given(net, "train.py", 8, {})  # The same module again.
    inspection.compiling(1)
    inspection.look_again()
    net.bfloat16()
    inspection.compiling(2)
    first, settings, second = events
    assert isinstance(first, ModuleSeen) and isinstance(settings, SettingsSeen) and isinstance(second, ModuleSeen)
    assert [each.facts["parameters"] for each in (first, second)] == [{"float32": 60}, {"bfloat16": 60}]
    assert (first.id, first.facts["line"]) == ("m1", 7)
    alive = weakref.ref(net)
    del net
    gc.collect()
    assert alive() is None
    inspection.look_again()
    assert len(events) == 3


def test_a_helper_process_that_compiles_nothing_tells_nothing() -> None:
    events: list[Event] = []
    inspection = Inspection(events.append, at_once=False)
    net = Net()
    inspection.given(net, "train.py", 7, {})
    assert events == []
    inspection.compiling(1)
    assert list(map(type, events)) == [SettingsSeen, ModuleSeen]


def test_looks_end_when_they_have_cost_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[Event] = []
    inspection = Inspection(events.append, at_once=False)
    net = Net()
    inspection.given(net, "train.py", 7, {})
    ticks = itertools.count(0, 10.0)
    monkeypatch.setattr("time.perf_counter", lambda: next(ticks))
    inspection.compiling(1)
    net.half()
    inspection.compiling(2)
    assert list(map(type, events)) == [SettingsSeen, ModuleSeen]
    inspection.look_again(ended=True)
    assert list(map(type, events)) == [SettingsSeen, ModuleSeen, ModuleSeen]


def test_of_the_arguments_of_a_compile_only_torchs_own_words_are_told() -> None:
    given = {"mode": "max-autotune", "dynamic": None, "fullgraph": True, "options": {"a": "secret"}, "backend": print}
    assert shown_options(given) == {"mode": "max-autotune", "fullgraph": True, "backend": "custom"}
    assert shown_options({"backend": "my secret sentence"}) == {"backend": "custom"}

"""What the processes told of modules and settings, in the report and on the page."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.events import CompileStarted, Event, Frame, ModuleSeen, ProcessStarted, SettingsSeen
from dynalyze.events.log import ProcessLog, RunLog
from dynalyze.facts.modules import modules, settings
from dynalyze.privacy import without_source
from dynalyze.render.html import render
from dynalyze.render.view.links import Anchors, Index
from dynalyze.render.view.modules import ModulesView
from dynalyze.report.models import Adapters, LayerGroup, ModuleFacts
from records import TORCH
from sample_reports import empty_report

DDP_FRAME = Frame(f"{TORCH}/nn/parallel/distributed.py", 1715, "_run_ddp_forward")
INSIDE = {"class_name": "Net", "wrappers": ["DistributedDataParallel"], "inside_wrapper": True}


def run_of(*processes: list[Event]) -> RunLog:
    return RunLog([ProcessLog(n, ProcessStarted(pid=n), events) for n, events in enumerate(processes)])


def seen(id: str = "m1", **facts: Any) -> ModuleSeen:
    return ModuleSeen(id=id, facts={"class_name": "Net", **facts})


def compiled(*stack: Frame) -> CompileStarted:
    return CompileStarted(id="0/0", owner="Net", stack=list(stack))


def test_modules_that_are_alike_are_one_with_their_number() -> None:
    found = modules(run_of([seen("m1", line=3), seen("m2", line=3), seen("m3", line=4)]))
    assert [(module.id, module.line, module.count) for module in found] == [("m1", 3, 2), ("m2", 4, 1)]
    (of_ranks,) = modules(run_of([], [seen(line=3)], [seen(line=3)]))
    assert of_ranks.count == 1


def test_a_fact_of_another_type_costs_only_itself() -> None:
    (module,) = modules(run_of([seen(training="perhaps", line=7, unheard_of=1)]))
    assert (module.class_name, module.line, module.training) == ("Net", 7, False)


def test_the_first_settings_of_the_main_process_count() -> None:
    run = run_of([SettingsSeen(values={"a": 1}), SettingsSeen(values={"a": 2})], [SettingsSeen(values={"a": 3})])
    assert settings(run) == {"a": 1}
    assert settings(run_of([], [SettingsSeen(values={"a": 3})])) == {"a": 3}
    assert settings(run_of([])) == {}


def test_whether_a_wrapper_came_only_after_the_compile() -> None:
    (late,) = modules(run_of([compiled(Frame("/home/ada/train.py", 5, "main")), seen(**INSIDE)]))
    assert late.compiled_unwrapped
    (in_time,) = modules(run_of([compiled(DDP_FRAME), seen(**INSIDE)]))
    assert not in_time.compiled_unwrapped
    (never_compiled,) = modules(run_of([seen(**INSIDE)]))
    assert not never_compiled.compiled_unwrapped
    (without,) = modules(run_of([compiled(), seen()]))
    assert not without.compiled_unwrapped


def test_the_page_shows_modules_and_only_unusual_settings() -> None:
    report = empty_report()
    assert "What was compiled" not in render(report)
    report.settings = {
        "torch.float32_matmul_precision": "high", "torch._dynamo.config.optimize_ddp": True,
        "torch.autocast.cuda.enabled": True, "torch.autocast.cuda.dtype": "bfloat16",
        "torch.cuda.get_device_capability": [8, 0],
    }  # fmt: skip
    report.modules = [
        ModuleFacts(
            "m1", "LlamaModel", "/home/ada/serve.py", 9, family="llama", parameters={"bfloat16": 1200},
            devices={"cuda:0": 1200}, attention="sdpa", options={"mode": "reduce-overhead"}, count=2,
        )
    ]  # fmt: skip
    view = ModulesView(report, Index(report, Anchors()), Anchors())
    assert view.settings == [
        ("torch.cuda.get_device_capability", "8.0"), ("torch.float32_matmul_precision", "high"),
        ("torch.autocast.cuda.enabled", "True (bfloat16)"),
    ]  # fmt: skip
    (item,) = view.shown.items
    assert (item.name, item.options, item.parameters) == (
        "LlamaModel × 2", "mode=reduce-overhead", "1,200 bfloat16 on cuda:0",
    )  # fmt: skip
    assert item.about == ["llama of transformers", "attention: sdpa"]
    page = render(report)
    assert page.count("What was compiled") == 3 and "LlamaModel × 2" in page


def test_nothing_of_the_program_is_shown_without_source() -> None:
    report = empty_report()
    report.modules = [
        ModuleFacts(
            "m1", "Net", notes=["Not all could be read (adapters): ValueError: secret words"],
            layers=[LayerGroup("peft", "Linear", 3, "secret.words")],
            adapters=Adapters(names=["secret", "words"], active=["words"], ranks={"secret": 8, "words": 4}),
        )
    ]  # fmt: skip
    (module,) = without_source(report).modules
    assert "secret" not in str(module) and "words" not in str(module)
    assert module.adapters is not None and module.adapters.active == ["adapter 2"]
    assert module.adapters.ranks == {"adapter 1": 8, "adapter 2": 4}

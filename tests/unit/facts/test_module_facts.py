"""What the processes told of modules, settings and late hooks, in the report and on the page."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.events import CompileStarted, Frame, HookSeen, ModuleSeen, ProcessStarted, SettingsSeen
from dynalyze.events.log import ProcessLog, RunLog
from dynalyze.facts.compilations import compilations
from dynalyze.facts.modules import late_hooks, modules, settings
from dynalyze.facts.sources import Sources
from dynalyze.facts.stacks import Places
from dynalyze.privacy import without_source
from dynalyze.render.html import render
from dynalyze.render.view.compiles import ModulesView
from dynalyze.render.view.links import Anchors, Index
from dynalyze.report.models import Adapters, LayerGroup, ModuleFacts
from records import MODEL, TORCH, Event, end, frame, run_of, start
from sample_reports import empty_report, found_by

DDP_FRAME = Frame(f"{TORCH}/nn/parallel/distributed.py", 1715, "_run_ddp_forward")
INSIDE = {"class_name": "Net", "wrappers": ["DistributedDataParallel"], "inside_wrapper": True}


def run_with(*processes: list[Event]) -> RunLog:
    return RunLog([ProcessLog(n, ProcessStarted(pid=n), events) for n, events in enumerate(processes)])


def seen(id: str = "m1", **facts: Any) -> ModuleSeen:
    return ModuleSeen(id=id, facts={"class_name": "Net", **facts})


def compiled(*stack: Frame) -> CompileStarted:
    return CompileStarted(id="0/0", owner="Net", stack=list(stack))


def test_modules_that_are_alike_are_one_with_their_number() -> None:
    found = modules(run_with([seen("m1", line=3), seen("m2", line=3), seen("m3", line=4)]))
    assert [(module.id, module.line, module.count) for module in found] == [("m1", 3, 2), ("m2", 4, 1)]
    (of_ranks,) = modules(run_with([], [seen(line=3)], [seen(line=3)]))
    assert of_ranks.count == 1


def test_a_fact_of_another_type_costs_only_itself() -> None:
    (module,) = modules(run_with([seen(training="perhaps", line=7, unheard_of=1)]))
    assert (module.class_name, module.line, module.training) == ("Net", 7, False)


def test_the_first_settings_of_the_main_process_count() -> None:
    run = run_with([SettingsSeen(values={"a": 1}), SettingsSeen(values={"a": 2})], [SettingsSeen(values={"a": 3})])
    assert settings(run) == {"a": 1}
    assert settings(run_with([], [SettingsSeen(values={"a": 3})])) == {"a": 3}
    assert settings(run_with([])) == {}


def test_whether_a_wrapper_came_only_after_the_compile() -> None:
    (late,) = modules(run_with([compiled(Frame("/home/ada/train.py", 5, "main")), seen(**INSIDE)]))
    assert late.compiled_unwrapped
    (in_time,) = modules(run_with([compiled(DDP_FRAME), seen(**INSIDE)]))
    assert not in_time.compiled_unwrapped
    (never_compiled,) = modules(run_with([seen(**INSIDE)]))
    assert not never_compiled.compiled_unwrapped
    (without,) = modules(run_with([compiled(), seen()]))
    assert not without.compiled_unwrapped


def test_the_page_shows_modules_and_settings() -> None:
    report = empty_report()
    assert "What was compiled" not in render(report)
    report.settings = {"torch._dynamo.config.optimize_ddp": True, "torch.cuda.get_device_capability": [8, 0]}
    report.modules = [
        ModuleFacts(
            "m1", "LlamaModel", "/home/ada/serve.py", 9, family="llama", parameters={"bfloat16": 1200},
            devices={"cuda:0": 1200}, attention="sdpa", options={"mode": "reduce-overhead"}, count=2,
        )
    ]  # fmt: skip
    view = ModulesView(report, Index(report, Anchors()), Anchors())
    assert view.settings == [
        ("torch._dynamo.config.optimize_ddp", "True"), ("torch.cuda.get_device_capability", "8.0")
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


def hook(
    line: int, number: int, compiles: tuple[str, ...] = ("0 0/0",), method: str = "register_forward_hook"
) -> HookSeen:
    return HookSeen(frame(line, "main"), method, "Linear", list(compiles), number)


def told(*events: Event) -> list[tuple[int, int]]:
    """Line and count of each."""
    run, sources = run_of(*events), Sources(readable=False)
    found = late_hooks(run, compilations(run, Places(TORCH), sources), sources)
    report = empty_report()
    report.late_hooks = found
    findings = found_by(report, "late-hook")
    assert [each.location for each in findings] == [each.location for each in found]
    assert all(each.location.file == MODEL for each in found)
    return [(each.location.line, each.count) for each in found]


def test_what_is_compiled_afterwards_runs_it() -> None:
    whole = (start(), end(has_guarded_code=True))
    assert told(*whole, hook(5, 1), hook(9, 2), HookSeen(number=1, met=True)) == [(9, 1)]


def test_a_function_that_was_left_in_eager_runs_it() -> None:
    assert told(start(), end(has_guarded_code=False), hook(5, 1)) == []
    assert told(start(), end(has_guarded_code=True), hook(5, 1, ("0 7/0", "nonsense", "1 0/0"))) == []
